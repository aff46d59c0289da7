"""A pass over incomplete rows where predictors outnumber observations, with a distribution that is fixed.

The missing values of a row that do not adapt to the coefficients have the same moments in every pass. They are computed
once, and their covariances enter matrices as blocks of the missing variables: with p predictors and few rows, outer
products of p numbers would take most of the time of a fit.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.update_mode import mean_field
from vbsvm.missing.distributions import InputDistribution, InputSums
from vbsvm.missing.labelled_inputs import few_rows
from vbsvm.missing.model import MissingState, MissingSums
from vbsvm.missing.rows import IncompleteRows
from vbsvm.missing.updates import conditional_means
from vbsvm.model.interfaces import PointDistribution
from vbsvm.model.layouts.dense import LOG_2PI, DenseGaussian, DenseGram, DenseRows
from vbsvm.model.likelihoods.base import ScaleMixture
from vbsvm.model.row_pass import RowPass, Stats


@final
@dataclass(frozen=True, slots=True, eq=False)
class FixedMoments:
    """Moments of the missing values of a block under a fixed distribution of the predictors.

    ``blocks`` has for each pattern its rows, its variables, and their covariance given the observed ones.
    """

    distribution: InputDistribution
    values: Array
    filled: DenseRows
    blocks: list[tuple[NDArray[np.intp], NDArray[np.intp], Array]]
    entropy: float
    sums: InputSums

    @staticmethod
    def of_rows(rows: IncompleteRows, distribution: InputDistribution | None) -> "FixedMoments":
        """The moments, computed at the first call and cached as long as the distribution is the same."""
        cached = rows.cache.get("moments")
        if isinstance(cached, FixedMoments) and cached.distribution is distribution:
            return cached
        assert distribution is not None
        values, s = conditional_means(rows, distribution), rows.weights
        blocks, entropy, filled = [], 0.0, rows.filled(values)
        assert isinstance(filled, DenseRows)
        inputs = rows.known + values
        squares = inputs.T @ (s[:, None] * inputs)
        for group in rows.groups:
            for k, (M, C) in enumerate(zip(group.patterns, group.covariances(distribution.precision), strict=True)):
                which = group.rows[group.pattern_of == k]
                total = float(s[which].sum())
                squares[np.ix_(M, M)] += total * C
                entropy += 0.5 * total * (len(M) * (1 + LOG_2PI) + float(np.linalg.slogdet(C)[1]))
                blocks.append((which, M, C))
        sums = InputSums(rows.regressors.T @ (s[:, None] * inputs), squares)
        rows.cache["moments"] = FixedMoments(distribution, values, filled, blocks, entropy, sums)
        return rows.cache["moments"]


def has_fixed_blocks(rows: IncompleteRows, row_pass: RowPass) -> bool:
    """Whether predictors outnumber the observations, their distribution is fixed, and coefficients are dense."""
    coefficients = row_pass.coefficients
    if row_pass.mode is not mean_field or not isinstance(coefficients, DenseGaussian | PointDistribution):
        return False
    plain = not rows.adapt and not len(rows.inputs.derived) and len(coefficients.mean) == rows.design.shape[1]
    return plain and few_rows(_inputs(row_pass)) is not None


def stats_of_blocks(rows: IncompleteRows, row_pass: RowPass) -> Stats:
    """Sums of a pass under any bound, as in ``updates``: G = Σ w (ccᵀ + LCLᵀ) and r = Σ u c.

    The score of a row has the variance V = cᵀΣc + tr(C E[bbᵀ]), where b are the coefficients of its missing values d.
    """
    coefficients, likelihood = row_pass.coefficients, row_pass.likelihood
    assert isinstance(coefficients, DenseGaussian | PointDistribution)
    moments, y, s = FixedMoments.of_rows(rows, _inputs(row_pass)), rows.y, rows.weights
    f, v = coefficients.row_moments(moments.filled)
    b, effects = coefficients.mean[rows.inputs.variables], np.zeros_like(moments.values)
    V, covariance = np.array(np.broadcast_to(v, f.shape)), None
    if isinstance(coefficients, DenseGaussian):
        covariance = coefficients.covariance
    for which, M, C in moments.blocks:
        effects[np.ix_(which, M)] = C @ b[M]
        V[which] += b[M] @ C @ b[M]
        if covariance is not None:
            V[which] += np.vdot(C, covariance[_cells(rows, M)])
    terms = likelihood.terms(f, V, y, s, mean_field, "rows", rows.index)
    gram: DenseGram = moments.filled.gram(terms.w)
    for which, M, C in moments.blocks:
        gram.matrix[_cells(rows, M)] += terms.w[which].sum() * C
    curvature: DenseGram | None = gram
    if isinstance(likelihood, ScaleMixture):
        curvature = None
        if row_pass.with_curvature and covariance is not None:
            # With d's distribution fixed, √χ is a norm of (h, C^½b, …); this is φ's second derivative in E[b].
            h = likelihood.kink - y * f
            slack = np.square(h) + V
            derivatives = rows.scaled_and_shifted(moments.values, -y * h, effects)
            assert isinstance(derivatives, DenseRows)
            curvature = gram - derivatives.gram(-likelihood.elasticity(np.sqrt(slack)) * terms.w / slack)
    row_bound = float(s @ terms.value) + moments.entropy
    constant = float(terms.u @ f) - 0.5 * float(terms.w @ (np.square(f) + V)) - row_bound
    cross = moments.filled.cross(terms.u)
    return Stats(gram, cross, row_bound, constant, curvature, MissingSums(moments.sums))


def _cells(rows: IncompleteRows, M: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The block of these variables in a matrix of design columns."""
    columns = rows.inputs.variables[M]
    return columns[:, None], columns


def _inputs(row_pass: RowPass) -> InputDistribution | None:
    return row_pass.missing.inputs if isinstance(row_pass.missing, MissingState) else None
