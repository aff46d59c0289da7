"""Bad input gets an error that names place and cause; strange input gets a finite result. Never NaN, never a hang."""

import warnings
from contextlib import suppress
from unicodedata import normalize

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from optional import optional
from reference import simulate
from vbsvm import VBSVC, LaplaceZero, Model, Normal, Ridge, Variational, VBLogistic
from vbsvm.api import task, validation
from vbsvm.model.interfaces import Precision
from vbsvm.model.layouts.dense import DenseGram
from vbsvm.model.priors import Prior

pl = optional("polars")
pa = optional("pyarrow")


@pytest.fixture
def data():
    return simulate(60, 4, seed=0)


def with_cell(X, row, column, value):
    X = X.copy()
    X[row, column] = value
    return X


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda X, y: (np.where(np.arange(4) == 2, np.nan, X), y), ValueError, "Column 'x2' has no value in any row"),
        (lambda X, y: (with_cell(X, 3, 0, np.inf), y), ValueError, r"infinity in column 'x0' \(first in row 3\)"),
        (lambda X, y: (np.where(np.arange(4) > 1, np.inf, X), y), ValueError, "column 'x2'.*and in 1 other column[.]"),
        (lambda X, y: (X, np.ones(60)), ValueError, "only one class, 1.0"),
        (lambda X, y: (X, np.linspace(0, 1, 60)), ValueError, "continuous"),
        (lambda X, y: (X, np.where(np.arange(60) == 4, np.nan, y)), ValueError, "y contains NaN"),
        (lambda X, y: (X, np.where(np.arange(60) == 4, None, "a")), ValueError, "label of row 4 is missing"),
        (lambda X, y: (X, pd.array(["a", pd.NA] * 30)), ValueError, "label of row 1 is missing"),
        (lambda X, y: (X, pl.Series(["a", "b", None] * 20)), ValueError, "label of row 2 is missing"),
        (lambda X, y: (X.astype("datetime64[s]"), y), ValueError, "dates or times"),
        (lambda X, y: ([["a", "b"]] * 60, y), ValueError, r"Column 0 .*one-hot"),
        (lambda X, y: (X[:50], y), ValueError, "inconsistent numbers of samples"),
        (lambda X, y: (X, np.column_stack([y, y])), ValueError, "1d array"),
        (lambda X, y: (X[:0], y[:0]), ValueError, "0 sample"),
        (lambda X, y: (X[:, :0], y), ValueError, "0 feature"),
        (lambda X, y: (X[0], y), ValueError, "2D array"),
        (lambda X, y: (X[:, :, None], y), ValueError, "dim 3"),
        (lambda X, y: (X + 1j, y), ValueError, "[Cc]omplex"),
        (lambda X, y: (np.array([["red"] * 4] * 60, dtype=object), y), ValueError, r"Column 0 .*one-hot"),
    ],
)
def test_refusals_name_the_cause(data, change, error, message):
    X, y = change(*data)
    with pytest.raises(error, match=message):
        VBSVC().fit(X, y)


def test_a_text_column_is_named(data):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcd")).assign(sex="f")
    for table in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        with pytest.raises(ValueError, match="Column 'sex' is not numeric"):
            VBSVC().fit(table, y)
    for dates in (frame.assign(sex=pd.Timestamp("2020-01-01")), frame.assign(sex=pd.Timedelta("1D"))):
        for table in (dates, pl.from_pandas(dates), pa.Table.from_pandas(dates)):
            with pytest.raises(ValueError, match="Column 'sex' contains dates or times"):
                VBSVC().fit(table, y)
    with pytest.raises(ValueError, match="X has two columns of the name 'a': rename one"):
        VBSVC().fit(pd.concat([frame, frame], axis=1), y)
    with pytest.raises(ValueError, match="contains infinity in column 'c'"):
        VBSVC().fit(pd.DataFrame(with_cell(X, 0, 2, np.inf), columns=list("abcd")), y)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(60), "zero in every row"),
        (-np.ones(60), "negative in row 0"),
        (np.r_[np.ones(59), -0.5], r"negative in row 59 \(-0.5\)"),
        (np.r_[np.ones(59), np.nan], "sample_weight contains NaN"),
        (np.r_[np.ones(59), np.inf], "sample_weight contains infinity"),
        (np.full(60, 1e308), r"weight of row 0 is 1e\+308"),
        (np.ones(59), r"shape \(59,\); there are 60 rows"),
        (np.ones((60, 1)), r"shape \(60, 1\)"),
        (-1.0, "negative"),
    ],
)
def test_weights_that_make_no_sense(data, weights, message):
    with pytest.raises(ValueError, match=message):
        VBSVC().fit(*data, sample_weight=weights)


