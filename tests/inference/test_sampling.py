"""Gibbs sampling as users have it: agreement with quadrature, the stretch move, chains, results, warnings."""

import itertools
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats
from sklearn.exceptions import ConvergenceWarning

from calibration import MISTAKES, SPREADS, THIN, Plant, build, p_values
from calibration import simulate as simulate_truth
from incomplete_models import PAPER
from models import source_of, spec_of
from reference import Quadrature, simulate
from shown import by_mean_field
from vbsvm import (
    VBSVC,
    Covariance,
    GaussianImputation,
    Gibbs,
    InverseWishart,
    Joint,
    LaplaceZero,
    Model,
    Normal,
    Ridge,
    Variational,
)
from vbsvm.api.fit_warnings import convergence_messages
from vbsvm.base import diagnostics
from vbsvm.base.distributions import LatentPoint, MatrixPoint, Point
from vbsvm.base.update_mode import Draw, OverRelaxed, mean_field
from vbsvm.inference import chains, gibbs
from vbsvm.inference.chains import CheckpointError
from vbsvm.inference.gibbs import _change, stretch
from vbsvm.missing.categories import LevelDistributions
from vbsvm.missing.rows import IncompleteRows
from vbsvm.model.gates import Gates
from vbsvm.model.interfaces import PointDistribution
from vbsvm.model.layouts.dense import DenseGaussian
from vbsvm.model.likelihoods.hinge import HINGE
from vbsvm.model.likelihoods.logistic import LOGISTIC
from vbsvm.model.priors.base import Moments
from vbsvm.model.priors.covariance import HuangWandDistribution
from vbsvm.model.priors.laplace_zero import LaplaceZeroDistribution
from vbsvm.model.sweep import sweep

FEW = Gibbs(draws=400, tune=200, chains=2)


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    """Other processes would not know what a test has changed."""
    monkeypatch.setattr(chains, "WORTH_A_PROCESS", np.inf)


@pytest.fixture(scope="module")
def overlapping():
    """Rows that are not separable."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 3))
    return X, np.where(X @ [1.0, -0.5, 0.0] + 1.5 * rng.logistic(size=200) > 0, 1, 0)


def quiet(call):
    """Few draws mix badly, and it is said; here that is no matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return call()


def interrupt(monkeypatch, after, by=KeyboardInterrupt):
    """Chains advance so many times, then there is one interruption, and then all goes on."""
    right, calls = gibbs._advance, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == after + 1:
            raise by
        return right(*arguments)

    monkeypatch.setattr(gibbs, "_advance", interrupted)


class TestQuadrature:
    @pytest.mark.parametrize("move", [True, False, "wrong"])
    def test_means_and_spreads(self, move, monkeypatch):
        rng = np.random.default_rng(7)
        x = rng.normal(size=12)
        y = np.where(rng.random(12) < 1 / (1 + np.exp(-1.5 * x)), 1.0, -1.0)
        s = np.where(np.arange(12) % 3 == 0, 2.0, 0.7)
        exact = Quadrature(x, y, s, 2.0, 1.5, 4.0)
        if move is False:
            monkeypatch.setattr(gibbs, "stretch", lambda spec, state, *rest: (state, False))
        elif move == "wrong":
            right = Ridge.rescale
            monkeypatch.setattr(
                Ridge,
                "rescale",
                lambda self, a, b, g: (right(self, a, b, g)[0], right(self, a, b, g)[1] + 2 * np.log(g)),
            )
        spec = spec_of(1, Ridge(2.0, 1.5), intercept_prior=Normal(4.0))
        sample = Gibbs(draws=6000, tune=300, chains=2).run(spec, source_of(x[:, None], y, s), seed=1)
        theta = sample.coefficients
        z = []
        for j in range(2):
            for values, truth in (
                (theta[:, :, j], exact.mean[j]),
                ((theta[:, :, j] - exact.mean[j]) ** 2, exact.sd[j] ** 2),
            ):
                error = values.std() / np.sqrt(diagnostics.ess_bulk(values))
                z.append((values.mean() - truth) / error)
        assert bool(np.abs(z).max() < 4) is (move != "wrong")


class TestOverRelaxation:
    def test_the_conditional_distribution_is_left_as_it_is(self):
        """Draws that each start from the last one have its mean and covariance; a wrong factor is seen."""
        rng = np.random.default_rng(0)
        root = np.triu(rng.normal(size=(3, 3))) + 2 * np.eye(3)
        distribution = DenseGaussian(np.array([1.0, -2.0, 0.5]), root)
        for rho, right in ((0.9, True), (0.5, True), (-0.5, False)):
            at, draws = distribution.mean, []
            for k in range(20_000):
                reading = OverRelaxed(Draw(0, 0, k), at, abs(rho))
                point = reading(distribution, "coefficients").mean
                at = point if right else point + 0.3 * (at - distribution.mean)
                draws.append(at)
            spread = np.cov(np.array(draws).T)
            assert (
                np.abs(spread - distribution.covariance).max() < 0.05 * np.abs(distribution.covariance).max()
            ) == right

    def test_other_distributions_are_drawn_as_ever(self):
        distribution = Ridge(2.0, 1.0).conditional(Moments(PointDistribution(np.ones(3)), (slice(0, 3),)))
        assert OverRelaxed(Draw(1, 2, 3), np.zeros(3))(distribution, "scale", 0) == Draw(1, 2, 3)(
            distribution, "scale", 0
        )


