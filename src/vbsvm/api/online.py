"""Fits that go on from the last one: from batches of rows as they arrive, or from where it ended (``warm_start``).

Of each batch a few sums stay, which represent it from then on.

Streaming variational Bayes (Luts, Broderick & Wand 2014) holds the weights w of past rows. Here their term of the bound
is held to second order, with its own curvature in the mean in place of the majorant's, which is stiffer and would keep
the coefficients near those of the first batches. Columns are standardised by all rows so far: the sums change their
units with them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from vbsvm.api import validation
from vbsvm.api.data import inputs, label_checks
from vbsvm.api.data.partitions import EncodedData, Partition
from vbsvm.api.data.table_reader import ReadTable, TableEncoder, TableReader
from vbsvm.api.task import AT_RANDOM, Task, build_tasks
from vbsvm.base.arrays import Array
from vbsvm.design.scaling import ColumnSummary, Recipe
from vbsvm.inference.gibbs import Gibbs
from vbsvm.inference.loop import OptimizeResult
from vbsvm.inference.variational import Variational
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


def learn_batch(
    estimator: "Classifier", stream: Stream | None, X: Any, y: Any, classes: Any, sample_weight: Any
) -> tuple[Stream, tuple[Fit, ...]]:
    """Read a batch as ``fit`` would, and learn from it; without a stream, beginning with the rows of the last fit."""
    fits = getattr(estimator, "fit_", None)
    prior, inference, _ = estimator.check_settings()
    table, labels, _ = inputs.read_data(estimator, X, label_checks.read_labels(y), reset=fits is None)
    if issparse(X):
        raise TypeError("partial_fit does not support sparse tables: use X.toarray(), or fit.")
    names, missing = validation.column_names(estimator), np.argwhere(np.isnan(table))
    if len(names) > MAX_COLUMNS:
        raise ValueError(f"partial_fit keeps a matrix of {len(names)} columns; up to {MAX_COLUMNS} are supported.")
    if len(missing):
        row, column = missing[0]
        raise ValueError(
            f"Column {names[column]!r} has a missing value in row {row}: partial_fit needs complete rows. Impute "
            "them, or use fit."
        )
    weights = label_checks.read_weights(sample_weight, len(table))
    assert isinstance(inference, Variational)
    learned = partial(_learned, TableReader.from_estimator(estimator, prior), estimator.likelihood, inference)
    if stream is None and fits is not None:
        stream, _ = learned(None, estimator.classes_, _first_batch(fits, estimator.classes_))
    estimator.classes_ = all_classes = _known_classes(stream, labels, weights, classes)
    unknown = all_classes[label_checks.class_codes(all_classes, labels)] != labels
    if unknown.any():
        row = int(np.argmax(unknown))
        raise ValueError(
            f"y contains the class {labels[row]!s} in row {row}, which is not among the classes of the first call, "
            f"{', '.join(map(str, all_classes))}: name all classes there, as in partial_fit(X, y, classes=[…])."
        )
    return learned(stream, all_classes, ReadTable(table, labels, weights))


def _learned(
    reader: TableReader,
    likelihood: Likelihood,
    inference: Variational,
    stream: Stream | None,
    classes: NDArray[Any],
    batch: ReadTable,
) -> tuple[Stream, tuple[Fit, ...]]:
    """The stream with a batch, and the fits to all rows so far."""
    encoder = TableEncoder(reader, classes)
    rows = encoder(Partition(batch))
    assert rows is not None
    columns = encoder.columns(rows)
    columns = columns if stream is None else stream.columns + columns
    tasks, models, fits = build_tasks(EncodedData(encoder, rows, columns), AT_RANDOM, likelihood), [], []
    for k, task in enumerate(tasks):
        dense = replace(task, source=replace(task.table, wide=False))
        model, fit = _learned_model(dense, inference, k, stream)
        models.append(model)
        fits.append(fit)
    links = [PosteriorMean() for _ in models] if likelihood.normalised else calibrate([one.recent for one in models])
    calibrated_fits = tuple(replace(fit, calibration=link) for fit, link in zip(fits, links, strict=True))
    n_rows = len(batch.X) + (0 if stream is None else stream.n_rows)
    return Stream(classes, columns, tasks[0].plan.recipe, n_rows, tuple(models)), calibrated_fits


def _learned_model(task: Task, inference: Variational, k: int, stream: Stream | None) -> tuple[_ModelSums, Fit]:
    """The sums of the k-th model with a batch, and its fit."""
    rows, facts = task.table, Facts.from_source(task.source)
    if stream is None:
        past_sums, outcome = None, inference.run(task.spec, rows).finished()
        fit = task.result(outcome)
        assert fit._rows is not None
        recent = fit._rows.left_out_scores()
    else:
        past = stream.models[k]
        past_sums = past.rows.in_units_of(stream.recipe, task.plan.recipe)
        source = NewAndPastRows(rows, past_sums)
        start = source.start(task.spec, past.state)
        outcome = inference.run(task.spec, source, start).finished()
        fit = task.result(outcome)
        recent, facts = _with_prequential_scores(past.recent, rows, start), past.facts + facts
    batch_sums = PastRows.from_state(task.spec, outcome.state, rows)
    # From the last batch alone nothing may be learned later as if it were all rows.
    sums = _ModelSums(batch_sums if past_sums is None else past_sums + batch_sums, outcome.state, recent, facts)
    return sums, replace(fit, facts=facts, _rows=None)


def _with_prequential_scores(past: LeftOutScores, rows: Memory, before: State) -> LeftOutScores:
    """The last ``MAX_RECENT`` decision values: past ones, and those of new rows before they are learned."""
    scores = np.concatenate(rows.sum_parts(lambda part: [part.scores(before.coefficients.mean, None)]))
    counted = rows.weights > 0

    def last(old: Array, new: Array) -> Array:
        return np.concatenate([old, new])[-MAX_RECENT:]

    y, s, u = rows.y[counted], rows.weights[counted], np.zeros(len(scores))
    return LeftOutScores(last(past.y, y), last(past.s, s), last(past.f, scores), last(past.u, u))


def _first_batch(fits: Sequence[Fit], classes: NDArray[Any]) -> ReadTable:
    """Rows of a fit as the first batch."""
    sources = [one for fit in fits if fit._rows is not None and isinstance(one := fit._rows._unchanged, Memory)]
    if not sources:
        raise ValueError(
            "partial_fit continues a fit only if its rows are in memory as a dense table, not after loading from a "
            "file: start with a new estimator."
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
        raise AttributeError("partial_fit uses the augmented bound: leave bound='exact' out, or use fit.")
    if estimator.group is not None:
        raise AttributeError("partial_fit does not support group: use fit.")
    if estimator.categories is not None:
        raise AttributeError("partial_fit does not support categories: encode them first, or use fit.")
    if estimator.class_weight is not None:
        raise AttributeError("partial_fit does not support class_weight: multiply it into sample_weight.")
    if getattr(estimator, "likelihood_power", None) not in (None, 1):
        raise AttributeError("partial_fit does not support likelihood_power: leave it at None, or use fit.")
    if isinstance(prior, LaplaceZero):
        raise AttributeError("partial_fit does not support LaplaceZero: use Ridge(), or fit.")
    return True


def _known_classes(stream: Stream | None, labels: NDArray[Any], weights: Array, classes: Any) -> NDArray[Any]:
    """The classes of the first call, which names them or has them all."""
    declared = None if classes is None else np.unique(label_checks.read_labels(classes))
    if stream is None and declared is None:
        declared = np.unique(labels[weights > 0])
        label_checks.check_labels(labels, declared)
    if declared is not None:
        label_checks.check_several_classes(declared)
    if stream is None:
        assert declared is not None
        return declared
    if declared is not None and not np.array_equal(declared, stream.classes):
        raise ValueError(
            f"classes are not those of the first call, {', '.join(map(str, stream.classes))}: leave them out now."
        )
    return stream.classes


def warm_starts(fits: Sequence[Fit], tasks: Sequence[Task]) -> list[State] | None:
    """Initial states from the last fits, or None if these are of another model."""
    states = [_warm_start(fit, task) for fit, task in zip(fits, tasks, strict=False)]
    known = [state for state in states if state is not None]
    return known if len(known) == len(fits) == len(tasks) else None


def _warm_start(fit: Fit, task: Task) -> State | None:
    """Final state of a fit in the units of another task, or None if that is not supported."""
    old, new, outcome = fit.plan.recipe, task.plan.recipe, fit.outcome
    if not isinstance(outcome, OptimizeResult) or not isinstance(outcome.state.coefficients, DenseGaussian):
        return None
    same = fit.plan.names == task.plan.names and _blocks(fit) == _blocks(task) and old.intercept == new.intercept
    plain = fit.spec.missing is task.spec.missing is task.spec.gate_map is None and not task.plan.factors
    if not same or not plain or not np.isfinite([old.scale, new.scale]).all():
        return None
    M, distribution = np.diag(np.concatenate([np.ones(new.first), new.scale / old.scale])), outcome.state.coefficients
    if new.intercept:
        M[0, 1:] = (new.centre - old.centre) / old.scale
    return outcome.state.with_coefficients(DenseGaussian(M @ distribution.mean, M @ distribution.root))


def _blocks(model: Fit | Task) -> list[str]:
    return [f"{block.name}: {block.prior!r}, {block.columns}" for block in model.spec.blocks]
