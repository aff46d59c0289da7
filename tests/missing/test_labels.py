"""What labels have to do with missing values: as regressors of the inputs' distribution, which is then held."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.linalg import inv
from scipy.integrate import quad
from scipy.special import logsumexp

from incomplete_models import PAPER, correlated
from reference import simulate
from vbsvm import VBSVC, GaussianImputation, Gibbs, LaplaceZero, Model, Normal, NotAtRandom, Variational, VBLogistic
from vbsvm.api import missing_values
from vbsvm.api.task import fit_all
from vbsvm.inference import variational
from vbsvm.inference.leave_one_out import row_influence
from vbsvm.missing import labelled_inputs
from vbsvm.missing.distributions import InputSums, Regressors
from vbsvm.missing.labelled_inputs import EXPLAINED, LABEL_ROWS, LabelledInputs, _LabelRegression

TIGHT = Variational(tol=1e-12)
PAPERS = Variational(tol=1e-12, bound="paper")
MODES = ("regressor", "likelihood", "none")
PSI = 0.01
WEAK = GaussianImputation(psi=PSI)


def strengths_of(scatter, units, total):
    """Strengths of the prior of slopes of e on r, and how likely they are, from the scatter of (r, e)."""
    m, k = len(units), len(scatter) - len(units)
    R, met = scatter[:m, :m] / np.outer(units, units), scatter[:m, m:] / units[:, None]
    strengths, evidence = m / (total * EXPLAINED), []
    for strength, explained in zip(strengths, EXPLAINED, strict=True):
        K = R + strength * np.eye(m)
        left = scatter[m:, m:] - met.T @ np.linalg.solve(K, met)
        log_odds = k * (m * np.log(strength) - np.linalg.slogdet(K)[1]) - (total + k) * np.linalg.slogdet(left)[1]
        evidence.append(0.5 * log_odds + np.log(explained))
    return strengths, np.exp(evidence - logsumexp(evidence))


def prior_precision(scatter, units, total):
    """K, which shrinks slopes in each direction of r as strengths do on average."""
    strengths, shares = strengths_of(scatter, units, total)
    m = len(units)
    values, U = np.linalg.eigh(scatter[:m, :m] / np.outer(units, units))
    values = np.maximum(values, 0.0)
    kept = [shares @ (value / (value + strengths)) for value in values]
    own = [value * (1 - one) / one for value, one in zip(values, kept, strict=True)]
    return np.outer(units, units) * (U @ np.diag(own) @ U.T)


def conditional(D, missing, expected, joint, i, o):
    """Mean and covariance of what row i misses, given its values o of (d, z)."""
    m = np.flatnonzero(missing[i])
    gain = joint[np.ix_(m, o)] @ inv(joint[np.ix_(o, o)]) if len(o) else np.zeros((len(m), 0))
    return m, expected[m] + gain @ (D[i] - expected)[o], joint[np.ix_(m, m)] - gain @ joint[np.ix_(o, m)]


def learned(D, given, labels, n_inputs):
    """EM of the columns D, with NaN, given others and labels: means and covariances of each row's missing values."""
    (n, d), z = D.shape, labels[:, None]
    x, every, missing = np.column_stack([np.ones(n), *given]), np.hstack([D, z]), np.isnan(D)
    lost = np.flatnonzero(missing.any(axis=1))
    X = x.T @ x + np.diag([0.0] + [PSI] * (x.shape[1] - 1))

    def scatter_of(means, spread):
        """Of (r, e), with the priors of both."""
        table = np.hstack([means, z])
        linear = x.T @ table
        found = np.linalg.solve(X, linear)
        scatter = table.T @ table - linear.T @ found + np.diag([PSI] * d + [LABEL_ROWS])
        scatter[:d, :d] += spread
        return found, scatter

    A, joint, K = np.zeros((x.shape[1], d + 1)), np.eye(d + 1), np.zeros((d, d))
    A[:, d:] = np.linalg.solve(X, x.T @ z)
    for last in (False, True):
        while True:
            means, spreads = np.where(missing, 0.0, D), np.zeros((n, d, d))
            for i in lost:
                o = np.r_[np.flatnonzero(~missing[i]), d]
                m, means[i, missing[i]], spread = conditional(every, missing, x[i] @ A, joint, i, o)
                spreads[i][np.ix_(m, m)] = spread
            before = A, joint
            A, scatter = scatter_of(means, spreads.sum(axis=0))
            Sigma, B = scatter[:d, :d] / (n_inputs + n), np.linalg.solve(scatter[:d, :d] + K, scatter[:d, d:])
            S = (scatter[d:, d:] - scatter[d:, :d] @ B) / (n + 1)
            joint = np.block([[Sigma, Sigma @ B], [B.T @ Sigma, B.T @ Sigma @ B + S]])
            if max(np.abs(joint - before[1]).max(), np.abs(A - before[0]).max()) < 1e-12:
                break
        if last:
            break
        known = np.where(missing, 0.0, D)
        for i in lost:
            _, known[i, missing[i]], _ = conditional(every, missing, x[i] @ A, joint, i, np.flatnonzero(~missing[i]))
        observed = scatter_of(known, -PSI * np.eye(d))[1]
        K = prior_precision(observed, np.sqrt(scatter.diagonal()[:d]), n)
    return means, spreads


