"""Logistic models through the public API: everything that the hinge does, with probabilities of their own."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from vbsvm import (
    VBSVC,
    Covariance,
    GaussianImputation,
    Gibbs,
    LaplaceZero,
    Model,
    Normal,
    Ridge,
    Variational,
    VBLogistic,
    compare_models,
    load,
    plots,
)
from vbsvm.datasets import load_toenail
from vbsvm.model.likelihoods.logistic import Logistic

SHORT = Gibbs(draws=600, tune=200, chains=2)


def simulated(n=400, d=4, seed=0, intercept=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = (rng.random(n) < expit(intercept + X @ np.r_[1.0, -0.8, np.zeros(d - 2)])).astype(int)
    return pd.DataFrame(X, columns=[f"x{k}" for k in range(d)]), y


@pytest.fixture(scope="module")
def rows():
    return simulated()


@pytest.fixture(scope="module")
def grouped():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=600), "g": np.repeat(np.arange(60), 10)})
    score = frame["x"] + 1.2 * rng.normal(size=60)[frame["g"]]
    return frame.assign(y=np.where(rng.random(600) < expit(score), "yes", "no"))


class TestCoefficients:
    def test_with_many_rows_and_a_flat_prior_they_are_those_of_maximum_likelihood(self):
        X, y = simulated(n=5000)
        ours = VBLogistic(Normal(1e6), standardize=False).fit(X, y)
        theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(X, y)
        # The posterior mean and the mode differ by a small part of the standard deviation, which is .035.
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=0.003)
        np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=0.003)

    def test_a_hinge_has_others(self, rows):
        X, y = rows
        assert np.abs(VBLogistic().fit(X, y).coef_ - VBSVC().fit(X, y).coef_).max() > 0.1

    @pytest.mark.parametrize("bound", ["augmented", "exact"])
    def test_weights_are_repetitions(self, rows, bound):
        X, y = rows
        weights = np.random.default_rng(3).integers(0, 3, size=len(y))
        clf = VBLogistic(inference=Variational(tol=1e-9, bound=bound))
        weighed = clf.fit(X, y, sample_weight=weights).coef_
        repeated = clf.fit(X.loc[X.index.repeat(weights)], np.repeat(y, weights)).coef_
        np.testing.assert_allclose(weighed, repeated, atol=1e-6)

    def test_formulas_and_tables_are_one_model(self, rows):
        X, y = rows
        fit = Model("y ~ x0 + x1 + x2 + x3", X.assign(y=y), {"fixed": "half-t"}, likelihood="logistic").fit()
        np.testing.assert_allclose(fit.coef, VBLogistic().fit(X, y).coef_[0], atol=1e-5)

    def test_tables_have_odds_ratios_and_the_posteriors_spread(self, rows):
        table = VBLogistic().fit(*rows).summary()
        ratios = table[["odds_ratio", "odds_ratio_lower", "odds_ratio_upper"]]
        np.testing.assert_allclose(ratios, np.exp(table[["estimate", "lower", "upper"]]))
        assert table.attrs["std_error"] == "posterior sd"
        assert "p_positive" in table
        assert "p_positive" not in VBLogistic().fit(*rows).summary(covariance="robust")
        assert "odds_ratio" not in VBSVC().fit(*rows).summary().columns

    def test_kinds_of_spread_agree_where_the_model_is_right(self):
        clf = VBLogistic().fit(*simulated(n=2000))
        kinds = [clf.summary(covariance=kind)["std_error"] for kind in ("posterior", "robust", "curvature")]
        for other in kinds[1:]:
            np.testing.assert_allclose(other / kinds[0], 1.0, atol=0.12)


class TestProbabilities:
    def test_they_are_averaged_over_the_posterior(self, rows):
        X, y = rows
        clf = VBLogistic().fit(X, y)
        mean, sd = clf.fit_[0].decision_function(clf._read(X), return_std=True)
        rng = np.random.default_rng(0)
        drawn = expit(mean[:50, None] + sd[:50, None] * rng.standard_normal((50, 40_000))).mean(axis=1)
        np.testing.assert_allclose(clf.predict_proba(X)[:50, 1], drawn, atol=0.005)

    def test_they_are_nearer_to_a_half_than_at_the_mean(self, rows):
        X, y = simulated(n=40)
        clf = VBLogistic().fit(X, y)
        at_mean = expit(clf.decision_function(X))
        averaged = clf.predict_proba(X)[:, 1]
        assert (np.abs(averaged - 0.5) <= np.abs(at_mean - 0.5)).all()
        assert np.abs(averaged - at_mean).max() > 0.005

    def test_the_larger_one_belongs_to_the_predicted_class(self):
        for load_data in (load_breast_cancer, load_iris):
            X, y = load_data(return_X_y=True)
            clf = VBLogistic().fit(X, y)
            chances = clf.predict_proba(X)
            np.testing.assert_array_equal(clf.classes_[chances.argmax(axis=1)], clf.predict(X))
            np.testing.assert_allclose(chances.sum(axis=1), 1.0)
            np.testing.assert_allclose(np.exp(clf.predict_log_proba(X)), chances)

    def test_class_weights_move_the_border_and_not_the_probabilities(self):
        X, y = simulated(n=4000, intercept=-2.0)
        plain, balanced = VBLogistic().fit(X, y), VBLogistic(class_weight="balanced").fit(X, y)
        assert balanced.predict(X).mean() > plain.predict(X).mean() + 0.1
        assert balanced.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.02)
        assert expit(balanced.decision_function(X)).mean() > y.mean() + 0.1  # what it would be without the offset

    @pytest.mark.parametrize("bound", ["augmented", "exact"])
    def test_class_weights_may_be_extreme(self, rows, bound, monkeypatch):
        """All rows are then far from the border, where each has little curvature; it is all that there is."""
        settings = {"class_weight": {0: 1000.0, 1: 1e-4}, "inference": Variational(bound=bound)}
        clf = VBLogistic(**settings).fit(*rows)
        assert clf.converged_
        again = VBLogistic(**settings, warm_start=True).fit(*rows).fit(*rows)
        assert again.elbo_ == pytest.approx(clf.elbo_, abs=1e-4)
        assert not clf.predict(rows[0]).any()
        if bound == "augmented":
            monkeypatch.setattr(Logistic, "width", lambda self, v: 4.0)  # rows with less than a 50th of it are left out
            with pytest.warns(ConvergenceWarning):
                stuck = VBLogistic(**settings).fit(*rows)
            assert stuck.elbo_ < clf.elbo_ - 100

    def test_new_groups_are_averaged_over(self, grouped):
        fit = Model("y ~ x + (1 | g)", grouped, likelihood="logistic").fit()
        new = pd.DataFrame({"x": [2.0, -2.0], "g": [1000, 1000]})
        chances = fit.predict_proba(new)[:, 1]
        scores = fit.decision_function(new)
        assert abs(chances[0] - 0.5) < abs(expit(scores[0]) - 0.5) - 0.02

    def test_pseudo_probabilities_belong_to_the_hinge(self, rows):
        clf = VBLogistic().fit(*rows)
        assert not hasattr(clf, "pseudo_probability")
        with pytest.raises(AttributeError, match="hinge"):
            clf.fit_[0].pseudo_probability(clf._read(rows[0]))


class TestWidth:
    """Each of the things that a model can have."""

    def test_the_sampler_agrees_with_the_exact_bound(self, rows):
        X, y = rows
        climbed, drawn = VBLogistic().fit(X, y), VBLogistic(inference=SHORT, random_state=0).fit(X, y)
        sd = drawn.coef_std_
        assert (np.abs(climbed.coef_ - drawn.coef_) / sd).max() < 0.25
        np.testing.assert_allclose(climbed.coef_std_ / sd, 1.0, atol=0.15)

    def test_groups_and_slopes(self, grouped):
        for formula, priors in (
            ("y ~ x + (1 | g)", None),
            ("y ~ x + (x || g)", None),
            ("y ~ x + (x | g)", {"(x | g)": Covariance()}),
        ):
            fit = Model(formula, grouped, priors, likelihood="logistic").fit()
            assert fit.converged
            assert 0.7 < fit.variance_components()["std_dev"].iloc[0] < 1.8

    def test_selection(self):
        X, y = simulated(n=600, d=30)
        clf = VBLogistic(LaplaceZero()).fit(X, y)
        assert clf.selected_[0][:2].all()
        assert clf.selected_[0][2:].sum() <= 1

    @pytest.mark.parametrize(
        ("bound", "labels"),
        [
            ("exact", "regressor"),
            ("exact", "none"),
            *(("augmented", one) for one in ("regressor", "likelihood", "none")),
        ],
    )
    def test_missing_inputs(self, rows, bound, labels):
        X, y = rows
        holes = X.mask(np.random.default_rng(0).random(X.shape) < 0.15)
        clf = VBLogistic(inference=Variational(bound=bound), imputation=GaussianImputation(labels=labels))
        clf.fit(holes, y)
        assert np.abs(clf.coef_ - VBLogistic().fit(X, y).coef_).max() < 0.35
        assert np.isfinite(clf.predict_proba(holes)).all()
        trace = clf.elbo_trace_[0]
        assert (np.diff(trace) > -1e-9 * np.abs(trace[-1])).all()

    @pytest.mark.filterwarnings("ignore:VBLogistic. chains have not converged")  # enough for a rough comparison
    @pytest.mark.parametrize("labels", ["regressor", "likelihood"])
    def test_missing_inputs_are_sampled(self, labels):
        X, y = simulated(n=150, d=2)
        holes = X.mask(np.random.default_rng(0).random(X.shape) < 0.15)
        settings = GaussianImputation(labels=labels)
        drawn = VBLogistic(inference=SHORT, imputation=settings, random_state=0).fit(holes, y)
        climbed = VBLogistic(imputation=settings).fit(holes, y)
        assert (np.abs(climbed.coef_ - drawn.coef_) / drawn.coef_std_).max() < 0.6

    def test_missing_categories(self, grouped):
        frame = grouped.assign(c=np.where(np.arange(600) % 3 == 0, "a", "b"))
        frame.loc[::7, "c"] = None
        fit = Model("y ~ x + c", frame, likelihood="logistic").fit()
        assert np.isfinite(fit.predict_proba(frame)).all()

    def test_several_classes(self):
        X, y = load_iris(return_X_y=True)
        clf = VBLogistic().fit(X, y)
        assert clf.coef_.shape == (3, 4)
        assert clf.score(X, y) > 0.93
        assert (clf.slopes_ == 1.0).all()

    def test_a_class_that_is_separated_leaves_the_probabilities_of_others_alone(self):
        X, y = load_iris(return_X_y=True)
        clf = VBLogistic().fit(X, y)
        others = y > 0
        chances = clf.predict_proba(X[others])
        # The variance of the first class's score, which nothing bounds, would pull the other two to one half.
        assert chances[np.arange(100), y[others]].mean() > 0.825  # .81 with it
        values = clf.decision_function(X)
        np.testing.assert_array_equal(values.argmax(axis=1), clf.predict_proba(X).argmax(axis=1))

    def test_partial_fit_and_warm_start(self, rows):
        X, y = simulated(n=3000)
        clf = VBLogistic()
        for begin in range(0, 3000, 1000):
            clf.partial_fit(X[begin : begin + 1000], y[begin : begin + 1000], classes=[0, 1])
        np.testing.assert_allclose(clf.coef_, VBLogistic().fit(X, y).coef_, atol=0.03)
        assert clf.predict_proba(X).shape == (3000, 2)
        warm = VBLogistic(warm_start=True).fit(X, y)
        passes = warm.n_iter_
        assert warm.fit(X, y).n_iter_ <= passes

    def test_wide_and_sparse_tables(self):
        from scipy.sparse import random_array

        rng = np.random.default_rng(0)
        wide = rng.normal(size=(60, 300))
        y = (wide[:, 0] + rng.logistic(size=60) > 0).astype(int)
        clf = VBLogistic().fit(wide, y)
        assert clf.converged_
        sparse = random_array((300, 40), density=0.1, rng=rng).tocsr()
        y = (sparse[:, [0]].toarray()[:, 0] * 4 + rng.logistic(size=300) > 0.2).astype(int)
        np.testing.assert_allclose(
            VBLogistic().fit(sparse, y).coef_, VBLogistic().fit(sparse.toarray(), y).coef_, atol=1e-4
        )

    def test_files(self, rows, tmp_path):
        X, y = rows
        X.assign(y=y).to_parquet(tmp_path / "rows.parquet")
        clf = VBLogistic().fit_files(tmp_path / "rows.parquet", "y")
        np.testing.assert_allclose(clf.coef_, VBLogistic().fit(X, y).coef_, atol=1e-4)

    def test_separated_classes_have_finite_coefficients(self):
        X = np.r_[np.random.default_rng(0).normal(size=(30, 2)) + 6, np.random.default_rng(1).normal(size=(30, 2)) - 6]
        clf = VBLogistic().fit(X, np.repeat([0, 1], 30))
        assert np.isfinite(clf.coef_).all()
        assert np.isfinite(clf.predict_proba(X)).all()

    def test_separated_classes_are_held_by_a_wide_prior(self):
        """Sharper probabilities of rows left out than with the scale of the augmented bound, and moderate sizes."""
        X, y = load_iris(return_X_y=True)
        X, y = X[:100], y[:100]
        clf = VBLogistic().fit(X, y)
        assert 1 / (4 * clf.penalty_[0]) == pytest.approx(100.0)
        assert 1.0 < np.abs(clf.coef_[0] * X.std(axis=0)).max() < 50.0
        augmented = VBLogistic(inference=Variational(bound="augmented")).fit(X, y)
        narrow = VBLogistic(Normal(1 / (4 * augmented.penalty_[0])))
        wide, narrow = (cross_val_score(one, X, y, scoring="neg_log_loss").mean() for one in (clf, narrow))
        assert -wide < 0.75 * -narrow
        mixed = VBLogistic().fit(X, np.where(np.arange(100) % 10 == 0, 1 - y, y))
        assert 1 / (4 * mixed.penalty_[0]) < 50.0

    def test_a_prior_that_says_more_is_not_widened(self):
        X, y = load_iris(return_X_y=True)
        for prior, most in ((Ridge(3, 3), 10.0), (Ridge(1000, 10), 0.1)):
            clf = VBLogistic(prior).fit(X[:100], y[:100])
            assert 1 / (4 * clf.penalty_[0]) < most


class TestAround:
    """Files, reports, figures, comparisons."""

    def test_saved_and_loaded(self, rows, grouped, tmp_path):
        X, y = rows
        clf = VBLogistic().fit(X, y)
        clf.save(tmp_path / "a.vbsvm")
        back = load(tmp_path / "a.vbsvm")
        assert isinstance(back, VBLogistic)
        np.testing.assert_array_equal(back.predict_proba(X), clf.predict_proba(X))
        pd.testing.assert_frame_equal(back.summary(), clf.summary())
        fit = Model("y ~ x + (1 | g)", grouped, likelihood="logistic").fit()
        fit.save(tmp_path / "b.vbsvm")
        np.testing.assert_array_equal(load(tmp_path / "b.vbsvm").predict_proba(grouped), fit.predict_proba(grouped))

    def test_a_report_says_what_the_model_is(self, rows, tmp_path):
        X, y = rows
        page = VBLogistic().fit(X, y).report(tmp_path / "r.html", X, y).read_text(encoding="utf-8")
        assert "pseudo-likelihood" not in page
        assert "hinge" not in page
        assert "odds" in page

    def test_figures(self, rows):
        X, y = rows
        clf = VBLogistic().fit(X, y)
        shown = [text.get_text() for text in plots.coefficients(clf).get_yticklabels()]
        assert len(shown) == X.shape[1]
        assert "robust" not in plots.coefficients(clf).get_xlabel()  # the posterior's intervals, unless asked otherwise
        assert plots.calibration(clf, X, y).lines

    def test_likelihoods_are_compared_by_predictions(self, rows):
        X, y = rows
        table = compare_models({"hinge": VBSVC().fit(X, y), "logistic": VBLogistic().fit(X, y)})
        assert set(table.table.index) == {"hinge", "logistic"}

    def test_left_out_predictions_are_near_those_of_refits(self):
        X, y = simulated(n=60)
        found = VBLogistic().fit(X, y).left_out_predictions()
        for row in (0, 17, 42):
            others = np.arange(60) != row
            refitted = VBLogistic().fit(X[others], y[others]).predict_log_proba(X[~others])[0, y[row]]
            assert found.log_probability[row] == pytest.approx(refitted, abs=0.03)

    def test_toenail_is_between_the_augmented_bound_and_the_sampler(self):
        data, formula = load_toenail(), "outcome ~ visit * treatment + (1 | patientID)"
        model = Model(formula, data, likelihood="logistic")
        augmented, exact = (
            model.fit(Variational(bound=bound)).variance_components()["std_dev"].iloc[0]
            for bound in ("augmented", "exact")
        )
        # A long run of the sampler has 4.24.
        assert augmented < 2.5 < 3.5 < exact < 4.3

    @pytest.mark.parametrize("wrong", ["probit", None, 1])
    def test_other_likelihoods_are_refused(self, grouped, wrong):
        with pytest.raises(ValueError, match="likelihood must be 'hinge' or 'logistic'"):
            Model("y ~ x", grouped, likelihood=wrong)
