"""Fits that go on from the last one: from batches of rows as they arrive, or from where it ended (``warm_start``).

Of each batch a few sums stay, which represent it from then on.

Streaming variational Bayes (Luts, Broderick & Wand 2014) holds the weights w of past rows. Here their term of the bound
is held to second order, with its own curvature in the mean in place of the majorant's, which is stiffer and would keep
the coefficients near those of the first batches. Columns are standardised by all rows so far: the sums change their
units with them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from vbsvm.api import validation
from vbsvm.api.data import inputs, label_checks
from vbsvm.api.data.partitions import EncodedData, Partition
from vbsvm.api.data.table_reader import ReadTable, TableEncoder, TableReader
from vbsvm.api.task import Problem, Task
from vbsvm.base.arrays import Array
from vbsvm.design.frames import check_in_memory
from vbsvm.design.scaling import ColumnSummary, Recipe
from vbsvm.inference.gibbs import Gibbs
from vbsvm.inference.loop import OptimizeResult
from vbsvm.inference.variational import Variational
from vbsvm.missing.settings import GaussianImputation
from vbsvm.model.layouts.dense import DenseGaussian
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.priors import LaplaceZero
from vbsvm.model.spec import State
from vbsvm.results.calibration import LeftOutScores, PosteriorMean, calibrate
from vbsvm.results.fit import Fit
from vbsvm.results.history import Facts
from vbsvm.sources.memory import Memory
from vbsvm.sources.past_rows import NewAndPastRows, PastRows

if TYPE_CHECKING:
    from vbsvm.api.estimator import Classifier

# A dense gram of more columns takes too long for every batch.
MAX_COLUMNS = 3000
# Scores of the last rows, each from before it was learned, by which probabilities are calibrated.
MAX_RECENT = 8192


@final
@dataclass(frozen=True, eq=False)
class _ModelSums:
    """Sufficient sums of one model's past rows, its state, recent decision values, and counts."""

    rows: PastRows
    state: State
    recent: LeftOutScores
    facts: Facts


@final
@dataclass(frozen=True, eq=False)
class Stream:
    """State of online learning: column summary, standardisation, and each model's sums."""

    classes: NDArray[Any]
    columns: ColumnSummary
    recipe: Recipe
    n_rows: int
    models: tuple[_ModelSums, ...]


@final
@dataclass(frozen=True, eq=False)
class Learner:
    """The settings of an estimator that learns from batches."""

    reader: TableReader
    likelihood: Likelihood
    inference: Variational

    def learn_batch(
        self, stream: Stream | None, classes: NDArray[Any], batch: ReadTable
    ) -> tuple[Stream, tuple[Fit, ...]]:
        """Update the stream with a batch, and return the fits to all rows so far."""
        encoder = TableEncoder(self.reader, classes)
        rows = encoder(Partition(batch))
        assert rows is not None
        columns = encoder.columns(rows)
        columns = columns if stream is None else stream.columns + columns
        problem = Problem.from_data(EncodedData(encoder, rows, columns), GaussianImputation(), self.likelihood)
        tasks = [replace(task, source=_dense(task.source)) for task in problem.tasks()]
        models, fits = [], []
        for k, task in enumerate(tasks):
            past = None if stream is None else stream.models[k]
            model, fit = self._learn_model(task, past, stream)
            models.append(model)
            fits.append(fit)
        normalised = self.likelihood.normalised
        links = [PosteriorMean() for _ in models] if normalised else calibrate([model.recent for model in models])
        calibrated_fits = tuple(replace(fit, calibration=link) for fit, link in zip(fits, links, strict=True))
        n_rows = tasks[0].source.n_rows + (0 if stream is None else stream.n_rows)
        return Stream(classes, columns, problem.design.plan.recipe, n_rows, tuple(models)), calibrated_fits

    def _learn_model(self, task: Task, past: _ModelSums | None, stream: Stream | None) -> tuple[_ModelSums, Fit]:
        """Update one model's sums, and fit it."""
        rows, facts, past_sums = _dense(task.source), Facts.from_source(task.source), None
        if past is None or stream is None:
            outcome = self.inference.run(task.spec, rows).finished()
            fit = task.result(outcome)
            assert fit._rows is not None
            recent = fit._rows.left_out_scores()
        else:
            past_sums = past.rows.in_units_of(stream.recipe, task.plan.recipe)
            source = NewAndPastRows(rows, past_sums)
            start = source.start(task.spec, past.state)
            outcome = self.inference.run(task.spec, source, start).finished()
            fit = task.result(outcome)
            recent, facts = _last_scores(past.recent, _prequential_scores(task, start)), past.facts + facts
        batch_sums = PastRows.from_state(task.spec, outcome.state, rows)
        # From the last batch alone nothing may be learned later as if it were all rows.
        sums = _ModelSums(batch_sums if past_sums is None else past_sums + batch_sums, outcome.state, recent, facts)
        return sums, replace(fit, facts=facts, _rows=None)


