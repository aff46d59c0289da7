"""How any data become tasks that are fitted: a reader says what columns mean, partitions where rows are."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from vbsvm.api import priors, validation
from vbsvm.api.data.partitions import Design, EncodedData, Partitions, Reader
from vbsvm.api.missing_values import EncodedRows, MissingDataPlan, plan_missing_data
from vbsvm.base.arrays import Array
from vbsvm.design.columns import Encoded, Plan
from vbsvm.inference.gibbs import Gibbs, Sample
from vbsvm.inference.inputs import LearnedInputs
from vbsvm.inference.loop import Callback, CheckpointCallback, OptimizeResult
from vbsvm.inference.variational import Variational
from vbsvm.missing.imputation import Population
from vbsvm.missing.model import MissingModel
from vbsvm.missing.settings import GaussianImputation, Shift
from vbsvm.model.layouts.dual_parts import FREE
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.likelihoods.hinge import HINGE
from vbsvm.model.likelihoods.logistic import LOGISTIC
from vbsvm.model.spec import Spec, State
from vbsvm.results.fit import Fit
from vbsvm.results.history import Facts
from vbsvm.results.training_rows import TrainingRows, Unweighted, links
from vbsvm.sources.distributed import AnyRows, Distributed, InMemory
from vbsvm.sources.files_cache import CHECKPOINT
from vbsvm.sources.memory import Memory
from vbsvm.sources.rows import Grouping, Pages, runs
from vbsvm.sources.sparse import Sparse

if TYPE_CHECKING:
    from vbsvm.design.formula.reader import Reader as FormulaDesign

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
    reader: "FormulaDesign | None" = None
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
        watch = (
            Callback(interactive=True)
            if pages is None
            else _checkpoint(pages, self.spec, inference, start, self.classes)
        )
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


# Largest number of unpenalised coefficients in the dual layout, which keeps their matrix.
MAX_UNPENALISED = 50


def build_problem(
    reader: Reader, partitions: Partitions, imputation: GaussianImputation, likelihood: Likelihood
) -> "Problem":
    """The problem of rows in partitions: all of them are summarised, then encoded by what was learned."""
    return Problem.from_data(partitions.read(reader), imputation, likelihood)


@final
@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be fitted: encoded rows, what their columns mean, how missing inputs are treated, and the likelihood.

    There is a model for each of the rows' labels; all of them have the rest in common.
    """

    data: EncodedData
    design: Design
    imputation: GaussianImputation
    likelihood: Likelihood

    @staticmethod
    def from_data(data: EncodedData, imputation: GaussianImputation, likelihood: Likelihood) -> "Problem":
        """The problem of encoded rows."""
        return Problem(data, data.encoder.design(data.columns, data.rows), imputation, likelihood)

    @property
    def classes(self) -> NDArray[Any]:
        """Labels of all classes."""
        return self.data.encoder.classes

    @property
    def _label_pairs(self) -> list[NDArray[Any]]:
        """Negative and positive class of each model; None means the rest."""
        if len(self.classes) == 2:
            return [self.classes]
        return [np.array([None, label], dtype=object) for label in self.classes]

    def _labels(self) -> Array:
        """Labels ±1 as regressors of missing inputs: all models' but the last, or the only one's."""
        labels = self.data.rows.labels
        return np.column_stack(labels[: max(1, len(labels) - 1)])

    def tasks(self) -> list[Task]:
        """Choose the treatment of missing values and the layout, validate, and build a task for each model."""
        data, design, rows = self.data, self.design, self.data.rows
        plan, encoded, ranges = design.plan, rows.encoded, data.columns.ranges
        validation.check_representable(ranges, plan.recipe, plan.names)
        validation.check_mechanism(self.imputation, encoded)
        n_rows, row_bytes = encoded.table.shape[0], encoded.table.dtype.itemsize * encoded.table.shape[1]
        row_statistics, missing = data.remote, ranges.incomplete
        if row_statistics is None:
            row_statistics = EncodedRows(
                encoded, rows.weights, lambda: runs(n_rows, data.pages, row_bytes), rows.labels[0]
            )
        missing_data = plan_missing_data(
            self.imputation, plan, encoded, missing, design.terms, row_statistics, self._labels, design.known_levels
        )
        spec = Spec(design.blocks(self.likelihood), missing_data.model, self.likelihood)
        validation.check_gates(spec, plan)
        source = self._source(spec, missing_data)
        validation.check_model_size(plan, spec, source)
        shared = design.formula, data.encoder.n_dropped, rows.sample_weights, rows.row_numbers
        tasks = [
            Task(spec, plan, missing_data, replace(source, y=y), classes, *shared)
            for y, classes in zip(rows.labels, self._label_pairs, strict=True)
        ]
        remote = data.remote
        return tasks if remote is None else [remote.with_rows(task, number) for number, task in enumerate(tasks)]

    def _source(self, spec: Spec, missing_data: MissingDataPlan) -> InMemory:
        """The rows, in the layout that suits the model."""
        plan, rows, encoded = self.design.plan, self.data.rows, self.data.rows.encoded
        if issparse(encoded.table):
            return _with_layout(spec, Sparse.from_csr(encoded.table, rows.labels[0], rows.weights, plan.recipe))
        source = Memory(
            encoded.table,
            rows.labels[0],
            rows.weights,
            plan.recipe,
            tuple(map(Grouping.from_levels, plan.factors, encoded.levels)),
            plan.n_carried,
            missing_inputs=missing_data.missing_inputs,
            candidates=encoded.candidates,
            known_levels=self.design.known_levels,
            pages=self.data.pages,
            fixed_levels=missing_data.fixed_levels,
        )
        return _with_layout(spec, source)


def _with_layout(spec: Spec, source: InMemory) -> InMemory:
    """The source with the layout of its covariance: by columns, by rows (wide), or by draws."""
    if not _supports_row_layout(spec, source):
        return source
    if validation.needs_draws(source.X) and spec.gate_map is None:
        return replace(source, drawn_covariance=True)
    return replace(source, wide=validation.is_wide(source.X))


def _supports_row_layout(spec: Spec, source: InMemory) -> bool:
    """Whether a rows × rows layout applies: no groups, nothing missing, nearly all columns penalised."""
    gates = spec.gate_map
    carried = source.n_core < source.n_columns
    if source.groupings or carried or source.missing_inputs is not None or source.candidates is not None:
        return False
    if spec.joint_gates or (gates is not None and gates.shared):
        return False
    return bool(np.count_nonzero(spec.precision(spec.start()).diagonal < FREE) <= MAX_UNPENALISED)
