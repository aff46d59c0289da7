"""Figures: axes in, axes out, and what they show is what the fit knows."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

from matplotlib import pyplot

from vbsvm import VBSVC, LaplaceZero, plots


@pytest.fixture(scope="module")
def clf():
    X = np.random.default_rng(0).normal(size=(200, 8))
    return VBSVC(LaplaceZero(0.2)).fit(X, X[:, 2] - X[:, 5] > 0)


def test_bars_are_the_inclusion_probabilities_shaded_by_sign(clf):
    ax = plots.inclusion(clf)
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], clf.inclusion_probability_[0])
    positive, negative = (np.array(ax.patches[k].get_facecolor()[:3]) for k in (2, 5))
    assert positive[2] > positive[1]  # purple
    assert negative[0] > negative[2]  # orange
    assert [label.get_text() for label in ax.get_xticklabels()] == [f"x{k}" for k in range(8)]
    pyplot.close("all")


def test_the_top_inputs_are_drawn_into_given_axes(clf):
    _, ax = pyplot.subplots()
    assert plots.inclusion(clf.fit_[0], ax, top=3) is ax
    heights = [bar.get_height() for bar in ax.patches]
    assert len(heights) == 3
    assert heights == sorted(heights, reverse=True)
    pyplot.close("all")


def test_a_model_without_gates_is_refused():
    X = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(ValueError, match=r"fit it with LaplaceZero"):
        plots.inclusion(VBSVC().fit(X, X[:, 0] > 0))
