"""One two-class model and its rows, ready to be fitted."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.api import priors, validation
from vbsvm.api.missing_values import MissingDataPlan
from vbsvm.base.arrays import Array
from vbsvm.design.columns import Encoded, Plan
from vbsvm.inference.gibbs import Gibbs, Sample
from vbsvm.inference.inputs import LearnedInputs
from vbsvm.inference.loop import CheckpointCallback, OptimizeResult, ProgressCallback
from vbsvm.inference.variational import Variational
from vbsvm.missing.imputation import Population
from vbsvm.missing.model import MissingModel
from vbsvm.missing.settings import GaussianImputation, Shift
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.likelihoods.hinge import HINGE
from vbsvm.model.likelihoods.logistic import LOGISTIC
from vbsvm.model.spec import Spec, State
from vbsvm.results.fit import Fit
from vbsvm.results.history import Facts
from vbsvm.results.training_rows import TrainingRows, Unweighted, links
from vbsvm.sources.block_source import Pages
from vbsvm.sources.distributed import AnyRows, Distributed, InMemory
from vbsvm.sources.files_cache import CHECKPOINT
from vbsvm.sources.memory import Memory
from vbsvm.sources.sparse import Sparse

if TYPE_CHECKING:
    from vbsvm.design.formula.reader import Reader


LIKELIHOODS: dict[str, Likelihood] = {"hinge": HINGE, "logistic": LOGISTIC}
# Loose tolerance: the fit only initialises a sampler.
WARM_START = Variational(tol=1e-2, bound="augmented")


@final
@dataclass(frozen=True, eq=False)
class Task:
    """What is fitted to which rows, how missing inputs are treated, and what the scores' signs mean.

    ``sample_weights`` are those without class weights, where there are any, or sources with them. ``row_numbers``
    are those of the rows in the user's data, or None where they are the same. ``data`` is the user's table,
    which is not copied.
    """

    spec: Spec
    plan: Plan
    missing_data: MissingDataPlan
    source: AnyRows
    classes: NDArray[Any]
    reader: "Reader | None" = None
    n_dropped: int = 0
    sample_weights: Array | Unweighted | None = None
    row_numbers: NDArray[np.intp] | None = None
    data: Any = None

    def fit(
        self,
        inference: Variational | Gibbs,
        start: State | None = None,
        seed: int = 0,
    ) -> Fit:
        """Fit the model, from its own start or from a state."""
        if isinstance(inference, Gibbs):
            spec, source = self.sampler_input
            return self.result(inference.run(spec, source, seed, self._chain_start(inference)))
        return self.result(self.optimize(inference, start), inference=inference)

    def optimize(
        self, inference: Variational, start: State | None = None, learned: LearnedInputs | None = None
    ) -> OptimizeResult:
        """Run the optimisation; an interrupted run over files resumes from its checkpoint."""
        pages = self.source.pages if isinstance(self.source, Memory) else None
        watch = ProgressCallback() if pages is None else _checkpoint(pages, self.spec, inference, start, self.classes)
        try:
            outcome = inference.run(self.spec, self.source, start, learned, watch)
        finally:
            watch.close()
        if isinstance(watch, CheckpointCallback) and not outcome.interrupted:
            watch.finish()
        return outcome

    def result(
        self, outcome: OptimizeResult | Sample, first: Fit | None = None, inference: Variational | None = None
    ) -> Fit:
        """Fit from an outcome; with several classes the ``first`` learns the inputs' distribution for all.

        Where inputs are missing, their distribution is a part of the fit. Else it is learned when it is asked for.
        ``inference`` makes the fit again without some rows, where it can.
        """
        if isinstance(self.source, Memory) and self.source.pages is not None and not outcome.interrupted:
            self.source.pages.finish()
        incomplete = self.source.missing_inputs is not None

        def learn() -> Population | None:
            return self.missing_data.population(self.source, outcome) if first is None else first._input_population

        rows = TrainingRows(
            self.spec,
            outcome,
            self.source,
            self.plan.n_fixed,
            self._unweighted,
            self.row_numbers,
            learn,
            self.data,
            inference,
        )
        return Fit(
            self.spec,
            self.plan,
            outcome,
            self.classes,
            self.reader,
            self.missing_data.population(self.source, outcome) if incomplete else None,
            self.missing_data.missing_patterns,
            Facts.from_source(self.source, self.n_dropped),
            _rows=rows,
        )

    @property
    def rows(self) -> InMemory:
        """The rows, if they are in memory; else a TypeError."""
        if isinstance(self.source, Distributed):
            raise TypeError("This needs rows in memory; those of this model lie in a cluster. Take a sample of them.")
        return self.source

    @property
    def table(self) -> Memory:
        """The rows as a materialised (not sparse) table."""
        assert isinstance(self.source, Memory)
        return self.source

    def _unweighted(self) -> Unweighted | None:
        """The rows without class weights, or None if there are none."""
        if self.sample_weights is None or isinstance(self.sample_weights, Unweighted):
            return self.sample_weights
        s, k = self.rows.weights, np.where(self.rows.weights > 0, self.sample_weights, 0.0)
        squares = np.divide(np.square(s), k, out=np.zeros_like(k), where=k > 0)
        return Unweighted(replace(self.rows, weights=k), replace(self.rows, weights=squares))

    def _chain_start(self, inference: Gibbs) -> State | None:
        """Variational state around which the chains start, or None if that is not supported."""
        suits = inference.suits_warm_start(self.spec)
        return WARM_START.run(self.spec, self.source).finished().state if suits else None

    @property
    def sampler_input(self) -> tuple[Spec, AnyRows]:
        """Spec and source for the sampler; rows with missing values are repeated by their weights.

        Each of them has missing values of its own.
        """
        validation.check_sampleable(self.spec, self.source)
        if isinstance(self.source, Sparse) or (self.source.missing_inputs is None and self.source.candidates is None):
            return self.spec, self.source
        return self.spec, self.source.replicated()

    def shifted(self, shift: Shift) -> "Task":
        """The same with missing values shifted, and otherwise missing at random."""
        missing, missing_inputs = self.spec.missing, self.rows.missing_inputs
        assert isinstance(missing, MissingModel)
        assert missing.inputs is not None
        assert missing_inputs is not None
        names = [self.plan.name_of(k) for k in missing_inputs.inputs.variables]
        settings = replace(missing.inputs.settings, mechanism=None)
        at_random = replace(missing, inputs=replace(missing.inputs, settings=settings, probit_of=None))
        source = replace(
            self.table, missing_inputs=replace(missing_inputs, shift=self.missing_data.units * shift.of(names))
        )
        return replace(self, spec=replace(self.spec, missing=at_random), source=source)

    def encoded(self, rows: slice) -> Encoded:
        """Rows of the fit as predictions take them; ``where`` may not part the candidates of a row."""
        source = self.rows
        levels = tuple(grouping.index[rows] for grouping in source.groupings)
        candidates = None if source.candidates is None else source.candidates.take(rows)
        return Encoded(source.X[rows], levels, self._multipliers(rows), candidates)

    def _multipliers(self, rows: slice) -> Array | None:
        """Change of each derived column per unit of a missing input; 0 for inputs that are never missing."""
        missing_inputs, derived = self.rows.missing_inputs, self.missing_data.all_inputs.pairs
        if missing_inputs is None or not derived:
            return None
        multipliers = np.zeros((len(self.rows.X[rows]), len(derived)))
        columns = [derived.index(pair) for pair in missing_inputs.inputs.pairs]
        multipliers[:, columns] = missing_inputs.multipliers[rows]
        return multipliers

    def complete_rows(self) -> Encoded:
        """Rows without missing values."""
        complete = ~np.isnan(self.rows.X).any(axis=1)
        if self.rows.candidates is not None:
            complete &= ~self.rows.candidates.filled_in.any(axis=1)
        levels = tuple(grouping.index[complete] for grouping in self.rows.groupings)
        return Encoded(self.rows.X[complete], levels)


def fit_all(
    tasks: Sequence[Task], inference: Variational | Gibbs, seed: int, starts: Sequence[State] | None = None
) -> list[Fit]:
    """Fit one model for each class, optionally from initial states.

    Samplers run together: an interrupted one has draws of every class. Other fits run in sequence: if one is
    interrupted before the last, a class is missing.
    """
    fits: list[Fit] = []
    if isinstance(inference, Gibbs):
        models = [task.sampler_input for task in tasks]
        around = [state for task in tasks if (state := task._chain_start(inference)) is not None] or None
        for task, sample in zip(tasks, inference.run_several(models, seed, around), strict=True):
            fits.append(task.result(sample, fits[0] if fits else None))
        return with_calibrations(fits)
    learned = inference.learned(tasks[0].spec, tasks[0].source)
    for task, start in zip(tasks, starts or [None] * len(tasks), strict=True):
        outcome = task.optimize(inference, start, learned)
        if outcome.interrupted and len(fits) + 1 < len(tasks):
            raise KeyboardInterrupt
        fits.append(task.result(outcome, fits[0] if fits else None, inference))
    return with_calibrations(fits)


def with_calibrations(fits: list[Fit]) -> list[Fit]:
    """The fits of several classes with the slopes that make their scores comparable, learned from the rows left out.

    The probabilities of two classes need the same, but their predictions do not: there it is learned when it is asked
    for.
    """
    if len(fits) == 1:
        return fits
    calibrations = links([fit._rows for fit in fits if fit._rows is not None])
    return [replace(fit, calibration=link) for fit, link in zip(fits, calibrations, strict=True)]


def _checkpoint(pages: Pages, *run: Any) -> CheckpointCallback:
    """Callback that keeps the progress over rows of a cache; ``run`` is all that it depends on besides them."""
    assert pages.folder is not None
    digest = CheckpointCallback.digest(*run)
    path = pages.folder.with_name(f"{pages.folder.name}.{digest}{CHECKPOINT}")
    return CheckpointCallback(path, digest, pages.line)


def read_inference(value: Any) -> Variational | Gibbs:
    """Validated inference; default ``Variational()``."""
    inference = Variational() if value is None else priors.resolve_alias("inference", value, priors.INFERENCES)
    if not isinstance(inference, Variational | Gibbs):
        raise TypeError(f"inference must be an object such as Variational() or Gibbs(), or None; got {inference!r}.")
    return inference


def read_imputation(value: Any) -> GaussianImputation:
    """Validated imputation settings; default ``GaussianImputation()``."""
    settings = GaussianImputation() if value is None else value
    if not isinstance(settings, GaussianImputation):
        raise TypeError(f"imputation must be an object such as GaussianImputation(), or None; got {settings!r}.")
    return settings


def read_likelihood(value: Any) -> Likelihood:
    """The likelihood of this name."""
    if not isinstance(value, str) or value not in LIKELIHOODS:
        raise ValueError(f"likelihood must be 'hinge' or 'logistic'; got {value!r}.")
    return LIKELIHOODS[value]


def check_variational(caller: str, inference: Variational | Gibbs) -> Variational:
    """Reject ``Gibbs`` where only variational fits are supported."""
    if isinstance(inference, Gibbs):
        raise ValueError(f"{caller} is only available for variational fits: use inference=Variational().")
    return inference
