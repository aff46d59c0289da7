"""A pass over the rows: where they come from, what goes down to them, and the sums that complete rows send up."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.reading import Reading
from vbsvm.base.row_sums import Addable
from vbsvm.model.interfaces import Gram, LabelledRows, Message, MissingDistributions, Rows
from vbsvm.model.left_out import RowInfluence
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.stats import Stats

T = TypeVar("T", bound=Addable)


@final
@dataclass(frozen=True, slots=True, eq=False)
class RowPass:
    """All that a block of rows needs to know of the model and its state; plain data, which may be sent anywhere."""

    likelihood: Likelihood
    message: Message
    resolve: Reading
    with_curvature: bool = False
    missing: MissingDistributions | None = None


class Part(Protocol):
    """Rows of a block that are summed in the same way."""

    @property
    def rows(self) -> LabelledRows:
        """The rows themselves."""
        ...

    @property
    def places(self) -> NDArray[np.intp] | None:
        """Where they stand in their block; None where they are all of it."""
        ...

    def stats(self, row_pass: RowPass) -> Stats:
        """Sums of these rows in a pass."""
        ...

    def scores(self, theta: Array, missing: MissingDistributions | None) -> Array:
        """Scores at a point."""
        ...

    def likelihood_change(
        self, before: Array, after: Array, missing: MissingDistributions | None, resolve: Reading
    ) -> float:
        """Change of the log likelihood where each row's own goes from ``before`` to ``after``."""
        ...

    def curvature(self, row_pass: RowPass) -> Gram:
        """Minus the second derivative of the row term in the mean."""
        ...

    def influence(self, row_pass: RowPass, response: Message) -> RowInfluence:
        """What each row does to the fit, where ``response`` has the covariance by which the mean gives way.

        Missing values are those of prediction: labels have no say.
        """
        ...

    def n_held(self, theta: Array, missing: MissingDistributions | None) -> int:
        """Number of rows whose loss grows with the coefficients, in proportion to these; under an exact bound."""
        ...


class Source(Protocol):
    """Where rows come from: memory now; files and other machines answer the same calls."""

    @property
    def n_rows(self) -> int:
        """Number of rows that count."""
        ...

    @property
    def n_core(self) -> int:
        """Number of coefficients whose covariances are all kept: all but the effects of one grouping factor."""
        ...

    @property
    def looks_are_cheap(self) -> bool:
        """Whether rows may be looked at often, and a few numbers of each be kept: then fewer passes are needed."""
        ...

    @property
    def drawn_covariance(self) -> bool:
        """Whether rows and columns are so many that the covariance of the coefficients is known by draws only."""
        ...

    def sample(self, n_rows: int) -> "Source | None":
        """So many of the rows, which weigh as much as all; None where they are not at hand."""
        ...

    def fold(self, row_pass: RowPass) -> Stats:
        """Sum ``part.stats(row_pass)`` over the parts of all row blocks: the only pass over the data in a sweep."""
        ...

    def total(self, kernel: Callable[[Part], T], *, light: bool = False) -> T:
        """Sum anything that adds over the parts of all row blocks; a light kernel reads every number once or so."""
        ...

    def input_sums(self, distribution: Any) -> Any:
        """Sums of the inputs with the missing ones as their distribution expects them; labels have no say."""
        ...


class AlternativeRows(Protocol):
    """Rows of a block that stand for the same row of the data, of which one is true."""

    def shares(self, objective: Array) -> Array:
        """Share of each row, from what each adds to the bound."""
        ...

    def entropy(self, shares: Array, s: Array) -> float:
        """What the uncertainty about the true one adds to the bound."""
        ...

    def sums(self, weights: Array) -> Any:
        """What rows of these weights add to the sums of what is missing."""
        ...


@final
@dataclass(frozen=True, slots=True, eq=False)
class CompleteRows:
    """Rows of a layout that miss no input; ``places`` says which of their block they are."""

    rows: Rows
    places: NDArray[np.intp] | None = None

    def stats(self, row_pass: RowPass, alternatives: AlternativeRows | None = None) -> Stats:
        """G = Σ w c cᵀ, r = Σ u c, and the row term (Algorithm 2, lines 2 and 3)."""
        rows, y, s = self.rows, self.rows.signs, self.rows.weights
        with np.errstate(all="ignore"):  # for the climb's bold candidates; a thread does not inherit the climb's own
            f, v = row_pass.message.row_moments(rows)
            terms = row_pass.likelihood.terms(f, v, y, s, row_pass.resolve, "rows", rows.index)
            entropy, missing = 0.0, None
            if alternatives is not None:
                shares = alternatives.shares(terms.value)
                entropy, missing = alternatives.entropy(shares, s), alternatives.sums(shares * s)
                s, terms = shares * s, terms.shared(shares)
            if row_pass.missing is not None:
                missing = row_pass.missing.with_complete_rows(missing, rows, row_pass.resolve)
            row_bound = float(s @ terms.value) + entropy
            gram, curvature, constant = rows.gram(terms.w), None, math.nan
            if terms.curvature is not None:
                constant = float(terms.u @ f) - 0.5 * float(terms.w @ (f * f + v)) - row_bound
                if row_pass.with_curvature:
                    curvature = gram if terms.curvature is terms.w else rows.gram(terms.curvature)
            return Stats(
                gram=gram,
                cross_sums=rows.cross(terms.u),
                row_bound=row_bound,
                constant=constant,
                curvature=curvature,
                missing=missing,
            )

    def curvature(self, row_pass: RowPass) -> Gram:
        """Σ −∂²ℓ/∂f² c cᵀ, from the rows that have a curvature worth speaking of."""
        rows, s = self.rows, self.rows.weights
        with np.errstate(all="ignore"):
            f, v = row_pass.message.row_moments(rows)
            terms = row_pass.likelihood.terms(f, v, rows.signs, s, row_pass.resolve)
            assert terms.curvature is not None
            return rows.gram(terms.curvature)

    def influence(self, row_pass: RowPass, response: Message) -> RowInfluence:
        """What each row does to the fit."""
        with np.errstate(all="ignore"):
            f, v = row_pass.message.row_moments(self.rows)
            V = v if response is row_pass.message else response.row_moments(self.rows)[1]
            return RowInfluence.of(row_pass.likelihood, self.rows, f, v, np.asarray(V), np.zeros(len(f)))

    def scores(self, theta: Array, missing: MissingDistributions | None) -> Array:
        """Scores at a point."""
        return self.rows.scores(theta)

    def likelihood_change(
        self, before: Array, after: Array, missing: MissingDistributions | None, resolve: Reading
    ) -> float:
        """Σ s (after − before)."""
        return float(self.rows.weights @ (after - before))

    def n_held(self, theta: Array, missing: MissingDistributions | None) -> int:
        """Number of rows on the wrong side."""
        return int(np.count_nonzero(self.rows.signs * self.rows.scores(theta) <= 0.0))
