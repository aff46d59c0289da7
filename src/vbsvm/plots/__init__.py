"""Figures for a paper: each takes a fit and matplotlib axes (or makes them), and gives the axes back. It may import
results and everything below; ``style`` alone knows matplotlib.
"""

from vbsvm.plots.averages import effects
from vbsvm.plots.checks import bound, densities, sensitivity
from vbsvm.plots.estimates import coefficients, inclusion, spline
from vbsvm.plots.groups import random_effects
from vbsvm.plots.missing_values import missing
from vbsvm.plots.mixing import ranks, traces
from vbsvm.plots.rows import calibration, predictive
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
    "sensitivity",
    "spline",
    "traces",
]
