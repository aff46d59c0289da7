"""The power of the hinge's pseudo-likelihood: calibrated, decided by the prior, shown, saved, and refused."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from models import mean_field_terms
from vbsvm import (
    VBSVC,
    Beta,
    GaussianImputation,
    Gibbs,
    Joint,
    LaplaceZero,
    Model,
    ReliabilityWarning,
    Ridge,
    Variational,
    VBLogistic,
    compare,
    compare_models,
    load,
)
from vbsvm.model.likelihoods.hinge import ExactHinge, Hinge

PAPER = Variational(bound="paper", accelerate=False, max_iter=30)


def table(n=200, p=10, k=3, seed=0, block=1, size=2.0):
    """Predictors, in blocks with a correlation of .9 where these have several, and labels by the first of k blocks."""
    rng = np.random.default_rng([seed, n, p])
    common = np.repeat(rng.normal(size=(n, p // block)), block, axis=1)
    X = common if block == 1 else np.sqrt(0.9) * common + np.sqrt(0.1) * rng.normal(size=(n, p))
    score = size * X[:, : k * block : block].sum(axis=1)
    return X, (rng.random(n) < 1 / (1 + np.exp(-score))).astype(int)


def fitted(clf, X, y):
    """The fitted estimator, and what it warned of its results."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", ReliabilityWarning)
        clf.fit(X, y)
    return clf, [str(one.message) for one in told]


@pytest.mark.parametrize("likelihood", [Hinge, ExactHinge])
def test_a_power_is_a_weight_of_all_rows(likelihood):
    rng = np.random.default_rng(0)
    f, v, y, s = rng.normal(size=50), rng.gamma(1.0, size=50), rng.choice([-1.0, 1.0], 50), rng.gamma(2.0, size=50)

    at_power, weighted = likelihood(0.3), likelihood()
    own, other = mean_field_terms(at_power, f, v, y, s), mean_field_terms(weighted, f, v, y, 0.3 * s)
    for name in ("u", "w", "curvature"):
        np.testing.assert_allclose(getattr(own, name), getattr(other, name), rtol=1e-12)
    np.testing.assert_allclose(own.value, 0.3 * other.value, rtol=1e-12)
    for one, two in zip(at_power.slopes(f, v, y, s), weighted.slopes(f, v, y, s), strict=True):
        np.testing.assert_allclose(one, 0.3 * two, rtol=1e-12)
    one, two = at_power.exact.derivatives(f, v, y, s), weighted.exact.derivatives(f, v, y, 0.3 * s)
    for name in ("f", "ff", "fv", "vv"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-12)
    np.testing.assert_allclose(at_power.log_likelihood(f), 0.3 * weighted.log_likelihood(f), rtol=1e-12)
    assert at_power.exact == ExactHinge(0.3)


