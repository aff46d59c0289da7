"""Rows left out by refits: against fits without each row through the public API, and when which way is taken."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.special import expit

from vbsvm import VBSVC, LaplaceZero, Model, ReliabilityWarning, Variational, VBLogistic, compare_models
from vbsvm.inference.loop import Status
from vbsvm.model.row_pass import RowInfluence
from vbsvm.results.comparison import leave_one_out
from vbsvm.results.training_rows import TrainingRows

TIGHT = Variational(tol=1e-7)
BOTH = (VBLogistic, VBSVC)


def table(n, p, seed, slopes):
    rng = np.random.default_rng(seed)
    X, beta = rng.standard_normal((n, p)), np.zeros(p)
    beta[: len(slopes)] = slopes
    return X, (rng.random(n) < expit(X @ beta)).astype(int)


def by_brute_force(kind, X, y, weights=None, **settings):
    """Log probabilities of the rows' own classes by fits to the others."""
    found = []
    for i in range(len(y)):
        rest = np.delete(np.arange(len(y)), i)
        clf = kind(inference=TIGHT, **settings).fit(X[rest], y[rest], None if weights is None else weights[rest])
        found.append(clf.predict_log_proba(X[[i]])[0, list(clf.classes_).index(y[i])])
    return np.array(found)


def frame_of(n_groups, size, seed, sd=0.0):
    rng = np.random.default_rng(seed)
    n, members = n_groups * size, np.repeat(np.arange(n_groups), size)
    x = rng.standard_normal(n)
    y = rng.random(n) < expit(x + sd * rng.standard_normal(n_groups)[members])
    return pd.DataFrame({"x": x, "g": members.astype(str), "y": y.astype(int)})


def frames_by_brute_force(formula, data, likelihood):
    found = []
    for i in range(len(data)):
        fit = Model(formula, data.drop(index=i), likelihood=likelihood).fit(TIGHT)
        found.append(fit.predict_log_proba(data.loc[[i]])[0, int(data.loc[i, "y"])])
    return np.array(found)


def lost_values(X, seed):
    return np.where(np.random.default_rng(seed).random(X.shape) < 0.2, np.nan, X)


def three_classes(seed):
    X, _ = table(45, 3, seed, [])
    return X, np.digitize(X[:, 0] + 0.5 * np.random.default_rng(seed + 1).standard_normal(45), [-0.5, 0.5])


def separated(seed):
    X, _ = table(24, 2, seed, [])
    return X + [0.4, 0.0] * np.sign(X), (X[:, 0] > 0).astype(int)


QUICK = {
    "tiny": (lambda: table(20, 2, 0, [1.0]), {}),
    "more predictors than observations": (lambda: table(30, 90, 0, [1.0] * 5), {}),
    "inclusion indicators": (lambda: table(30, 15, 1, [2.0]), {"prior": LaplaceZero()}),
    "missing values": (lambda: (lost_values(table(40, 3, 0, [1.0])[0], 5), table(40, 3, 0, [1.0])[1]), {}),
    "several classes": (lambda: three_classes(0), {}),
    "separated": (lambda: separated(0), {}),
}


