"""Figures for a paper: each takes a fit and matplotlib axes (or makes them), and gives the axes back. It may import
results and everything below; ``style`` alone knows matplotlib.
"""

from vbsvm.plots.averages import effects
from vbsvm.plots.checks import bound, densities, sensitivity
from vbsvm.plots.estimates import coefficients, inclusion, random_effects, spline
from vbsvm.plots.mixing import ranks, traces
from vbsvm.plots.rows import calibration, missing, predictive

__all__ = [
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
    "sensitivity",
    "spline",
    "traces",
]
