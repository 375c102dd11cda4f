"""Methods by the names of their commands: parameters, how to build one or read one from a file.

    build("exrm", {"lam": 0.5}, seed=0, classes=2)      an ExRM
    build("exrm", {}, seed=0, classes=3)                OneVsRest over an ExRM
    build("voting", {"members": "exrm,bayes"}, 0, 2)    a Voting of an ExRM and a naive Bayes
    load("model.npz")                                   whatever was saved there
    parse("exrm:p=1,lam=0.5,drm")                       two methods, the first with two parameters

Parameters and their texts are declared in parameters.json, so that --help imports neither Numba nor
NumPy. `python -m tests.test_methods --write` writes it from the classes; a test compares.
"""

import contextlib
import difflib
import functools
import importlib
import json
import re
import textwrap
from pathlib import Path
from typing import NamedTuple

from solvers import METHODS, model_file

RUN_PARAMS = {"random_state", "verbose", "callback", "prefit"}  # Set by the runner.
OF_ESTIMATORS = ("members", "base", "meta")  # Parameters in which a command's name is a method.
SPELLED = {  # Further forms of a parameter on the command line.
    **dict.fromkeys(OF_ESTIMATORS, "; or names of methods"),
    "class_weight": "; or name=factor,name=factor",
    "perturb": "; as name=value,value,name=value,value",
}
BASELINES = {"stump-vote": ("baselines", "StumpVote", "tanh")}  # Of comparisons, as METHODS.
KNOWN = METHODS | BASELINES
EXAMPLES = """examples:
  python cli.py datasets
  python cli.py exrm --data sonar
  python cli.py exrm --data my.csv --label species --save model.npz
  python cli.py adaboost --data sonar --plot members.png
  python cli.py voting --data wine --members exrm,adaboost,bayes
  python cli.py diversity --data sonar --methods adaboost,exrm --plot kappa.png
  python cli.py compare --data sonar,heart --methods exrm,drm:mu=0,nu=0.3,bagging --out results
  python cli.py gradient-boosting --data DIRECTORY --scheduler local:2
  python cli.py reproduce exrm-table1 --quick
  python cli.py predict --model model.npz --data new.csv --out predictions.csv
"""
PARAMETERS = Path(__file__).with_name("parameters.json")
PACKAGES = {name: "perf.study" for _, name, _ in BASELINES.values()}  # Of the others it is solvers.
FILES = {name: file for file, name, _ in KNOWN.values()}  # Of the classes that a run may use.
FILES |= {"OneVsRest": "multiclass", "Calibrated": "combine"}
UNTOLD = {  # Parameters left out of reports: the base is the model inside, and l2 is for no base.
    "OneVsRest": RUN_PARAMS | {"base", "l2", "tol"},
    "Calibrated": RUN_PARAMS | {"base"},
}
BLOCK_METHODS = (  # Methods whose fit takes row blocks.
    "exrm", "psvm", "adaboost-nc", "adaboost", "cqboost", "mincq", "mdboost", "gradient-boosting",
)  # fmt: skip
SHOWN = {  # Captions of pictures; other kinds are names of parameters.
    "convergence": "duality gap by iteration and by time",
    "members": "error by the number of members",
    "margins": "distribution of the margins",
    "boundary": "decision boundary, for data of two features",
    "time": "training time by the number of rows",
    "kappa-error": "kappa-error diagram",
    "changes": "effect of each source of diversity",
}


def _steps(low, high, count=15):
    """Values from 10^low to 10^high, evenly spaced on a logarithmic scale, with three digits."""
    spaced = (10 ** (low + (high - low) * k / (count - 1)) for k in range(count))
    return [float(f"{value:.3g}") for value in spaced]