class TestAgainstBruteForce:
    @pytest.mark.parametrize("name", QUICK)
    @pytest.mark.parametrize("kind", BOTH)
    def test_estimators(self, kind, name):
        make, settings = QUICK[name]
        X, y = make()
        found = kind(inference=TIGHT, **settings).fit(X, y).left_out_predictions()
        assert found.method == "refitted"
        true = by_brute_force(kind, X, y, **settings)
        assert found.log_loss.value == pytest.approx(-true.mean(), abs=0.02)
        assert np.abs(found.log_probability - true).mean() < 0.03

    @pytest.mark.parametrize("kind", BOTH)
    def test_weights(self, kind):
        X, y = table(40, 3, 0, [1.0])
        weights = np.random.default_rng(0).uniform(0.2, 1.0, 40)
        found = kind(inference=TIGHT).fit(X, y, weights).left_out_predictions()
        true = by_brute_force(kind, X, y, weights)
        np.testing.assert_allclose(found.log_probability, true, atol=0.02)

    @pytest.mark.parametrize("likelihood", ["logistic", "hinge"])
    def test_random_intercepts(self, likelihood):
        data = frame_of(10, 5, 0)
        found = Model("y ~ x + (1 | g)", data, likelihood=likelihood).fit(TIGHT).left_out_predictions()
        true = frames_by_brute_force("y ~ x + (1 | g)", data, likelihood)
        np.testing.assert_allclose(found.log_probability, true, atol=0.02)

    def test_the_approximation_alone_fails(self, monkeypatch):
        """The negative control: with selection, and with the variance of the fit that has seen the row."""
        X, y = table(60, 200, 1, [1.0] * 5)
        clf = VBLogistic(inference=TIGHT).fit(X, y)
        right = clf.left_out_predictions().log_loss.value
        with pytest.warns(ReliabilityWarning, match="201 columns and 60 observations"):
            assert abs(clf.left_out_predictions(refits=0).log_loss.value - right) > 0.03
        monkeypatch.setattr(RowInfluence, "left_out_response", lambda rows, counts: rows.response)
        assert abs(clf.left_out_predictions(refits=0).log_loss.value - right) > 0.1
        X, y = table(40, 60, 0, [])
        chosen = VBSVC(prior=LaplaceZero()).fit(X, y)
        losses = [chosen.left_out_predictions(refits=some).log_loss.value for some in (0, 40)]
        assert losses[0] < losses[1] - 0.1

    @pytest.mark.long
    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("kind", BOTH)
    def test_larger_designs(self, kind, seed):
        for n, p, settings in ((60, 200, {}), (80, 60, {"prior": LaplaceZero()}), (120, 4, {})):
            X, y = table(n, p, seed, [1.5, -1.5])
            found = kind(inference=TIGHT, **settings).fit(X, y).left_out_predictions()
            true = by_brute_force(kind, X, y, **settings)
            assert found.log_loss.value == pytest.approx(-true.mean(), abs=0.02)


class TestVarianceComponents:
    """With a true standard deviation of 0 between groups, random intercepts make predictions worse."""

    @pytest.mark.parametrize("refits", [0, None])
    def test_the_approximation_takes_their_response_into_account(self, refits):
        differences = []
        for seed in range(4):
            data = frame_of(20, 5, seed)
            fits = {
                name: Model(formula, data, likelihood="logistic").fit()
                for name, formula in (("with", "y ~ x + (1 | g)"), ("without", "y ~ x"))
            }
            assert fits["with"].outcome.integrated
            losses = {name: fit.left_out_predictions(refits).log_loss.value for name, fit in fits.items()}
            differences.append(losses["with"] - losses["without"])
        assert np.mean(differences) > 0.002

    def test_held_scales_flatter_the_model(self):
        """The negative control: the response of the mean with the scales held."""
        data = frame_of(30, 5, 1, sd=1.0)
        fit = Model("y ~ x + (1 | g)", data, likelihood="logistic").fit()
        right = fit.left_out_predictions().log_loss.value
        assert fit.left_out_predictions(refits=0).log_loss.value == pytest.approx(right, abs=0.012)
        held = replace(fit, outcome=(outcome := replace(fit.outcome, integrated=False)))
        held = replace(held, _rows=replace(fit._rows, outcome=outcome))
        assert held.left_out_predictions(refits=0).log_loss.value < right - 0.02