class TestCalibration:
    @pytest.mark.parametrize(
        ("settings", "low", "high"),
        [
            ({}, 0.27, 0.45),
            ({"n": 500, "p": 20}, 0.27, 0.42),
            ({"n": 120, "p": 60}, 0.27, 0.45),
            ({"p": 40, "k": 0}, 0.1, 0.23),
            ({"p": 2, "k": 2, "size": 40.0}, 0.3, 0.9),
        ],
    )
    def test_powers_lie_where_theory_puts_them(self, settings, low, high):
        clf = VBSVC(likelihood_power="calibrated").fit(*table(**settings))
        assert low < clf.likelihood_power_[0] < high

    @pytest.mark.parametrize("class_weight", [None, {0: 1.0, 1: 3.0}])
    def test_a_row_of_weight_two_is_two_rows(self, class_weight):
        X, y = table(120, 6)
        n = np.random.default_rng(1).integers(1, 4, len(y))
        settings = {"prior": LaplaceZero(), "class_weight": class_weight, "inference": Variational(tol=1e-10)}
        weighted = VBSVC(**settings).fit(X, y, sample_weight=n)
        repeated = VBSVC(**settings).fit(np.repeat(X, n, axis=0), np.repeat(y, n))
        np.testing.assert_allclose(weighted.likelihood_power_, repeated.likelihood_power_, atol=0.0021)
        power = weighted.likelihood_power_[0]
        weighted, repeated = (one.set_params(likelihood_power=power) for one in (weighted, repeated))
        weighted.fit(X, y, sample_weight=n)
        repeated.fit(np.repeat(X, n, axis=0), np.repeat(y, n))
        np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)

    def test_a_common_class_weight_is_divided_out(self):
        X, y = table(150, 6)
        powers = [
            VBSVC(likelihood_power="calibrated", class_weight=weight).fit(X, y).likelihood_power_[0]
            for weight in (None, {0: 2.0, 1: 2.0})
        ]
        assert powers[1] == pytest.approx(powers[0] / 2, rel=0.02)

    def test_the_posterior_covers_and_without_it_does_not(self):
        inside = {power: [] for power in (1, "calibrated")}
        truth = np.array([1.0, 0.5, 0.0, 0.0, -0.5])
        big = np.random.default_rng(7).normal(size=(40_000, 5))
        chances = 1 / (1 + np.exp(-2 * big @ truth))
        best = VBSVC().fit(big, np.random.default_rng(8).random(40_000) < chances).coef_[0]
        for seed in range(25):
            rng = np.random.default_rng([seed, 5])
            X = rng.normal(size=(200, 5))
            y = rng.random(200) < 1 / (1 + np.exp(-2 * X @ truth))
            for power, found in inside.items():
                shown = VBSVC(likelihood_power=power).fit(X, y).summary(0.9, "posterior").iloc[1:]
                found.append(((shown["lower"] < best) & (best < shown["upper"])).mean())
        assert np.mean(inside["calibrated"]) > 0.83
        assert np.mean(inside[1]) < 0.8

    def test_robust_spreads_and_probabilities_do_not_shrink_with_the_power(self):
        X, y = table(400, 4, 2)
        one, half = (VBSVC(likelihood_power=power).fit(X, y) for power in (1, 0.5))
        np.testing.assert_allclose(half.coef_std_, one.coef_std_, rtol=0.25)
        posterior = [clf.summary(covariance="posterior")["std_error"].mean() for clf in (one, half)]
        assert posterior[1] > 1.25 * posterior[0]
        np.testing.assert_allclose(half.predict_proba(X), one.predict_proba(X), atol=0.06)

    def test_a_fit_that_predicts_one_class_caps_and_warns(self):
        rng = np.random.default_rng(0)
        X, y = np.repeat(rng.normal(size=(8, 2)), 15, axis=0), np.arange(120) < 3
        clf, told = fitted(VBSVC(likelihood_power="calibrated"), X, y)
        assert clf.likelihood_power_[0] == 1.0
        assert "above 1" in told[0]

    def test_each_of_several_classes_has_its_own(self):
        rng = np.random.default_rng(3)
        X = rng.normal(size=(240, 4))
        y = np.argmax(X[:, :3] * [1.0, 2.0, 3.0] + rng.gumbel(size=(240, 3)), axis=1)
        clf = VBSVC(likelihood_power="calibrated").fit(X, y)
        assert clf.likelihood_power_.shape == (3,)
        assert len(set(clf.likelihood_power_)) == 3
        assert "likelihood_power" in clf.glance()


