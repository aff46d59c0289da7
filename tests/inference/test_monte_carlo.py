"""The covariance by draws: what is estimated against the exact covariance, and fits of large tables from end to end."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from vbsvm import VBSVC, Gibbs, LaplaceZero, Normal, Variational, load
from vbsvm.api import validation
from vbsvm.design.scaling import Recipe
from vbsvm.model.interfaces import Precision
from vbsvm.model.layouts import drawn
from vbsvm.model.layouts.dense import DenseRows
from vbsvm.model.layouts.drawn import DrawnGaussian, DrawnRows
from vbsvm.model.matrices import DenseMatrix, SparseMatrix


def text_like(n=700, p=600, seed=0):
    """Rows of a few words each, a few of which are common, and classes that depend on many of them."""
    rng = np.random.default_rng(seed)
    chances = 1.0 / np.arange(1, p + 1)
    counts = rng.poisson(12, n) + 1
    words = rng.choice(p, counts.sum(), p=chances / chances.sum())
    X = sp.csr_array((np.ones(len(words)), (np.repeat(np.arange(n), counts), words)), shape=(n, p))
    scores = X @ rng.normal(size=p)
    return X, (scores - scores.mean() + 2.0 * rng.normal(size=n) > 0).astype(int)


@pytest.fixture
def small_limits(monkeypatch):
    """As if a few hundred rows and columns were too many for a covariance."""
    monkeypatch.setattr(validation, "MAX_EXACT", 300)


def exact_and_drawn(monkeypatch, n_draws):
    X, _ = text_like(200, 80)
    rng, n_columns = np.random.default_rng(1), X.shape[1] + 1
    centre, scale = X.toarray().mean(axis=0), np.full(X.shape[1], 0.5)
    matrix = SparseMatrix(X, centre, scale, True)
    written = matrix.columns(np.arange(n_columns))
    w, u, precision = rng.gamma(2.0, size=200), rng.normal(size=200), Precision(np.r_[1e-8, np.full(80, 3.0)])
    monkeypatch.setattr(drawn, "N_FINAL_DRAWS", n_draws)
    y = np.ones(200)
    rows = DrawnRows(0, matrix, y, y), DenseRows(0, DenseMatrix(written), y, y)
    found, exact = (one.gram(w).conditional(one.cross(u), precision) for one in rows)
    return found, exact, *rows


def test_estimates_are_those_of_the_covariance(monkeypatch):
    found, exact, own, rows = exact_and_drawn(monkeypatch, 4000)
    np.testing.assert_allclose(found.mean, exact.mean, atol=1e-5 * np.abs(exact.mean).max())
    # A variance of K draws is off by √(2/K) = 2 %; five times that bounds some hundred of them.
    np.testing.assert_allclose(found.variances, exact.variances, rtol=0.11)
    for one in (own, rows):
        np.testing.assert_allclose(found.row_moments(one)[1], exact.row_moments(rows)[1], rtol=0.11)
    every = slice(0, 81)
    assert found.square_sum(every) == pytest.approx(exact.square_sum(every), rel=0.02)
    assert found.products(slice(1, 41), slice(41, 81)) == pytest.approx(
        exact.products(slice(1, 41), slice(41, 81)), abs=0.1 * exact.square_sum(every)
    )
    assert np.abs(found.covariances(81) - exact.covariance).max() < 0.11 * exact.covariance.max()


def test_both_mean_squares_tell_more_than_one(monkeypatch):
    found, exact, own, rows = exact_and_drawn(monkeypatch, 24)
    v = exact.row_moments(rows)[1]
    with_both, alone = (np.log(found.row_moments(one)[1] / v).std() for one in (own, rows))
    assert with_both < 0.9 * alone


def test_the_fit_is_near_the_exact_one(monkeypatch):
    X, y = text_like()
    settings = {"standardize": False}  # the same scale of the columns in both
    exact = VBSVC(**settings).fit(X, y)
    monkeypatch.setattr(validation, "MAX_EXACT", 300)
    found = VBSVC(**settings).fit(X, y)
    assert isinstance(found.fit_[0].outcome.state.coefficients, DrawnGaussian)
    assert found.converged_
    scale = [np.sqrt(1 / one.penalty_[0]) for one in (found, exact)]
    assert scale[0] == pytest.approx(scale[1], rel=0.08)
    apart = np.linalg.norm(found.coef_ - exact.coef_) / np.linalg.norm(exact.coef_)
    assert apart < 0.12
    assert np.abs(found.predict_proba(X) - exact.predict_proba(X)).mean() < 0.05
    ratio = np.log(found.coef_std_ / exact.fit_[0].summary(covariance="curvature")["std_error"].to_numpy()[1:])
    assert np.abs(np.median(ratio)) < 0.1
    assert ratio.std() < 0.25


@pytest.mark.usefixtures("small_limits")
def test_everything_that_a_fit_tells(tmp_path):
    X, y = text_like()
    clf = VBSVC(class_weight="balanced").fit(X, y, 1.0 + np.arange(len(y)) % 2)
    assert "64 draws" in clf.summary().attrs["note"]
    assert "by draws" in str(clf.fit_[0])
    with pytest.raises(AttributeError, match="by draws"):
        _ = clf.elbo_
    left_out = clf.left_out_predictions()
    assert np.isfinite(left_out.log_probability).all()
    clf.save(tmp_path / "m.vbsvm")
    for again in (load(tmp_path / "m.vbsvm"), pickle.loads(pickle.dumps(clf))):
        np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
        np.testing.assert_array_equal(again.predictive(X), clf.predictive(X))
        np.testing.assert_array_equal(again.coef_std_, clf.coef_std_)
    page = clf.report(tmp_path / "r.html", X, y).read_text(encoding="utf-8")
    assert "by draws" in page
    assert len(pickle.dumps(clf.fit_[0].outcome)) < 30 * 8 * X.shape[1]  # draws, and no rows


@pytest.mark.usefixtures("small_limits")
def test_two_fits_have_the_same_numbers_and_several_classes_their_own():
    X, y = text_like()
    np.testing.assert_array_equal(VBSVC().fit(X, y).coef_, VBSVC().fit(sp.coo_array(X), y).coef_)
    three = y + (np.asarray(X[:, [1]].toarray())[:, 0] > 0)
    clf = VBSVC(prior=Normal(0.001)).fit(X, three)
    assert clf.predict_proba(X).shape == (len(y), 3)
    assert clf.score(X, three) > 0.6


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("unit", [1e-3, 0.1])
def test_the_start_knows_the_unit_of_columns_that_are_left_as_they_are(unit):
    X, y = text_like()
    one, other = VBSVC(standardize=False).fit(X, y), VBSVC(standardize=False).fit(X * unit, y)
    assert other.converged_
    np.testing.assert_allclose(other.coef_ * unit, one.coef_, rtol=0, atol=0.05 * np.abs(one.coef_).max())


@pytest.mark.usefixtures("small_limits")
def test_common_scales_whatever_the_unit():
    X, y = text_like()
    one, other = VBSVC().fit(X, y), VBSVC().fit(X * 1024.0, y)  # a power of two changes no digit
    np.testing.assert_allclose(other.coef_ * 1024.0, one.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(other.penalty_, one.penalty_, rtol=1e-6)


def test_dense_tables_that_were_refused_are_taken(monkeypatch):
    X, y = text_like(400, 150)
    monkeypatch.setattr(validation, "MAX_COLUMNS", 100)
    found = VBSVC(standardize=False).fit(X.toarray(), y)
    assert isinstance(found.fit_[0].outcome.state.coefficients, DrawnGaussian)
    monkeypatch.undo()
    exact = VBSVC(standardize=False).fit(X.toarray(), y)
    assert np.linalg.norm(found.coef_ - exact.coef_) < 0.12 * np.linalg.norm(exact.coef_)


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize(
    ("inference", "message"),
    [
        (Gibbs(), "Gibbs does not support 700 rows with 601 coefficients"),
        (Variational(bound="exact"), "bound='exact'"),
        (Variational(accelerate=False), "accelerate=False"),
    ],
)
def test_what_draws_can_not_do_is_said(inference, message):
    X, y = text_like()
    with pytest.raises(ValueError, match=message):
        VBSVC(inference=inference).fit(X, y)


@pytest.mark.usefixtures("small_limits")
def test_gates_keep_their_covariance():
    X, y = text_like(700, 320)
    clf = VBSVC(prior=LaplaceZero(rho=0.01), inference=Variational(tol=10.0)).fit(X, y)
    assert not isinstance(clf.fit_[0].outcome.state.coefficients, DrawnGaussian)


def test_a_recipe_of_one_scale_leaves_constant_columns_out():
    from vbsvm.design.scaling import with_common_scale

    found = with_common_scale(Recipe(np.zeros(3), np.array([3.0, 4.0, np.inf]), True))
    np.testing.assert_allclose(found.scale, [np.sqrt(12.5), np.sqrt(12.5), np.inf])