def test_weights_that_leave_one_class(data):
    X, y = data
    with pytest.raises(ValueError, match=r"only one class, -1.0, in the rows of positive weight"):
        VBSVC().fit(X, y, sample_weight=(y < 0).astype(float))


@pytest.mark.parametrize("settings", [{"prior": 3.0}, {"prior": Ridge}, {"inference": 7}, {"inference": Ridge()}])
def test_settings_of_the_wrong_kind(data, settings):
    with pytest.raises(TypeError, match=f"{next(iter(settings))} must be an object such as"):
        VBSVC(**settings).fit(*data)


@pytest.mark.parametrize("settings", [{"standardize": "no"}, {"fit_intercept": None}, {"fit_intercept": 2}])
def test_flags_are_true_or_false(data, settings):
    with pytest.raises(ValueError, match=f"VBSVC: {next(iter(settings))} must be True or False"):
        VBSVC(**settings).fit(*data)
    with pytest.raises(ValueError, match="accelerate must be True or False"):
        Variational(accelerate="no")


@pytest.mark.parametrize("value", [0, -1.0, np.inf, np.nan, "1", None, True, 1e306, 5e-324])
def test_priors_refuse_what_is_not_positive(value):
    with pytest.raises(ValueError, match="Normal: variance must be a positive number"):
        Normal(value)
    with pytest.raises(ValueError, match="Ridge: rate must be a positive number"):
        Ridge(rate=value)


def test_a_prior_without_its_answers_cannot_be_made():
    with pytest.raises(TypeError, match="abstract"):
        Prior()


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ("even", "class_weight"),
        ({-1.0: 0, 1.0: 1}, r"class_weight of class -1.0 is 0"),
        ({-1.0: -1, 1.0: 1}, r"class_weight of class -1.0 is -1"),
        ({-1.0: 1, 1.0: np.nan}, r"class_weight of class 1.0 is nan"),
        ({-1.0: 1, 1.0: np.inf}, r"class_weight of class 1.0 is inf"),
        ({-1.0: 1e200, 1.0: 1}, r"class_weight of class -1.0 is 1e\+200"),
    ],
)
def test_class_weights_that_make_no_sense(data, class_weight, message):
    with pytest.raises(ValueError, match=message):
        VBSVC(class_weight=class_weight).fit(*data)


def test_a_row_of_weight_0_is_not_blamed(data):
    X, y = data
    X = with_cell(with_cell(X, 0, 2, np.nan), 7, 2, np.inf)
    with pytest.raises(ValueError, match=r"infinity in column 'x2' \(first in row 7\)"):
        VBSVC().fit(X, y, sample_weight=np.r_[0.0, np.ones(59)])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.full((1, 4), -np.inf), "contains infinity in column 'x0' "),
        (np.array([[0, 0, 0, 0], [0, np.inf, 0, 0.0]]), r"contains infinity in column 'x1' \(first in row 1\)"),
        (np.zeros((2, 3)), "3 features, but VBSVC is expecting 4"),
        (np.zeros((0, 4)), "0 sample"),
    ],
)
def test_predictions_that_cannot_be_made(data, rows, message):
    clf = VBSVC().fit(*data)
    with pytest.raises(ValueError, match=message):
        clf.predict(rows)


def test_a_score_that_overflows_is_refused(data):
    X, y = data
    clf = VBSVC().fit(X * [1e-100, 1, 1, 1], y)
    with pytest.raises(ValueError, match="The decision value of row 1 overflows"):
        clf.predict([[0, 0, 0, 0], [1e300, 0, 0, 0]])


