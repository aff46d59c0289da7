"""Which layout a model gets, by either way in; and that it makes no difference to the results."""

import numpy as np
import pandas as pd
import pytest
from joblib import Parallel, delayed

from vbsvm import VBSVC, LaplaceZero, Model, Normal, Ridge, Variational
from vbsvm.api import task as tasks
from vbsvm.base.update_mode import Draw, mean_field
from vbsvm.model.row_pass import RowPass

TIGHT = Variational(tol=1e-11)


def wide(n=30, p=90, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, p)), columns=[f"x{k}" for k in range(p)])
    return X.assign(y=np.where(X["x0"] + rng.logistic(size=n) > 0, "yes", "no"), g=np.arange(n) % 5)


MODELS = {
    "ridge": ("y ~ . - g", {"fixed": Ridge()}, True),
    "gates": ("y ~ . - g", {"fixed": LaplaceZero()}, True),
    "flat": ("y ~ . - g", None, False),
    "groups": ("y ~ . - g + (1 | g)", {"fixed": Ridge()}, False),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_takes_the_dual_layout_where_columns_outnumber_rows(name):
    formula, priors, dual = MODELS[name]
    assert Model(formula, wide(), priors, likelihood="hinge")._task.source.wide is dual


def test_a_model_with_missing_values_does_not():
    data = wide()
    data.loc[0, "x1"] = np.nan
    assert not Model("y ~ . - g", data, {"fixed": Ridge()}, likelihood="hinge")._task.source.wide


@pytest.mark.parametrize("prior", [Ridge(), Normal(0.5), LaplaceZero(rho=0.1)])
def test_the_dual_layout_gives_the_dense_fit(prior, monkeypatch):
    data = wide()
    dual = Model("y ~ . - g", data, {"fixed": prior}, likelihood="hinge").fit(TIGHT)
    monkeypatch.setattr(tasks, "MAX_UNPENALISED", -1)
    dense = Model("y ~ . - g", data, {"fixed": prior}, likelihood="hinge").fit(TIGHT)
    assert dual.elbo == pytest.approx(dense.elbo, rel=1e-8)
    # The bound is flat at its optimum: within 1e-11 of it coefficients are known to some 1e-6 of their size.
    np.testing.assert_allclose(dual.coef, dense.coef, rtol=1e-5, atol=1e-6)
    for kind, tolerance in {"mean-field": 1e-4, "curvature": 1e-3}.items():
        ours, theirs = (one._showing(kind).coef_std for one in (dual, dense))
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=1e-6)
    np.testing.assert_allclose(dual.decision_function(data), dense.decision_function(data), rtol=1e-5, atol=1e-6)


def test_both_ways_in_fit_the_same_model():
    data = wide()
    X = data.drop(columns=["y", "g"])
    clf = VBSVC(inference=TIGHT).fit(X, data["y"])
    fit = Model("y ~ . - g", data, {"fixed": Ridge()}, likelihood="hinge").fit(TIGHT)
    assert clf.fit_[0].outcome.passes == fit.outcome.passes
    np.testing.assert_allclose(clf.coef_[0], fit.coef, atol=1e-9)
    np.testing.assert_allclose(clf.elbo_, fit.elbo, rtol=1e-9)


def test_a_pass_over_the_rows_may_be_sent_to_another_process():
    """It is plain data, and the sums that come back are those made here, to the bit."""
    data = wide(60, 4).assign(x1=lambda frame: frame["x1"].mask(frame["x2"] > 1))
    data["k"] = np.where(data["x3"] > 1.2, None, np.where(data["x0"] > 0, "u", "v"))
    work = []
    for formula in ("y ~ x0 + x2 + (x0 | g)", "y ~ x1 * x0 + k"):
        task = Model(formula, data, likelihood="hinge")._task
        state = Variational(tol=1e-3).run(task.spec, task.source).state
        coefficients = state.coefficients.effective(state.gates)
        for mode in (mean_field, Draw(1, 0, 5)):
            row_pass = RowPass(task.spec.likelihood, coefficients, mode, mode is mean_field, state.missing)
            work.append((task.source, row_pass))
    away = Parallel(n_jobs=2, backend="loky")(delayed(source.sum_stats)(row_pass) for source, row_pass in work)
    for (source, row_pass), sent in zip(work, away, strict=True):
        here = source.sum_stats(row_pass)
        np.testing.assert_array_equal(here.cross, sent.cross)
        assert here.row_bound == sent.row_bound
