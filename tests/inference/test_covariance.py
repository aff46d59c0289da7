"""Covariances of every kind and layout, and what is said of them."""

from dataclasses import replace

import numpy as np
import pytest

from grouped_models import dense_twin
from incomplete_models import PAPER
from models import source_of, spec_of
from reference import simulate
from spread_models import FIXED, GROUP_PRIORS, crossed_with_slopes, overlapping, sds, settled
from tilting import by_refits, refit
from vbsvm import VBSVC, Gibbs, Joint, LaplaceZero, Normal, Variational
from vbsvm.inference.covariance import kinds as covariance
from vbsvm.inference.covariance import map_response as tilted_map
from vbsvm.inference.covariance.kinds import KINDS, Covariances, curvature_distribution, curvature_stats, respond
from vbsvm.inference.covariance.linear_response import NoMaximumError, solve_response, squared_kernel
from vbsvm.inference.covariance.map_response import response_of_map
from vbsvm.model.likelihoods.hinge import EXACT_HINGE
from vbsvm.model.spec import Spec

TIGHT = Variational(tol=1e-10)


def of_task(task):
    return task.spec, TIGHT.run(task.spec, task.source).state, task.source


def selection(prior=None, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 8))
    y = X @ [1.5, -1, 0.8, 0.5, 0.3, 0, 0, 0] + rng.logistic(size=300) > 0
    return of_task(VBSVC(prior or LaplaceZero(0.2))._tasks(X, y, None)[0])


def with_missing():
    X, y = simulate(120, 3, seed=0)
    X[:30, 0] = np.nan
    return of_task(VBSVC(imputation=PAPER)._tasks(X, y, None)[0])


class TestCurvature:
    def test_it_is_the_inverse_of_minus_the_second_derivative_in_the_mean(self):
        X, y = overlapping(100, 3, seed=0)
        spec, source = spec_of(3, Normal(1.0)), source_of(X, y)
        state = TIGHT.run(spec, source).state

        def slope(mean):
            moved = replace(state, coefficients=state.coefficients.with_mean(mean))
            stats = curvature_stats(spec, moved, source)
            return stats.cross - stats.gram.times(mean) - spec.precision(state).times(mean)

        e, mean = 1e-5, state.coefficients.mean
        second = np.array([(slope(mean + e * unit) - slope(mean - e * unit)) / (2 * e) for unit in np.eye(4)])
        found = Covariances(spec, state, source, 4).of("curvature").covariance
        np.testing.assert_allclose(np.linalg.inv(found), -second, rtol=1e-6, atol=1e-5)
        assert np.abs(np.linalg.inv(Covariances(spec, state, source, 4).of("mean-field").covariance) + second).max() > 1

    @pytest.mark.parametrize("exact", [False, True])
    def test_arrow_and_dense_agree(self, exact):
        """Effects of groups, too."""
        source = crossed_with_slopes()
        spec = Spec((*FIXED, *GROUP_PRIORS["independent"]))
        twin = dense_twin(source)
        one, other = (
            curvature_distribution(*fit, curvature_stats(*fit, rows))
            for rows in (source, twin)
            for fit in (settled(spec, rows, exact),)
        )
        np.testing.assert_allclose(one.covariances(8), other.covariances(8), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(one.variances, other.variances, rtol=1e-6)

    def test_dual_and_dense_agree(self):
        X, y = overlapping(60, 12, seed=3)
        spec, source = spec_of(12), source_of(X, y)
        found = [
            Covariances(spec, TIGHT.run(spec, rows).state, rows, 13).of("curvature").covariance
            for rows in (source, replace(source, wide=True))
        ]
        np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-7)

    def test_gates(self):
        """γ̃γ̃ᵀ∘H + diag{γ̃(1 − γ̃)∘dg G} + Λ."""
        spec, state, source = selection()
        state = replace(state, gates=state.gates.with_log_odds(np.linspace(-1.0, 3.0, 8)))
        stats, opened = curvature_stats(spec, state, source), state.gates.by_coefficient
        precision = np.outer(opened, opened) * stats.curvature.matrix
        precision += np.diag(opened * (1 - opened) * stats.gram.matrix.diagonal() + spec.precision(state).diagonal)
        found = curvature_distribution(spec, state, stats).covariances(9)
        np.testing.assert_allclose(found, np.linalg.inv(precision), rtol=1e-8, atol=1e-12)

    def test_missing_values(self):
        spec, state, source = with_missing()
        found = Covariances(spec, state, source, 4).of("curvature").covariance
        assert (sds(found) > np.sqrt(state.coefficients.variances)).all()


