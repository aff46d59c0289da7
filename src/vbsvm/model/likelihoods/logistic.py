"""The logistic likelihood 1/(1 + e^(−y f)) as a Gaussian scale mixture over a Pólya-Gamma weight for each row.

With the weights at their best it is Jaakkola and Jordan's bound; drawn, it is the sampler of Polson, Scott & Windle.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from scipy.special import log_expit

from vbsvm.base.arrays import Array
from vbsvm.base.polya_gamma import PolyaGamma, mean_weight
from vbsvm.model.likelihoods.exact_logistic import EXACT_LOGISTIC, ExactLogistic
from vbsvm.model.likelihoods.scale_mixture import ScaleMixture

# Beyond it sinh overflows.
LARGEST = 700.0
SMALL = 1e-6


@final
@dataclass(frozen=True, slots=True)
class Logistic(ScaleMixture):
    """Jaakkola and Jordan's bound: ℓ = log expit ξ + ½(y f − ξ), w = tanh(ξ/2)/(2ξ), u = ½y, with ξ² = f² + v."""

    name: ClassVar[str] = "logistic"
    normalised: ClassVar[bool] = True
    kink: ClassVar[float] = 0.0

    @property
    def slope(self) -> float:
        """½."""
        return 0.5

    @property
    def exact(self) -> ExactLogistic:
        """The exact expectation."""
        return EXACT_LOGISTIC

    def height(self, root: Array) -> Array:
        """Log expit ξ − ½ξ."""
        return log_expit(root) - 0.5 * root

    def latent(self, s: Array, root: Array) -> PolyaGamma:
        """The distribution of the Pólya-Gamma weights."""
        return PolyaGamma(s, root)

    def unit_weight(self, root: Array) -> Array:
        """tanh(ξ/2)/(2ξ)."""
        return mean_weight(root)

    def elasticity(self, root: Array) -> Array:
        """ξ/sinh ξ − 1."""
        return _fading(root) - 1.0

    def curvature(self, w: Array, h: Array, v: Array, slack: Array) -> Array:
        """w(v + h² ξ/sinh ξ)/ξ²."""
        return w * ((v + h * h * _fading(np.sqrt(slack))) / np.maximum(slack, np.finfo(np.float64).tiny))

    def width(self, v: Array) -> float:
        """Infinite: every row has a curvature, and where all rows are far from the border it is all that there is."""
        return np.inf


def _fading(root: Array) -> Array:
    """ξ/sinh ξ, which is 1 at 0."""
    size = np.clip(root, SMALL, LARGEST)
    return size / np.sinh(size)


LOGISTIC = Logistic()