class TestStretch:
    """The move's ratio for every kind of block, against the densities themselves and the Jacobian."""

    THETA = np.array([0.7, -1.2, 0.4, 2.0, -0.3, 0.9])

    def test_ratios(self):
        g, distribution = 1.3, PointDistribution(self.THETA)
        one = Moments(distribution, (slice(0, 6),))

        def normal(theta):
            return stats.norm.logpdf(theta, scale=2.0).sum()

        _, ratio = Normal(4.0).rescale(Point(4.0), one, g)
        assert ratio == pytest.approx(normal(g * self.THETA) - normal(self.THETA) + 6 * np.log(g))

        def ridge(theta, variance):
            return stats.norm.logpdf(theta, scale=variance**0.5).sum() + stats.invgamma.logpdf(variance, 2.0, scale=1.5)

        moved, ratio = Ridge(2.0, 1.5).rescale(Point(0.8), one, g)
        assert moved.value == pytest.approx(0.8 * g**2)
        expected = ridge(g * self.THETA, g * g * 0.8) - ridge(self.THETA, 0.8) + (6 + 2) * np.log(g)
        assert ratio == pytest.approx(expected)

        slab = LatentPoint(np.ones(6), np.array([0.5, 1.0, 2.0, 0.3, 1.5, 0.7]))
        prior = LaplaceZero(rho=0.2, shape=2.0, rate=1.5)

        def laplace(theta, variance):
            scale = np.sqrt(variance / slab.weight)
            return stats.norm.logpdf(theta, scale=scale).sum() + stats.invgamma.logpdf(variance, 2.0, scale=1.5)

        moved, ratio = prior.rescale(LaplaceZeroDistribution(Point(0.8), slab, None), one, g)
        expected = laplace(g * self.THETA, g * g * 0.8) - laplace(self.THETA, 0.8) + (6 + 2) * np.log(g)
        assert ratio == pytest.approx(expected)
        assert moved.slab is slab

    @pytest.mark.parametrize("kind", ["wishart", "huang"])
    def test_ratios_of_matrices(self, kind):
        g, distribution = 0.8, PointDistribution(self.THETA)
        pairs = Moments(distribution, (slice(0, 6, 2), slice(1, 6, 2)))
        Sigma = np.array([[1.2, 0.3], [0.3, 0.7]])
        if kind == "wishart":
            prior, scale, psi, nu = InverseWishart(psi=0.5, nu=4.0), MatrixPoint(Sigma), 0.5 * np.eye(2), 4.0
        else:
            prior = Covariance(scale=3.0, degrees=2.0)
            scale = HuangWandDistribution(MatrixPoint(Sigma), (Point(0.5), Point(2.0)))
            psi, nu = 4.0 * np.diag([2.0, 0.5]), 3.0

        def density(theta, matrix):
            effects = theta.reshape(3, 2)
            return stats.multivariate_normal.logpdf(effects, np.zeros(2), matrix).sum() + stats.invwishart.logpdf(
                matrix, nu, psi
            )

        moved, ratio = prior.rescale(scale, pairs, g)
        expected = density(g * self.THETA, g * g * Sigma) - density(self.THETA, Sigma) + (6 + 6) * np.log(g)
        assert ratio == pytest.approx(expected)
        assert (moved.covariance if kind == "huang" else moved).value == pytest.approx(g * g * Sigma)

    def test_it_makes_few_rows_mix(self, overlapping, monkeypatch):
        X, y = simulate(120, 20, seed=2)
        y = np.where(np.random.default_rng(0).random(120) < 0.3, -y, y)
        spec, source = spec_of(20), source_of(X, y)
        effective = []
        for moves in (True, False):
            if not moves:
                monkeypatch.setattr(gibbs, "stretch", lambda spec, state, *rest: (state, False))
            sample = Gibbs(draws=1500, tune=300, chains=2).run(spec, source, seed=0)
            effective.append(diagnostics.ess_bulk(np.linalg.norm(sample.coefficients, axis=2)))
        assert effective[0] > 1.1 * effective[1]

    @pytest.mark.parametrize("incomplete", [False, True])
    def test_missing_categories_are_integrated_out(self, incomplete):
        """Against a sum over all ways to fill the categories in."""
        model, rng = "both" if incomplete else "categories", np.random.default_rng(3)
        truth = simulate_truth(model, rng, tilted=True)
        spec, source = build(model, truth)
        state = replace(spec.start(), coefficients=PointDistribution(np.array([0.3, -1.4, 0.8])))
        levels = LevelDistributions.from_concentrations((np.array([3.0, 1.0]),)).draw(rng)
        state = replace(state, missing=replace(state.missing, levels=levels))
        values = rng.normal(size=len(truth.y))
        rows = source.candidates.row
        of_rows = {}
        source.sum_parts(lambda part: of_rows.update({type(part.rows): part}) or 0.0)
        if incomplete:
            part = of_rows[IncompleteRows]
            drawn = {0: values[part.candidates.row][:, None] * part.rows.missing}
            state = replace(state, missing=replace(state.missing, values=drawn))
        filled = np.where(np.isnan(truth.X[:, 0]), values, truth.X[:, 0])
        lost = np.flatnonzero(truth.levels == -1)
        assert len(lost) < len(truth.y) < len(rows)

        def losses(scale, levels):
            theta = scale * state.coefficients.mean
            return np.maximum(1 - truth.y * (theta[0] + theta[1] * filled + theta[2] * levels), 0)

        def every_way(scale):
            for chosen in itertools.product([0, 1], repeat=len(lost)):
                levels = truth.levels.copy()
                levels[lost] = chosen
                yield losses(scale, levels).sum(), state.missing.levels.logs[0][list(chosen)].sum()

        g = 1.3
        change = source.sum_parts(lambda part: _change(HINGE, part, state, state.coefficients.mean, g, mean_field))
        after, before = (special.logsumexp([log - 2 * loss for loss, log in every_way(scale)]) for scale in (g, 1.0))
        assert change == pytest.approx(after - before)

    def test_a_closed_gate_moves_too(self):
        prior = LaplaceZero(rho=0.5)
        spec = spec_of(2, prior)
        spec = replace(spec, blocks=(spec.blocks[0], replace(spec.blocks[1], gate_of=np.array([0, 1]))))
        X, y = simulate(20, 2, seed=0)
        state = replace(spec.start(), coefficients=PointDistribution(np.array([0.1, 0.5, -0.5])))
        state = replace(state, gates=Gates(np.array([np.inf, -np.inf]), spec.gate_map))
        state = replace(
            state,
            scales=(state.scales[0], LaplaceZeroDistribution(Point(1.0), LatentPoint(np.ones(2), np.ones(2)), None)),
        )
        for k in range(50):
            moved, accepted = stretch(spec, state, source_of(X, y), 0.2, Draw(0, 0, k))
            if accepted:
                ratios = moved.coefficients.mean / state.coefficients.mean
                assert ratios == pytest.approx(np.full(3, ratios[0]))
                return
        raise AssertionError("no move was taken")


