"""The collection: one file per method, each usable alone. Nothing is imported here."""

METHODS = {  # command: (file, class, scaling of the features that its paper uses)
    "exrm": ("exrm", "ExRM", "minmax"),
    "psvm": ("exrm", "PSVM", "minmax"),
    "drm": ("drm", "DRM", "minmax01"),
    "nu-svm": ("drm", "NuSVM", "minmax01"),
    "adaboost-nc": ("adaboost_nc", "AdaBoostNC", "none"),
    "adaboost": ("adaboost_nc", "AdaBoost", "none"),
    "bagging": ("bagging", "Bagging", "none"),
    "cqboost": ("cqboost", "CqBoost", "tanh"),
    "mincq": ("cqboost", "MinCq", "tanh"),
    "mdboost": ("cqboost", "MDBoost", "tanh"),
    "lpboost": ("cqboost", "LPBoost", "tanh"),
    "cgboost": ("cqboost", "CGBoost", "tanh"),
    "gradient-boosting": ("gradient_boosting", "GradientBoosting", "none"),
    "voting": ("combine", "Voting", "minmax"),
    "stacking": ("combine", "Stacking", "minmax"),
}