def _dense(source: Any) -> Memory:
    """The rows in the dense columns × columns layout."""
    return replace(source, wide=False)


def _prequential_scores(task: Task, before: State) -> LeftOutScores:
    """Decision values of the new rows before they are learned (prequential)."""
    source, theta = task.rows, before.coefficients.mean
    scores = np.concatenate(source.sum_parts(lambda part: [part.scores(theta, None)]))
    counted = source.weights > 0
    return LeftOutScores(source.y[counted], source.weights[counted], scores, np.zeros(len(scores)))


def _last_scores(before: LeftOutScores, new: LeftOutScores) -> LeftOutScores:
    """The most recent decision values, up to ``MAX_RECENT``."""

    def last(old: Array, recent: Array) -> Array:
        return np.concatenate([old, recent])[-MAX_RECENT:]

    return LeftOutScores(last(before.y, new.y), last(before.s, new.s), last(before.f, new.f), last(before.u, new.u))


def learn_batch(
    estimator: "Classifier", stream: Stream | None, X: Any, y: Any, classes: Any, sample_weight: Any
) -> tuple[Stream, tuple[Fit, ...]]:
    """Read a batch as ``fit`` would, and learn from it; without a stream, beginning with the rows of the last fit."""
    fits = getattr(estimator, "fit_", None)
    prior, inference, _ = estimator.check_settings()
    check_in_memory(X=X, y=y, sample_weight=sample_weight)
    table, labels = _read_batch(estimator, X, label_checks.read_labels(y))
    names = validation.column_names(estimator)
    _check_complete(names, table)
    weights = label_checks.read_weights(sample_weight, len(table))
    assert isinstance(inference, Variational)
    learner = Learner(TableReader.from_estimator(estimator, prior), estimator.likelihood, inference)
    if stream is None and fits is not None:
        stream, _ = learner.learn_batch(None, estimator.classes_, _first_batch(fits, estimator.classes_))
    all_classes = _known_classes(stream, labels, weights, classes)
    _check_known(labels, all_classes)
    estimator.classes_ = all_classes
    return learner.learn_batch(stream, all_classes, ReadTable(table, labels, weights))


def _first_batch(fits: Sequence[Fit], classes: NDArray[Any]) -> ReadTable:
    """Rows of a fit as the first batch."""
    sources = [one for fit in fits if fit._rows is not None and isinstance(one := fit._rows._unchanged, Memory)]
    if not sources:
        raise ValueError(
            "partial_fit goes on from a fit only while its rows are at hand, which a model from a file or a fit "
            "to a sparse table does not have: begin with a new estimator."
        )
    signs = np.stack([source.y for source in sources], axis=1)
    codes = (signs[:, 0] > 0).astype(np.intp) if len(sources) == 1 else signs.argmax(axis=1)
    return ReadTable(sources[0].X, classes[codes], sources[0].weights)


def supports_partial_fit(estimator: "Classifier") -> bool:
    """Whether ``partial_fit`` is available; else an AttributeError says why not."""
    prior, inference, _ = estimator.check_settings()
    if isinstance(inference, Gibbs):
        raise AttributeError("partial_fit is only available for variational fits: use inference=Variational().")
    if inference.bound == "exact":
        raise AttributeError("partial_fit raises the paper's bound: leave bound='exact' out, or use fit.")
    if estimator.group is not None:
        raise AttributeError("partial_fit does not support group: use fit.")
    if estimator.categories is not None:
        raise AttributeError("partial_fit does not support categories: encode them first, or use fit.")
    if estimator.class_weight is not None:
        raise AttributeError("partial_fit does not support class_weight: multiply it into sample_weight.")
    if getattr(estimator, "likelihood_power", None) not in (None, 1):
        raise AttributeError("partial_fit does not support likelihood_power: leave it at None, or use fit.")
    if isinstance(prior, LaplaceZero):
        raise AttributeError("partial_fit does not support the gates of LaplaceZero: use Ridge(), or fit.")
    return True