class TestKernel:
    @pytest.mark.parametrize(("n", "p"), [(5, 3), (30, 3), (4000, 40)])
    def test_every_form_is_the_square_of_every_product(self, n, p):
        rng = np.random.default_rng(0)
        whitened, right = rng.normal(size=(n, p)) / np.sqrt(p), rng.normal(size=(n, 2))
        K = whitened @ whitened.T
        np.testing.assert_allclose(squared_kernel(whitened)(right), np.square(K) @ right, rtol=1e-9, atol=1e-9)

    def test_what_is_no_maximum_is_refused(self):
        rng = np.random.default_rng(0)
        kernel, right = squared_kernel(rng.normal(size=(50, 3))), rng.normal(size=(50, 2))
        Q, image = solve_response(kernel, np.full(50, -0.1), right, 1e-10)
        np.testing.assert_allclose(kernel(Q + 0.2 * image), kernel(right), atol=1e-8)
        np.testing.assert_allclose(image, kernel(Q), atol=1e-8)
        with pytest.raises(NoMaximumError):
            solve_response(kernel, np.full(50, 10.0), right, 1e-10)


class TestGates:
    def test_the_response_is_the_derivative_of_refits(self):
        spec, state, source = selection()
        state = refit(spec, state, source, still=1e-10)
        which = np.array([0, 3, 5])
        found = response_of_map(spec, state, source, which, accuracy=1e-6).coefficients
        for k, column in enumerate(which):
            expected = by_refits(spec, state, source, column, still=1e-10)
            np.testing.assert_allclose(found[k], expected, rtol=1e-4, atol=1e-5 * expected[column])

    def test_more_accuracy_than_differences_have_is_no_failure_but_a_wrong_answer_is(self, monkeypatch):
        spec, state, source = selection()
        state, which = refit(spec, state, source, still=1e-10), np.arange(4)
        enough, too_much = (response_of_map(spec, state, source, which, accuracy=a).covariance for a in (1e-6, 1e-15))
        np.testing.assert_allclose(too_much, enough, atol=1e-3 * enough.max())
        monkeypatch.setattr(tilted_map, "MOST_PRODUCTS", 1)
        with pytest.raises(NoMaximumError):
            response_of_map(spec, state, source, which)

    def test_what_is_left_out_has_no_number(self):
        spec, state, source = selection()
        out = state.gates.by_coefficient < 0.5
        assert 0 < out.sum() < 8
        for kind in ("posterior", "robust"):
            found = Covariances(spec, state, source, 9).of(kind)
            np.testing.assert_array_equal(np.isnan(sds(found.covariance)), out)
            assert f"Excluded predictors: {out.sum()}." in " ".join(found.reliability.warnings)
        assert np.isfinite(Covariances(spec, state, source, 9).of("curvature").covariance).all()

    def test_joint_gates_have_no_response(self):
        spec, state, source = selection(LaplaceZero(0.2, gates=Joint()))
        found = Covariances(spec, state, source, 9).of("posterior")
        assert found.covariance is None
        assert "LaplaceZero(gates=Joint())" in found.reliability.warnings[-1]


def test_a_climb_that_has_not_converged_is_named(monkeypatch):
    X, y = overlapping(100, 3, seed=0)
    spec, source = spec_of(3), source_of(X, y)
    state = Variational().run(spec, source).state
    monkeypatch.setattr(covariance, "TIGHT", Variational(tol=1e-8, max_iter=2))
    for kind in ("robust", "posterior"):
        assert Covariances(spec, state, source, 4).of(kind).reliability.warnings == (covariance.NOT_CONVERGED,)


def test_missing_values_have_a_verdict_and_no_number():
    of_fit = Covariances(*with_missing(), 4)
    assert of_fit.reliability.reliable
    for kind in ("robust", "posterior"):
        found = of_fit.of(kind)
        assert found.covariance is None
        assert "missing values" in found.reliability.warnings[-1]