class TestWhichWay:
    @pytest.fixture(scope="class")
    @classmethod
    def plain(cls):
        X, y = table(250, 3, 0, [1.0])
        return VBLogistic().fit(X, y)

    def test_a_healthy_fit_is_approximate_without_a_warning(self, plain):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found, again = plain.left_out_predictions(), plain.left_out_predictions(refits=0)
        assert (found.method, found.doubt) == ("approximate", None)
        np.testing.assert_array_equal(found.log_probability, again.log_probability)
        refitted = plain.left_out_predictions(refits=250)
        assert refitted.method == "refitted"
        assert refitted.log_loss.value == pytest.approx(found.log_loss.value, abs=0.005)
        assert "250 observations, approximate: log-loss 0." in repr(found)

    def test_probabilities_of_new_rows_need_no_refits(self, monkeypatch):
        def never(*_):
            raise AssertionError

        monkeypatch.setattr(TrainingRows, "refitted", never)
        X, y = table(30, 60, 0, [1.0])
        clf = VBSVC().fit(X, y)
        clf.predict_proba(X)
        with pytest.raises(AssertionError):
            clf.left_out_predictions()

    def test_rows_of_high_leverage_are_refitted(self, monkeypatch):
        X, y = table(250, 3, 0, [1.0])
        X[:4, 2], X[4:, 2] = [30.0, -25.0, 20.0, -15.0], 0.01 * X[4:, 2]
        monkeypatch.setattr(leave_one_out, "MAX_LEVERAGE", 0.3)
        clf = VBSVC().fit(X, y)
        found, approximate, true = (clf.left_out_predictions(refits=some) for some in (200, 0, 250))
        same = found.log_probability == true.log_probability
        assert found.method == f"approximate, {same.sum()} observations refitted"
        assert 0 < same.sum() < 100
        np.testing.assert_array_equal(found.log_probability[~same], approximate.log_probability[~same])

    @pytest.mark.parametrize(
        ("doubt", "make"),
        [
            ("columns and 40 observations", lambda: VBSVC().fit(*table(40, 60, 0, [1.0]))),
            ("effective parameters for 60", lambda: VBSVC().fit(*table(60, 40, 0, [1.0]))),
            ("selection among", lambda: VBSVC(prior=LaplaceZero()).fit(*table(60, 10, 0, [1.0]))),
            ("separated", lambda: VBLogistic().fit(*separated(0))),
            (
                "variance components",
                lambda: Model("y ~ x + (1 | g)", frame_of(20, 5, 0), likelihood="hinge").fit(),
            ),
            (
                "random effects are too uncertain",
                lambda: Model("y ~ x + (1 | g)", frame_of(12, 20, 0, sd=4.0), likelihood="logistic").fit(),
            ),
        ],
        ids=["wide", "effective", "selection", "separated", "groups", "uncertain"],
    )
    def test_doubts(self, doubt, make):
        fit = make()
        with pytest.warns(ReliabilityWarning, match=doubt):
            found = fit.left_out_predictions(refits=0)
        assert doubt in found.doubt
        folded = fit.left_out_predictions(refits=12)
        assert (folded.method, folded.folds) == ("12-fold", 12)

    def test_large_tables_have_fewer_refits(self, monkeypatch):
        X, y = table(40, 60, 0, [1.0])
        clf = VBSVC().fit(X, y)
        monkeypatch.setattr(leave_one_out, "LARGE", 1000)
        assert clf.left_out_predictions().method == "10-fold"

    def test_settings_that_make_no_sense(self, plain):
        with pytest.raises(ValueError, match="refits"):
            plain.left_out_predictions(refits=-1)
        with pytest.raises(ValueError, match="folds"):
            plain.left_out_predictions(folds=251)

    def test_an_interrupt_is_handed_on(self, plain, monkeypatch):
        run = Variational.run
        monkeypatch.setattr(Variational, "run", lambda *given: replace(run(*given), ending=Status.INTERRUPTED))
        with pytest.raises(KeyboardInterrupt):
            plain.left_out_predictions(folds=5)


