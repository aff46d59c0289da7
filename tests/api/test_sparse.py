"""Sparse tables: the fit of the table written out, for every kind of array and model; refusals; no dense copy."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from vbsvm import VBSVC, Gibbs, Joint, LaplaceZero, Normal, Ridge, Variational, load
from vbsvm.api.data import inputs
from vbsvm.model.layouts.dual import DualGaussian

TIGHT = Variational(tol=1e-12)
FORMATS = (sp.csr_array, sp.csr_matrix, sp.csc_array, sp.csc_matrix, sp.coo_array, sp.coo_matrix, sp.lil_array)


def table(n=300, p=9, seed=0, n_classes=2):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, p)) < 0.25, np.round(rng.normal(size=(n, p)) + 1, 2), 0.0)
    scores = X @ rng.normal(size=p) + 0.7 * rng.normal(size=n)
    return X, np.digitize(scores, np.quantile(scores, np.arange(1, n_classes) / n_classes))


def assert_same_fit(sparse, dense, atol=1e-8, rtol=0.0):
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=rtol, atol=atol)
    np.testing.assert_allclose(sparse.intercept_, dense.intercept_, rtol=atol, atol=atol)
    assert sparse.elbo_ == pytest.approx(dense.elbo_, abs=1e-8 * max(1.0, abs(dense.elbo_)))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"prior": Normal(0.3)},
        {"prior": LaplaceZero(rho=0.2)},
        {"prior": LaplaceZero(rho=0.2, gates=Joint())},
        {"standardize": False},
        {"fit_intercept": False},
        {"fit_intercept": False, "standardize": False, "prior": Ridge()},
        {"class_weight": "balanced"},
        {"inference": Variational(tol=1e-12, bound="exact")},
    ],
    ids=str,
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_fit_is_that_of_the_table_written_out(settings, n_classes):
    X, y = table(n_classes=n_classes)
    weights = np.arange(len(y)) % 4 / 2
    settings = {"inference": TIGHT} | settings
    dense, sparse = VBSVC(**settings).fit(X, y, weights), VBSVC(**settings).fit(sp.csr_array(X), y, weights)
    assert_same_fit(sparse, dense, rtol=1e-7 if dense.fit_[0].spec.gate_map is not None else 0.0)
    for ask in ("decision_function", "predict_proba", "predict", "predict_log_proba", "pseudo_probability"):
        found = getattr(sparse, ask)(sp.csr_array(X))
        np.testing.assert_allclose(found, getattr(dense, ask)(X), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(found, getattr(sparse, ask)(X), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(sparse.predictive(sp.csr_array(X)), dense.predictive(X), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(sparse.coef_std_, dense.coef_std_, rtol=1e-5)
    assert sparse.score(sp.csr_array(X), y) == dense.score(X, y)


def test_samplers_draw_the_same():
    X, y = table()
    settings = {"inference": Gibbs(draws=20, tune=0, chains=1, accelerate=False), "random_state": 1}
    with pytest.warns(Warning, match="chains"):
        dense, sparse = (VBSVC(**settings).fit(one, y) for one in (X, sp.csr_array(X)))
    # Rounding grows from sweep to sweep, as each draw depends on the one before.
    np.testing.assert_allclose(sparse.fit_[0].outcome.coefficients, dense.fit_[0].outcome.coefficients, atol=1e-5)


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int8, bool])
def test_any_kind_of_sparse_array_is_taken(form, dtype):
    X, y = table()
    X = np.round(X).astype(dtype)
    dense = VBSVC(inference=TIGHT).fit(X.astype(np.float64), y)
    sparse = VBSVC(inference=TIGHT).fit(form(X), y)
    assert_same_fit(sparse, dense)
    np.testing.assert_allclose(sparse.decision_function(form(X)), dense.decision_function(X), atol=1e-8)


def test_odd_arrays_mean_what_they_say_and_stay_as_they_are():
    X, y = table()
    X[:, 3], X[7] = 0.0, 0.0  # a column and a row without entries
    dense = VBSVC(inference=TIGHT).fit(X, y)
    rows, columns = np.nonzero(X)
    order = np.random.default_rng(0).permutation(len(rows))
    twice = np.concatenate([order, order])
    duplicated = sp.coo_array((X[rows, columns][twice] / 2, (rows[twice], columns[twice])), shape=X.shape)
    with_zeros = sp.csr_array((X + (X == 0)).astype(np.float64))
    with_zeros.data[(X == 0).ravel()] = 0.0
    unsorted = sp.csr_array(X)
    for begin, end in zip(unsorted.indptr[:-1], unsorted.indptr[1:], strict=True):
        unsorted.indices[begin:end] = unsorted.indices[begin:end][::-1].copy()
        unsorted.data[begin:end] = unsorted.data[begin:end][::-1].copy()
    repeated = sp.csr_array(X)
    repeated = sp.csr_array(
        (np.repeat(repeated.data / 2, 2), np.repeat(repeated.indices, 2), 2 * repeated.indptr), shape=X.shape
    )
    long = sp.csr_array(X)
    long.indices, long.indptr = long.indices.astype(np.int64), long.indptr.astype(np.int64)
    frozen = sp.csr_array(X)
    for part in (frozen.data, frozen.indices, frozen.indptr):
        part.flags.writeable = False
    for given in (duplicated, with_zeros, unsorted, repeated, long, frozen):
        data, before = given.data.copy(), given.copy()
        found = VBSVC(inference=TIGHT).fit(given, y)
        assert_same_fit(found, dense)
        np.testing.assert_allclose(found.decision_function(given), dense.decision_function(X), atol=1e-8)
        np.testing.assert_array_equal(given.data, data)
        assert given.nnz == before.nnz


def test_columns_far_from_zero_lose_no_digits():
    X, y = table()
    rng = np.random.default_rng(5)
    X[:, 0] = 1e6 + rng.normal(size=len(X))
    X[:, 4] = -1e4 + rng.normal(size=len(X))
    X[0, 4] = 0.0  # what is not stored is far from all others
    X[:, 5] = 3.0  # tells nothing
    dense, sparse = VBSVC(inference=TIGHT).fit(X, y), VBSVC(inference=TIGHT).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-8)
    assert sparse.elbo_ == pytest.approx(dense.elbo_, abs=1e-7)
    # A mean of a million leaves ten digits to a score.
    np.testing.assert_allclose(sparse.decision_function(sp.csr_array(X)), dense.decision_function(X), atol=1e-6)
    assert sparse.coef_[0, 5] == 0.0


def test_rows_without_weight_may_hold_anything():
    X, y = table()
    weights = np.ones(len(y))
    weights[[0, 5]] = 0.0
    strange = X.copy()
    strange[0], strange[5, 2] = np.nan, np.inf
    kept = weights > 0
    found = VBSVC(inference=TIGHT).fit(sp.csr_array(strange), y, weights)
    assert_same_fit(found, VBSVC(inference=TIGHT).fit(X[kept], y[kept]))


@pytest.mark.parametrize(("value", "message"), [(np.nan, "dense tables only"), (np.inf, "infinity")])
def test_values_that_are_no_numbers_are_refused(value, message):
    X, y = table()
    bad = X.copy()
    bad[7, 3] = value
    with pytest.raises(ValueError, match=rf"'x3' \(first in row 7\).*{message}|{message}.*'x3' \(first in row 7\)"):
        VBSVC().fit(sp.csr_array(bad), y)
    clf = VBSVC().fit(sp.csr_array(X), y)
    for ask in (clf.predict, clf.predict_proba, clf.decision_function):
        with pytest.raises(ValueError, match=message):
            ask(sp.csr_array(bad))


def test_what_sparse_tables_can_not_do_is_said():
    X, y = table()
    sparse = sp.csr_array(X)
    clf = VBSVC().fit(sparse, y)
    with pytest.raises(ValueError, match="9 features"):
        clf.predict(sparse[:, :5])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        VBSVC().fit(sparse, y[:-1])
    with pytest.raises(ValueError, match="nothing to shift"):
        clf.sensitivity(sparse, y, [0.5])
    with pytest.raises(TypeError, match="dense"):
        clf.impute(sparse)
    with pytest.raises(ValueError, match="Complex"):
        VBSVC().fit(sparse.astype(complex), y)
    with pytest.raises(ValueError, match=r"2D|1d sparse"):
        VBSVC().fit(sp.coo_array(X[:, 0]), y)


def test_a_pipeline_with_a_default_encoder_works():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"town": rng.choice([f"t{k}" for k in range(60)], 400), "job": rng.choice(list("abc"), 400), "age": 0.0}
    )
    frame["age"] = rng.normal(40, 10, 400)
    y = (frame["town"].str[1:].astype(int) % 2 + 0.1 * frame["age"] + rng.normal(size=400) > 4.5).astype(int)

    def pipeline(**options):
        encode = ColumnTransformer(
            [("c", OneHotEncoder(**options), ["town", "job"]), ("n", StandardScaler(), ["age"])], sparse_threshold=0.9
        )
        return make_pipeline(encode, VBSVC(inference=TIGHT))

    sparse, dense = pipeline().fit(frame, y), pipeline(sparse_output=False).fit(frame, y)
    assert sp.issparse(sparse[0].transform(frame))
    np.testing.assert_allclose(sparse.decision_function(frame), dense.decision_function(frame), atol=1e-7)


def test_files_reports_and_what_is_learned_later(tmp_path):
    X, y = table()
    sparse, dense = VBSVC().fit(sp.csr_array(X), y), VBSVC().fit(X, y)
    for kind in ("robust", "posterior", "curvature", "mean-field"):
        found, expected = (one.fit_[0].coefficient_covariance(kind) for one in (sparse, dense))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)
    left_out, expected = (one.left_out_predictions() for one in (sparse, dense))
    np.testing.assert_allclose(left_out.log_probability, expected.log_probability, atol=1e-5)
    np.testing.assert_allclose(sparse.imputation_cov_, dense.imputation_cov_, rtol=1e-8, atol=1e-10)
    sparse.save(tmp_path / "m.vbsvm")
    again = load(tmp_path / "m.vbsvm")
    np.testing.assert_array_equal(again.predict_proba(sp.csr_array(X)), sparse.predict_proba(sp.csr_array(X)))
    pd.testing.assert_frame_equal(again.summary(), sparse.summary())
    page = sparse.report(tmp_path / "r.html", sp.csr_array(X), y).read_text(encoding="utf-8")
    assert "balanced error" in page.lower()


def test_changed_rows_are_found():
    X, y = table()
    given = sp.csr_array(X)
    clf = VBSVC().fit(given, y)
    given.data[3] += 1.0
    with pytest.raises(ValueError, match="changed in place"):
        clf.predict_proba(given)


def test_no_row_is_written_out():
    n, p = 30_000, 400
    X = sp.random_array((n, p), density=0.005, format="csr", rng=np.random.default_rng(0))
    y = np.asarray(X.sum(axis=1)).ravel() + 0.3 * np.random.default_rng(1).normal(size=n) > 1.0
    tracemalloc.start()
    try:
        clf = VBSVC().fit(X, y)
        clf.predict_proba(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * n * p / 2  # half of the table written out


@pytest.mark.parametrize("prior", [Ridge(), Normal(0.3), LaplaceZero(rho=0.1)], ids=str)
def test_many_more_columns_than_rows(prior, tmp_path):
    X, y = table(60, 300)
    X[:, 7] += 1e5  # far from zero
    settings = {"prior": prior, "inference": TIGHT}
    dense, sparse = VBSVC(**settings).fit(X, y), VBSVC(**settings).fit(sp.csc_array(X), y)
    assert isinstance(sparse.fit_[0].outcome.state.coefficients, DualGaussian)
    # With the scale inferred the bound is flat: a step that gains 1e-12 moves coefficients by some 1e-7.
    assert_same_fit(sparse, dense, atol=1e-6)
    np.testing.assert_allclose(sparse.coef_std_, dense.coef_std_, rtol=1e-5, atol=1e-9)
    new = sp.csr_array(X[:20])
    np.testing.assert_allclose(sparse.predictive(new), dense.predictive(X[:20]), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(sparse.predictive(new), sparse.predictive(X[:20]), rtol=1e-7, atol=1e-9)
    sparse.save(tmp_path / "m.vbsvm")
    again = load(tmp_path / "m.vbsvm")
    np.testing.assert_array_equal(again.predictive(new), sparse.predictive(new))
    np.testing.assert_array_equal(again.predict_proba(new), sparse.predict_proba(new))


def test_a_sampler_of_many_more_columns_than_rows_draws_the_same():
    X, y = table(60, 300)
    settings = {"prior": Normal(0.1), "inference": Gibbs(draws=10, tune=0, chains=1, accelerate=False)}
    with pytest.warns(Warning, match="chains"):
        dense, sparse = (VBSVC(**settings, random_state=1).fit(one, y) for one in (X, sp.csr_array(X)))
    np.testing.assert_allclose(sparse.fit_[0].outcome.coefficients, dense.fit_[0].outcome.coefficients, atol=1e-5)


def test_many_columns_of_few_rows_are_not_written_out():
    n, p = 200, 20_000
    X = sp.random_array((n, p), density=0.002, format="csr", rng=np.random.default_rng(0))
    y = np.asarray(X.sum(axis=1)).ravel() + 2 * np.random.default_rng(1).normal(size=n) > 20.0
    tracemalloc.start()
    try:
        clf = VBSVC().fit(X, y)
        clf.summary()
        clf.predictive(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * n * p  # less than one copy of the table written out


def test_a_table_that_is_nearly_full_is_fitted_as_an_array():
    """It takes less room so, and there are not two ways of adding up that differ by rounding."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    y = X[:, 0] + rng.logistic(size=60) > 0
    full, array = VBSVC().fit(sp.csr_array(X), y), VBSVC().fit(X, y)
    np.testing.assert_allclose(full.coef_, array.coef_, rtol=1e-6)
    with pytest.raises(ValueError, match=r"NaN|missing"):
        VBSVC().fit(sp.csr_array(np.where(X > 1, np.nan, X)), y)
    assert isinstance(inputs.read_table(full, sp.csr_array(X), reset=False)[0], np.ndarray)
    assert sp.issparse(inputs.read_table(full, sp.csr_array(np.where(X > 0, X, 0.0)), reset=False)[0])


def test_wide_tables_with_empty_columns_can_be_saved(tmp_path):
    """The scale of a constant column is infinite, also in what the dual form keeps of the rows."""
    rng = np.random.default_rng(0)
    X = sp.random_array((40, 600), density=0.01, rng=rng, format="csr")
    clf = VBSVC().fit(X, np.arange(40) % 2)
    clf.save(tmp_path / "model.vbsvm")
    np.testing.assert_array_equal(load(tmp_path / "model.vbsvm").decision_function(X), clf.decision_function(X))