class TestSelection:
    @pytest.mark.parametrize("block", [1, 5])
    def test_noise_is_left_out_and_at_power_one_it_is_not(self, block):
        calibrated, at_one = [], []
        for seed in range(4):
            X, y = table(200, 40, 0, 10 + seed, block)
            calibrated.append(VBSVC(LaplaceZero()).fit(X, y).selected_.sum())
            at_one.append(VBSVC(LaplaceZero(), likelihood_power=1).fit(X, y).selected_.sum())
        assert np.sum(calibrated) <= 2
        assert np.mean(at_one) > 2

    @pytest.mark.parametrize("gates", [{}, {"gates": Joint()}])
    def test_true_predictors_are_kept_without_a_warning(self, gates):
        X, y = table(200, 40)
        clf, told = fitted(VBSVC(LaplaceZero(**gates)), X, y)
        assert np.flatnonzero(clf.selected_[0]).tolist() == [0, 1, 2]
        assert told == []

    def test_rho_is_inferred_at_a_power_below_one_only(self):
        X, y = table(200, 8)

        def rho(clf):
            return clf.fit(X, y).fit_[0].spec.blocks[-1].prior.rho

        assert rho(VBSVC(LaplaceZero())) == rho(VBSVC(LaplaceZero(), likelihood_power=0.4)) == Beta(1, 20)
        assert rho(VBSVC(LaplaceZero(rho=0.2))) == 0.2
        assert rho(VBSVC(LaplaceZero(expected_size=2))) is None
        assert rho(VBSVC(LaplaceZero(), likelihood_power=1)) is rho(VBLogistic(LaplaceZero())) is None
        given = VBSVC(LaplaceZero(rho=0.01), likelihood_power=1).fit(X, y)
        np.testing.assert_array_equal(given.coef_, VBSVC(LaplaceZero(), likelihood_power=1).fit(X, y).coef_)

    def test_the_paper_and_ridge_stay_at_power_one(self):
        X, y = table(150, 5)
        for settings in ({}, {"prior": LaplaceZero(), "inference": PAPER}):
            default, at_one = VBSVC(**settings), VBSVC(**settings, likelihood_power=1)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                default.fit(X, y), at_one.fit(X, y)
            assert default.likelihood_power_[0] == 1.0
            np.testing.assert_array_equal(default.coef_, at_one.coef_)
            np.testing.assert_array_equal(default.elbo_trace_[0], at_one.elbo_trace_[0])

    def test_more_predictors_than_observations_are_warned_of(self):
        X, y = table(40, 60, 2)
        clf, told = fitted(VBSVC(LaplaceZero()), X, y)
        assert clf.likelihood_power_[0] == 1.0
        assert "not calibrated" in told[0]
        assert "VBLogistic" in told[0]
        assert fitted(VBSVC(), X, y)[1] == []
        for power in (1, "calibrated"):
            assert (
                "With more predictors (60) than observations (40)"
                in fitted(VBSVC(LaplaceZero(), likelihood_power=power), X, y)[1][0]
            )
        paper = Variational(accelerate=False, max_iter=20)
        assert any("not calibrated" in one for one in fitted(VBSVC(LaplaceZero(), paper), X, y)[1])

    def test_groups_keep_power_one_and_are_warned_of(self):
        X, y = table(200, 4)
        data = pd.DataFrame(X, columns=list("abcd")).assign(y=y, g=np.arange(200) % 20)
        model = Model("y ~ a + b + (1 | g)", data, {"fixed": LaplaceZero()}, likelihood="hinge")
        with pytest.warns(ReliabilityWarning, match="random effects"):
            assert model.fit().likelihood_power == 1.0

    def test_a_selection_that_is_no_better_than_none_is_warned_of(self):
        found = [
            (clf.selected_.sum(), any("no evidence for" in one for one in told))
            for clf, told in (fitted(VBLogistic(LaplaceZero(rho=0.5)), *table(100, 8, 0, seed)) for seed in range(6))
        ]
        selecting = [told for count, told in found if count]
        assert selecting
        assert np.mean(selecting) > 0.7
        assert not any(told for count, told in found if not count)

    @pytest.mark.parametrize("kind", [VBSVC, VBLogistic])
    def test_predictors_that_would_do_as_well_are_named(self, kind):
        """Of correlated predictors one is included with certainty; independent ones give no such warning."""
        rng = np.random.default_rng(5)
        apart = rng.normal(size=(200, 20))
        common = np.repeat(rng.normal(size=(200, 4)), 5, axis=1)
        for X, correlated in ((0.98 * common + 0.2 * apart, True), (apart, False)):
            score = 1.5 * X[:, [0, 5]].sum(axis=1)
            y = rng.random(200) < 1 / (1 + np.exp(-score))
            clf, told = fitted(kind(LaplaceZero()), pd.DataFrame(X).add_prefix("x"), y)
            assert clf.selected_.any()
            assert any("would do as well" in one and "'x" in one for one in told) == correlated

    def test_starts_that_disagree_are_warned_of(self):
        rng = np.random.default_rng(2)
        common = rng.normal(size=(120, 1))
        X = np.hstack([common + 0.05 * rng.normal(size=(120, 12)), rng.normal(size=(120, 3))])
        y = rng.random(120) < 1 / (1 + np.exp(-2 * common[:, 0]))
        told = [fitted(VBSVC(LaplaceZero(restarts=restarts)), X, y)[1] for restarts in (0, 3)]
        assert not any("start" in one for one in told[0])
        assert any("depend on the start" in one for one in told[1])