def test_nothing_is_predicted_before_fit(data):
    for method in ("predict", "decision_function", "predict_proba", "summary"):
        with pytest.raises(NotFittedError):
            getattr(VBSVC(), method)(*([] if method == "summary" else [data[0]]))
    assert not hasattr(VBSVC(), "coef_")
    with pytest.raises(NotFittedError, match="not fitted yet"):
        _ = VBSVC().coef_


def test_bad_input_leaves_an_earlier_fit_alone(data):
    X, y = data
    clf = VBSVC().fit(X, y)
    before = clf.coef_
    for bad_X, bad_y in [(X[:, :2], np.ones(60)), (with_cell(X, 0, 0, np.inf), y), (X[:, :3], y[:9])]:
        with pytest.raises(ValueError, match=r"."):
            clf.fit(bad_X, bad_y)
    assert clf.n_features_in_ == 4
    np.testing.assert_array_equal(clf.coef_, before)
    assert clf.predict(X).shape == (60,)


PRIORS = [Ridge(), Normal(1.0), Normal(1e8)]


def finite_fit(X, y, *, at_rest=True, **settings):
    """Fit; ``at_rest=False`` where the climb may end in a warning instead of at the optimum."""
    clf = VBSVC(**settings)
    with warnings.catch_warnings():
        if not at_rest:
            warnings.simplefilter("ignore", ConvergenceWarning)
        clf.fit(X, y)
    for name in ("coef_", "coef_std_", "coef_cov_", "intercept_", "intercept_std_", "penalty_", "elbo_"):
        assert np.isfinite(getattr(clf, name)).all(), name
    assert np.isfinite(clf.predict_proba(X)).all()
    return clf


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("standardize", [True, False])
def test_constant_and_duplicated_columns(data, prior, standardize):
    X, y = data
    strange = np.column_stack([X, X[:, 0], X[:, 0], np.full(60, 3.0), np.zeros(60), np.full(60, 0.1) * 3])
    clf = finite_fit(strange, y, prior=prior, standardize=standardize)
    np.testing.assert_allclose(clf.coef_[0, 4], clf.coef_[0, 0], atol=1e-3 * (1 + abs(clf.coef_[0, 0])))
    if standardize:
        assert clf.coef_[0, 6:].tolist() == clf.coef_std_[0, 6:].tolist() == [0.0, 0.0, 0.0]
        assert clf.summary(covariance="mean-field")["p_positive"].iloc[-1] == 0.5