def algorithm_2(c, spreads, y, precision):
    """The paper's Algorithm 2 with rows of mean c and covariance S, under a prior whose precision is given."""
    mean, Sigma = np.zeros(c.shape[1]), np.zeros((c.shape[1], c.shape[1]))
    for _ in range(20_000):
        h, Omega = 1 - y * (c @ mean), Sigma + np.outer(mean, mean)
        v = np.einsum("ij,jk,ik->i", c, Sigma, c) + np.einsum("ijk,jk->i", spreads, Omega)
        w = 1 / np.sqrt(h**2 + v)
        Sigma = inv((c * w[:, None]).T @ c + np.einsum("i,ijk->jk", w, spreads) + np.diag(precision(mean, Sigma)))
        before, mean = mean, Sigma @ (c.T @ (y * (1 + w)))
        if np.abs(mean - before).max() < 1e-13:
            break
    return mean


def ridge(n_free, n_held, shape=0.01, rate=0.01):
    def precision(mean, Sigma):
        if not Sigma.any():
            return np.r_[np.full(n_free, 1e-8), np.ones(n_held)]
        total = np.square(mean[n_free:]).sum() + Sigma.diagonal()[n_free:].sum()
        return np.r_[np.full(n_free, 1e-8), np.full(n_held, (shape + n_held / 2) / (rate + total / 2))]

    return precision