# Values for --tune, the smallest or simplest first. CqBoost and relatives: grids of their paper,
# where AdaBoost's goes to 10^6 rounds. ExRM: range of lam in its Figure 1. AdaBoost.NC: range of
# lam in its Figure 3. DRM, whose paper prints no grid: from no weight on the norms to almost all.
GRIDS = {
    "exrm": {"lam": [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0]},
    "psvm": {"lam": [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0]},
    "drm": {"nu": [0.1, 0.3, 0.5, 0.7, 0.9], "mu": [1e-5, 1e-3, 1e-1]},
    "nu-svm": {"nu": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]},
    "adaboost-nc": {"lam": [0.0, 1.0, 2.0, 4.0, 6.0, 9.0, 12.0]},
    "adaboost": {"n_estimators": [100, 215, 464, 1000]},
    "cqboost": {"mu": _steps(-2, -0.5)},
    "mincq": {"mu": _steps(-2, -0.5)},
    "mdboost": {"D": _steps(0, 2)},
    "lpboost": {"C": _steps(-3, 3)},
    "cgboost": {"C": _steps(-3, 3)},
    "bagging": {"max_features": [1.0, 0.5, "sqrt"]},
    "gradient-boosting": {"max_depth": [2, 4, 6], "learning_rate": [0.03, 0.1, 0.3]},
}
CERTIFIED = "exrm psvm drm nu-svm cqboost mincq mdboost lpboost cgboost".split()
STAGED = "exrm drm adaboost-nc adaboost bagging gradient-boosting".split()
PICTURES = {  # Kinds of --picture per method, the default first.
    command: (
        *["convergence"] * (command in CERTIFIED),
        *["members"] * (command in STAGED),
        *("margins", "boundary"),
        *sorted(GRIDS.get(command, {}).keys() - {"n_estimators"}),
        "time",
    )
    for command in METHODS
}


# -- what there is ---------------------------------------------------------------------------------


class Parameter(NamedTuple):
    """A constructor parameter as --help shows it."""

    metavar: str  # INT, FLOAT, BOOL, NAME or VALUE.
    default: object
    text: str


@functools.cache
def _declared():
    return json.loads(PARAMETERS.read_text(encoding="utf-8"))


def summary(command):
    """First line of the docstring of a method."""
    return _declared()[command]["summary"]


def parameters(command):
    """Parameters of a method that a user can set, {name: Parameter}."""
    declared = _declared()[command]["parameters"]
    return {name: Parameter(*given) for name, given in declared.items() if name not in RUN_PARAMS}


def option(key, parameter):
    """Options of the flag of a parameter."""
    metavar, default, text = parameter
    text = f"{text} [default {default}]".replace("] [", ", ") + SPELLED.get(key, "")
    kind = str if key in OF_ESTIMATORS else value
    return {"default": default, "help": text.replace("%", "%%"), "type": kind, "metavar": metavar}


def line(command):
    """Command and summary of a method, in lines of 80 columns."""
    return textwrap.fill(f"{command:<17} {summary(command)}", 80, subsequent_indent=f"{'':18}")


def figure_caption(kind):
    return SHOWN.get(kind, f"error by {kind}")


def kinds(command):
    """Help of --picture."""
    first, *others = (f"{kind} ({figure_caption(kind)})" for kind in PICTURES[command])
    return f"contents of --plot: {', '.join(others)} [default {first}]"


def value(text):
    """Read a parameter: none, true, false, an integer, a number, a list of these, else a text."""
    if "," in text:
        parts = [value(part) for part in text.split(",")]
        return text if any(isinstance(part, str) for part in parts) else parts
    words = {"none": None, "true": True, "false": False}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def choices(text):
    """Read KEY=VALUE,VALUE,KEY=VALUE: values of several parameters, each with its name before."""
    found = {}
    for part in text.split(","):
        key, equals, given = part.rpartition("=")
        key = key.strip().replace("-", "_") if equals else next(reversed(found), "")
        if not key or not given.strip():
            rule = "KEY=VALUE,VALUE,..., such as max_depth=2,4,8"
            raise ValueError(f"values of parameters must be written {rule}, got {text!r}")
        found.setdefault(key, []).append(value(given.strip()))
    return found


