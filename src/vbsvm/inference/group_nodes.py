"""What rows add where each group's effect is at several nodes: log likelihoods, and derivatives by the core.

With the margin m = y f of a row at a node, e^−m gives all of it: D = 1 + e^−m, log expit(m) = −log D, q = expit(−m) =
e^−m/D, and its derivative q(1 − q) = q/D.
"""

from dataclasses import dataclass
from typing import cast, final

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.model.interfaces import EffectiveCoefficients
from vbsvm.model.layouts.arrow_rows import ArrowCross, ArrowRows
from vbsvm.model.layouts.grouping import ByGroup
from vbsvm.model.row_pass import Part

# Beyond it e^−m overflows; log expit(m) is m there.
LARGEST = 700.0

# By the number of a block: the nodes of its last evaluation; log D, q and q(1 − q) of its rows there. The next takes
# the same memory: to get it from the system took an eighth of the time.
Buffers = dict[int, tuple[Array, Array, Array, Array]]


@final
@dataclass(frozen=True, slots=True, eq=False)
class NodeSums:
    """For each group, sums over its rows at its nodes: log likelihoods, and derivatives by the core."""

    logs: ByGroup
    scores: ByGroup

    def __add__(self, other: "NodeSums") -> "NodeSums":
        """Add the sums of two blocks."""
        return NodeSums(self.logs + other.logs, self.scores + other.scores)


@final
@dataclass(frozen=True, slots=True, eq=False)
class AtNodes:
    """Evaluates ``NodeSums`` for coefficients of the core and nodes of each group (groups × nodes).

    For rows in memory, ``buffers`` caches what further sums at the same point need; all evaluations share it.
    """

    core: Array
    nodes: Array
    buffers: Buffers | None

    def __call__(self, part: Part) -> NodeSums:
        """Sums over the rows of one block."""
        rows = cast(ArrowRows, part.rows)
        m, (first, tail) = len(self.nodes), rows.tail.window
        by_level, by_column = rows.group_sum_matrices
        logs, q, _ = self._rows_at_nodes(rows)
        scores = (by_column @ q).reshape(tail.n_levels, len(self.core), q.shape[1])
        return NodeSums(ByGroup(((first, by_level @ logs),), m), ByGroup(((first, scores),), m))

    def _rows_at_nodes(self, rows: ArrowRows) -> tuple[Array, Array, Array]:
        """Log D, q and q(1 − q) of each row at the nodes of its group."""
        first, tail = rows.tail.window
        shape = len(rows.y), self.nodes.shape[1]
        _, logs, q, derivative = (self.buffers or {}).get(rows.index) or (None, *(np.empty(shape) for _ in range(3)))
        np.take(self.nodes[first : first + tail.n_levels], tail.levels, axis=0, out=q, mode="clip")
        q *= (-rows.y * tail.z[:, 0])[:, None]
        q -= (rows.y * rows.core_scores(self.core))[:, None]
        beyond = np.maximum(q - LARGEST, 0.0) if q.max(initial=0.0) > LARGEST else None
        np.minimum(q, LARGEST, out=q)
        np.exp(q, out=q)
        np.add(q, 1.0, out=derivative)
        np.log(derivative, out=logs)
        if beyond is not None:
            logs += beyond
        np.reciprocal(derivative, out=derivative)
        q *= derivative
        derivative *= q
        if self.buffers is not None:
            self.buffers[rows.index] = self.nodes, logs, q, derivative
        return logs, q, derivative

    def derivatives(self, rows: ArrowRows) -> tuple[Array, Array]:
        """Return q and q(1 − q) of each row at the nodes of its group, from the buffers if these are current."""
        last = None if self.buffers is None else self.buffers.get(rows.index)
        return last[2:] if last is not None and last[0] is self.nodes else self._rows_at_nodes(rows)[1:]

    def curvature(self, weights: Array, part: Part) -> Array:
        """Curvature of the core's coefficients over the rows of one block, given probabilities of the nodes."""
        rows = cast(ArrowRows, part.rows)
        _, second = self.derivatives(rows)
        return rows.core_gram(rows.weights * np.einsum("ik,ik->i", _of_rows(rows, weights), second)).matrix

    def third_derivatives(self, weights: Array, spread: EffectiveCoefficients, along: Array, part: Part) -> ArrowCross:
        """Third derivatives by the core, contracted with a covariance S of it, and second ones by group and node.

        ``spread`` has the variance of each row's score under S, and ``along`` S times the centred scores of each group
        at each node, (groups × core) × nodes.
        """
        rows = cast(ArrowRows, part.rows)
        first, tail = rows.tail.window
        by_level, by_column = rows.group_sum_matrices
        q, second = self.derivatives(rows)
        p, variance = len(self.core), np.asarray(spread.row_moments(rows)[1])
        weighed = _of_rows(rows, weights) * second
        coefficients = np.einsum("ik,ik->i", weighed, 1.0 - 2.0 * q) * rows.weights * rows.y * variance
        towards = by_column.T @ along[p * first : p * (first + tail.n_levels)]
        coefficients -= 2.0 * rows.y * np.einsum("ik,ik->i", weighed, towards)
        by_group = by_level @ (second * variance[:, None])
        return ArrowCross(rows.core_cross(coefficients), ByGroup(((first, by_group),), len(self.nodes)))


def _of_rows(rows: ArrowRows, by_group: Array) -> Array:
    """Value of each row's group."""
    first, tail = rows.tail.window
    return tail.of_rows(by_group[first : first + tail.n_levels])