class TestSettings:
    @pytest.mark.parametrize("bad", [0, 1.5, -0.1, np.nan, np.inf, True, "auto", "0.5", [0.5]])
    def test_bad_powers_are_refused_and_change_nothing(self, bad):
        X, y = table(60, 3)
        clf = VBSVC().fit(X, y)
        before = clf.fit_
        with pytest.raises(ValueError, match="likelihood_power must be"):
            clf.set_params(likelihood_power=bad).fit(X, y)
        assert clf.fit_ is before
        with pytest.raises(ValueError, match="likelihood_power must be"):
            Model("y ~ x", pd.DataFrame({"x": X[:, 0], "y": y}), likelihood="hinge", likelihood_power=bad)

    def test_logistic_models_have_none(self):
        X, y = table(60, 3)
        with pytest.raises(TypeError, match="likelihood_power"):
            VBLogistic(likelihood_power=0.5)
        with pytest.raises(AttributeError, match="hinge"):
            _ = VBLogistic().fit(X, y).likelihood_power_
        with pytest.raises(ValueError, match="likelihood='hinge'"):
            Model("y ~ x", pd.DataFrame({"x": X[:, 0], "y": y}), likelihood="logistic", likelihood_power=0.5)

    @pytest.mark.parametrize("power", [0.5, "calibrated"])
    def test_groups_and_values_that_adapt_are_refused(self, power):
        X, y = table(100, 3)
        with pytest.raises(ValueError, match="random effects"):
            VBSVC(group=3, likelihood_power=power).fit(np.column_stack([X, np.arange(100) % 10]), y)
        X[::7, 0] = np.nan
        with pytest.raises(ValueError, match="inferred together"):
            VBSVC(imputation=GaussianImputation(labels="likelihood"), likelihood_power=power).fit(X, y)

    def test_missing_values_that_do_not_adapt_are_supported(self):
        X, y = table(300, 6)
        X[::5, 0] = np.nan
        for prior in (Ridge(), LaplaceZero()):
            clf = VBSVC(prior, likelihood_power="calibrated").fit(X, y)
            assert 0.2 < clf.likelihood_power_[0] < 0.5
        assert clf.selected_[0, :3].all()

    def test_formulas_have_it_too(self):
        X, y = table(200, 6)
        data = pd.DataFrame(X, columns=list("abcdef")).assign(y=y)
        fit = Model("y ~ a + b + c + d + e + f", data, {"fixed": LaplaceZero()}, likelihood="hinge").fit()
        clf = VBSVC(LaplaceZero()).fit(X, y)
        assert fit.likelihood_power == pytest.approx(clf.likelihood_power_[0], abs=0.002)
        assert f"Likelihood power: {fit.likelihood_power:.3g}." in str(fit)
        assert fit.glance()["likelihood_power"].iloc[0] == fit.likelihood_power
        plain = Model("y ~ a", data, likelihood="hinge").fit()
        assert "power" not in str(plain)
        assert "likelihood_power" not in plain.glance()

    def test_a_sampler_draws_at_the_calibrated_power(self):
        X, y = table(150, 4, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            draws = Gibbs(draws=200, tune=100, chains=2)
            clf, one = (VBSVC(inference=draws, likelihood_power=power, random_state=0).fit(X, y) for power in (0.3, 1))
        ratio = clf.summary()["std_error"].mean() / one.summary()["std_error"].mean()
        assert ratio > 1.3
        variational = VBSVC(likelihood_power=0.3).fit(X, y)
        assert len(compare(variational, clf).table)
        with pytest.raises(ValueError, match="different likelihood powers"):
            compare(variational, one)

    def test_bounds_at_different_powers_are_not_shown_together(self):
        X, y = table(150, 4, 2)
        fits = {str(power): VBSVC(likelihood_power=power).fit(X, y) for power in (0.3, 0.5)}
        found = compare_models(fits)
        assert "elbo" not in found.table
        assert "likelihood powers" in str(found)
        assert "elbo" in compare_models({"a": fits["0.3"], "b": VBSVC(likelihood_power=0.3).fit(X, y)}).table

    def test_files_clones_and_grids_keep_it(self, tmp_path):
        X, y = table(120, 6)
        clf = VBSVC(LaplaceZero(), likelihood_power="calibrated").fit(X, y)
        clf.save(tmp_path / "model.vbsvm")
        again = load(tmp_path / "model.vbsvm")
        np.testing.assert_array_equal(again.likelihood_power_, clf.likelihood_power_)
        assert again.likelihood_power == clone(clf).likelihood_power == "calibrated"
        grid = GridSearchCV(VBSVC(), {"likelihood_power": [1, 0.3, "calibrated"]}, cv=2).fit(X, y)
        assert grid.best_params_["likelihood_power"] in (1, 0.3, "calibrated")

    def test_partial_fit_refuses_a_power(self):
        assert hasattr(VBSVC(), "partial_fit")
        assert not hasattr(VBSVC(likelihood_power=0.5), "partial_fit")

    def test_the_report_names_the_power_and_warns_at_power_one(self, tmp_path):
        X, y = table(120, 6)
        clf = VBSVC(LaplaceZero()).fit(X, y)
        page = clf.report(tmp_path / "a.html").read_text()
        assert f"Likelihood power: {clf.likelihood_power_[0]:.3g}." in page
        assert "overconfident" not in page
        page = VBSVC(LaplaceZero(), likelihood_power=1).fit(X, y).report(tmp_path / "b.html").read_text()
        assert "overconfident" in page