# Of mistakes that other models than the plain one show.
MODELS_OF_MISTAKES = {"prior odds": "gates", "degrees": "missing", "mean of the inputs": "missing"}


class TestCalibration:
    """Simulation-based calibration, tilted with a hinge; ``make verify`` has the long runs."""

    def test_ranks_are_uniform(self):
        assert p_values("plain", 150, n_jobs=2).min() > 0.01 / 4

    def test_a_planted_mistake_is_seen(self):
        assert p_values("plain", 300, plant=Plant("rate"), n_jobs=2).min() < 0.01 / 4

    def test_without_the_tilt_a_correct_sampler_fails(self):
        assert p_values("plain", 300, tilted=False, n_jobs=2).min() < 0.01 / 4

    @pytest.mark.long
    @pytest.mark.parametrize(
        ("model", "replicates"),
        [
            ("plain", 20_000),
            ("groups", 8000),
            ("gates", 8000),
            ("missing", 4000),
            ("selective", 4000),
            ("categories", 4000),
            ("both", 2000),
        ],
    )
    def test_ranks_are_uniform_in_a_long_run(self, model, replicates):
        found = p_values(model, replicates, seed=7, n_jobs=-1)
        assert found.min() > 0.01 / len(found)

    @pytest.mark.long
    @pytest.mark.parametrize("mistake", [*SPREADS, *MISTAKES])
    def test_every_planted_mistake_is_seen(self, mistake):
        model = MODELS_OF_MISTAKES.get(mistake, "plain")
        replicates = 20_000 if mistake == "spread by 5 %" else 2000
        found = p_values(model, replicates, seed=8, plant=Plant(mistake), n_jobs=-1)
        assert found.min() < 0.01 / len(found)

    @pytest.mark.long
    @pytest.mark.parametrize("model", ["categories", "both"])
    def test_a_wrong_power_of_g_is_seen_where_categories_are_missing(self, model):
        found = p_values(model, 2000, seed=8, plant=Plant("power of g"), n_jobs=-1)
        assert found.min() < 0.01 / len(found)

    @pytest.mark.long
    @pytest.mark.parametrize("model", ["plain", "groups", "gates", "missing", "selective", "categories", "both"])
    def test_ranks_are_uniform_with_a_logistic_likelihood(self, model):
        # The intercept and the effects of groups follow each other closely: draws must be further apart.
        thin = 30 if model == "groups" else THIN
        found = p_values(model, 2000, seed=7, n_jobs=-1, likelihood=LOGISTIC, thin=thin)
        assert found.min() > 0.01 / len(found)

    @pytest.mark.long
    @pytest.mark.parametrize("mistake", ["spread", *MISTAKES])
    def test_every_planted_mistake_is_seen_with_a_logistic_likelihood(self, mistake):
        found = p_values(
            MODELS_OF_MISTAKES.get(mistake, "plain"),
            2000,
            seed=8,
            plant=Plant(mistake),
            n_jobs=-1,
            likelihood=LOGISTIC,
        )
        assert found.min() < 0.01 / len(found)