@pytest.mark.parametrize("value", [1e-12, 1.0, 1e12, 1e150])
def test_a_constant_column_changes_no_prediction(data, value):
    X, y = data
    with_constant = np.column_stack([X, np.full(60, value)])
    clf, plain = VBSVC(Normal(0.3)).fit(with_constant, y), VBSVC(Normal(0.3)).fit(X, y)
    np.testing.assert_allclose(clf.decision_function(with_constant), plain.decision_function(X), atol=1e-6)
    np.testing.assert_allclose(clf.intercept_, plain.intercept_, atol=1e-6)
    np.testing.assert_allclose(clf.intercept_std_, plain.intercept_std_, rtol=1e-6)
    moved = np.column_stack([X, np.arange(60.0)])  # what was constant in fit tells nothing later either
    np.testing.assert_allclose(clf.decision_function(moved), plain.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize(("n", "p"), [(2, 1), (2, 5), (10, 200), (3, 3)])
def test_more_columns_than_rows(prior, n, p):
    rng = np.random.default_rng(0)
    finite_fit(rng.normal(size=(n, p)), np.arange(n) % 2, prior=prior, at_rest=prior != Normal(1e8))


@pytest.mark.parametrize("prior", PRIORS)
def test_perfect_separation(prior):
    x = np.r_[np.linspace(-2, -1, 20), np.linspace(1, 2, 20)][:, None]
    clf = finite_fit(x, x[:, 0] > 0, prior=prior, at_rest=prior != Normal(1e8))
    assert clf.score(x, x[:, 0] > 0) == 1.0


@pytest.mark.parametrize("power", [-150, 150])
def test_columns_of_extreme_size(data, power):
    X, y = data
    scales = 10.0 ** np.array([power, 0, -power, power])
    clf = finite_fit(X * scales, y)
    plain = VBSVC().fit(X, y)
    np.testing.assert_allclose(clf.decision_function(X * scales), plain.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(clf.coef_ * scales, plain.coef_, atol=1e-5)


def test_extreme_columns_without_standardising_are_refused(data):
    X, y = data
    with pytest.raises(ValueError, match=r"Column 'x1' reaches .*standardize=True"):
        VBSVC(standardize=False).fit(X * [1, 1e150, 1, 1], y)
    with pytest.raises(ValueError, match=r"Column 'x0' reaches 1e\+200"):
        VBSVC(fit_intercept=False).fit(with_cell(X, slice(None), 0, 1e200), y)
    finite_fit(X * [1, 1e-150, 1e30, 1], y, at_rest=False, standardize=False)


def test_a_column_too_small_for_its_coefficient_is_refused(data):
    X, y = data
    with pytest.raises(ValueError, match="Column 'x3' has a standard deviation of"):
        VBSVC().fit(X * [1, 1, 1, 1e-160], y)


@pytest.mark.parametrize("standardize", [True, False])
def test_a_single_row_far_out(data, standardize):
    X, y = data
    clf = finite_fit(with_cell(X, 5, slice(None), 1e12), y, at_rest=standardize, standardize=standardize)
    if standardize:
        # Beside a row at 1e12 the other rows are all at one point: what is left to find is the larger class.
        assert clf.score(X, y) >= max(np.mean(y > 0), np.mean(y < 0)) - 0.02


def test_tables_that_would_take_gigabytes_are_refused(monkeypatch):
    monkeypatch.setattr(validation, "MAX_COLUMNS", 5)
    monkeypatch.setattr(validation, "MAX_CELLS", 100)
    X = np.random.default_rng(0).normal(size=(20, 6))
    with pytest.raises(ValueError, match="20 rows and 6 columns; up to 5 columns are supported"):
        VBSVC(prior=LaplaceZero()).fit(X, np.arange(20) % 2)
    with pytest.raises(ValueError, match="9 rows and 40 columns"):
        VBSVC(prior=LaplaceZero()).fit(np.ones((9, 40)), np.arange(9) % 2)


def test_models_that_would_take_gigabytes_are_refused_by_either_way_in(monkeypatch):
    monkeypatch.setattr(validation, "MAX_COLUMNS", 5)
    monkeypatch.setattr(validation, "MAX_CELLS", 100)
    monkeypatch.setattr(task, "MAX_UNPENALISED", 3)
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"]).assign(g=np.arange(60))
    y = np.arange(60) % 2
    for fit in (lambda: VBSVC(group="g").fit(X, y), lambda: Model("y ~ a + b + (1 | g)", X.assign(y=y))):
        with pytest.raises(ValueError, match=r"2 columns and random effects \(g 60\): matrices of 2 by 62"):
            fit()
    wide = pd.DataFrame(np.random.default_rng(0).normal(size=(6, 14))).add_prefix("x")
    VBSVC().fit(wide, y[:6])
    Model("y ~ .", wide.assign(y=y[:6]), {"fixed": Ridge()})
    flat, lost = Normal(1e8), wide.mask(wide > 1)
    for fit in (
        lambda: VBSVC(prior=flat).fit(wide, y[:6]),
        lambda: Model("y ~ .", wide.assign(y=y[:6]), {"fixed": flat}),
        lambda: VBSVC().fit(lost, y[:6]),
        lambda: Model("y ~ .", lost.assign(y=y[:6]), {"fixed": Ridge()}),
    ):
        with pytest.raises(ValueError, match="6 rows and 14 columns; up to 5 columns"):
            fit()


@pytest.mark.parametrize(
    ("size", "standardize", "why"),
    [(1e130, False, "'a' reaches .*: its squares overflow"), (1e-160, True, "'a' has a standard deviation of .*e-16")],
)
def test_columns_beyond_floating_point_are_refused_by_either_way_in(size, standardize, why):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": size * rng.normal(size=30), "b": rng.normal(size=30)})
    y = np.arange(30) % 2
    with pytest.raises(ValueError, match=why):
        VBSVC(standardize=standardize).fit(X, y)
    with pytest.raises(ValueError, match=why):
        Model("y ~ a + b", X.assign(y=y), standardize=standardize)


def test_largest_and_smallest_floats(data):
    X, y = data
    finite_fit(with_cell(X, 5, 0, 1.7e308), y)
    finite_fit(with_cell(X, 5, 0, -1.7e308), y)
    finite_fit(with_cell(X, 5, 0, 5e-324), y)
    with pytest.raises(ValueError, match=r"Column 'x0' reaches 1.7e\+308"):
        VBSVC().fit(with_cell(with_cell(X, slice(None), 0, 1.7e308), 5, 0, -1.7e308), y)


@pytest.mark.parametrize(
    ("X_of", "settings"),
    [
        (lambda X: X + 1e8, {"fit_intercept": False}),
        (lambda X: X + 1e7, {"fit_intercept": False, "inference": Variational(accelerate=False)}),
        (lambda X: np.column_stack([X, X[:, 0]]), {"prior": Normal(1e15)}),
    ],
)
def test_a_climb_that_rounding_ends_does_not_call_itself_converged(X_of, settings):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 4))
    y = X[:, 0] + 0.7 * rng.normal(size=100) > 0
    clf = VBSVC(**settings)
    with pytest.warns(ConvergenceWarning, match="stopped because of rounding errors"):
        clf.fit(X_of(X), y)
    assert not clf.converged_
    assert np.isfinite(clf.coef_).all()


