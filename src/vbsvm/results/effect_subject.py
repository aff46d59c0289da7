"""What effects are about: models, rows that averages are over, and rows that probabilities are checked against."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.design.columns import Encoded
from vbsvm.design.levels import UNSEEN
from vbsvm.results.averages import Models
from vbsvm.results.effect_check import CHECKED, NOT_CHECKED, KnownRows
from vbsvm.results.effect_rows import EffectRows, GivenRows

if TYPE_CHECKING:
    from vbsvm.results.fit import Fit


@final
@dataclass(frozen=True, eq=False)
class Subject:
    """The models and classes that effects are about, and the rows that they are averages over, as users have them."""

    models: Models
    classes: NDArray[Any]
    rows: EffectRows
    data: Any
    learn_known: Callable[[], KnownRows | None]

    @cached_property
    def known(self) -> KnownRows | None:
        """Observations with known outcomes, against which probabilities are checked."""
        return self.learn_known()

    @property
    def hinge(self) -> bool:
        """Whether probabilities are those of a support vector machine, which are to be checked."""
        return not self.models.fits[0].spec.likelihood.normalised

    def checked(self, what: str, variables: Sequence[str], by: Sequence[str]) -> dict[str, str]:
        """What a table of a hinge fit says of its probabilities: a caution, or that they were or weren't checked."""
        if not self.hinge:
            return {}
        try:
            caution = None if self.known is None else self.known.caution(what, variables, by, self.classes)
        except ValueError:  # the rows of the fit have no such columns, or too many values of them
            return {"check": NOT_CHECKED}
        if self.known is None:
            return {"check": NOT_CHECKED}
        return {"check": CHECKED} if caution is None else {"caution": caution}

    def encoded(self, changes: Mapping[str, Any], groups: str) -> Encoded:
        """The rows with inputs set; with ``groups="new"`` all groups are new ones."""
        found = self.rows.encoded(changes)
        if groups == "observed":
            return found
        return replace(found, levels=tuple(np.full_like(one, UNSEEN) for one in found.levels))


def subject_of(
    fits: "Sequence[Fit]",
    classes: NDArray[Any],
    data: Any,
    weights: str | ArrayLike | None,
    covariance: str | None,
    read: Callable[[GivenRows], EffectRows],
) -> Subject:
    """Effects of these models over rows that are given, or over those of the fit; ``read`` knows the columns.

    The link is learned from the rows of the fit as long as it holds them, else from those that are given.
    """
    fit = fits[0]
    given = GivenRows.of("effects", data, weights, fit._rows)
    rows, held = read(given), fit._rows is not None and fit._rows.data is not None

    def basis() -> tuple[Encoded, Array]:
        own = read(GivenRows.of("effects", None, None, fit._rows)) if held and data is not None else rows
        return own.encoded({}), own.weights

    def known() -> KnownRows | None:
        """The rows themselves where their outcomes are known, else those of the fit."""
        training = GivenRows.of("effects", None, None, fit._rows) if held else None
        if training is None or (given.data is training.data and np.array_equal(given.weights, training.weights)):
            return (
                KnownRows.of_new(fit, rows, given) if training is None else KnownRows.of_training(fits, rows, training)
            )
        return KnownRows.of_new(fit, rows, given) or KnownRows.of_training(fits, read(training), training)

    n_rows = float(rows.weights.sum()) if fit.facts is None else fit.facts.n_rows
    models = Models.of(fits, [one.intervals(covariance) for one in fits], basis, n_rows)
    return Subject(models, classes, rows, given.data, known)