class TestChains:
    def test_without_acceleration_the_draws_are_those_of_the_papers_sweeps(self, overlapping):
        X, y = overlapping
        spec, source = spec_of(3), source_of(X, np.where(y == 1, 1.0, -1.0))
        plain = Gibbs(draws=30, tune=10, chains=1, accelerate=False).run(spec, source, 4)
        state, expected = spec.start(), []
        with np.errstate(all="ignore"):
            for k in range(40):
                state, _ = sweep(spec, state, source, Draw(4, 0, k))
                expected.append(state.coefficients.mean)
        np.testing.assert_array_equal(plain.coefficients[0], expected[10:])
        assert plain.zero_loss == 0.0
        moving = Gibbs(draws=30, tune=10, chains=1).run(spec, source, 4)
        assert not np.array_equal(moving.coefficients, plain.coefficients)

    def test_the_same_seed_gives_the_same_draws_in_any_number_of_processes(self, overlapping, monkeypatch):
        X, y = overlapping
        one = quiet(lambda: VBSVC(inference=FEW, random_state=5).fit(X, y))
        monkeypatch.setattr(chains, "WORTH_A_PROCESS", 0.0)
        two = quiet(lambda: VBSVC(inference=FEW, random_state=5).fit(X, y))
        np.testing.assert_array_equal(one.fit_[0].outcome.coefficients, two.fit_[0].outcome.coefficients)
        other = quiet(lambda: VBSVC(inference=FEW, random_state=6).fit(X, y))
        assert not np.array_equal(one.coef_, other.coef_)

    def test_rounds_do_not_matter(self, overlapping, monkeypatch):
        X, y = overlapping
        spec, source = spec_of(3), source_of(X, np.where(y == 1, 1.0, -1.0))
        found = []
        for rounds in (40, 3):
            monkeypatch.setattr(chains, "ROUNDS", rounds)
            found.append(Gibbs(draws=60, tune=31, chains=2, thin=3).run(spec, source, 0).coefficients)
        assert found[0].shape == (2, 20, 4)
        np.testing.assert_array_equal(*found)

    def test_an_interrupted_run_keeps_its_draws(self, overlapping, monkeypatch):
        X, y = overlapping
        interrupt(monkeypatch, after=60)
        clf = VBSVC(inference=Gibbs(draws=200, tune=100, chains=2), random_state=0)
        with pytest.raises(KeyboardInterrupt):
            clf.fit(X, y)
        assert 10 < clf.fit_[0].outcome.coefficients.shape[1] < 200
        assert not clf.converged_

    @pytest.mark.parametrize("kind", ["plain", "gates", "groups", "missing", "categories"])
    def test_a_checkpoint_leads_to_the_same_draws(self, kind, overlapping, tmp_path, monkeypatch):
        X, y = (one.copy() for one in overlapping)
        path = tmp_path / "run.chains"
        formula, prior = ("y ~ a + b + (a | g)", {}) if kind == "groups" else ("y ~ a + b", {"fixed": Ridge()})
        if kind == "gates":
            prior = {"fixed": LaplaceZero(rho=0.3)}
        if kind == "missing":
            X[::5, 1] = np.nan
        if kind == "categories":
            formula = "y ~ a + b + k"
        k = np.where(np.arange(200) % 7 == 0, None, np.where(X[:, 2] > 0, "u", "v"))
        data = pd.DataFrame(X, columns=list("abc")).assign(y=y, g=np.arange(200) % 8, k=k)
        model = Model(formula, data, prior, likelihood="hinge")
        settings = Gibbs(draws=60, tune=20, chains=2, checkpoint=path)
        whole = quiet(lambda: model.fit(replace(settings, checkpoint=None), random_state=3)).outcome
        interrupt(monkeypatch, after=50)
        part = quiet(lambda: model.fit(settings, random_state=3)).outcome
        assert part.interrupted
        assert path.exists()
        resumed = quiet(lambda: model.fit(settings, random_state=3)).outcome
        np.testing.assert_array_equal(whole.coefficients, resumed.coefficients)
        assert not path.exists()
        assert list(tmp_path.iterdir()) == []

    def test_a_checkpoint_of_another_run_or_a_damaged_one_is_refused(self, overlapping, tmp_path, monkeypatch):
        X, y = overlapping
        path = tmp_path / "run.chains"
        monkeypatch.setattr(chains, "SECONDS_BETWEEN", -1.0)
        monkeypatch.setattr(chains.atomic, "remove", lambda path: None)
        settings = Gibbs(draws=20, tune=5, chains=1, checkpoint=str(path))
        whole = quiet(lambda: VBSVC(inference=settings, random_state=0).fit(X, y)).coef_
        before = path.read_bytes()
        for other in (
            lambda: VBSVC(inference=settings, random_state=1).fit(X, y),
            lambda: VBSVC(Normal(1.0), settings, random_state=0).fit(X, y),
            lambda: VBSVC(inference=settings, random_state=0).fit(X + np.arange(3), 1 - y),
        ):
            with pytest.raises(CheckpointError, match="another run"):
                other()
        rng = np.random.default_rng(0)
        for _ in range(40):
            damaged = bytearray(before)
            damaged[rng.integers(len(before))] ^= 1 << rng.integers(8)
            path.write_bytes(bytes(damaged))
            try:
                again = quiet(lambda: VBSVC(inference=settings, random_state=0).fit(X, y)).coef_
            except CheckpointError:
                continue
            np.testing.assert_array_equal(again, whole)  # a byte that tells nothing, such as a time
        path.write_bytes(b"nothing of the kind")
        with pytest.raises(CheckpointError, match="can't be read"):
            VBSVC(inference=settings, random_state=0).fit(X, y)

    def test_a_checkpoint_knows_the_distribution_of_the_inputs_and_its_directory(
        self, overlapping, tmp_path, monkeypatch
    ):
        X, y = (one.copy() for one in overlapping)
        X[::5, 1] = np.nan
        settings = Gibbs(draws=np.int64(20), tune=5, chains=1, checkpoint=tmp_path / "run.chains")
        monkeypatch.setattr(chains, "SECONDS_BETWEEN", -1.0)
        monkeypatch.setattr(chains.atomic, "remove", lambda path: None)
        quiet(lambda: VBSVC(inference=settings, random_state=0).fit(X, y))
        with pytest.raises(CheckpointError, match="another run"):
            VBSVC(inference=settings, random_state=0, imputation=GaussianImputation(psi=5.0)).fit(X, y)
        with pytest.raises(FileNotFoundError, match="no directory"):
            VBSVC(inference=Gibbs(checkpoint=tmp_path / "nowhere" / "x")).fit(X, y)

    def test_several_classes_have_checkpoints_of_their_own(self, overlapping, tmp_path, monkeypatch):
        X, y = overlapping
        y = np.where(X[:, 2] > 1, 2, y)
        settings = Gibbs(draws=20, tune=5, chains=1, checkpoint=tmp_path / "run.chains")
        whole = quiet(lambda: VBSVC(inference=replace(settings, checkpoint=None), random_state=0).fit(X, y))
        monkeypatch.setattr(chains, "SECONDS_BETWEEN", -1.0)
        interrupt(monkeypatch, after=39, by=RuntimeError)
        with pytest.raises(RuntimeError):
            VBSVC(inference=settings, random_state=0).fit(X, y)
        assert sorted(path.name for path in tmp_path.iterdir()) == [f"run.chains.{k}" for k in range(3)]
        again = quiet(lambda: VBSVC(inference=settings, random_state=0).fit(X, y))
        np.testing.assert_array_equal(again.coef_, whole.coef_)
        assert list(tmp_path.iterdir()) == []

    def test_an_interrupted_run_has_draws_of_every_class(self, overlapping, monkeypatch):
        X, y = overlapping
        y = np.where(X[:, 2] > 1, 2, y)
        settings = Gibbs(draws=200, tune=100, chains=2)
        whole = quiet(lambda: VBSVC(inference=settings, random_state=0).fit(X, y))
        interrupt(monkeypatch, after=6 * 20 + 3)  # in the 21st of 40 rounds, in the second class
        clf = VBSVC(inference=settings, random_state=0)
        with pytest.raises(KeyboardInterrupt):
            clf.fit(X, y)
        drawn = [fit.outcome.coefficients for fit in clf.fit_]
        assert [one.shape[:2] for one in drawn] == [(2, 58), (2, 50), (2, 50)]
        for part, one in zip(drawn, whole.fit_, strict=True):
            np.testing.assert_array_equal(part, one.outcome.coefficients[:, : part.shape[1]])
        assert clf.predict(X).shape == (200,)
        assert not clf.converged_

    def test_an_interrupted_tuning_stores_nothing_but_its_checkpoint(self, overlapping, tmp_path, monkeypatch):
        X, y = overlapping
        settings = Gibbs(draws=40, tune=40, chains=2, checkpoint=tmp_path / "run.chains")
        whole = quiet(lambda: VBSVC(inference=replace(settings, checkpoint=None), random_state=0).fit(X, y))
        clf = VBSVC(inference=settings, random_state=0)
        with monkeypatch.context() as patch:
            interrupt(patch, after=11)
            with pytest.raises(KeyboardInterrupt):
                clf.fit(X, y)
        assert not hasattr(clf, "fit_")
        assert (tmp_path / "run.chains").exists()
        np.testing.assert_array_equal(quiet(lambda: clf.fit(X, y)).coef_, whole.coef_)

    def test_too_few_draws_to_judge_are_said_to_be(self, overlapping):
        with pytest.warns(ConvergenceWarning, match="min ESS 3 "):
            VBSVC(inference=Gibbs(draws=3, tune=0, chains=2), random_state=0).fit(*overlapping)

    def test_one_chain_and_thinning(self, overlapping):
        X, y = overlapping
        clf = quiet(lambda: VBSVC(inference=Gibbs(draws=100, tune=50, chains=1, thin=7), random_state=0).fit(X, y))
        assert clf.fit_[0].outcome.coefficients.shape == (1, 15, 4)
        assert clf.n_iter_ == 150

    @pytest.mark.parametrize(
        "bad",
        [
            {"draws": 0},
            {"tune": -1},
            {"chains": 1.5},
            {"thin": True},
            {"draws": 10**12},
            {"tune": 10**12},
            {"chains": 10**6},
            {"thin": 10**400},
        ],
    )
    def test_settings_that_make_no_sense(self, bad):
        with pytest.raises(ValueError, match=f"Gibbs: {next(iter(bad))} must be a whole number from . to 10+"):
            Gibbs(**bad)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            (Gibbs(draws=10**8), r"4 chains of 100000000 draws of 6 numbers would take 17.9 gigabytes.*Use thin=9[.]"),
            (Gibbs(draws=np.int32(10**9), chains=1), r"44.7 gigabytes; up to 2 are supported. Use thin=23[.]"),
            (Gibbs(draws=5000, chains=10**4), r"10000 chains of 5000 draws .* 2.24 gigabytes.* Use thin=2[.]"),
        ],
    )
    def test_more_draws_than_memory_are_refused_with_a_way_out(self, settings, message):
        with pytest.raises(ValueError, match=message):
            settings.run(spec_of(3), source_of(*simulate(20, 3, seed=0)))

    def test_missing_values_of_every_chain_and_all_classes_count(self, monkeypatch):
        X, y = simulate(40, 2, seed=0)
        with monkeypatch.context() as few:
            few.setattr("vbsvm.inference.gibbs.MOST_NUMBERS", 100)
            with pytest.raises(ValueError, match=r"2 chains of 10 draws of 15 numbers would take"):
                VBSVC(inference=Gibbs(draws=10, tune=0, chains=2)).fit(X, np.arange(40) % 3)
            X[3, 0] = np.nan
            with pytest.raises(ValueError, match=r"with the missing values of each chain, .* Use fewer chains"):
                VBSVC(inference=Gibbs(draws=1, tune=0, chains=4)).fit(X, y)