class TestRows:
    def test_a_weight_is_a_number_of_rows(self):
        X, y = table(30, 2, 2, [1.0])
        counts = np.random.default_rng(0).integers(1, 4, 30)
        weighted = VBSVC(inference=TIGHT).fit(X, y, counts).left_out_predictions()
        each = np.repeat(np.arange(30), counts)
        repeated = VBSVC(inference=TIGHT).fit(X[each], y[each]).left_out_predictions()
        np.testing.assert_allclose(weighted.log_probability[each], repeated.log_probability, atol=1e-3)

    def test_sparse_tables_and_class_weights(self):
        X, y = table(40, 4, 3, [1.0])
        X[np.abs(X) < 0.7] = 0.0
        weights = {"class_weight": {0: 3.0, 1: 1.0}}
        dense, sparse = (
            VBSVC(inference=TIGHT, **weights).fit(one, y).left_out_predictions() for one in (X, csr_array(X))
        )
        np.testing.assert_allclose(sparse.log_probability, dense.log_probability, atol=1e-4)
        true = by_brute_force(VBSVC, X, y, **weights)
        np.testing.assert_allclose(dense.log_probability, true, atol=0.02)

    @pytest.mark.parametrize("formula", ["y ~ (1 | g)", "y ~ (1 | g) + (1 | h)"])
    def test_refits_where_quadrature_fails_without_a_row(self, formula):
        rng = np.random.default_rng(5)
        data = pd.DataFrame({"g": rng.integers(0, 24, 24), "z": rng.normal(size=24), "h": np.arange(24) % 3})
        data["y"] = (data["z"] + rng.normal(size=50)[data["g"]] + rng.logistic(size=24) > 0).astype(int)
        found = Model(formula, data).fit(TIGHT).left_out_predictions()
        assert found.method == "refitted"
        seen = data.groupby("g")["y"].transform("size").to_numpy() > 1  # levels that the fit to the others has too
        true = frames_by_brute_force(formula, data, "logistic")
        np.testing.assert_allclose(found.log_probability[seen], true[seen], atol=0.02)

    def test_missing_categories(self):
        rng, data = np.random.default_rng(2), frame_of(8, 5, 3)
        data["arm"] = np.where(rng.random(40) < 0.2, None, rng.choice(["a", "b"], 40))
        fit = Model("y ~ x + arm", data, likelihood="logistic").fit(TIGHT)
        true = frames_by_brute_force("y ~ x + arm", data, "logistic")
        found = fit.left_out_predictions()
        assert found.method == "refitted"
        assert found.log_loss.value == pytest.approx(-true.mean(), abs=0.02)

    def test_the_only_row_of_a_class_stays(self):
        X, y = table(30, 2, 0, [1.0])
        y[:] = 0
        y[7] = 1
        clf = VBLogistic().fit(X, y)
        found, approximate = clf.left_out_predictions(), clf.left_out_predictions(refits=0)
        assert found.log_probability[7] == approximate.log_probability[7]
        assert (np.delete(found.log_probability, 7) != np.delete(approximate.log_probability, 7)).all()


class TestComparison:
    @pytest.fixture(scope="class")
    @classmethod
    def fits(cls):
        data = frame_of(50, 5, 0)
        return {
            "groups": Model("y ~ x + (1 | g)", data, likelihood="hinge").fit(),
            "none": Model("y ~ x", data, likelihood="hinge").fit(),
        }

    def test_all_models_have_the_folds_that_one_needs(self, fits):
        assert fits["none"].left_out_predictions().method == "approximate"
        found = compare_models(fits)
        assert "Method: 50-fold." in found.notes
        assert any("groups: variance components depend on single observations" in note for note in found.notes)
        folded = {name: fit.left_out_predictions(folds=50).log_loss.value for name, fit in fits.items()}
        assert dict(found.table["log_loss"]) == pytest.approx(folded)

    def test_models_of_the_same_rows_have_the_same_folds(self):
        """Rows of models with groups are sorted, but folds are by the order of the data."""
        data = frame_of(10, 6, 1).sample(frac=1.0, random_state=0, ignore_index=True)
        left = []
        for formula in ("y ~ x + (1 | g)", "y ~ x"):
            rows = Model(formula, data, likelihood="logistic").fit()._rows
            given = rows.order if rows.given is None else rows.given[rows.order]
            truth = data["y"].to_numpy()[given]
            sets = leave_one_out._stratified_folds(truth, given, np.ones(60, dtype=bool), 7)
            left.append([sorted(given[one]) for one in sets])
            shares = [truth[one].mean() for one in sets]
            assert max(shares) - min(shares) < 0.2
        assert left[0] == left[1]

    def test_without_refits_it_is_said(self, fits):
        with pytest.warns(ReliabilityWarning, match="variance components"):
            found = compare_models(fits, refits=0)
        shown = " ".join(repr(found).split())
        assert "Method: approximate." in shown
        assert "It may be inaccurate for groups: variance components" in shown

    def test_methods_may_differ(self, fits, monkeypatch):
        monkeypatch.setattr(leave_one_out, "MAX_LEVERAGE", 0.1)
        monkeypatch.setattr(leave_one_out, "MIN_ROWS_PER_FACTOR", 0)
        shown = " ".join(repr(compare_models(fits)).split())
        assert "observations refitted (groups)" in shown