def test_kinds_in_order_and_close_to_the_posterior():
    """Mean field is much too narrow, the response is the posterior's spread, and the sandwich is wider."""
    X, y = overlapping(200, 4, seed=3)
    drawn = VBSVC(inference=Gibbs(draws=2000, tune=500, chains=2), random_state=0).fit(X, y)
    posterior = np.sqrt(drawn._fits[0].posterior.variances)
    task = VBSVC()._tasks(X, y, None)[0]
    of_fit = Covariances(task.spec, Variational().run(task.spec, task.source).state, task.source, 5)
    ratio = {kind: float(np.exp(np.log(sds(of_fit.of(kind).covariance) / posterior).mean())) for kind in KINDS}
    assert ratio["mean-field"] < 0.7
    assert 0.93 < ratio["posterior"] < 1.07
    assert ratio["robust"] > 1.3
    found = of_fit.of("posterior")
    np.testing.assert_allclose(found.mean, drawn._fits[0].posterior.mean, atol=0.15 * posterior.max())
    assert found.log_variances["inputs"] == pytest.approx(np.log(drawn._fits[0].outcome.scales[1]).std(), rel=0.15)


def test_an_exact_fit_starts_from_itself():
    X, y = overlapping(200, 4, seed=3)
    spec, source = spec_of(4), source_of(X, y)
    paper, exact = TIGHT.run(spec, source), Variational(bound="exact", tol=1e-10).run(spec, source)
    one = Covariances(spec, paper.state, source, 5).of("posterior")
    other = Covariances(replace(spec, likelihood=EXACT_HINGE), exact.state, source, 5).of("posterior")
    np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(one.mean, other.mean, atol=1e-3)


def test_effects_of_groups_on_request():
    source = crossed_with_slopes()
    spec = Spec((*FIXED, *GROUP_PRIORS["together"]))
    spec, state, response, _ = respond(spec, TIGHT.run(spec, source).state, source, np.array([1, 10, 30]))
    expected = by_refits(spec, refit(spec, state, source), source, 10)
    np.testing.assert_allclose(response.coefficients[1], expected, rtol=1e-2, atol=1e-3 * expected[10])


def test_kinds_that_are_not_known_are_refused():
    X, y = overlapping(60, 2, seed=0)
    spec, source = spec_of(2), source_of(X, y)
    of_fit = Covariances(spec, TIGHT.run(spec, source).state, source, 3)
    for kind, by in (("sandwich", "response"), ("robust", "guess")):
        with pytest.raises(ValueError, match="A covariance is one of 'robust'"):
            of_fit.of(kind, by)


class TestReliability:
    def of(self, X, y):
        spec, source = spec_of(X.shape[1]), source_of(X, y)
        return Covariances(spec, Variational().run(spec, source).state, source, X.shape[1] + 1)

    def test_nothing_is_said_of_classes_that_overlap(self):
        found = self.of(*overlapping(300, 3, seed=0)).of("robust")
        assert found.reliability.reliable
        assert 0.2 < found.reliability.losing < 0.9

    def test_separated_classes(self):
        X, _ = overlapping(60, 2, seed=0)
        X[:, 0] += np.sign(X[:, 0])
        of_fit = self.of(X, np.sign(X[:, 0]))
        assert "Complete separation" in of_fit.reliability.warnings[0]
        for kind in KINDS:
            found = of_fit.of(kind)
            assert not found.reliability.reliable
            assert np.isfinite(found.covariance).all()

    def test_nearly_separated_classes(self):
        X, y = overlapping(80, 30, seed=0)
        assert "nearly separated" in self.of(X, y).reliability.warnings[0]

    def test_rows_that_pile_up_on_the_margin(self):
        rng = np.random.default_rng(0)
        X = rng.integers(0, 2, size=(300, 1)) * 2.0 - 1.0
        y = np.where(rng.random(300) < 0.85, 1.0, -1.0) * X[:, 0]
        found = self.of(X, y).reliability
        assert found.piled > 0.5
        assert "on the margin" in found.warnings[-1]