class TestRegressor:
    @pytest.mark.parametrize(("seed", "share"), [(0, 0.25), (1, 0.4)])
    def test_it_is_an_em_algorithm_and_then_algorithm_2(self, seed, share):
        X, y = correlated(60, 3, seed, share)
        means, spreads = learned(X, [], y, 3)
        c = np.column_stack([np.ones(60), means])
        S = np.pad(spreads, ((0, 0), (1, 0), (1, 0)))
        clf = VBSVC(inference=PAPERS, imputation=WEAK).fit(X, y)
        np.testing.assert_allclose(
            np.r_[clf.intercept_, clf.coef_[0]], algorithm_2(c, S, y, ridge(1, 3)), rtol=0, atol=1e-6
        )

    def test_products_of_a_missing_input_follow_it(self):
        X, y = correlated(90, 2, seed=3)
        X[:, 1] = np.random.default_rng(0).normal(size=90)
        x, z = X.T
        means, spreads = learned(X[:, :1], [z], y, 2)
        c = np.column_stack([np.ones(90), means[:, 0], z, means[:, 0] * z])
        L = np.column_stack([np.zeros(90), np.ones(90), np.zeros(90), z])
        S = spreads[:, 0, 0][:, None, None] * L[:, :, None] * L[:, None, :]
        priors = {"fixed": Normal(1e8)}
        data = pd.DataFrame({"y": y, "x": x, "z": z})
        fit = Model("y ~ x * z", data, priors, standardize=False, imputation=WEAK, likelihood="hinge").fit(PAPERS)
        expected = algorithm_2(c, S, y, lambda mean, Sigma: np.full(4, 1e-8))
        np.testing.assert_allclose(fit.summary()["estimate"].to_numpy(), expected, rtol=0, atol=2e-6)

    def test_the_exact_bound_is_that_of_many_drawn_tables_below_each_other(self):
        """Each row with many draws of what it misses, which share its weight."""
        X, y = correlated(60, 2, seed=3)
        X[:, 1] = np.random.default_rng(0).normal(size=60)
        means, spreads = learned(X[:, :1], [X[:, 1]], y, 2)
        nodes, weights = np.polynomial.hermite_e.hermegauss(40)
        drawn = means + np.sqrt(spreads[:, 0, 0])[:, None] * nodes
        table = np.column_stack([drawn.ravel(), np.repeat(X[:, 1], 40)])
        settings = {"prior": Normal(10.0), "standardize": False, "imputation": WEAK}
        exact = Variational(tol=1e-10, bound="exact")
        other = VBSVC(inference=exact, **settings).fit(table, np.repeat(y, 40), np.tile(weights / weights.sum(), 60))
        fit = VBSVC(inference=exact, **settings).fit(X, y)
        np.testing.assert_allclose(fit.coef_, other.coef_, atol=0.04)  # a tenth of a standard deviation
        papers = VBSVC(inference=PAPERS, **settings).fit(X, y)
        assert np.abs(papers.coef_ - other.coef_).max() > 0.05

    def test_missing_categories_count_by_the_shares_that_they_have_beside_their_label(self, monkeypatch):
        monkeypatch.setattr(missing_values, "MAX_GIVEN", 0)  # no other input has a say
        rng = np.random.default_rng(0)
        data = pd.DataFrame({"x": rng.normal(size=200), "arm": rng.choice(list("abc"), p=[0.2, 0.3, 0.5], size=200)})
        data["y"] = np.where(data["x"] + 2 * (data["arm"] == "a") + rng.logistic(size=200) > 0.5, 1, -1)
        data.loc[rng.random(200) < 0.3, "arm"] = None
        priors = {"fixed": Normal(10.0)}
        model = Model("y ~ x + arm", data, priors, standardize=False, likelihood="hinge")
        known = data.dropna()
        counts = pd.crosstab(known["y"], known["arm"]) + 1.0
        shares = counts.div(counts.sum(axis=1), axis=0)
        lost = data[data["arm"].isna()]
        written = [known.assign(s=1.0)]
        written += [lost.assign(arm=arm, s=[shares.loc[label, arm] for label in lost["y"]]) for arm in "abc"]
        other = Model("y ~ x + arm", pd.concat(written), priors, weights="s", standardize=False, likelihood="hinge")
        for inference in (PAPERS, Variational(tol=1e-12, bound="exact")):
            fit = model.fit(inference)
            np.testing.assert_allclose(fit.coef, other.fit(inference).coef, atol=1e-5)
        paper = Model("y ~ x + arm", data, priors, standardize=False, imputation=PAPER, likelihood="hinge").fit(TIGHT)
        assert np.abs(model.fit(PAPERS).coef - paper.coef).max() > 0.01

    def test_noise_with_many_missing_values_is_neither_overrated_nor_is_a_signal_shrunk(self):
        rng, noise, signal = np.random.default_rng(0), [], []
        for _ in range(10):
            X = rng.normal(size=(400, 2))
            y = np.where(X[:, 0] + rng.logistic(size=400) > 0, 1, -1)
            whole = VBSVC().fit(X, y).coef_[0, 0]
            hidden = np.where(rng.random((400, 2)) < [0.0, 0.8], np.nan, X)
            fits = [VBSVC(imputation=GaussianImputation(labels=labels)).fit(hidden, y) for labels in MODES]
            noise.append([clf.coef_[0, 1] for clf in fits])
            hidden = np.where(rng.random((400, 2)) < [0.5, 0.0], np.nan, X)
            fits = [VBSVC(imputation=GaussianImputation(labels=labels)).fit(hidden, y) for labels in MODES]
            signal.append([clf.coef_[0, 0] / whole for clf in fits])
        regressor, paper, none = np.sqrt(np.mean(np.square(noise), axis=0))
        assert regressor < 0.45  # as in complete cases
        assert paper > 0.7
        assert none < 0.35
        regressor, _, none = np.mean(signal, axis=0)
        assert 0.8 < regressor < 1.2
        assert none < 0.8

    def test_all_inputs_jointly_are_the_same_to_the_priors(self):
        X, y = correlated(4000, 3, seed=2)
        X[:, 1] = np.where(np.isnan(X[:, 1]), 0.3, X[:, 1])
        one, other = (VBSVC(imputation=GaussianImputation(joint=joint)).fit(X, y) for joint in (True, False))
        np.testing.assert_allclose(one.coef_, other.coef_, atol=2e-3)

    def test_the_other_class_as_the_positive_one_turns_all_signs(self):
        X, y = correlated(120, 3, seed=4)
        one, other = VBSVC(inference=TIGHT).fit(X, y), VBSVC(inference=TIGHT).fit(X, -y)
        np.testing.assert_allclose(one.coef_, -other.coef_, atol=1e-6)

    @pytest.mark.parametrize("labels", MODES)
    def test_weights_are_repetition(self, labels):
        X, y = correlated(60, 3, seed=5)
        s = np.random.default_rng(0).integers(1, 4, size=60)
        clf = VBSVC(inference=TIGHT, imputation=GaussianImputation(labels=labels))
        one = clf.fit(X, y, sample_weight=s).coef_
        other = clf.fit(np.repeat(X, s, axis=0), np.repeat(y, s)).coef_
        np.testing.assert_allclose(one, other, atol=1e-5)

    @pytest.mark.parametrize("prior", [None, LaplaceZero(rho=0.5, restarts=0)])
    def test_nothing_missing_is_the_same_to_the_bit(self, prior):
        X, y = simulate(80, 4, seed=0)
        fits = [VBSVC(prior, imputation=GaussianImputation(labels=labels)).fit(X, y) for labels in MODES]
        for clf in fits:
            np.testing.assert_array_equal(clf.coef_, VBSVC(prior).fit(X, y).coef_)

    def test_groups_and_their_slopes(self):
        rng = np.random.default_rng(1)
        data = pd.DataFrame({"x": rng.normal(size=300), "z": rng.normal(size=300), "g": np.arange(300) % 10})
        effect = rng.normal(size=10)[data["g"]]
        data["y"] = np.where(data["x"] * (1 + effect) + data["z"] + rng.logistic(size=300) > 0, 1, 0)
        whole = Model("y ~ x + z + (x || g)", data, likelihood="hinge").fit()
        data.loc[rng.random(300) < 0.2, "x"] = np.nan
        fit = Model("y ~ x + z + (x || g)", data, likelihood="hinge").fit()
        assert fit.converged
        assert np.abs(fit.summary()["estimate"] - whole.summary()["estimate"]).max() < 0.5

    def test_values_that_are_missing_not_at_random(self):
        X, y = correlated(150, 3, seed=7)
        settings = GaussianImputation(mechanism=NotAtRandom(columns=["x1"]))
        clf = VBSVC(imputation=settings).fit(X, y)
        assert clf.converged_
        inputs = clf.fit_[0].outcome.state.missing.inputs
        assert inputs.probit is not None
        assert len(inputs.coefficients) == 2  # a constant and the label
        drawn = VBSVC(imputation=settings, inference=Gibbs(draws=400, tune=200, chains=1), random_state=0)
        with pytest.warns(match="chains have not converged"):
            drawn.fit(X, y)
        assert np.abs(drawn.coef_ - clf.coef_).max() < 0.5


