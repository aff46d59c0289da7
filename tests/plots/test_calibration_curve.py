"""Calibration curves: they lie on the diagonal where probabilities hold, and leave it where an error is planted."""

import numpy as np
import pytest
from scipy.special import expit, logit

from vbsvm.plots.predictions import calibration_curve, calibration_slope

RNG = np.random.default_rng(0)
LOG_ODDS = 1.5 * RNG.normal(size=4000)
POSITIVE = RNG.random(4000) < expit(LOG_ODDS)
ONES = np.ones(4000)


def share_covered(found):
    return np.mean((found.lower <= found.predicted) & (found.predicted <= found.upper))


def test_probabilities_that_hold_are_on_the_diagonal():
    found = calibration_curve(expit(LOG_ODDS), POSITIVE, ONES)
    assert share_covered(found) > 0.8
    np.testing.assert_allclose(found.observed, found.predicted, atol=0.06)
    assert np.all((found.lower < found.observed) & (found.observed < found.upper))
    one = calibration_slope(expit(LOG_ODDS), POSITIVE, ONES)
    assert one.lower < 1 < one.upper


@pytest.mark.parametrize("planted", [lambda x: 2 * x, lambda x: 0.5 * x, lambda x: x + 0.7])
def test_planted_errors_leave_it(planted):
    wrong = calibration_curve(expit(planted(LOG_ODDS)), POSITIVE, ONES)
    assert share_covered(wrong) < 0.5
    truth = expit(np.interp(logit(wrong.predicted), np.sort(planted(LOG_ODDS)), np.sort(LOG_ODDS)))
    np.testing.assert_allclose(wrong.observed, truth, atol=0.08)


def test_the_slope_says_how_much_too_extreme_probabilities_are():
    found = calibration_slope(expit(2 * LOG_ODDS), POSITIVE, ONES)
    assert found.lower < 0.5 < found.upper < 0.6


def test_weights_are_repeated_rows():
    weights = RNG.integers(1, 4, 300).astype(float)
    rows = np.repeat(np.arange(300), weights.astype(int))
    chances, positive = expit(LOG_ODDS[:300]), POSITIVE[:300]
    weighted = calibration_curve(chances, positive, weights)
    repeated = calibration_curve(chances[rows], positive[rows], np.ones(len(rows)))
    np.testing.assert_allclose(weighted.observed, repeated.observed, atol=1e-6)
    np.testing.assert_allclose(weighted.upper, repeated.upper, atol=1e-6)


def test_rows_of_one_group_count_once():
    rows = np.repeat(np.arange(200), 4)
    chances, positive = expit(LOG_ODDS[:200])[rows], POSITIVE[:200][rows]
    alone = calibration_slope(expit(LOG_ODDS[:200]), POSITIVE[:200], np.ones(200))
    blind = calibration_slope(chances, positive, np.ones(800))
    grouped = calibration_slope(chances, positive, np.ones(800), rows)
    assert grouped.upper - grouped.lower > 1.5 * (blind.upper - blind.lower)
    assert grouped.upper - grouped.lower == pytest.approx(alone.upper - alone.lower, rel=0.1)


def test_the_curve_is_drawn_only_where_there_are_observations():
    rng = np.random.default_rng(0)
    chances = np.r_[rng.uniform(0.05, 0.2, 300), rng.uniform(0.9, 0.95, 300)]
    found = calibration_curve(chances, rng.random(600) < chances, np.ones(600))
    drawn = found.predicted[np.isfinite(found.observed)]
    assert chances.min() <= drawn.min()
    assert drawn.max() <= chances.max()
    assert not ((drawn > 0.4) & (drawn < 0.7)).any()
    assert ((found.predicted > 0.4) & (found.predicted < 0.7)).any()
    assert (drawn < 0.2).any()
    assert (drawn > 0.9).any()


@pytest.mark.parametrize(
    "chances", [np.full(20, 0.3), np.r_[np.zeros(10), np.ones(10)], np.r_[1e-300, np.full(19, 0.9)]]
)
def test_odd_probabilities_give_finite_numbers(chances):
    positive = np.arange(20) >= 10
    found = calibration_curve(chances, positive, np.ones(20))
    drawn = np.isfinite([found.observed, found.lower, found.upper])
    assert drawn[:, [0, -1]].all()
    assert (drawn == drawn[0]).all()
    assert np.isfinite(calibration_slope(chances, positive, np.ones(20)).value)