class TestResults:
    def test_means_are_near_the_variational_ones_and_spreads_are_wider(self, overlapping):
        X, y = overlapping
        drawn = VBSVC(inference=Gibbs(draws=1500, tune=300, chains=2), random_state=0).fit(X, y)
        climbed = VBSVC().fit(X, y)
        assert np.abs(drawn.coef_ - climbed.coef_).max() < drawn.coef_std_.max()
        ratios = by_mean_field(climbed).coef_std_ / drawn.coef_std_
        assert ((ratios > 0.35) & (ratios < 0.75)).all()
        table = drawn.summary()
        assert table.attrs["std_error"] == "posterior sd"
        assert list(table.columns[-3:]) == ["rhat", "ess_bulk", "ess_tail"]
        assert drawn.converged_
        assert drawn.penalty_ == pytest.approx(climbed.penalty_, rel=0.5)
        np.testing.assert_allclose(np.sqrt(np.diagonal(drawn.coef_cov_[0])), drawn.coef_std_[0])
        for name in ("elbo_", "elbo_trace_"):
            with pytest.raises(AttributeError):
                getattr(drawn, name)
        assert (drawn.predict(X) == climbed.predict(X)).mean() > 0.95

    def test_intervals_of_the_summary_are_quantiles_of_draws(self, overlapping):
        X, y = overlapping
        fit = quiet(lambda: VBSVC(inference=FEW, random_state=0).fit(X, y)).fit_[0]
        table = fit.summary(level=0.8)
        draws = fit.outcome.flat / np.r_[1.0, fit.plan.recipe.scale]
        np.testing.assert_allclose(table["lower"].to_numpy()[1:], np.quantile(draws[:, 1:], 0.1, axis=0))
        raw = fit.outcome.flat[:, 0] - draws[:, 1:] @ fit.plan.recipe.centre
        assert table.loc["(intercept)", "upper"] == pytest.approx(np.quantile(raw, 0.9))
        assert table.loc["(intercept)", "std_error"] == pytest.approx(raw.std())

    def test_gates(self, overlapping):
        X, y = overlapping
        clf = quiet(lambda: VBSVC(LaplaceZero(rho=0.3), FEW, random_state=0).fit(X, y))
        assert clf.inclusion_probability_[0, 0] > 0.95
        assert clf.inclusion_probability_[0, 2] < 0.6
        assert clf.selected_[0].tolist()[0]
        gates, table = clf.fit_[0].outcome.gates, clf.summary()
        assert gates.shape[2] == 3
        assert np.isnan(table.loc["(intercept)", "inclusion_rhat"])
        assert table.loc["x2", "inclusion_rhat"] == diagnostics.rhat(gates[:, :, 2])
        assert table.loc["x2", "inclusion_ess"] == diagnostics.ess_bulk(gates[:, :, 2])

    def test_gates_that_never_move_are_good_where_chains_agree_and_bad_where_not(self, overlapping):
        X, y = overlapping
        fit = quiet(lambda: VBSVC(LaplaceZero(rho=0.3), FEW, random_state=0).fit(X, y)).fit_[0]
        gates = fit.outcome.gates.copy()
        gates[:, :, 0], gates[:, :, 1] = 1.0, 0.0
        agreed = replace(fit, outcome=replace(fit.outcome, gates=gates))
        assert agreed.summary()[["inclusion_rhat", "inclusion_ess"]].loc[["x0", "x1"]].isna().all(axis=None)
        gates = gates.copy()
        gates[1, :, 1] = 1.0
        stuck = replace(fit, outcome=replace(fit.outcome, gates=gates))
        assert stuck.summary().loc["x1", "inclusion_rhat"] == np.inf
        assert stuck.worst_mixing().rhat_of == stuck.worst_mixing().ess_of == "gate of x1"
        assert not stuck.converged

    def test_groups_slopes_and_predictions(self):
        rng = np.random.default_rng(0)
        g, x = np.arange(240) % 12, rng.normal(size=240)
        y = np.where(x * (1 + rng.normal(size=12)[g]) + rng.normal(size=12)[g] + rng.logistic(size=240) > 0, "a", "b")
        data = pd.DataFrame({"y": y, "x": x, "g": g})
        fit = quiet(lambda: Model("y ~ x + (x | g)", data, likelihood="hinge").fit(FEW, random_state=1))
        assert fit.random_effects().shape == (24, 4)
        table = fit.variance_components()
        assert list(table.index.get_level_values(1)) == ["(intercept)", "x", "correlation of (intercept) and x"]
        assert (table["lower"] < table["std_dev"]).all()
        mean, sd = fit.decision_function(data.head(5), return_std=True)
        draws = fit.outcome.flat
        recipe = fit.plan.recipe
        z = (data["x"].to_numpy()[:5] - recipe.centre[0]) / recipe.scale[0]
        for i in range(5):
            effects = draws[:, 2 + 2 * i : 4 + 2 * i]
            scores = draws[:, 0] + draws[:, 1] * z[i] + effects[:, 0] + effects[:, 1] * z[i]
            assert mean[i] == pytest.approx(scores.mean())
            assert sd[i] == pytest.approx(scores.std(), rel=0.1)
        assert np.isfinite(fit.predict_proba(data.head(3).assign(g=99))).all()
        assert "2 chains of 400 draws" in repr(fit)

    def test_variance_components_say_how_they_mix(self):
        rng = np.random.default_rng(0)
        g, x = np.arange(240) % 12, 10 * rng.normal(size=240)
        y = np.where(0.1 * x + rng.normal(size=12)[g] + rng.logistic(size=240) > 0, 1, 0)
        data = pd.DataFrame({"y": y, "x": x, "g": g})
        fit = quiet(lambda: Model("y ~ x + (x | g) + s(x)", data, likelihood="hinge").fit(FEW, random_state=1))
        table = fit.variance_components()
        assert list(table.columns[-3:]) == ["rhat", "ess_bulk", "ess_tail"]
        draws = np.log(fit.outcome.scales[-1][:, :, 3])
        assert table.loc[("(x | g)", "x"), "rhat"] == diagnostics.rhat(draws)
        assert table.loc[("(x | g)", "x"), "ess_tail"] == diagnostics.ess_tail(draws)
        assert table["ess_bulk"].notna().all()
        assert fit.worst_mixing().ess == min(table["ess_bulk"].min(), fit.summary()["ess_bulk"].min())

    @pytest.mark.parametrize("prior", [Ridge(2.0, 1.0), Normal(1.0)])
    def test_effects_that_share_a_variance(self, prior, overlapping):
        X, y = overlapping
        data = pd.DataFrame({"y": y, "x": X[:, 0], "g": np.arange(200) % 10})
        fit = quiet(
            lambda: Model("y ~ x + (x | g)", data, {"(x | g)": prior}, likelihood="hinge").fit(FEW, random_state=1)
        )
        table = fit.variance_components()
        np.testing.assert_allclose(table["variance"], table["std_dev"] ** 2)
        assert table["std_dev"].iloc[1] == pytest.approx(table["std_dev"].iloc[0] / data["x"].std(ddof=0))
        assert table["rhat"].isna().all() == isinstance(prior, Normal)

    def test_missing_inputs_and_categories(self):
        rng = np.random.default_rng(1)
        x, arm = rng.normal(size=150), rng.choice(list("ab"), size=150)
        y = np.where(x + (arm == "b") + rng.logistic(size=150) > 0.5, 1, 0)
        data = pd.DataFrame({"y": y, "x": x, "z": x + rng.normal(size=150), "arm": arm}).astype({"arm": object})
        data.loc[::5, "x"], data.loc[::7, "arm"], data.loc[::11, "z"] = np.nan, None, np.nan
        drawn = quiet(
            lambda: Model("y ~ x + z + arm", data, {"fixed": Ridge()}, likelihood="hinge").fit(FEW, random_state=0)
        )
        climbed = Model("y ~ x + z + arm", data, {"fixed": Ridge()}, likelihood="hinge").fit()
        assert np.abs(drawn.coef - climbed.coef).max() < 4 * drawn.coef_std.max()
        assert np.isfinite(drawn.predict_proba(data)).all()
        assert drawn.imputation_mean.shape == (2,)

    def test_predictions_know_the_mean_of_the_levels_chances(self, monkeypatch):
        rng = np.random.default_rng(1)
        arm = np.where(rng.random(60) < 0.4, None, rng.choice(["a", "b"], size=60))
        data = pd.DataFrame({"y": rng.integers(0, 2, size=60), "x": rng.normal(size=60), "arm": arm})
        counts, right = [], gibbs.sweep

        def recorded(*arguments):
            state, stats = right(*arguments)
            counts.append(stats.missing.levels.counts[0])
            return state, stats

        monkeypatch.setattr(gibbs, "sweep", recorded)
        settings = Gibbs(draws=40, tune=0, chains=2)
        fit = quiet(
            lambda: Model("y ~ x + arm", data, {"fixed": Ridge()}, likelihood="hinge").fit(settings, random_state=0)
        )
        (found,) = fit.outcome.state.missing.levels.concentrations
        np.testing.assert_allclose(found, 1 + np.mean(counts, axis=0))
        assert found.sum() == pytest.approx(62)

    def test_weights_of_incomplete_rows_must_be_whole(self):
        X, y = simulate(40, 2, seed=0)
        X[3, 0] = np.nan
        with pytest.raises(ValueError, match=r"a row has the weight 0.5.*integer weights"):
            VBSVC(inference=FEW).fit(X, y, sample_weight=np.full(40, 0.5))
        for weight in (1e12, 1e30):
            with pytest.raises(ValueError, match=r"weights add up to 4e\+[13][0-9] rows.* use smaller weights"):
                VBSVC(inference=FEW).fit(X, y, sample_weight=np.full(40, weight))
        s = np.where(np.arange(40) % 2 == 0, 2, 1)
        short = Gibbs(draws=10, tune=0, chains=1)  # rounding grows from draw to draw
        one = quiet(lambda: VBSVC(inference=short, random_state=0).fit(X, y, sample_weight=s))
        two = quiet(lambda: VBSVC(inference=short, random_state=0).fit(np.repeat(X, s, axis=0), np.repeat(y, s)))
        np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-9)

    def test_several_classes(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(150, 2))
        y = np.array(["a", "b", "c"])[np.argmax(X @ rng.normal(size=(2, 3)) + rng.gumbel(size=(150, 3)), axis=1)]
        clf = quiet(lambda: VBSVC(inference=FEW, random_state=0).fit(X, y))
        assert clf.coef_.shape == (3, 2)
        assert clf.score(X, y) > 0.4