class TestStrength:
    """How much of what labels seem to tell about inputs is believed."""

    def test_strengths_count_by_the_evidence(self):
        """One input: slopes and the variance of labels integrated by quadrature, with a flat prior of what it tells."""
        rng, n = np.random.default_rng(0), 12
        r = rng.normal(size=n)
        e = 0.6 * r + rng.normal(size=n)
        rr, re, ee = r @ r, r @ e, LABEL_ROWS + e @ e
        found = _LabelRegression.fit(np.array([[rr, re], [re, ee]]), np.sqrt([rr]), n - 1).probabilities

        def given_log_variance(log_s, strength):
            """Of B alone: normal with precision rr (1 + strength)/s, whose integral is known."""
            s, precision = np.exp(log_s), rr * (1 + strength)
            quadratic = ee - re**2 / precision
            return s ** (-0.5 * n) * np.sqrt(strength / (1 + strength)) * np.exp(-0.5 * quadratic / s)

        strengths = 1 / ((n - 1) * EXPLAINED)
        evidence = EXPLAINED * [quad(given_log_variance, -8, 8, args=(one,))[0] for one in strengths]
        np.testing.assert_allclose(found, evidence / evidence.sum(), rtol=1e-6)

    def test_many_correlated_columns_are_believed_less(self, monkeypatch):
        """Coefficients are as long as those without gaps, and nearer to them than with labels that have no prior."""
        rng, lengths, off = np.random.default_rng(0), [], []
        for _ in range(4):
            X = rng.normal(size=(400, 20)) + rng.normal(size=(400, 1))
            y = np.where(X.sum(axis=1) / 12 + rng.logistic(size=400) > 0, 1, -1)
            whole = VBSVC().fit(X, y).coef_
            X[rng.random(X.shape) < 0.5] = np.nan
            found = [VBSVC().fit(X, y).coef_]
            with monkeypatch.context() as patch:
                patch.setattr(labelled_inputs, "EXPLAINED", np.array([1e6]))
                found.append(VBSVC().fit(X, y).coef_)
            lengths.append([np.linalg.norm(one) / np.linalg.norm(whole) for one in found])
            off.append([np.linalg.norm(one - whole) for one in found])
        (held, free), (near, far) = np.mean(lengths, axis=0), np.mean(off, axis=0)
        assert held < 1.25
        assert free > held + 0.1
        assert near < 0.9 * far

    @pytest.mark.parametrize(("n", "share"), [(400, 0.9), (1000, 0.95)])
    def test_a_signal_of_which_most_is_missing_is_not_lost(self, n, share):
        """Imputed rows, which at first show no signal, are no evidence that there is none."""
        found = []
        for seed in range(8):
            rng = np.random.default_rng(seed)
            X = rng.normal(size=(n, 2))
            y = np.where(1.5 * X[:, 0] + X[:, 1] + rng.logistic(size=n) > 0, 1, -1)
            X[rng.random(n) < share, 0] = np.nan
            found.append(VBLogistic().fit(X, y).coef_[0, 0])
        assert 1.0 < np.mean(found) < 2.0

    def test_drawn_parameters_have_the_spread_of_a_regression(self):
        """Of variables on x̃ and labels, where the prior is weak: that of least squares."""
        rng, n = np.random.default_rng(0), 300
        x = np.column_stack([np.ones(n), rng.normal(size=n)])
        d = x @ [0.5, 1.0] + rng.normal(size=n)
        z = np.where(d + x[:, 1] + rng.logistic(size=n) > 0, 1.0, -1.0)
        every = np.column_stack([x, z])
        sums = InputSums((every.T @ d)[:, None], np.array([[d @ d]]), n, Regressors(every.T @ every))
        law = LabelledInputs.from_sums(sums, 2, 0.01, 2.0)
        drawn = np.array([law.draw(rng).coefficients[:, 0] for _ in range(4000)])
        expected = np.linalg.solve(every.T @ every, every.T @ d)
        noise = np.square(d - every @ expected).sum() / (n - 3)
        sds = np.sqrt(noise * np.diag(inv(every.T @ every)))
        np.testing.assert_allclose(drawn.std(axis=0), sds, rtol=0.1)
        np.testing.assert_allclose(drawn.mean(axis=0), expected, atol=0.2 * sds.max())

    def test_the_order_of_classes_does_not_matter(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(90, 3))
        y = np.argmax(np.column_stack([X @ rng.normal(size=3) + rng.gumbel(size=90) for _ in range(3)]), axis=1)
        X[rng.random(X.shape) < 0.3] = np.nan
        one, other = (VBSVC(inference=TIGHT).fit(X, labels) for labels in (y, np.array([2, 0, 1])[y]))
        np.testing.assert_allclose(one.coef_, other.coef_[[2, 0, 1]], atol=1e-6)


