"""A variational fit beside a sampler's: densities, accuracy, figures, ArviZ."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from sklearn.exceptions import ConvergenceWarning

from shown import by_mean_field
from vbsvm import VBSVC, Covariance, Gibbs, LaplaceZero, Model, compare, plots
from vbsvm.base import diagnostics
from vbsvm.base.distributions import InverseGamma, InverseWishart
from vbsvm.datasets import load_toenail
from vbsvm.plots.diagnostics import rank_shares
from vbsvm.results.comparison.approximations import Pair
from vbsvm.results.variance_components import Correlation

pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")
pyplot.switch_backend("Agg")
pytest.importorskip("arviz", reason="ArviZ is not installed", exc_type=ImportError)

SEVERAL = {"(1 | h)": Covariance(scale=2.0)}  # one effect alone may have this prior too


@pytest.fixture(scope="module")
def fits():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 3))
    y = np.where(X @ [1.0, -0.5, 0.0] + 1.5 * rng.logistic(size=200) > 0, 1, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        drawn = VBSVC(inference=Gibbs(draws=800, tune=200, chains=2), random_state=0).fit(X, y)
        gated = VBSVC(LaplaceZero(rho=0.3), Gibbs(draws=800, tune=200, chains=2), random_state=0).fit(X, y)
    return VBSVC().fit(X, y), drawn, VBSVC(LaplaceZero(rho=0.3)).fit(X, y), gated


def test_the_accuracy_of_equal_and_of_disjoint_densities():
    grid = np.linspace(-10, 10, 2001)
    one, far = stats.norm.pdf(grid), stats.norm.pdf(grid, 8, 0.3)
    assert Pair("x", grid, one, one, (0.0, 0.0)).accuracy == pytest.approx(100)
    assert Pair("x", grid, one, far, (0.0, 0.0)).accuracy == pytest.approx(0, abs=1e-6)
    half = Pair("x", grid, one, stats.norm.pdf(grid, 0, 2.0), (0.0, 0.0)).accuracy
    cut = np.sqrt(2 * np.log(2) / (1 - 0.25))  # where the densities cross
    exact = 100 * (1 - (2 * stats.norm.cdf(cut) - 2 * stats.norm.cdf(cut / 2)))
    assert half == pytest.approx(exact, abs=0.01)
    gated = Pair("x", grid, 0.5 * one, 0.2 * one, (0.5, 0.8))
    assert gated.accuracy == pytest.approx(70, abs=1e-3)


@pytest.mark.parametrize("mean", [0.0, 3.0, 1e3])
@pytest.mark.parametrize("sd", [1e-3, 1.0, 30.0])
def test_accuracies_lie_between_0_and_100_and_densities_integrate_to_one(fits, mean, sd):
    """A variational density that is far from the draws, or much narrower or wider than these."""
    climbed, drawn = fits[0].fit_[0], fits[1].fit_[0]
    state = climbed.outcome.state
    distribution = replace(state.gaussian, mean=state.gaussian.mean + mean, root=sd * state.gaussian.root)
    scales = [InverseGamma(one.shape, sd * one.rate) if isinstance(one, InverseGamma) else one for one in state.scales]
    moved = replace(climbed.outcome, state=replace(state, coefficients=distribution, scales=tuple(scales)))
    found = compare(replace(climbed, outcome=moved), drawn)
    assert found.table["accuracy"].between(0, 100).all()
    for pair in found.pairs:
        for density in (pair.variational, pair.sampled):
            assert np.trapezoid(density, pair.grid) == pytest.approx(1, abs=1e-9)
    np.testing.assert_allclose(found.table["Gibbs sd"].iloc[:3], drawn.coef_std)
    assert "-0.0" not in repr(found)


def test_the_table_and_the_figure(fits):
    climbed, drawn, *_ = fits
    found = compare(climbed, drawn)
    assert list(found.table.index) == ["x0", "x1", "x2", "sd of inputs"]
    np.testing.assert_allclose(found.table["Gibbs"].to_numpy()[:3], drawn.coef_[0], atol=0.01)
    np.testing.assert_allclose(
        found.table["variational sd"].to_numpy()[:3], by_mean_field(climbed).coef_std_[0], rtol=0.01
    )
    # Mean-field spreads are about half: the overlap of N(0, ½²) and N(0, 1) is 68 %, less what the means differ by.
    assert ((found.table["accuracy"][:3] > 40) & (found.table["accuracy"][:3] < 85)).all()
    assert "accuracy" in repr(found)
    figure = plots.densities(found, terms=["x0", "x2"])
    assert [ax.get_title() for ax in figure.axes] == ["x0", "x2"]
    for terms, told in ((["zz"], r"\['zz'\]"), (["x0", "zz"], r"\['zz'\]"), ([], "nothing")):
        with pytest.raises(ValueError, match=rf"^densities: {told} is not in the comparison: there are \['x0', 'x1'"):
            plots.densities(found, terms=terms)
    with pytest.raises(ValueError, match=r"^densities: the comparison has no parameters"):
        plots.densities(replace(found, pairs=()))


def test_gates_count_what_is_at_zero(fits):
    *_, climbed, drawn = fits
    found = compare(climbed, drawn)
    assert found.table["accuracy"].between(0, 100).all()
    assert any(pair.at_zero[1] > 0.2 for pair in found.pairs)


@pytest.fixture(scope="module")
def slopes():
    rng = np.random.default_rng(0)
    g, x = np.arange(300) % 15, 10 * rng.normal(size=300)
    y = np.where(x * (0.1 + 0.1 * rng.normal(size=15)[g]) + rng.normal(size=15)[g] + rng.logistic(size=300) > 0, 1, 0)
    model = Model("y ~ x + (x | g) + (1 | h)", pd.DataFrame({"y": y, "x": x, "g": g, "h": g // 3}), SEVERAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(), model.fit(Gibbs(draws=600, tune=200, chains=2), random_state=0)


def test_standard_deviations_and_correlations_of_effects_are_compared(slopes):
    climbed, drawn = slopes
    found = compare(climbed, drawn)
    names = [
        "sd of (intercept) in (x | g)",
        "sd of x in (x | g)",
        "correlation of (intercept) and x in (x | g)",
        "sd of (1 | h)",
    ]
    assert sorted(found.table.index) == sorted(["x", *names])
    assert found.table["accuracy"].between(0, 100).all()
    for pair in found.pairs:
        for density in (pair.variational, pair.sampled):
            assert np.trapezoid(density, pair.grid) == pytest.approx(1, abs=1e-9)
    tables = climbed.variance_components(), drawn.variance_components()
    places = [("(x | g)", "x"), ("(x | g)", "correlation of (intercept) and x"), ("(1 | h)", "(intercept)")]
    for name, place in zip(names[1:], places, strict=True):
        pair = next(pair for pair in found.pairs if pair.name == name)
        for density, table in zip((pair.variational, pair.sampled), tables, strict=True):
            below = integrate.cumulative_trapezoid(density, pair.grid, initial=0)
            expected = table.loc[place, ["lower", "std_dev", "upper"]].to_numpy()
            if "sd of" in name and table is tables[1]:  # an interval of the highest density, with the same probability
                share = np.interp(expected[[0, 2]].astype(float), pair.grid, below)
                assert share[1] - share[0] == pytest.approx(0.95, abs=0.02)
                expected = np.array([np.nan, expected[1], np.nan])
            step, known = 0.02 * np.ptp(pair.grid), ~np.isnan(expected.astype(float))
            found_here = np.interp([0.025, 0.5, 0.975], below, pair.grid)[known]
            np.testing.assert_allclose(found_here, expected[known].astype(float), atol=step)


def test_a_variational_density_far_from_the_draws_is_seen_whole(slopes):
    climbed, drawn = slopes
    far = replace(drawn.outcome, scales=tuple(1e-4 * one for one in drawn.outcome.scales))
    found = compare(climbed, replace(drawn, outcome=far))
    assert found.table.loc["sd of x in (x | g)", "accuracy"] < 1


@pytest.mark.parametrize("degrees", [4.0, 60.0])
def test_the_distribution_of_a_correlation(degrees):
    """Against draws; a centre of the opposite sign is seen."""
    scale = np.array([[2.0, 0.9, 0.1], [0.9, 1.0, -0.5], [0.1, -0.5, 1.5]])
    distribution, rng = InverseWishart(scale, degrees), np.random.default_rng(0)
    draws = np.array([distribution.draw(rng).value for _ in range(4000)])
    values = draws[:, 0, 1] / np.sqrt(draws[:, 0, 0] * draws[:, 1, 1])
    centre = 0.9 / np.sqrt(2)
    for one, right in ((Correlation(centre, degrees - 1), True), (Correlation(-centre, degrees - 1), False)):
        chances = np.linspace(0, 1, 11)
        shares = np.histogram(values, np.r_[-1.0, one.quantiles(chances)[1:-1], 1.0])[0] / 4000
        assert (np.abs(shares - 0.1).max() < 0.025) == right


def test_what_can_not_be_compared(fits):
    climbed, drawn, *_ = fits
    with pytest.raises(ValueError, match="first argument must be a variational fit"):
        compare(drawn, climbed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        other = VBSVC(inference=Gibbs(draws=50, tune=10, chains=1), random_state=0).fit(*separate())
    with pytest.raises(ValueError, match="different models"):
        compare(climbed, other)
    with pytest.raises(TypeError, match="compare takes fits"):
        compare(3, drawn)


def separate():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 1))
    return X, np.where(X[:, 0] + 3 * rng.normal(size=80) > 0, 1, 0)


def test_arviz_has_the_draws_and_agrees_on_how_they_mix(fits):
    import arviz

    drawn = fits[1]
    data = drawn.to_arviz()
    posterior = data.posterior
    assert dict(posterior.sizes) == {"chain": 2, "draw": 800, "term": 3}
    np.testing.assert_allclose(posterior["coefficients"].mean(("chain", "draw")), drawn.coef_[0])
    assert float(posterior["intercept"].mean()) == pytest.approx(drawn.intercept_[0])
    draws = drawn.fit_[0].outcome.coefficients[:, :, 1]
    assert diagnostics.rhat(draws) == pytest.approx(float(arviz.rhat(draws)), abs=1e-3)
    assert diagnostics.ess_bulk(draws) == pytest.approx(float(arviz.ess(draws, method="bulk")), rel=0.03)
    assert diagnostics.ess_tail(draws) == pytest.approx(
        float(arviz.ess(draws, method="tail", prob=(0.05, 0.95))), rel=0.05
    )
    with pytest.raises(AttributeError, match="Gibbs"):
        fits[0].to_arviz()


def test_arviz_has_the_effects_of_groups():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = Model("outcome ~ visit + (1 | patientID)", load_toenail()).fit(Gibbs(20, 20, 2), random_state=0)
    posterior = fit.to_arviz().posterior
    assert posterior["patientID"].shape == (2, 20, 294)
    assert "sd of (1 | patientID)" in posterior


def test_arviz_has_slopes_of_the_users_column():
    data = load_toenail().assign(visit=lambda frame: 10 * frame["visit"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = Model("outcome ~ visit + (visit | patientID)", data).fit(Gibbs(20, 20, 2), random_state=0)
    posterior = fit.to_arviz().posterior
    means = posterior["patientID"].mean(("chain", "draw")).to_numpy()
    np.testing.assert_allclose(means, fit.random_effects()["estimate"].to_numpy())
    covariances = posterior["covariance of (visit | patientID)"].to_numpy()
    assert covariances.shape == (2, 20, 2, 2)
    sds = fit.variance_components()["std_dev"]["(visit | patientID)", "visit"]
    assert np.median(np.sqrt(covariances[:, :, 1, 1])) == pytest.approx(sds)


class TestMixingPlots:
    def test_a_line_for_each_chain_and_a_panel_for_each_parameter_that_moves(self, slopes):
        drawn = slopes[1]
        axes = plots.traces(drawn)
        assert len(axes) == len(list(drawn.traces)) == 6
        assert axes[1].get_title(loc="left").startswith("x\nR-hat ")
        for ax, trace in zip(axes, drawn.traces, strict=True):
            for line, draws in zip(ax.lines, trace.draws, strict=True):
                np.testing.assert_array_equal(line.get_ydata(), draws)
        logarithmic = [trace.name for ax, trace in zip(axes, drawn.traces, strict=True) if ax.get_yscale() == "log"]
        assert logarithmic == ["sd of (1 | h)"]
        pyplot.close("all")

    def test_given_axes_and_named_parameters(self, slopes):
        _, axes = pyplot.subplots(1, 2)
        found = plots.ranks(slopes[1], ["x", "sd of (1 | h)"], axes)
        assert list(found) == list(axes)
        np.testing.assert_allclose(sum(one.get_data()[0] for one in found[0].patches), 2.0)
        pyplot.close("all")

    def test_what_can_not_be_drawn(self, slopes, fits):
        with pytest.raises(ValueError, match=r"traces: \['z'\] is not a parameter: there are \['\(intercept\)', 'x'"):
            plots.traces(slopes[1], ["z"])
        with pytest.raises(ValueError, match="1 axes are given for 2 parameters"):
            plots.ranks(slopes[1], ["x", "(intercept)"], pyplot.figure().subplots())
        with pytest.raises(AttributeError, match="Gibbs"):
            plots.traces(fits[0])
        pyplot.close("all")

    def test_many_parameters_leave_the_slowest(self, fits):
        gated = fits[3]
        axes = plots.traces(gated, top=2)
        moving = [trace for trace in gated.fit_[0].traces if np.ptp(trace.draws) > 0]
        slowest = sorted(moving, key=lambda trace: trace.mixing.ess_bulk)[:2]
        shown = {ax.get_title(loc="left").split("\n")[0] for ax in axes}
        assert shown == {trace.name for trace in slowest}
        pyplot.close("all")

    def test_ranks_of_chains_that_agree_and_of_chains_that_do_not(self):
        rng = np.random.default_rng(0)
        good = rng.normal(size=(4, 2000))
        assert np.abs(rank_shares(good) - 1).max() < 0.4
        gates = (rng.random((4, 2000)) < 0.3).astype(float)
        assert np.abs(rank_shares(gates) - 1).max() < 0.4
        assert rank_shares(good + 2 * np.eye(4)[:, :1])[0, -1] > 2
