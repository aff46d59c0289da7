"""VBSVC(group=…): random intercepts (the paper's Example 2), and the group's column as a part of X."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import special
from sklearn.base import clone
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GroupKFold, ShuffleSplit, cross_val_score, cross_validate

from optional import optional
from reference import algorithm_2_grouped
from vbsvm import VBSVC, Normal, Variational, VBLogistic
from vbsvm.datasets import load_toenail
from vbsvm.model.likelihoods import hinge
from vbsvm.results.calibration import log_odds

pl = optional("polars")
pa = optional("pyarrow")

TIGHT = Variational(tol=1e-10, bound="augmented")


@pytest.fixture(scope="module")
def toenail():
    """The paper's three columns, standardised, the product once more; and patients."""
    data = load_toenail()
    visit = (data["visit"] - data["visit"].mean()) / data["visit"].std(ddof=0)
    treated = (data["treatment"] == "terbinafine").astype(float)
    treated = (treated - treated.mean()) / treated.std(ddof=0)
    X = pd.DataFrame({"visit": visit, "treated": treated, "both": visit * treated, "patient": data["patientID"]})
    return X, data["outcome"]


def test_the_data_are_those_of_the_paper():
    data = load_toenail()
    assert data.shape == (1908, 5)
    assert data["patientID"].nunique() == 294
    assert set(data["outcome"]) == {"none or mild", "moderate or severe"}


def test_it_is_algorithm_2_with_random_intercepts(toenail):
    X, y = toenail
    kept = X["patient"] < 100
    X, y = X[kept].reset_index(drop=True), y[kept]
    columns = X[["visit", "treated", "both"]].to_numpy()
    standardised = (columns - columns.mean(0)) / columns.std(0)
    _, groups = np.unique(X["patient"], return_inverse=True)
    mu, _, bound = algorithm_2_grouped(standardised, groups, np.where(y == "none or mild", 1.0, -1.0))
    clf = VBSVC(Normal(1e8), TIGHT, group="patient").fit(X, y)
    np.testing.assert_allclose(clf.coef_[0] * columns.std(0), mu[1:4], atol=1e-5)
    np.testing.assert_allclose(clf.random_effects_["estimate"], mu[4:], atol=1e-5)
    assert clf.elbo_ == pytest.approx(bound, abs=1e-7)


def test_it_beats_the_pooled_svm_where_patients_occur_on_both_sides(toenail):
    X, y = toenail
    folds = ShuffleSplit(5, test_size=0.25, random_state=0)
    mixed = cross_val_score(VBSVC(group="patient"), X, y, cv=folds, scoring="balanced_accuracy")
    pooled = cross_val_score(VBSVC(), X.drop(columns="patient"), y, cv=folds, scoring="balanced_accuracy")
    assert mixed.mean() > pooled.mean() + 0.2


def test_the_column_is_carried_by_cross_validation_and_counts_in_the_features(toenail):
    X, y = toenail
    found = cross_validate(VBSVC(group="patient"), X, y, cv=GroupKFold(3), groups=X["patient"])
    assert np.isfinite(found["test_score"]).all()  # unseen patients get the population's score
    clf = clone(VBSVC(group="patient")).fit(X, y)
    assert clf.n_features_in_ == 4
    assert clf.feature_names_in_.tolist() == list(X.columns)
    assert clf.coef_.shape == (1, 3)
    assert clf.summary().index.tolist() == ["(intercept)", "visit", "treated", "both"]
    assert clf.random_effects_.shape == (294, 4)
    assert "between mean-field and true posterior sd" in clf.random_effects_.attrs["note"]


def test_names_numbers_and_text_give_the_same_fit(toenail):
    X, y = toenail
    expected = VBSVC(group="patient").fit(X, y)
    as_text = X.assign(patient="p" + X["patient"].astype(str).str.zfill(3))
    shuffled = X[["patient", "visit", "treated", "both"]]
    for table, group in [
        (as_text, "patient"),
        (pl.from_pandas(as_text), "patient"),
        (pa.Table.from_pandas(as_text), "patient"),
        (X.to_numpy(), 3),
        (X.to_numpy(), -1),
        (X.to_numpy(), np.int64(3)),
        (as_text.to_numpy(dtype=object), 3),
        (shuffled.to_numpy().tolist(), 0),
    ]:
        clf = VBSVC(group=group).fit(table, y)
        np.testing.assert_allclose(clf.coef_, expected.coef_, rtol=1e-6)
        np.testing.assert_allclose(clf.decision_function(table), expected.decision_function(X), rtol=1e-6, atol=1e-8)