def _read_batch(estimator: "Classifier", X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
    """Numbers and labels; the columns are those of the first call."""
    table, labels, _ = inputs.read_data(estimator, X, y, reset=not hasattr(estimator, "fit_"))
    if issparse(X):
        raise TypeError("partial_fit does not support sparse tables: use X.toarray(), or fit.")
    return table, labels


def _known_classes(stream: Stream | None, labels: NDArray[Any], weights: Array, classes: Any) -> NDArray[Any]:
    """The classes of the first call, which names them or has them all."""
    if stream is None and classes is None:
        labels_present = np.unique(labels[weights > 0])
        label_checks.check_labels(labels, labels_present)
        label_checks.check_several_classes(labels_present)
        return labels_present
    if stream is None:
        return _declared_classes(classes)
    if classes is not None and not np.array_equal(_declared_classes(classes), stream.classes):
        raise ValueError(
            f"classes are not those of the first call, {', '.join(map(str, stream.classes))}: leave them out now."
        )
    return stream.classes


def _declared_classes(classes: Any) -> NDArray[Any]:
    declared = np.unique(label_checks.read_labels(classes))
    label_checks.check_several_classes(declared)
    return declared


def _check_known(labels: NDArray[Any], classes: NDArray[Any]) -> None:
    """Reject a class that was not announced."""
    unknown = classes[label_checks.class_codes(classes, labels)] != labels
    if unknown.any():
        row = int(np.argmax(unknown))
        raise ValueError(
            f"y holds the class {labels[row]!s} in row {row}, which is not among the classes of the first call, "
            f"{', '.join(map(str, classes))}: name all classes there, as in partial_fit(X, y, classes=[…])."
        )


def _check_complete(names: Sequence[str], X: NDArray[np.floating]) -> None:
    """Reject tables that are too wide, or miss values."""
    if len(names) > MAX_COLUMNS:
        raise ValueError(f"partial_fit keeps a matrix of {len(names)} columns; up to {MAX_COLUMNS} are supported.")
    missing = np.isnan(X)
    if missing.any():
        row, column = np.argwhere(missing)[0]
        raise ValueError(
            f"Column {names[column]!r} has a missing value in row {row}: partial_fit needs complete rows. Impute "
            "them, or use fit."
        )


def warm_starts(fits: Sequence[Fit], tasks: Sequence[Task]) -> list[State] | None:
    """Initial states from the last fits, or None if these are of another model."""
    states = [_warm_start(fit, task) for fit, task in zip(fits, tasks, strict=False)]
    if len(fits) != len(tasks) or any(state is None for state in states):
        return None
    return [state for state in states if state is not None]


def _warm_start(fit: Fit, task: Task) -> State | None:
    """Final state of a fit in the units of another task, or None if that is not supported."""
    old, new, outcome = fit.plan.recipe, task.plan.recipe, fit.outcome
    if not isinstance(outcome, OptimizeResult) or not isinstance(outcome.state.coefficients, DenseGaussian):
        return None
    same = fit.plan.names == task.plan.names and _blocks(fit) == _blocks(task) and old.intercept == new.intercept
    plain = fit.spec.missing is task.spec.missing is task.spec.gate_map is None and not task.plan.factors
    if not same or not plain or not np.isfinite([old.scale, new.scale]).all():
        return None
    return outcome.state.with_coefficients(_rescaled(outcome.state.coefficients, old, new))


def _blocks(model: Fit | Task) -> list[str]:
    return [f"{block.name}: {block.prior!r}, {block.columns}" for block in model.spec.blocks]


def _rescaled(distribution: DenseGaussian, old: Recipe, new: Recipe) -> DenseGaussian:
    """Distribution of the coefficients after a change of centring and scaling."""
    M = np.diag(np.concatenate([np.ones(new.first), new.scale / old.scale]))
    if new.intercept:
        M[0, 1:] = (new.centre - old.centre) / old.scale
    return DenseGaussian(M @ distribution.mean, M @ distribution.root)
