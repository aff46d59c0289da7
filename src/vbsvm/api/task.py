"""How encoded rows become tasks, one for each model, and how these are fitted."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from vbsvm.api import priors, validation
from vbsvm.api.data.partitions import Design, EncodedData
from vbsvm.api.missing_values import MissingDataPlan, plan_missing_data
from vbsvm.base.arrays import Array
from vbsvm.design.columns import Encoded, Plan
from vbsvm.inference.gibbs import Gibbs, Sample
from vbsvm.inference.inputs import LearnedInputs
from vbsvm.inference.loop import Callback, CheckpointCallback, OptimizeResult
from vbsvm.inference.variational import Variational
from vbsvm.missing.imputation import MissingPatterns, Population
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
from vbsvm.sources.rows import Grouping, Pages
from vbsvm.sources.sparse import Sparse

if TYPE_CHECKING:
    from vbsvm.design.formula.reader import Reader as FormulaDesign

LIKELIHOODS: dict[str, Likelihood] = {"hinge": HINGE, "logistic": LOGISTIC}
AT_RANDOM = GaussianImputation()
# Loose tolerance: the fit only initialises a sampler.
WARM_START = Variational(tol=1e-2, bound="augmented")
# Largest number of unpenalised coefficients in the dual layout, which keeps their matrix.
MAX_UNPENALISED = 50


@final
@dataclass(frozen=True, eq=False)
class Task:
    """One model to fit: its specification, rows, treatment of missing predictors, and classes.

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

    def optimize(
        self, inference: Variational, start: State | None = None, learned: LearnedInputs | None = None
    ) -> OptimizeResult:
        """Run the optimisation; an interrupted run over files resumes from its checkpoint."""
        pages = self.source.pages if isinstance(self.source, Memory) else None
        watch = Callback() if pages is None else _checkpoint(pages, self.spec, inference, start, self.classes)
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
        """Fit from an outcome; with several classes the ``first`` learns the predictors' distribution for all.

        If predictors are missing, their distribution is a part of the fit. Else it is learned when it is asked for.
        ``inference`` makes the fit again without some rows, where it can.
        """
        spec, plan, source = self.spec, self.plan, self.source
        if isinstance(source, Memory) and source.pages is not None and not outcome.interrupted:
            source.pages.finish()
        facts = Facts.from_source(source, self.n_dropped)

        def learn() -> Population | None:
            return self.missing_data.population(source, outcome) if first is None else first._input_population

        rows = TrainingRows(
            spec, outcome, source, plan.n_fixed, self._unweighted, self.row_numbers, learn, self.data, inference
        )
        return Fit(
            spec,
            plan,
            outcome,
            self.classes,
            self.reader,
            None if source.missing_inputs is None else self.missing_data.population(source, outcome),
            self.missing_data.patterns or MissingPatterns((), np.zeros((1, 0), dtype=bool), np.array([facts.n_rows])),
            facts,
            _rows=rows,
        )

    @property
    def rows(self) -> InMemory:
        """The rows, if they are in memory; else a TypeError."""
        if isinstance(self.source, Distributed):
            raise TypeError("This needs rows in memory, and those of this model are in a cluster: use a sample.")
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

    @property
    def sampler_input(self) -> tuple[Spec, AnyRows]:
        """Spec and source for the sampler; rows are repeated by weight, each with missing values of its own."""
        validation.check_sampleable(self.spec, self.source)
        if isinstance(self.source, Sparse) or (self.source.missing_inputs is None and self.source.candidates is None):
            return self.spec, self.source
        return self.spec, self.source.replicated()

    def shifted(self, shift: Shift) -> "Task":
        """The same with missing values shifted, and otherwise missing at random."""
        missing, missing_inputs, units = self.spec.missing, self.rows.missing_inputs, self.missing_data.units
        assert isinstance(missing, MissingModel)
        assert missing.inputs is not None
        assert missing_inputs is not None
        assert units is not None
        names = [self.plan.name_of(k) for k in missing_inputs.inputs.variables]
        settings = replace(missing.inputs.settings, mechanism=None)
        at_random = replace(missing, inputs=replace(missing.inputs, settings=settings, probit_of=None))
        source = replace(self.table, missing_inputs=replace(missing_inputs, shift=units * shift.of(names)))
        return replace(self, spec=replace(self.spec, missing=at_random), source=source)

    def encoded(self, rows: slice) -> Encoded:
        """Rows of the fit as predictions take them; ``where`` may not part the candidates of a row."""
        source = self.rows
        levels = tuple(grouping.index[rows] for grouping in source.groupings)
        candidates = None if source.candidates is None else source.candidates.take(rows)
        return Encoded(source.X[rows], levels, self._multipliers(rows), candidates)

    def _multipliers(self, rows: slice) -> Array | None:
        """Change of each derived column per unit of a missing predictor; 0 for predictors that are never missing."""
        missing_inputs = self.rows.missing_inputs
        if missing_inputs is None or not (derived := self.missing_data.all_inputs.pairs):
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
    interrupted before the last, a class is missing. Those of several classes have the slopes that make their scores
    comparable, learned from the rows left out; for two classes only probabilities need one, and ask for it.
    """
    fits: list[Fit] = []
    if isinstance(inference, Gibbs):
        models = [task.sampler_input for task in tasks]
        warm = [task for task in tasks if inference.suits_warm_start(task.spec)]
        around = [WARM_START.run(task.spec, task.source).finished().state for task in warm] or None
        for task, sample in zip(tasks, inference.run_several(models, seed, around), strict=True):
            fits.append(task.result(sample, fits[0] if fits else None))
    else:
        learned = inference.learned(tasks[0].spec, tasks[0].source)
        for task, start in zip(tasks, starts or [None] * len(tasks), strict=True):
            outcome = task.optimize(inference, start, learned)
            if outcome.interrupted and len(fits) + 1 < len(tasks):
                raise KeyboardInterrupt
            fits.append(task.result(outcome, fits[0] if fits else None, inference))
    if len(fits) == 1:
        return fits
    calibrations = links([fit._rows for fit in fits if fit._rows is not None])
    return [replace(fit, calibration=link) for fit, link in zip(fits, calibrations, strict=True)]


def _checkpoint(pages: Pages, *run: Any) -> CheckpointCallback:
    """Callback that keeps the progress over rows of a cache; ``run`` is all that it depends on besides them."""
    assert pages.folder is not None
    digest = CheckpointCallback.digest(*run)
    path = pages.folder.with_name(f"{pages.folder.name}.{digest}{CHECKPOINT}")
    return CheckpointCallback(path, digest, pages.verbose)


def read_inference(value: Any) -> Variational | Gibbs:
    """Validated inference; default ``Variational()``."""
    inference = Variational() if value is None else priors.resolve_alias("inference", value, priors.INFERENCES)
    if not isinstance(inference, Variational | Gibbs):
        raise TypeError(f"inference must be an object such as Variational() or Gibbs(), or None; got {inference!r}.")
    return inference


def read_imputation(value: Any) -> GaussianImputation:
    """Validated imputation settings; default ``GaussianImputation()``."""
    settings = AT_RANDOM if value is None else value
    if not isinstance(settings, GaussianImputation):
        raise TypeError(f"imputation must be an object such as GaussianImputation(), or None; got {settings!r}.")
    return settings


def read_likelihood(value: Any) -> Likelihood:
    """The likelihood of this name."""
    if not isinstance(value, str) or value not in LIKELIHOODS:
        raise ValueError(f"likelihood must be 'hinge' or 'logistic'; got {value!r}.")
    return LIKELIHOODS[value]


def build_tasks(data: EncodedData, imputation: GaussianImputation, likelihood: Likelihood) -> list[Task]:
    """Choose the treatment of missing values and the layout, validate, and build a task for each of the rows' labels.

    The classes of a task are the negative and the positive one; None means the rest.
    """
    rows, design, remote = data.rows, data.encoder.design(data.columns, data.rows), data.remote
    plan = design.plan
    validation.check_representable(data.columns.ranges, plan.recipe, plan.names)
    missing_data = MissingDataPlan(imputation, design.terms, plan.recipe.first)
    if not data.complete:
        missing_data = plan_missing_data(imputation, data, design)
    spec = Spec(design.blocks(likelihood), missing_data.model, likelihood)
    if spec.joint_gates and plan.factors:
        raise ValueError("LaplaceZero(gates=Joint()) does not support random effects: use gates=Factorised().")
    source = _with_layout(spec, _source(data, design, missing_data))
    validation.check_model_size(plan, spec, source)
    classes = data.encoder.classes
    pairs = [classes] if len(classes) == 2 else [np.array([None, label], dtype=object) for label in classes]
    shared = design.formula, data.encoder.n_dropped, rows.sample_weights, rows.row_numbers
    tasks = [
        Task(spec, plan, missing_data, replace(source, y=y), pair, *shared)
        for y, pair in zip(rows.labels, pairs, strict=True)
    ]
    return tasks if remote is None else [remote.with_rows(task, number) for number, task in enumerate(tasks)]


def _source(data: EncodedData, design: Design, missing_data: MissingDataPlan) -> InMemory:
    """The rows as dense or sparse columns."""
    plan, rows, encoded = design.plan, data.rows, data.rows.encoded
    if issparse(encoded.table):
        return Sparse.from_csr(encoded.table, rows.labels[0], rows.weights, plan.recipe)
    return Memory(
        encoded.table,
        rows.labels[0],
        rows.weights,
        plan.recipe,
        tuple(map(Grouping.from_levels, plan.factors, encoded.levels)),
        plan.n_carried,
        missing_inputs=missing_data.missing_inputs,
        candidates=encoded.candidates,
        known_levels=design.known_levels,
        pages=data.pages,
        fixed_levels=missing_data.fixed_levels,
    )


def _with_layout(spec: Spec, source: InMemory) -> InMemory:
    """The source with its covariance by columns; or by rows or draws, if complete, without groups, and penalised."""
    gates = spec.gate_map
    if source.groupings or source.missing_inputs is not None or source.candidates is not None:
        return source
    if source.n_core < source.n_columns or spec.joint_gates or (gates is not None and gates.shared):
        return source
    if np.count_nonzero(spec.precision(spec.start()).diagonal < FREE) > MAX_UNPENALISED:
        return source
    if gates is None and validation.needs_draws(source.X):
        return replace(source, drawn_covariance=True)
    return replace(source, wide=validation.is_wide(source.X))