def test_a_matrix_that_cannot_be_solved_gives_words_and_no_linalg_error():
    with pytest.raises(FloatingPointError, match="not positive definite in floating point"):
        DenseGram(np.full((2, 2), -1.0)).conditional(np.ones(2), Precision(np.zeros(2)))
    distribution = DenseGram(np.full((3, 3), 1e8)).conditional(
        np.full(3, 1e8), Precision(np.full(3, 1e-9))
    )  # singular but for rounding
    np.testing.assert_allclose(distribution.mean.sum(), 1.0, rtol=1e-6)


def test_lazy_frames_and_columns_of_two_kinds_are_refused_in_words(recwarn):
    frame = pl.DataFrame({"x": [0.1, 0.2, 0.3, 0.4], "k": ["a", "b", "a", "b"], "y": [0, 1, 0, 1]})
    with pytest.raises(TypeError, match=r"X is a LazyFrame, which has no rows yet: call its collect\(\) first"):
        VBSVC().fit(frame.lazy(), [0, 1, 0, 1])
    with pytest.raises(TypeError, match="data is a LazyFrame"):
        Model("y ~ x", frame.lazy())
    mixed = frame.to_pandas().assign(k=["a", 1, "b", 2])
    with pytest.raises(ValueError, match=r"'k' mixes text and numbers \(rows 0 and 1\)"):
        Model("y ~ k", mixed)
    with pytest.raises(TypeError, match="group must be the name or the number of a column of X; got Series"):
        VBSVC(group=mixed["k"]).fit(mixed[["x"]], mixed["y"])
    with pytest.raises(ValueError, match=r"weights has the shape \(2,\); there are 4 rows"):
        Model("y ~ x", frame, weights=[1, 2])
    assert not recwarn.list


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": ["a", 1, *[0.5] * 6]}, r"'x' mixes text and numbers \(rows 2 and 3\)"),
        ({"x": [[1], *[0.5] * 7]}, "'x' contains a list in row 2"),
        ({"x": [np.inf, *[0.5] * 7]}, "x is inf in row 2"),
        ({"y": [np.inf, *[0.0, 1.0] * 3, 0.0]}, "'y' is infinite in row 2"),
        ({"y": [None, *[0, 1] * 3, 0]}, "'y' has no value in row 2"),
        ({"g": [(1, 2), *[1, 2] * 3, 1]}, "'g' contains a tuple in row 2"),
        ({"g": [np.inf, *[1.0, 2.0] * 3, 1.0]}, "'g' contains inf in row 2"),
        ({"g": [2**70, *[1, 2] * 3, 1]}, "'g' contains a whole number beyond 64 bits in row 2"),
    ],
)
def test_rows_are_named_as_they_were_given_also_where_others_have_weight_0(change, message):
    plain = {"x": np.arange(8) % 3 + 0.5, "y": np.arange(8) % 2, "g": np.arange(8) % 2}
    shifted = {name: [*values[:1], *values[:1], *values] for name, values in (plain | change).items()}
    for name in change:
        shifted[name][:2] = list(plain[name][:2])
    with pytest.raises((ValueError, TypeError), match=message):
        Model("y ~ x + (1 | g)", shifted, weights=np.r_[0.0, 0.0, np.ones(8)])


