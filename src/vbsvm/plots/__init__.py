"""Figures for a paper: each takes a fit and matplotlib axes (or makes them), and gives the axes back. It may import
results and everything below; ``style`` alone knows matplotlib.
"""

from vbsvm.plots.diagnostics import bound, densities, missing, ranks, sensitivity, traces
from vbsvm.plots.estimates import coefficients, inclusion, random_effects, spline
from vbsvm.plots.predictions import calibration, effects, scores
from vbsvm.plots.replicated import predictive
from vbsvm.plots.style import alt_text, save

__all__ = [
    "alt_text",
    "bound",
    "calibration",
    "coefficients",
    "densities",
    "effects",
    "inclusion",
    "missing",
    "predictive",
    "random_effects",
    "ranks",
    "save",
    "scores",
    "sensitivity",
    "spline",
    "traces",
]