class TestSeveralClasses:
    @pytest.fixture
    def classes(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(200, 3))
        y = np.argmax(np.column_stack([X @ rng.normal(size=3) + rng.gumbel(size=200) for _ in range(3)]), axis=1)
        X[rng.random(X.shape) < 0.3] = np.nan
        return X, y

    def test_the_distribution_of_the_inputs_is_learned_once(self, classes, monkeypatch):
        calls, learn = [], variational.learn_inputs
        monkeypatch.setattr(variational, "learn_inputs", lambda *args: calls.append(0) or learn(*args))
        clf = VBSVC().fit(*classes)
        assert len(calls) == 1
        found = [fit.outcome.state.missing.inputs for fit in clf.fit_]
        assert len({id(one) for one in found}) == 1
        assert len(found[0].coefficients) == 3  # a constant and two columns that tell three classes
        assert clf.score(*classes) > 0.5

    def test_each_class_is_the_same_as_alone(self, classes):
        together, tasks = VBSVC().fit(*classes).fit_, VBSVC()._tasks(*classes, None)
        alone = [fit_all([task], Variational(), seed=0)[0] for task in tasks]  # each learns the distribution
        for one, other in zip(together, alone, strict=True):
            np.testing.assert_array_equal(one.outcome.state.packed, other.outcome.state.packed)