def scale(command, params):
    """Default scaling of the features of a method, or of its base."""
    return METHODS.get(params.get("base"), KNOWN[command])[2]


def class_of(name):
    """Import a method's class by its name."""
    package = PACKAGES.get(name, "solvers")
    return getattr(importlib.import_module(f"{package}.{FILES[name]}"), name)


# -- names with parameters -------------------------------------------------------------------------


def near(word, known):
    """Guess which of the known words was meant; an empty text if none is near."""
    close = difflib.get_close_matches(word, known, cutoff=0.7)
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""


def check(command, known=METHODS):
    """Raise ValueError if this is not the name of a method."""
    if command not in known:
        hint = f"{near(command, known)} The methods are {', '.join(known)}"
        raise ValueError(f"unknown method {command!r}.{hint}")


def check_words(argv, commands):
    """Raise ValueError for an unknown command or flag; `commands` are parsers by their names."""
    command, *words = argv
    if command not in commands:
        hint = f"{near(command, commands)} Run `python cli.py --help` for the list."
        raise ValueError(f"unknown command {command!r}.{hint}")
    known = re.findall(r"^  (?:-h, )?(--[\w-]+)", commands[command].format_help(), re.M)
    for word in (word.partition("=")[0] for word in words):
        if word.startswith("--") and word not in known:
            raise ValueError(unknown(word, command, known))


def unknown(word, command, known=()):
    """Error text of an argument that a command does not take."""
    hint = f"Run `python cli.py {command} --help` for the list."
    return f"unknown argument {word!r}.{near(word, known)} {hint}"


def listed(text):
    """Read names of methods with commas between them, each once."""
    names = list(dict.fromkeys(map(str.strip, text.split(","))))
    for name in names:
        check(name)
    return names


def parse(text):
    """Read METHOD or METHOD:KEY=VALUE,KEY=VALUE, with commas between methods, to [(name, params)].

    A part with = belongs to the method before, which has a colon. Lists have + between their items:
    voting:members=exrm+adaboost.
    """
    found = []
    for part in map(str.strip, text.split(",")):
        command, colon, option = part.partition(":")
        if "=" not in command:
            check(command, KNOWN)
            found.append((command, {}))
        elif found and found[-1][1]:
            command, option = found[-1][0], part
        else:
            before = found[-1][0] if found else "METHOD"
            raise ValueError(f"{part!r} must follow a colon; write, say, {before}:{part}")
        if colon or option:
            found[-1][1].update([_option(command, option)])
    return [one for k, one in enumerate(found) if one not in found[:k]]


def _option(command, text):
    """Read KEY=VALUE of a method."""
    key, equals, given = text.partition("=")
    key, known = key.strip().replace("-", "_"), sorted(parameters(command))
    if key not in known or not equals:
        wrong = f"unknown parameter {text!r} of {command}.{near(key, known)}"
        raise ValueError(f"{wrong} Write {command}:KEY=VALUE with one of {', '.join(known)}")
    read = value(given.strip())
    return key, value(read.replace("+", ",")) if isinstance(read, str) else read


def title(command, params):
    """Write a method with its parameters as `parse` reads it."""
    return f"{command}:{','.join(f'{k}={_text(v)}' for k, v in params.items())}".rstrip(":")


def _text(given):
    if isinstance(given, list):
        return "+".join(map(_text, given))
    if isinstance(given, str):
        return given.replace(",", "+")
    return str(given).lower()


# -- from a name to an estimator -------------------------------------------------------------------


