"""The collection: one file per method, each usable alone. Nothing is imported here.

What all estimators promise, where scikit-learn promises less or something else:

Checks    All of `check_estimator` pass but two, which are not meant for some methods. Extreme class
          weights: AdaBoost outgrows them, as scikit-learn's does, and the votes of stumps of
          CqBoost, MDBoost, MinCq and LPBoost have no constant part. Weights that equal repeated
          rows to the last digit: AdaBoostNC, Bagging and BaggingRegressor draw rows (the last two
          pass where they do not), Stacking, Calibrated and votes that learn their weights deal them
          to folds; DRM and NuSVM pass with tol=1e-14.
Weights   Tree methods that do not draw treat weights as repeated rows, and a weight of 0 as no row,
          to rounding, with min_samples_leaf=1 and without pruning, which count rows; above 100,000
          rows, up to where bins end. Calibrated uses weights for its function only, with a warning,
          where the base takes none.
Members   Those of Voting and Stacking may be (name, classifier) pairs: members__svm__lam is a
          parameter of ("svm", ExRM()), and members__0__lam one of the first in a plain list. So
          may those of VotingRegressor and StackingRegressor.
Common    class_weight on every classifier; random_state a number, a RandomState or a Generator;
          n_jobs None, -1 or a number. Of an earlier fit nothing stays in a new one.
"""

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

CLASSES = {  # file: all its estimators, those inside others included
    "exrm": ("ExRM", "PSVM"),
    "drm": ("DRM", "NuSVM"),
    "adaboost_nc": ("AdaBoostNC", "AdaBoost"),
    "bagging": ("Bagging", "BaggingRegressor"),
    "cqboost": ("CqBoost", "MinCq", "MDBoost", "LPBoost", "CGBoost"),
    "gradient_boosting": ("GradientBoosting", "GradientBoostingRegressor"),
    "combine": (
        "Voting", "Stacking", "VotingRegressor", "StackingRegressor", "Calibrated",
        "_Linear", "_Bayes", "_Centroid", "_Line", "_Parabola",
    ),
    "multiclass": ("OneVsRest", "ECOC"),
}  # fmt: skip