@pytest.mark.parametrize("outer", [list, tuple, pd.Series, lambda values: np.array(values, dtype=object)])
def test_text_beside_a_number_or_a_missing_value_is_no_label(data, outer):
    X, _ = data
    with pytest.raises(ValueError, match="the label of row 3 is missing"):
        VBSVC().fit(X, outer(["a", "b", "a", None, *"ab" * 28]))
    with pytest.raises(ValueError, match=r"y mixes a number and text \(rows 0 and 2\)"):
        VBSVC().fit(X, outer([0, 1, "a", *[0, 1, 0] * 19]))


@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
def test_a_mask_is_read_wherever_it_is(data):
    X, y = data
    mask = np.zeros((60, 4), dtype=bool)
    mask[7, 2] = True
    expected = VBSVC().fit(np.where(mask, np.nan, X), y)
    masked = np.ma.array(np.where(mask, 1e6, X), mask=mask)
    found = VBSVC().fit(masked, np.ma.array(y), np.ma.array(np.ones(60)))
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6)
    np.testing.assert_array_equal(found.predict_proba(masked), found.predict_proba(np.where(mask, np.nan, X)))
    np.testing.assert_array_equal(found.impute(masked)[0], found.impute(np.where(mask, np.nan, X))[0])
    for labels in (np.ma.array(y, mask=mask[:, 2]), np.ma.array(y, mask=mask[:, 2])[:, None]):
        with pytest.raises(ValueError, match="label of row 7 is missing"):
            VBSVC().fit(X, labels)
    with pytest.raises(ValueError, match="sample_weight contains NaN in row 7"):
        VBSVC().fit(X, y, np.ma.array(np.ones(60), mask=mask[:, 2]))
    with pytest.raises(ValueError, match="The group of row 7 is missing in column 2"):
        VBSVC(group=2).fit(np.ma.array(np.arange(240).reshape(60, 4) % 5, mask=mask), y)


def test_infinity_is_not_imputed(data):
    X, y = data
    clf = VBSVC().fit(X, y)
    with pytest.raises(ValueError, match=r"infinity in column 'x1' \(first in row 4\)"):
        clf.impute(with_cell(with_cell(X, 4, 1, np.inf), 4, 0, np.nan))


def test_a_misspelled_group_is_guessed(data):
    X, y = data
    frame = pd.DataFrame(X, columns=["age", "dose", "visit", "patient"])
    with pytest.raises(ValueError, match=r"group='patinet' is not a column of X.*Did you mean 'patient'"):
        VBSVC(group="patinet").fit(frame, y)


def test_odd_input_leaves_an_earlier_fit_alone(data):
    X, y = data
    clf = VBSVC().fit(X, y)
    before = clf.coef_
    dates = np.full(60, np.datetime64("2020-01-01"))
    odd = [
        ((row for row in X), y, None),
        (pd.DataFrame(X).assign(when=dates), y, None),
        (X, ["a", 1] * 30, None),
        (X, y, {"a": 1}),
        (X[:, :2], y, dates),
    ]
    for bad_X, bad_y, weights in odd:
        with pytest.raises((ValueError, TypeError)):
            clf.fit(bad_X, bad_y, weights)
    assert clf.n_features_in_ == 4
    assert not hasattr(clf, "feature_names_in_")
    np.testing.assert_array_equal(clf.coef_, before)


def test_a_class_in_place_of_its_object_is_told_from_other_mistakes():
    X = np.arange(8.0).reshape(4, 2)
    with pytest.raises(TypeError, match=r"prior must be an object such as LaplaceZero.*add the brackets"):
        VBSVC(LaplaceZero).fit(X, [0, 1, 0, 1])