class TestWarnings:
    def test_separable_data_are_said_to_be(self):
        X, y = simulate(60, 2, seed=0)
        with pytest.warns(ConvergenceWarning, match="most draws separate the classes"):
            VBSVC(inference=FEW, random_state=0).fit(np.column_stack([X, 3 * y]), y)

    def test_chains_that_do_not_mix_are_said_to(self, overlapping):
        X, y = overlapping
        with pytest.warns(ConvergenceWarning, match=r"chains have not converged: .*min ESS"):
            VBSVC(inference=Gibbs(draws=30, tune=0, chains=2), random_state=0).fit(X, y)

    def test_the_slowest_parameter_is_named_whatever_it_is(self, overlapping):
        X, y = overlapping
        fit = quiet(lambda: VBSVC(inference=Gibbs(draws=2500, tune=200, chains=2), random_state=0).fit(X, y)).fit_[0]
        assert fit.converged
        scales = fit.outcome.scales
        drifting = scales[1] * np.exp(0.02 * np.arange(2500))[:, None]
        slow = replace(fit, outcome=replace(fit.outcome, scales=(scales[0], drifting)))
        (message,) = convergence_messages("Model.fit", slow, Gibbs())
        assert re.search(r"max R-hat \d\.\d+ \('sd of inputs'", message)
        assert re.search(r"min ESS \d+ \('sd of inputs'", message)

    @pytest.mark.parametrize("accelerate", [True, False])
    def test_the_share_of_draws_that_separate_is_counted(self, accelerate):
        """The count runs one draw behind, so that it may differ by one of each chain."""
        X, y = simulate(12, 2, seed=0)
        X[:, 0] += 2 * y
        inference = Gibbs(200, 50, 2, accelerate=accelerate)
        clf = quiet(lambda: VBSVC(Ridge(2.0, 2.0), inference, random_state=0).fit(X, y))
        sample, recipe = clf.fit_[0].outcome, clf.fit_[0].plan.recipe
        scores = sample.flat @ recipe.encode(X, recipe.work_space(len(X))).T
        separate = (scores * np.where(y == clf.classes_[1], 1, -1) >= 1).all(axis=1).mean()
        assert 0.1 < separate < 0.9
        assert abs(sample.zero_loss - separate) <= 1 / 200

    @pytest.mark.parametrize("noise", [0.0, 0.1])
    def test_data_with_missing_inputs_may_be_separable(self, noise):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(80, 2))
        y = np.where((X[:, 0] > 0) ^ (rng.random(80) < noise), 1, 0)
        X[rng.random(X.shape) < 0.1] = np.nan
        fit = quiet(lambda: VBSVC(inference=Gibbs(100, 300, 2), imputation=PAPER, random_state=0).fit(X, y)).fit_[0]
        assert fit.outcome.separable == (noise == 0)

    @pytest.mark.parametrize("noise", [0.0, 0.1])
    def test_data_with_missing_categories_may_be_separable(self, noise):
        rng = np.random.default_rng(0)
        x = rng.normal(size=80)
        y = np.where((x > 0) ^ (rng.random(80) < noise), 1, 0)
        arm = np.where(rng.random(80) < 0.2, None, np.where(x > 0.5, "a", "b"))
        model = Model("y ~ x + arm", pd.DataFrame({"y": y, "x": x, "arm": arm}), {"fixed": Ridge()}, likelihood="hinge")
        fit = quiet(lambda: model.fit(Gibbs(draws=100, tune=100, chains=2), random_state=0))
        assert fit.outcome.separable == (noise == 0)
        assert fit.outcome.acceptance > 0.1

    def test_what_only_variational_bayes_has(self):
        X, y = simulate(60, 2, seed=0)
        X[::4, 1] = np.nan
        with pytest.raises(ValueError, match="use gates=Factorised"):
            VBSVC(inference=FEW, prior=LaplaceZero(gates=Joint())).fit(X, y)

    def test_sensitivity_follows_variational_fits(self, overlapping):
        with pytest.raises(ValueError, match="only available for variational fits"):
            VBSVC(inference=FEW).sensitivity(*overlapping, [1.0])
        with pytest.raises(TypeError, match="Variational\\(\\) or Gibbs\\(\\)"):
            VBSVC(inference=3).fit(*overlapping)


