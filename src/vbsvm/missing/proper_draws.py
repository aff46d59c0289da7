"""Proper draws of missing inputs: the parameters of their distribution are drawn, and then the values given these."""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from vbsvm.base.arrays import Array, inverse
from vbsvm.base.distributions import InverseWishart
from vbsvm.design.scaling import Recipe
from vbsvm.missing import conditional
from vbsvm.missing.input_distributions import InputSums
from vbsvm.missing.input_model import InputModel
from vbsvm.missing.rows import pattern_groups

# Variances are larger by this share, so that covariances which hardly vary in some direction can be inverted.
ROUNDING = 1e-10


@final
@dataclass(frozen=True, eq=False)
class ProperDraw:
    """A joint normal distribution of labels and inputs whose mean and covariance were drawn.

    The first ``n_labels`` variables are columns that tell classes, the others are ``columns`` of the design.
    """

    n_labels: int
    columns: NDArray[np.intp]
    mean: Array
    covariance: Array

    @staticmethod
    def of(model: InputModel, sums: InputSums, rng: np.random.Generator) -> "ProperDraw":
        """Draw both from their posterior given the sums of a completed table."""
        assert sums.regressors is not None
        columns = np.concatenate([model.inputs.given, model.inputs.variables])
        if not model.n_beside:
            joined = np.block([[sums.regressors.matrix, sums.linear], [sums.linear.T, sums.squares]])
            return ProperDraw.of_moments(joined, columns, model.psi, rng)
        n_known, drawn = 1 + len(model.inputs.given), model.labelled(sums).drawn(rng)
        mean, covariance = _moments(sums.regressors.leading(n_known).matrix, model.psi, rng)
        # Labels, known inputs and variables are made of three things that are independent: x, r, and what is left of e.
        known, r, left = np.eye(n_known - 1), np.eye(len(drawn.Sigma)), np.eye(len(drawn.S))
        none = np.zeros
        made: Array = np.block(
            [
                [drawn.Gamma[1:].T, drawn.B.T, left],
                [known, none((len(known), len(r) + len(left)))],
                [drawn.A[1:].T, r, none((len(r), len(left)))],
            ]
        )
        centre = np.concatenate([drawn.Gamma[0], np.zeros(len(known)), drawn.A[0]]) + made[:, : len(known)] @ mean
        joint = made @ np.asarray(block_diag(covariance, drawn.Sigma, drawn.S), dtype=np.float64) @ made.T
        joint[np.diag_indices(len(joint))] *= 1.0 + ROUNDING  # a prior may leave the variables next to no variance
        return ProperDraw(len(left), columns, centre, joint)

    @staticmethod
    def of_moments(moments: Array, columns: NDArray[np.intp], psi: float, rng: np.random.Generator) -> "ProperDraw":
        """The same without labels, given Σ s [1; x][1; x]ᵀ of these columns."""
        return ProperDraw(0, columns, *_moments(moments, psi, rng))

    @staticmethod
    def design_of(recipe: Recipe, raw: NDArray[np.floating]) -> Array:
        """Raw rows as rows of the design; columns without spread are 0."""
        with np.errstate(invalid="ignore"):
            design = recipe.encode(raw, recipe.work_space(len(raw)))
        design[:, recipe.first :][:, ~np.isfinite(recipe.scale)] = 0.0
        return design

    def fill(self, design: Array, labels: Array | None, rng: np.random.Generator) -> Array:
        """The columns of these rows of the design (NaN is missing), with values drawn for those that are missing.

        ``labels`` are columns that tell classes; without them, labels have no say.
        """
        known = design[:, self.columns]
        begin = self.n_labels if labels is None else 0
        if labels is not None:
            known = np.column_stack([labels, known])
        missing = np.isnan(known)
        known, groups = np.where(missing, 0.0, known), pattern_groups(missing)
        precision = inverse(self.covariance[begin:, begin:])
        filled = known + conditional.draws(known, self.mean[begin:], precision, groups, rng)
        return filled[:, self.n_labels - begin :]


def _moments(sums: Array, psi: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw mean and covariance given Σ s [1; x][1; x]ᵀ, with ``psi`` rows of independent variables as a prior."""
    n, mean = float(sums[0, 0]), sums[0, 1:] / sums[0, 0]
    scatter = sums[1:, 1:] - n * np.outer(mean, mean) + psi * np.eye(len(mean))
    covariance = InverseWishart(0.5 * (scatter + scatter.T), len(mean) + n).draw(rng).value
    return mean + np.linalg.cholesky(covariance / n) @ rng.standard_normal(len(mean)), covariance
