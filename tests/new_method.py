"""Start a new method: python -m tests.new_method NAME

Writes solvers/NAME.py, a certified estimator that works (regularised least squares by coordinate
descent), and tests/test_NAME.py. Replace its problem, kernel and certificate by yours.
tests/test_house.py then names each place where the new file is still missing.
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOLVER = '''\
"""CLASS: a linear classifier by regularised least squares.

Problem (minimised over w, which includes the bias as the weight of a constant column):

    1/2 |w|^2 + lam/2 sum_i v_i (y_i - x_i.w)^2,   v_i: sample weights

Method    Coordinate descent: an iteration minimises over each w_j once, O(n d). The residuals give
          the dual point a_i = lam v_i (y_i - x_i.w) of
          max_a  a.y - 1/2 |X'a|^2 - sum_i a_i^2 / (2 lam v_i), whose value certifies w.
Reference Hoerl, Kennard, "Ridge regression", Technometrics 1970.
Use       m = CLASS().fit(X, y); m.predict(X)
Origin    ensolve, solvers/NAME.py, MIT licence
"""

IMPORTS
# >>> shared: jit 0
# <<< shared: jit


# -- kernels ------------------------------------------------------------------------------------
@jit
def _sweep(columns, cost, w, r):
    """Minimise over each w_j (d,) once; update the residuals r = y - X w (n,).

    columns : X transposed, (d, n)
    """
    for j in range(columns.shape[0]):
        slope, curvature = -w[j], 1.0
        for i in range(columns.shape[1]):
            x = columns[j, i]
            slope += cost[i] * x * r[i]
            curvature += cost[i] * x * x
        step = slope / curvature
        w[j] += step
        for i in range(columns.shape[1]):
            r[i] -= step * columns[j, i]


# -- solver -------------------------------------------------------------------------------------
def _certificate(columns, y, cost, w):
    """Objective of w (d,) and its duality gap relative to it."""
    r = y - w @ columns
    loss = 0.5 * cost @ (r * r)
    objective, a = 0.5 * w @ w + loss, cost * r
    gradient = columns @ a
    dual = a @ y - 0.5 * gradient @ gradient - loss
    return float(objective), float(max(objective - dual, 0.0) / objective)


# >>> shared: estimator 0
# <<< shared: estimator


# -- estimator ----------------------------------------------------------------------------------
class CLASS(_Estimator):
    """Linear classifier by regularised least squares.

    Use it as a start for a method of your own.

    Parameters
    ----------
    lam : float > 0
        Weight of the loss against the regulariser.
    tol : float > 0
        Target for `residual_`.
    max_iter : int >= 1
        Maximum number of iterations.
    class_weight : None, "balanced" or dict
        Factor per class, multiplied into sample_weight. "balanced" gives all classes the same total
        weight.
    verbose : int
        1 prints one line per iteration.
    callback : None or callable
        Called as callback(self, iteration, info) after every iteration; True stops.

    Attributes
    ----------
    coef_ (1, d), intercept_ (1,), weights_ (1,) : the only member, and its weight, 1
    objective_, residual_ : value of the problem, and its certified duality gap / objective_
    n_iter_, trace_, converged_ : iterations, objective after each, residual_ <= tol
    classes_, n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = CLASS().fit(X, y)
    >>> model.score(X_test, y_test), model.residual_ <= model.tol
    """

    _param_rules = {
        "lam": "a finite number > 0",
        "tol": "a finite number > 0",
        "max_iter": "an integer >= 1",
        "verbose": "an integer",
    }

    def __init__(
        self, lam=1.0, tol=1e-6, max_iter=1000, class_weight=None, verbose=0, callback=None
    ):
        self._set(locals())

    @restore_on_failure
    def fit(self, X, y, sample_weight=None):
        """Train on X (n, d) and two classes y; sample_weight multiplies each row's loss."""
        self._check_params()
        X, y, weight = self._check_fit(X, y, sample_weight)
        columns, cost = np.vstack((X.T, np.ones(len(X)))), self.lam * weight
        w, r, self.trace_ = np.zeros(len(columns)), y.copy(), []
        for iteration in range(1, self.max_iter + 1):
            _sweep(columns, cost, w, r)
            objective, residual = _certificate(columns, y, cost, w)
            stopped = self._report(iteration, objective, residual=residual)
            if stopped or residual <= self.tol:
                break
        self.coef_, self.intercept_, self.weights_ = w[None, :-1], w[-1:], np.ones(1)
        self.trace_, self.converged_ = np.array(self.trace_), self.residual_ <= self.tol
        if not self.converged_:
            text = f"gap {self.residual_:.1e} after {iteration} iterations; raise max_iter"
            warnings.warn(f"{type(self).__name__}: {text}", ConvergenceWarning, stacklevel=3)
        return self

    def votes(self, X):
        """Output of the member, (n, 1)."""
        return self._check_X(X) @ self.coef_.T + self.intercept_

    def decision_function(self, X):
        """Output (n,); positive for classes_[1]."""
        return self.votes(X)[:, 0]

    def _is_consistent(self, has):
        d = self.n_features_in_
        return has("coef_", (1, d)) and has("intercept_", (1,)) and has("weights_", (1,))