class TestDiagnostics:
    def test_independent_draws_and_their_opposites(self):
        rng = np.random.default_rng(0)
        good = rng.normal(size=(4, 1000))
        assert diagnostics.rhat(good) < 1.01
        assert 3000 < diagnostics.ess_bulk(good) < 5000
        assert 2500 < diagnostics.ess_tail(good) < 5500
        apart = good + np.array([[0], [0], [0], [2]])
        assert diagnostics.rhat(apart) > 1.2
        slow = np.cumsum(good, axis=1) / 30
        assert diagnostics.ess_bulk(slow) < 40
        heavy = good * np.array([[1], [1], [1], [5]])
        assert diagnostics.rhat(heavy) > 1.05  # folded: the same centre, another spread
        assert np.isnan(diagnostics.rhat(np.ones((2, 100))))

    def test_a_gate_that_is_open_half_of_the_time(self):
        """Its distances from the median are all ½: that is no sign of bad mixing."""
        coins = np.random.default_rng(0).permuted(np.tile([0.0, 1.0], (4, 500)), axis=1)
        assert np.median(coins) == 0.5
        assert diagnostics.rhat(coins) < 1.01
        assert diagnostics.rhat(np.repeat([[0.0], [1.0]], 100, axis=1)) == np.inf

    def test_an_autoregression_has_its_known_size(self):
        rng = np.random.default_rng(1)
        rho, draws = 0.8, np.zeros((4, 20_000))
        for k in range(1, 20_000):
            draws[:, k] = rho * draws[:, k - 1] + rng.normal(size=4)
        expected = 80_000 * (1 - rho) / (1 + rho)
        assert diagnostics.ess_bulk(draws) == pytest.approx(expected, rel=0.1)


def test_a_variational_fit_is_not_changed_by_a_random_state(overlapping):
    assert VBSVC(random_state=3).fit(*overlapping).elbo_ == VBSVC(inference=Variational()).fit(*overlapping).elbo_
