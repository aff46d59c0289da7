"""What a report says of the data: Table 1, a digest that identifies them, and the lines of the foot."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.stats import skew

from vbsvm.base.arrays import Array
from vbsvm.base.printing import count_noun, number
from vbsvm.report.document import Cell, Table, cells
from vbsvm.report.evaluation import Evaluation, Owner
from vbsvm.results.effects.rows import MAX_DISCRETE, EffectRows
from vbsvm.results.fit import Fit
from vbsvm.sources.distributed import InMemory
from vbsvm.version import __version__

# Numbers of variables and of classes in Table 1.
MAX_VARIABLES, MAX_CLASSES = 30, 6
# Numbers of larger skewness have their median and quartiles, and no mean.
MAX_SKEWNESS = 1.0
DIGEST_LENGTH = 12
# The facts of CITATION.cff.
PAPER = (
    "J. Luts and J. T. Ormerod (2014). Mean field variational Bayesian inference for support vector machine "
    "classification. Computational Statistics & Data Analysis. arXiv:1305.2667."
)
SOFTWARE = "The vbsvm developers. vbsvm: linear classifiers with inferred penalties, version {}."


def describe(evaluation: Evaluation | None, owner: Owner | None, fit: Fit) -> Table | None:
    """Table 1: summaries of the variables by class, or None if the data are not in memory."""
    if evaluation is None or evaluation.inputs is None or owner is None:
        return None
    rows, truth, k = evaluation.inputs, evaluation.rows.truth, len(evaluation.classes)
    grouping = [name for name in rows.names if name in owner.grouping]
    names = [name for name in rows.names if name not in grouping]
    chosen = names if len(names) <= MAX_VARIABLES else owner.ranked(fit, rows)[:MAX_VARIABLES]
    masks = [truth == label for label in range(k)] if k <= MAX_CLASSES else []
    masks.append(np.ones(len(truth), dtype=bool))
    of_classes = [f"{label} (n = {mask.sum()})" for label, mask in zip(evaluation.classes, masks[:-1], strict=False)]
    head = ("variable", "summary", *of_classes, f"all (n = {len(truth)})", "missing")
    body = chain.from_iterable(_summarised(rows, name, masks, name in grouping) for name in [*chosen, *grouping])
    which = "in the order of the formula" if fit.reader is not None else "with the largest standardised coefficients"
    more = f" The first {len(chosen)} of {len(names)} predictors, {which}." if len(chosen) < len(names) else ""
    weighted = " Observations are not weighted here." if fit.facts is not None and fit.facts.weights is not None else ""
    text = "Table 1. Observations by class: mean (SD), median [quartiles] of skewed numbers, or counts (%)."
    return Table(f"{text}{more}{weighted}", head, cells(*body))


def _summarised(rows: EffectRows, name: str, masks: list[NDArray[np.bool_]], grouping: bool) -> Iterator[list[Cell]]:
    """The lines of one variable: a number has one, a category one for each level, a grouping factor its count."""
    column: Any = rows.column(name)
    known, levels = column.notna().to_numpy(), rows.levels(name)
    missing = _count(int((~known).sum()), len(known))
    values, counts = column.to_numpy(), [int((mask & known).sum()) for mask in masks]
    if levels is None:
        values = np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
        distinct = np.unique(values[known])
        levels = distinct.tolist() if 0 < len(distinct) <= 2 else None
    if grouping or (levels is not None and len(levels) > MAX_DISCRETE):
        n_levels = [len(set(values[mask & known].tolist())) for mask in masks]
        yield [Cell(name), Cell("levels"), *(Cell(str(n), n) for n in n_levels), missing]
    elif levels is None:
        skewed = abs(float(skew(values[known]))) > MAX_SKEWNESS
        summaries = [_summary(values[mask & known], skewed=skewed) for mask in masks]
        yield [Cell(name), Cell("median [quartiles]" if skewed else "mean (SD)"), *summaries, missing]
    else:
        for level in levels:
            n_level = [int((mask & known & (values == level)).sum()) for mask in masks]
            label = f"{level:g}" if isinstance(level, float) else str(level)
            pairs = zip(n_level, counts, strict=True)
            yield [Cell(f"{name}: {label}"), Cell("n (%)"), *(_count(n, total) for n, total in pairs), missing]
            missing = Cell("")


def _summary(values: Array, *, skewed: bool) -> Cell:
    if not len(values):
        return Cell("–")
    if skewed:
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
        text = f"{number(middle)} [{number(low)}, {number(high)}]"
        return Cell(text.replace("-", "−"), float(middle))
    mean, sd = float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else np.nan
    return Cell(f"{number(mean, sd)} ({number(sd)})".replace("-", "−"), mean)


def _count(n: int, total: int) -> Cell:
    return Cell(f"{n} ({100 * n / total:.1f} %)" if total else "–", n)


def foot(fits: Sequence[Fit]) -> tuple[str, ...]:
    """Version, formula or features, and digest of the data; and how to cite."""
    fit, data = fits[0], digest(fits)
    model = count_noun(fit.plan.n_shown, "feature") if fit.reader is None else fit.reader.parts.text
    made = f"vbsvm {__version__} · {model}" + ("" if data is None else f" · digest of the data: {data}")
    return made, f"How to cite: {PAPER} Software: {SOFTWARE.format(__version__)}"


def digest(fits: Sequence[Fit]) -> str | None:
    """First characters of the SHA-256 of the encoded observations, or None if the fit has none.

    The rows are read in passes, and equal rows in the same order give the same digest in memory and in files.
    """
    sha = hashlib.sha256()
    for k, fit in enumerate(fits):
        if fit._rows is None:
            return None
        sha.update(json.dumps([fit.plan.names, list(map(str, fit.classes))]).encode())
        for part in fit._rows.source.sum_over_memories(partial(_digests, predictors=k == 0)):
            sha.update(part)
    return sha.hexdigest()[:DIGEST_LENGTH]


def _digests(source: InMemory, *, predictors: bool) -> list[bytes]:
    """Digests of the columns of a table: labels and weights, and on request predictors and levels."""
    columns: list[Any] = [source.y, source.weights]
    columns += [source.X, *(grouping.index for grouping in source.groupings)] if predictors else []
    hashes = [hashlib.sha256() for _ in columns]
    for run in source.observation_runs():
        for sha, column in zip(hashes, columns, strict=True):
            block = column[run]
            for values in (block.data, block.indices, np.diff(block.indptr)) if issparse(block) else (block,):
                sha.update(np.ascontiguousarray(values, dtype=np.float64).tobytes())
    return [sha.digest() for sha in hashes]