def build(command, params, seed, classes, callback=None, soft=False):
    """Make an estimator for this number of classes; soft: one that has probabilities.

    A method of two classes becomes one-versus-rest over it where there are more, and one without
    probabilities is calibrated where they are needed. Names of methods in `params` stand for these
    methods with their default parameters.
    """
    name = KNOWN[command][1]
    cls, given = class_of(name), params | {"random_state": seed, "callback": callback}
    for key in OF_ESTIMATORS:
        if isinstance(params.get(key), str):
            need = key == "members" and (name == "Stacking" or params.get("how") == "soft")
            rest = {"seed": seed, "classes": classes if cls._multi_class else 2, "soft": need}
            given[key] = _named(cls, key, params[key], rest)
    if isinstance(params.get("perturb"), str):
        given["perturb"] = choices(params["perturb"])
    model = cls(**{key: given[key] for key in cls._defaults() if key in given})
    if soft and not hasattr(model, "predict_proba"):
        model = class_of("Calibrated")(model)
    if classes > 2 and not model._multi_class:
        model = class_of("OneVsRest")(model, callback=callback)
        model.class_weight = given.get("class_weight")  # Of the classes, not of the two sides.
        model.base.class_weight = None
    return model


def _named(cls, key, text, rest):
    """Read a parameter that takes estimators: a name of a method stands for one."""
    names = [part.strip() for part in text.split(",")] if key == "members" else [text]
    satisfies, rule = importlib.import_module(cls.__module__).satisfies, cls._param_rules[key]
    for name in names:
        if name not in METHODS and not satisfies(name, rule):
            wrong = f"{cls.__name__}: {key} must be {rule}, got {name!r}"
            raise ValueError(f"{wrong}; objects are named {', '.join(METHODS)}")
    parts = [build(name, {}, **rest) if name in METHODS else name for name in names]
    return parts if key == "members" else parts[0]


# -- what an estimator is --------------------------------------------------------------------------


def outline(model, classes):
    """Describe an estimator by values that survive JSON: name, params, and the models inside."""
    name, params, inside = type(model).__name__, {}, []
    for key, value in model.get_params(deep=False).items():
        many = isinstance(value, list | tuple)
        parts = value if many else [value]
        models = [part for part in parts if hasattr(part, "get_params")]
        if models:
            inside += [outline(part, classes) for part in models]
            value = [_title(part) for part in parts] if many else _title(value)
        elif key == "class_weight" and isinstance(value, dict):
            value = {classes[code]: factor for code, factor in value.items()}
        if key not in UNTOLD.get(name, RUN_PARAMS):
            params[key] = value
    return {"name": name, "params": params, "inside": inside}


def _title(model):
    """Name a model with its base, such as OneVsRest(ExRM); a built-in member is a name."""
    if isinstance(model, str):
        return model
    name = type(model).__name__
    return f"{name}({_title(model.base)})" if name in UNTOLD else name


def walk(outlined):
    """Yield an outline and those of the models inside, each kind once."""
    seen = []
    for part in [outlined, *(deep for inner in outlined["inside"] for deep in walk(inner))]:
        if part not in seen:
            seen.append(part)
            yield part


def wrappings(outlined, classes):
    """Say which methods `build` has wrapped, and in what."""
    kinds = {"Calibrated": "probabilities by Platt's calibration:"}
    kinds["OneVsRest"] = f"{classes} classes: one-versus-rest over"
    found = {}
    for part in walk(outlined):
        for inner in part["inside"] if part["name"] in kinds else ():
            while inner["name"] in kinds:
                (inner,) = inner["inside"]
            found.setdefault(kinds[part["name"]], {})[inner["name"]] = True
    return [f"{text} {', '.join(names)}" for text, names in found.items()]


def load(path):
    """Read a model file: the model, the names of its class and of those inside."""
    model = model_file.load(path)
    return model, [*dict.fromkeys(_names(model))]


def _names(model):
    """Yield the class of a model and of the models inside; the built-in members have no name."""
    if not type(model).__name__.startswith("_"):
        yield type(model).__name__
    for member in [*getattr(model, "estimators_", ()), *filter(None, [getattr(model, "meta_", 0)])]:
        yield from _names(member)