def test_an_unseen_group_gets_the_population_score(toenail):
    X, y = toenail
    clf = VBSVC(group="patient").fit(X, y)
    stranger = X.head(3).assign(patient=[-5, 10**6, 5])  # patient 5 does not occur either
    population = X.head(3)[["visit", "treated", "both"]].to_numpy() @ clf.coef_[0] + clf.intercept_[0]
    np.testing.assert_allclose(clf.decision_function(stranger), population, rtol=1e-8)
    known = clf.decision_function(X.head(3)) - population
    np.testing.assert_allclose(known, clf.random_effects_["estimate"].loc[1], rtol=1e-8)


def test_one_group_for_all_rows_is_the_intercept():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    y = X[:, 0] + rng.normal(size=150) > 0
    grouped = VBSVC(group=2, inference=TIGHT).fit(np.column_stack([X, np.ones(150)]), y)
    alone = VBSVC(inference=TIGHT).fit(X, y)
    np.testing.assert_allclose(
        grouped.decision_function(np.column_stack([X, np.ones(150)])), alone.decision_function(X), atol=1e-4
    )


def test_weights_are_repetition_with_groups_too():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=(120, 2)), rng.integers(0, 12, size=120)])
    y = X[:, 0] + rng.normal(size=12)[X[:, 2].astype(int)] + rng.logistic(size=120) > 0
    s = rng.integers(0, 3, size=120)
    weighted, repeated = VBSVC(group=2).fit(X, y, s), VBSVC(group=2).fit(np.repeat(X, s, axis=0), np.repeat(y, s))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-8)
    np.testing.assert_allclose(weighted.random_effects_, repeated.random_effects_, rtol=1e-7, atol=1e-10)
    assert weighted.elbo_ == pytest.approx(repeated.elbo_, rel=1e-10)


def test_several_classes_have_effects_each():
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.normal(size=(200, 2)), rng.integers(0, 8, size=200)])
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=8)[X[:, 2].astype(int)], [-0.5, 0.5])
    clf = VBSVC(group=2).fit(X, y)
    assert clf.random_effects_.index.nlevels == 2
    assert balanced_accuracy_score(y, clf.predict(X)) > 0.7


@pytest.mark.parametrize(
    ("settings", "change", "message"),
    [
        ({"group": "clinic"}, lambda X: X, r"group='clinic' is not a column of X; its columns are 'visit'"),
        ({"group": 9}, lambda X: X.to_numpy(), "group=9 is not a column number"),
        ({"group": "patient"}, lambda X: X.to_numpy(), "group='patient' is not a column number"),
        ({"group": "patient"}, lambda X: X.assign(patient=[None, *X["patient"][1:]]), "group of row 0 is missing"),
        ({"group": "patient"}, lambda X: X.assign(visit="x"), "Column 'visit' is not numeric"),
        ({"group": "patient"}, lambda X: X.assign(visit=[np.inf, *X["visit"][1:]]), "infinity in column 'visit'"),
        ({"group": 1}, lambda X: X.set_axis([2, 3, 4, 1], axis=1), "name of one column and the number of another"),
        ({"group": True}, lambda X: X.to_numpy(), "group=True is not a column number"),
        ({"group": 0}, lambda X: X.to_numpy()[:, 0], "group=0 is not a column number"),
        ({"group": "patient"}, lambda X: X[["patient"]], "no column besides the group"),
        (
            {"group": "patient"},
            lambda X: X.assign(patient=["a", *X["patient"][1:]]),
            r"mixes text and numbers \(rows 0 and 1\)",
        ),
        (
            {"group": "patient"},
            lambda X: X.assign(patient=[(one, "a") for one in X["patient"]]),
            r"'patient' contains \(\d+, 'a'\) in row 0: make its groups text or numbers",
        ),
        ({"group": "patient", "fit_intercept": False}, lambda X: X, "set fit_intercept=True"),
    ],
)
def test_what_is_wrong_with_a_group_is_said(toenail, settings, change, message):
    X, y = toenail
    with pytest.raises(ValueError, match=message):
        VBSVC(**settings).fit(change(X), y)