if __name__ == "__main__":
    generator = np.random.default_rng(0)
    blobs = generator.normal(size=(400, 5)) + np.repeat([[-0.7], [0.7]], 200, axis=0)
    model = CLASS().fit(blobs, np.repeat(["left", "right"], 200))
    print(f"{model!r}: {model.n_iter_} iterations, gap {model.residual_:.1e}")
    assert model.residual_ <= model.tol
'''
TEST = '''\
"""Tests for solvers/NAME.py."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from solvers.NAME import CLASS
from tests.conftest import blobs

pytestmark = pytest.mark.bounds


def naive_CLASS(X, y, v, lam):
    """w of the normal equations, the bias last."""
    X = np.column_stack((X, np.ones(len(X))))
    return np.linalg.solve(np.eye(X.shape[1]) + lam * (X.T * v) @ X, lam * X.T @ (v * y))


@pytest.mark.uncompiled
@pytest.mark.parametrize("lam", [1e-3, 1.0, 30.0])
def test_coefficients_solve_the_problem(lam):
    X, y = blobs(60, 3)
    v = np.random.default_rng(1).integers(0, 4, 60).astype(float)
    model = CLASS(lam=lam, tol=1e-10).fit(X, y, v)
    w = naive_CLASS(X, y, v, lam)
    assert model.converged_
    assert_allclose(np.append(model.coef_, model.intercept_), w, rtol=1e-4, atol=1e-5)
    A = np.column_stack((X, np.ones(60)))
    least = 0.5 * w @ w + 0.5 * lam * v @ (y - A @ w) ** 2
    assert 0 <= model.objective_ - least <= model.residual_ * model.objective_ + 1e-12
    assert_allclose(model.decision_function(X), model.votes(X) @ model.weights_)
'''


def block(text, name):
    """Return a shared block with its marks."""
    return re.search(rf"# >>> shared: {name} \d+\n.*?# <<< shared: {name}\n", text, re.DOTALL)[0]


def imports(model, code):
    """Return the import lines of a solver file, reduced to the names that the code uses."""
    lines = []
    for node in ast.parse(model).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.asname or alias.name for alias in node.names]
            node.names = [
                alias for alias, name in zip(node.names, names, strict=True)
                if re.search(rf"\b{name}\b", code.partition('\n"""\n')[2])
            ]  # fmt: skip
            lines += [ast.unparse(node)] if node.names else []
    own = [line for line in lines if "num" not in line]
    return "\n".join([*own, "", *(line for line in lines if "num" in line)]) + "\n\n\n"


def make(name, root=ROOT):
    """Write the solver and its test; return their paths. Refuse a bad or a used name."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(f"NAME must be a module name such as my_boost, got {name!r}")
    solver, test = root / "solvers" / f"{name}.py", root / "tests" / f"test_{name}.py"
    for path in (solver, test):
        if path.exists():
            raise ValueError(f"{path.relative_to(root)} exists; choose another name")
    model = (root / "solvers" / "exrm.py").read_text(encoding="utf-8")
    code = SOLVER
    for part in ("jit", "estimator"):
        code = code.replace(f"# >>> shared: {part} 0\n# <<< shared: {part}\n", block(model, part))
    code = code.replace("IMPORTS\n", imports(model, code))
    title = name.title().replace("_", "")
    for path, text in ((solver, code), (test, TEST)):
        path.write_text(text.replace("CLASS", title).replace("NAME", name), encoding="utf-8")
    return solver, test


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.new_method NAME")
    try:
        print("\n".join(f"wrote {path.relative_to(ROOT)}" for path in make(sys.argv[1])))
    except ValueError as error:
        sys.exit(f"new_method: {error}")
    print("next: pytest tests/test_house.py names the places that still miss it")