def test_a_model_says_what_its_fit_has_and_what_comes_first():
    data = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": list("abab")})
    model = Model("y ~ x", data)
    with pytest.raises(AttributeError, match=r"A Model has no 'report', its fit has: fit = model\.fit\(\)"):
        model.report("page.html")
    with pytest.raises(AttributeError, match="'Model' object has no attribute 'dance'"):
        model.dance()
    with pytest.raises(TypeError, match="the first argument is the formula"):
        Model(data, "y ~ x")


def test_a_report_needs_the_name_of_a_file():
    fit = Model("y ~ x", pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": list("abab")})).fit()
    with pytest.raises(TypeError, match=r"report: path must be the name of a file, such as 'report.html'; got 5"):
        fit.report(5)


@pytest.mark.parametrize("given", ["auto", "", "Balanced", 3, [1.0, 2.0]])
def test_class_weight_is_balanced_or_a_dictionary(data, given):
    with pytest.raises(ValueError, match="class_weight must be 'balanced', a dictionary with the weight of each class"):
        VBSVC(class_weight=given).fit(*data)


@pytest.mark.parametrize("given", ["a", None, [1.0], np.nan, -1.0])
def test_the_weight_of_a_class_is_a_number(data, given):
    with pytest.raises(ValueError, match=r"class_weight of class -1.0 is .*; a positive finite number is needed"):
        VBSVC(class_weight={-1: given, 1: 1.0}).fit(*data)


def test_keys_of_class_weight_are_classes(data):
    for given, key in (({7: 1.0, 1: 2.0}, "7"), ({"-1": 1.0, "1": 2.0}, "'-1'")):
        words = f"a weight of {key}, which is not a class of y, and none of -1.0.* labels of y, -1.0, 1.0"
        with pytest.raises(ValueError, match=words):
            VBSVC(class_weight=given).fit(*data)
    for given in ({1: 2.0}, {-1: 1.0, 1: 2.0, 7: 3.0}):  # classes without a weight have 1, as in scikit-learn
        found = VBSVC(class_weight=given).fit(*data).coef_
        np.testing.assert_array_equal(found, VBSVC(class_weight={-1: 1.0, 1: 2.0}).fit(*data).coef_)


def test_names_with_a_null_character_are_refused_before_anything_is_made(data, monkeypatch):
    frame = pd.DataFrame(data[0]).add_prefix("x").assign(y=data[1])
    fits = [VBSVC().fit(*data), Model("y ~ x0", frame).fit()]
    monkeypatch.setattr("vbsvm.results.fit.Fit._contents", None)
    monkeypatch.setattr("vbsvm.results.fit.Fit._showing", None)
    for fit in fits:
        for write in (fit.save, fit.report):
            with pytest.raises(ValueError, match=r"No file is named 'a\\x00b': it contains a null character"):
                write("a\0b")


def test_collections_of_dask_are_sent_to_the_estimator_for_them(data):
    arrays = pytest.importorskip("dask.array")
    X, y = data
    for given in [(arrays.from_array(X), y), (X, arrays.from_array(y)), (X, y, arrays.from_array(np.ones(60)))]:
        with pytest.raises(TypeError, match="collection of Dask: use DaskVBSVC"):
            VBSVC().fit(*given)
        with pytest.raises(TypeError, match="collection of Dask: use DaskVBSVC"):
            VBSVC().partial_fit(*given[:2], sample_weight=given[2] if len(given) > 2 else None)


def test_predictions_of_collections_of_dask_are_refused(data):
    """Columns would be taken in the order of the collection, whatever they are called."""
    frames = pytest.importorskip("dask.dataframe")
    frame, y = pd.DataFrame(data[0]).add_prefix("x"), data[1]
    far = frames.from_pandas(frame[list(frame)[::-1]], npartitions=2)
    fitted, formula = VBSVC().fit(frame, y), Model("y ~ x0 + x1", frame.assign(y=y)).fit()
    for call in (
        lambda: fitted.predict(far),
        lambda: fitted.decision_function(far),
        lambda: fitted.predict_proba(far),
        lambda: fitted.score(far, y),
        lambda: fitted.impute(far),
        lambda: fitted.predictive(far),
        lambda: fitted.effects("x0", data=far),
        lambda: formula.effects("x0", data=far),
        lambda: VBSVC(group="x0").fit(frame.assign(x0=y), y).predict(far),
    ):
        with pytest.raises(TypeError, match=r"is a collection of Dask: use DaskVBSVC .* or pass \w+\.compute\(\)"):
            call()


@pytest.mark.parametrize(("ours", "theirs", "form"), [("NFC", "NFD", "decomposed"), ("NFD", "NFC", "composed")])
def test_a_name_in_another_unicode_form_is_told_apart(ours, theirs, form):
    rng = np.random.default_rng(0)
    mine, yours = (normalize(one, "größe") for one in (ours, theirs))
    frame = pd.DataFrame({mine: rng.normal(size=40), "z": rng.normal(size=40), "y": rng.integers(0, 2, 40)})
    other = frame.rename(columns={mine: yours})
    for call in (
        lambda: Model(f"y ~ `{mine}`", other),
        lambda: Model(f"y ~ `{mine}`", frame).fit().predict(other),
        lambda: VBSVC(group=mine).fit(other[[yours, "z"]], other["y"]),
    ):
        with pytest.raises(ValueError, match=rf"'{yours}' looks the same, but its letters are {form}"):
            call()
    if ours == "NFD":
        for data in (frame, other):
            with pytest.raises(ValueError, match=r"backticks around names .*\(Unicode form NFD\).*composed letters"):
                Model(f"y ~ {mine}", data)
    for fitted in (VBSVC().fit(frame[[mine, "z"]], frame["y"]), VBSVC(group="z").fit(frame[[mine, "z"]], frame["y"])):
        with pytest.raises(
            ValueError, match=rf"(?s)feature names should match.*'{yours}' looks the same, but .* {form}"
        ):
            fitted.predict(other[[yours, "z"]])


@pytest.mark.parametrize("size", [1e150, 1e160, 1e300])
@pytest.mark.parametrize("likelihood", ["hinge", "logistic"])
def test_probabilities_far_from_the_data_come_without_warnings(likelihood, size):
    """Warnings are errors in these tests."""
    X, y = simulate(60, 3, seed=1)
    far = np.array([[size, 0.0, 0.0], [-size, size, 1.0], [size, size, -size], [np.nan, size, 0.0]])
    estimator = VBSVC if likelihood == "hinge" else VBLogistic
    for labels in (y, np.where(X[:, 2] > 0.5, 3, y)):
        found = estimator().fit(X, labels).predict_proba(far)
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
    fit = Model("y ~ a + b + s(c)", frame, likelihood=likelihood).fit()
    with suppress(ValueError):  # what no longer is a number may be refused
        assert np.isfinite(fit.predict_proba(pd.DataFrame(far, columns=["a", "b", "c"]))).all()


@pytest.mark.parametrize("size", [1e150, 1e160, 1e300])
@pytest.mark.parametrize("likelihood", ["hinge", "logistic"])
@pytest.mark.parametrize("formula", ["y ~ a + (1 + a | g)", "y ~ a + (1 | g) + (0 + a | g)", "y ~ a * k + (1 + a | g)"])
def test_probabilities_of_random_slopes_far_from_the_data_are_finite(formula, likelihood, size):
    """Of levels that were in the fit and of new ones, and with a missing category."""
    X, y = simulate(120, 1, seed=1)
    frame = pd.DataFrame(
        {"a": X[:, 0], "y": y, "g": np.arange(120) % 8, "k": np.resize(["u", "v", "w", "u", None], 120)}
    )
    fit = Model(formula, frame, likelihood=likelihood).fit()
    far = pd.DataFrame({"a": [size, -size, size, -size], "g": [0, 1, 99, 99], "k": ["u", None, "v", None]})
    found = fit.predict_proba(far)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert np.isfinite(fit.predict_log_proba(far)).all()
    assert not fit.predictive(far).isna().to_numpy().any()
