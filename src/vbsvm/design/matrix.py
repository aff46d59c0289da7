"""A part of a formula that formulaic encodes: what it learns once is applied to new data, or read from a file."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np
from formulaic import ModelSpec, model_matrix
from formulaic.errors import DataMismatchWarning, FormulaicError
from formulaic.formula import SimpleFormula
from formulaic.materializers import NAAction
from formulaic.parser.types import Factor
from numpy.typing import NDArray

from vbsvm.arrays import Array
from vbsvm.design.guard import FormulaError
from vbsvm.design.linear import columns_in
from vbsvm.design.plan import INTERCEPT
from vbsvm.design.values import shown

if TYPE_CHECKING:
    import pandas as pd

# Beside formulaic's own; the names that a formula may call are listed in ``design.guard``.
_CONTEXT = {"sqrt": np.sqrt, "log1p": np.log1p, "expm1": np.expm1, "abs": np.abs, "sin": np.sin, "cos": np.cos}
_CONTEXT["tanh"] = np.tanh


@final
@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """A part of the formula that formulaic encodes."""

    formula: str
    spec: ModelSpec

    @staticmethod
    def learn(formula: str, frame: "pd.DataFrame") -> tuple["Matrix", Array]:
        """Learn contrasts and the state of transforms."""
        encoded = _formulaic(lambda: model_matrix(formula, frame, context=_CONTEXT, output="numpy", na_action="ignore"))
        found = Matrix(formula, encoded.model_spec)
        for expression, name, row, known in found._unknown(frame):
            raise FormulaError(
                f"{expression} leaves out {str(frame[name].iloc[row])!r}, which column {name!r} holds in row "
                f"{frame.index[row]}; its levels are {known}. Name all levels, or leave such rows out."
            )
        return found, np.asarray(encoded, dtype=np.float64)

    @property
    def learned(self) -> dict[str, Any]:
        """Plain values of what was learned: the state of transforms, and the levels of categories."""
        categories = {str(key): state["categories"] for key, (_, state) in self.spec.encoder_state.items() if state}
        return {"transforms": deepcopy(self.spec.transform_state), "categories": categories}

    @staticmethod
    def of_learned(formula: str, learned: Mapping[str, Any], row: "pd.DataFrame") -> "Matrix":
        """The same from the formula and what was learned; a row of the data's kinds shows which columns it gives.

        The formula must have gone through the guard.
        """
        categories = {
            key: (Factor.Kind.CATEGORICAL, {"categories": list(levels)})
            for key, levels in learned["categories"].items()
        }
        spec = ModelSpec(
            formula=cast(SimpleFormula, SimpleFormula.from_spec(formula)),
            output="numpy",
            na_action=NAAction.IGNORE,
            transform_state=deepcopy(learned["transforms"]),
            encoder_state=categories,
        )
        found = Matrix(formula, _formulaic(lambda: spec.get_model_matrix(row, context=_CONTEXT)).model_spec)
        if found.learned["categories"].keys() != learned["categories"].keys():
            raise FormulaError(f"What was learned of {formula!r} does not belong to it.")
        return found

    def encode(self, frame: "pd.DataFrame", origin: NDArray[np.intp]) -> Array:
        """Apply what was learned; ``origin`` numbers the rows in what is said of them."""
        for _, name, row, known in self._unknown(frame):
            raise ValueError(
                f"Column {name!r} holds {shown(frame[name].iloc[row])} in row {origin[row]}, a category that was not "
                f"there in fit; there were {known}. A random effect, (1 | {name}), would take new levels."
            )
        # formulaic writes into the state that it is given, also when it fails.
        spec = self.spec.update(
            encoder_state=deepcopy(self.spec.encoder_state), transform_state=deepcopy(self.spec.transform_state)
        )
        return np.asarray(_formulaic(lambda: spec.get_model_matrix(frame, context=_CONTEXT)), dtype=np.float64)

    def _unknown(self, frame: "pd.DataFrame") -> Iterator[tuple[str, str, int, str]]:
        """Categories that were not learned, which formulaic would take for the first one.

        Expression, column and row of the first of each column, and the categories that are known.
        """
        for expression, (_, state) in self.spec.encoder_state.items():
            if "categories" in state:
                name = columns_in(str(expression), list(frame.columns))[0]
                unknown = ~frame[name].isin(state["categories"]).to_numpy()
                if unknown.any():
                    known = ", ".join(shown(category) for category in state["categories"][:12])
                    yield str(expression), name, int(np.argmax(unknown)), known

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [INTERCEPT if name == "Intercept" else name for name in self.spec.column_names]

    @property
    def factors(self) -> list[tuple[str, ...]]:
        """Expressions whose product each column is."""
        found: list[tuple[str, ...]] = [()] * len(self.spec.column_names)
        for term, place in self.spec.term_slices.items():
            for column in range(place.start, place.stop):
                found[column] = tuple(str(factor.expr) for factor in term.factors)
        return found

    @property
    def categorical(self) -> list[str]:
        """Expressions that are categories."""
        return [str(expression) for expression, (_, state) in self.spec.encoder_state.items() if "categories" in state]

    @property
    def has_intercept(self) -> bool:
        """Whether the first column is the intercept."""
        return self.names[:1] == [INTERCEPT]

    @property
    def terms(self) -> dict[str, slice]:
        """Columns of each term but the intercept."""
        return {str(term): place for term, place in self.spec.term_slices.items() if str(term) != "1"}


def _formulaic(call: Callable[[], Any]) -> Any:
    """Call formulaic; hand on its warnings as what they are here, errors in words."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):  # what is not finite is named by its row later
            warnings.simplefilter("ignore", RuntimeWarning)
            warnings.simplefilter("ignore", DataMismatchWarning)  # categories that are not known are refused
            warnings.filterwarnings("ignore", "Constructing a Categorical")  # pandas on the same
            return call()
    except FormulaicError as error:
        raise FormulaError(f"The formula can't be applied to the data: {str(error).splitlines()[0]}") from error
