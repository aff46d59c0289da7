"""What a pass over rows with factors takes along: moments of the coefficients, to be looked up by level."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from vbsvm.arrays import Array
from vbsvm.layout.dense import DenseGaussian, GatedMessage


@final
@dataclass(frozen=True, slots=True, eq=False)
class FactorMessage:
    """Of each level of a factor: mean effects, covariances with the dense columns' coefficients, and variances."""

    effects: Array
    with_dense: Array
    variances: Array

    def window(self, first: int, n_levels: int) -> "FactorMessage":
        """The same of a run of levels."""
        run = slice(first, first + n_levels)
        return FactorMessage(self.effects[run], self.with_dense[run], self.variances[run])


@final
@dataclass(frozen=True, slots=True, eq=False)
class ArrowMessage:
    """Law of the dense columns' coefficients, of each factor's effects, and covariances of pairs of factors."""

    dense: DenseGaussian | GatedMessage
    factors: tuple[FactorMessage, ...]
    pairs: dict[tuple[int, int], Array]

    def row_moments(self, rows: Any) -> tuple[Array, Array]:
        """f = Σ c_aᵀμ_a and v = Σ c_aᵀΣ_ab c_b over the parts a, b of a row: dense columns and each factor."""
        f, v = self.dense.row_moments(rows.dense)
        factors = (*rows.factors, rows.tail)
        for whole, of_all in zip(factors, self.factors, strict=True):
            first, factor = whole.window
            law = of_all.window(first, factor.n_levels)
            f += factor.scores(law.effects)
            with_dense, own = 2 * law.with_dense, factor.within(law.with_dense.shape[2])
            if own is None:
                v += factor.scores_of_rows(_each_times(factor.of_rows(law.variances), factor.z))
            else:  # z is one of the dense columns, so that zᵀVz is another product with them
                with_dense[:, :, own] += law.variances
            v += factor.scores_of_rows(_each_times(factor.of_rows(with_dense), rows.dense.design))
        for (k, j), covariances in self.pairs.items():
            one, other = factors[k], factors[j]
            looked_up = covariances[one.levels, :, other.levels]
            v += 2 * one.scores_of_rows(_each_times(looked_up, other.z))
        return f, np.maximum(v, 0.0, out=v)


def _each_times(matrices: Array, vectors: Array) -> Array:
    """Product of each row's matrix (q × p) and vector (p)."""
    if matrices.shape[1] == 1:
        return np.einsum("ip,ip->i", matrices[:, 0], vectors)[:, None]
    return np.einsum("iqp,ip->iq", matrices, vectors)
