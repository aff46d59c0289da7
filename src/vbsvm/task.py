"""One two-class model and its rows, ready to be fitted."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.completion import Completion
from vbsvm.design.plan import Encoded, Plan
from vbsvm.fit.variational import Variational
from vbsvm.mechanism import Shift
from vbsvm.population import Population
from vbsvm.results import Fit
from vbsvm.source.memory import Memory
from vbsvm.spec import Spec, State

if TYPE_CHECKING:
    from vbsvm.design.formula import Reader


@final
@dataclass(frozen=True, eq=False)
class Task:
    """What is fitted to which rows, how missing inputs are treated, and what the scores' signs mean."""

    spec: Spec
    plan: Plan
    completion: Completion
    source: Memory
    classes: NDArray[Any]
    reader: "Reader | None" = None

    def fit(self, inference: Variational, start: State | None = None, population: Population | None = None) -> Fit:
        """Fit the model, from its own start or from a state; a population that is known already is not learned anew."""
        outcome = inference.run(self.spec, self.source, start)
        if population is None or self.source.holes is not None:
            population = self.completion.population(self.source, outcome)
        return Fit(self.spec, self.plan, outcome, self.classes, self.reader, population, self.completion.gaps)

    def shifted(self, shift: Shift) -> "Task":
        """The same with missing values shifted, and otherwise missing at random."""
        inputs, holes = self.spec.inputs, self.source.holes
        assert inputs is not None
        assert holes is not None
        names = [self.plan.names[k - int(self.plan.recipe.intercept)] for k in holes.inputs.variables]
        at_random = replace(inputs, settings=replace(inputs.settings, mechanism=None), probit_of=None)
        source = replace(self.source, holes=replace(holes, shift=shift.of(names)))
        return replace(self, spec=replace(self.spec, inputs=at_random), source=source)

    def complete_rows(self) -> Encoded:
        """The rows that miss nothing."""
        complete = ~np.isnan(self.source.X).any(axis=1)
        levels = tuple(grouping.index[complete] for grouping in self.source.groupings)
        return Encoded(self.source.X[complete], levels)
