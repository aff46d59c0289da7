"""The hinge likelihood averaged over a normal score: closed forms against quadrature and finite differences."""

import numpy as np
import pytest
from scipy import integrate, stats

from vbsvm.model.likelihoods import averaged_hinge
from vbsvm.model.likelihoods.averaged_hinge import log_mean_likelihood, mean_log_likelihood

E, T = (
    one.ravel()
    for one in np.meshgrid(
        [-30.0, -3.0, -0.5, -1e-3, 0.0, 0.01, 0.7, 2.0, 10.0, 50.0], [1e-8, 1e-3, 0.1, 1.0, 4.0, 100.0, 1e4, 1e8]
    )
)


@pytest.mark.parametrize(("e", "t"), [(0.3, 0.5), (-1.0, 2.0), (4.0, 0.3), (-2.0, 30.0), (0.0, 1e-4)])
def test_values_are_the_averages(e, t):
    def over_h(function):
        sd = np.sqrt(t)
        return integrate.quad(
            lambda h: function(max(h, 0.0)) * stats.norm.pdf(h, e, sd), e - 12 * sd, e + 12 * sd, points=[0.0], epsabs=0
        )[0]

    at = np.array([e]), np.array([t])
    assert log_mean_likelihood(*at).value[0] == pytest.approx(np.log(over_h(lambda h: np.exp(-2 * h))), rel=1e-8)
    assert mean_log_likelihood(*at).value[0] == pytest.approx(over_h(lambda h: -2 * h), rel=1e-8)


def errors_of_derivatives(average):
    """Largest differences to central differences, in units of each derivative's size at the kink."""
    sd = np.sqrt(T)
    step, longer = 1e-4 * np.minimum(sd, 1.0), 1e-4 * np.minimum(T, sd)
    found = average(E, T)
    up, down = average(E + step, T), average(E - step, T)
    more, less = average(E, T + longer), average(E, T - longer)
    pairs = {
        "e": (found.e, (up.value - down.value) / (2 * step), 1 + np.abs(found.value) / 100 / sd),
        "t": (found.t, (more.value - less.value) / (2 * longer), (1 + np.abs(found.value)) / sd),
        "ee": (found.ee, (up.e - down.e) / (2 * step), 1 / sd),
        "et": (found.et, (up.t - down.t) / (2 * step), 1 / T),
        "te": (found.et, (more.e - less.e) / (2 * longer), 1 / T),
        "tt": (found.tt, (more.t - less.t) / (2 * longer), T**-1.5),
    }
    return {name: np.abs((ours - theirs) / size).max() for name, (ours, theirs, size) in pairs.items()}


@pytest.mark.parametrize("average", [log_mean_likelihood, mean_log_likelihood])
def test_derivatives_are_right_at_any_size(average):
    assert max(errors_of_derivatives(average).values()) < 1e-5


def test_a_wrong_derivative_is_seen_by_that_test(monkeypatch):
    right = averaged_hinge.Averaged
    for wrong in ("e", "t", "ee", "et", "tt"):

        def averaged(*parts, wrong=wrong):
            names = ("value", "e", "t", "ee", "et", "tt")
            return right(*(one * (1.01 if name == wrong else 1.0) for name, one in zip(names, parts, strict=True)))

        monkeypatch.setattr(averaged_hinge, "Averaged", averaged)
        assert max(errors_of_derivatives(log_mean_likelihood).values()) > 1e-4


def test_both_are_the_hinge_loss_where_the_score_has_no_spread():
    e = np.array([-2.0, -0.1, 0.1, 3.0])
    for average in (log_mean_likelihood, mean_log_likelihood):
        found = average(e, np.full(4, 1e-12))
        np.testing.assert_allclose(found.value, -2 * np.maximum(e, 0), atol=1e-11)
        np.testing.assert_allclose(found.e, -2.0 * (e > 0), atol=1e-11)
    assert (log_mean_likelihood(E, T).value >= mean_log_likelihood(E, T).value - 1e-12).all()  # Jensen