def test_groups_of_another_kind_than_in_fit_are_refused(toenail):
    X, y = toenail
    as_text = X.assign(patient=X["patient"].astype(str))
    with pytest.raises(ValueError, match="were numbers in fit"):
        VBSVC(group="patient").fit(X, y).predict(as_text)
    with pytest.raises(ValueError, match="were text in fit"):
        VBSVC(group="patient").fit(as_text, y).predict(X)
    with pytest.raises(TypeError, match="groups need a dense table"):
        VBSVC(group=0).fit(sp.csr_array(X.to_numpy()), y)


def test_without_a_group_there_are_no_effects(toenail):
    X, y = toenail
    assert not hasattr(VBSVC().fit(X, y), "random_effects_")


def test_columns_with_numbers_for_names(toenail):
    X, y = toenail
    clf = VBSVC(group=3).fit(X.set_axis(range(4), axis=1), y)
    assert list(clf.summary().index)[1:] == ["x0", "x1", "x2"]
    np.testing.assert_allclose(clf.coef_, VBSVC(group="patient").fit(X, y).coef_)
    first = VBSVC(group=-4).fit(X[["patient", "visit", "treated", "both"]].to_numpy(), y)
    assert list(first.summary().index)[1:] == ["x1", "x2", "x3"]


class TestProbabilities:
    def test_a_new_group_is_less_sure_than_a_known_one(self, toenail):
        """Against draws of the new patient's effect."""
        X, y = toenail
        clf = VBSVC(group="patient").fit(X, y)
        new = X.drop_duplicates(["visit", "treated"]).assign(patient=-1)
        scores, chances = clf.decision_function(new), clf.predict_proba(new)[:, 1]
        rng, variance = np.random.default_rng(0), clf.fit_[0].outcome.state.scales[-1]
        sds = np.sqrt(variance.rate / rng.gamma(variance.shape, size=100_000))
        effects = sds * rng.standard_normal(100_000)
        of_known = [clf.fit_[0]._link]
        drawn = np.stack([log_odds(of_known, one + effects[:, None], np.zeros((len(effects), 1))) for one in scores])
        np.testing.assert_allclose(chances, special.expit(drawn).mean(axis=(1, 2)), atol=0.03)
        known = special.expit(log_odds(of_known, scores[:, None], np.zeros((len(scores), 1)))[:, 0])
        assert np.abs(chances - known).max() > 0.05
        drawn = hinge.log_odds(scores[:, None] + effects)
        np.testing.assert_allclose(clf.pseudo_probability(new)[:, 1], special.expit(drawn).mean(axis=1), atol=0.006)
        assert (np.abs(chances - 0.5) < np.abs(known - 0.5)).all()
        assert ((chances > 0.5) == (scores > 0)).all()

    @pytest.mark.parametrize("estimator", [VBSVC, VBLogistic])
    def test_a_single_group_leaves_the_variance_of_others_finite(self, toenail, estimator):
        X, y = toenail
        one = X.assign(patient=7)
        clf = estimator(group="patient").fit(one, y)
        rows = one.head(40).assign(patient=8)
        chances, known = clf.predict_proba(rows), clf.predict_proba(one.head(40))
        assert (clf.classes_[chances.argmax(axis=1)] == clf.predict(rows)).all()
        assert np.abs(chances - 0.5).min() > 1e-3
        assert (np.abs(chances - 0.5) < np.abs(known - 0.5) + 0.05).all()

    @pytest.mark.parametrize("sd", [0.1, 0.69, 0.71, 1.0, 3.0, 30.0])
    def test_averages_are_integrals(self, sd):
        f = np.array([-30.0, -5.0, -1.0, -1e-9, 0.0, 0.3, 1.0, 2.0, 8.0, 100.0])
        z = np.linspace(-12, 12, 400_001)
        weights = np.exp(-0.5 * z * z) / np.exp(-0.5 * z * z).sum()
        expected = [weights @ special.expit(hinge.log_odds(one + sd * z)) for one in f]
        found = hinge.averaged_log_odds(f, np.full(len(f), sd**2))
        np.testing.assert_allclose(special.expit(found), expected, atol=2e-4)
        np.testing.assert_allclose(hinge.averaged_log_odds(-f, np.full(len(f), sd**2)), -found, rtol=1e-9)
        assert (np.sign(found) == np.sign(f)).all()
        assert (np.diff(found) > 0).all()
        assert (np.abs(found) <= np.abs(hinge.log_odds(f)) + 1e-12).all()