class TestRowsLeftOut:
    @pytest.mark.parametrize("inference", [None, Gibbs(draws=400, tune=100, chains=1)])
    @pytest.mark.filterwarnings("ignore:VBSVC. chains")
    def test_incomplete_rows_are_scored_as_in_prediction(self, inference):
        X, y = correlated(300, 3, seed=1, share=0.4)
        clf = VBSVC(inference=inference, random_state=0).fit(X, y)
        rows = clf.fit_[0]._rows
        found = np.empty(300)
        found[rows.order] = row_influence(rows.spec, rows.outcome, rows.source).score
        np.testing.assert_allclose(found, clf.decision_function(X), atol=0.02)


class TestSampler:
    def test_missing_values_do_not_depend_on_the_coefficients(self):
        X, y = correlated(60, 2, seed=0)
        settings = Gibbs(draws=45, tune=0, chains=1)

        def values(imputation, variance):
            clf = VBSVC(Normal(variance), settings, imputation=imputation, random_state=0)
            with pytest.warns(match="chains have not converged"):
                clf.fit(X, y)
            return clf.fit_[0].outcome.last.missing.values[0]

        for labels in ("regressor", "none"):
            held = GaussianImputation(labels=labels)
            np.testing.assert_array_equal(values(held, 1.0), values(held, 1e-6))
        assert np.abs(values(PAPER, 1.0) - values(PAPER, 1e-6)).max() > 0.1

    def test_categories_do_not_depend_on_the_coefficients_either(self):
        rng = np.random.default_rng(0)
        data = pd.DataFrame({"x": rng.normal(size=80), "arm": rng.choice(["a", "b"], size=80)})
        data["y"] = np.where(data["x"] + rng.logistic(size=80) > 0, 1, 0)
        data.loc[::4, "arm"] = None
        data.loc[::5, "x"] = np.nan
        fit = Model("y ~ x + arm", data, {"fixed": Normal(1.0)}, likelihood="hinge").fit(
            Gibbs(draws=10000, tune=100, chains=2), random_state=0
        )
        climbed = Model("y ~ x + arm", data, {"fixed": Normal(1.0)}, likelihood="hinge").fit()
        gap = fit.summary()["estimate"] - climbed.summary()["estimate"]
        assert np.abs(gap).max() < 0.2

    def test_the_cut_posterior_is_that_of_many_completed_tables(self):
        """Proper imputations by an independent sampler, a chain on each completed table, all draws pooled."""
        rng = np.random.default_rng(3)
        X = rng.normal(size=(80, 2))
        y = np.where(X.sum(axis=1) + rng.logistic(size=80) > 0, 1.0, -1.0)
        X[rng.random(80) < 0.65, 1] = np.nan
        X = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
        lost = np.isnan(X[:, 1])
        x, filled = np.column_stack([np.ones(80), X[:, 0]]), np.where(lost, 0.0, X[:, 1])
        K = x.T @ x + np.diag([0.0, PSI])
        root, e = np.linalg.cholesky(inv(K)), y - x @ np.linalg.solve(K, x.T @ y)
        pooled, prior = [], Normal(1.0)
        for k in range(1200):  # one draw of parameters and values after the other; every tenth is used
            A = np.linalg.solve(K, x.T @ filled)
            rr = PSI + filled @ filled - (x.T @ filled) @ A
            re, ee, n = (filled - x @ A) @ e, LABEL_ROWS + e @ y, 80 + 1
            variance = rr / rng.chisquare(3 + 80 - 1)
            strengths, shares = strengths_of(np.array([[rr, re], [re, ee]]), np.sqrt([rr]), 80)
            strength = strengths[rng.choice(len(shares), p=shares)]
            precision = rr * (1 + strength)
            noise = (ee - re**2 / precision) / rng.chisquare(n)
            B = re / precision + np.sqrt(noise / precision) * rng.normal()
            off = root @ rng.normal(size=2) * variance**0.5
            of_labels = np.linalg.solve(K, x.T @ y) + root @ rng.normal(size=2) * noise**0.5 + off * B
            A = A + off
            gain = variance * B / (variance * B**2 + noise)
            expected, spread = x @ A + gain * (y - x @ of_labels), variance - gain * variance * B
            filled = np.where(lost, expected + spread**0.5 * rng.normal(size=80), X[:, 1])
            if k >= 200 and k % 10 == 0:
                table = np.column_stack([X[:, 0], filled])
                clf = VBSVC(prior, Gibbs(draws=60, tune=60, chains=1), standardize=False, random_state=k)
                with pytest.warns(match="chains have not converged"):
                    pooled.append(clf.fit(table, y).fit_[0].outcome.flat)
        within = np.sqrt(np.mean([one.var(axis=0) for one in pooled], axis=0))
        pooled = np.concatenate(pooled)
        clf = VBSVC(
            prior, Gibbs(draws=20_000, tune=200, chains=2), imputation=WEAK, standardize=False, random_state=0
        ).fit(X, y)
        ours = clf.fit_[0].outcome.flat
        # A hundred tables: means to a tenth of a deviation, deviations to seven percent, and three times that.
        np.testing.assert_allclose(ours.mean(axis=0), pooled.mean(axis=0), atol=0.3 * pooled.std(axis=0).max())
        np.testing.assert_allclose(ours.std(axis=0), pooled.std(axis=0), rtol=0.2)
        # The check would see values that are filled in once: within a table there is less spread.
        assert within[2] < 0.75 * ours.std(axis=0)[2]


class TestSettings:
    @pytest.mark.parametrize(("flag", "meant"), [(True, "likelihood"), (False, "none"), (np.True_, "likelihood")])
    def test_flags_of_older_versions(self, flag, meant):
        with pytest.warns(FutureWarning, match=f'use labels="{meant}"'):
            assert GaussianImputation(labels=flag) == GaussianImputation(labels=meant)

    @pytest.mark.parametrize("bad", ["all", None, 1, ["regressor"]])
    def test_other_words_are_refused(self, bad):
        with pytest.raises(ValueError, match="labels must be one of"):
            GaussianImputation(labels=bad)

    def test_the_default_is_the_regressor(self):
        assert GaussianImputation().labels == "regressor"
        assert replace(PAPER, labels="regressor") == GaussianImputation()
