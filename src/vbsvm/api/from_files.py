"""The problem of an estimator whose rows lie in files: learned piece by piece, encoded once, and mapped into memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.api import inputs, label_checks, validation
from vbsvm.api.file_rows import encoded_once
from vbsvm.api.from_table import outcomes, plan_of, positives, stated
from vbsvm.api.task import Task
from vbsvm.base.arrays import Array
from vbsvm.design.columns import Encoded
from vbsvm.design.levels import Levels
from vbsvm.design.scaling import ColumnSummary
from vbsvm.design.spelling import listed, meant
from vbsvm.design.summaries import LabelSummary
from vbsvm.sources.files import Files, FileTable, Piece
from vbsvm.sources.files_cache import CachedRows, Writer
from vbsvm.sources.files_parquet import FLOAT32
from vbsvm.sources.sorted_rows import Places


@final
@dataclass(frozen=True, eq=False)
class TableFiles:
    """Files, and which of their columns are the target, the inputs (the group among them) and the weights."""

    files: Files
    table: FileTable
    target: str
    features: tuple[str, ...]
    weights: str | None

    @staticmethod
    def of(given: Any, target: str, features: Sequence[str] | None, weights: str | None) -> "TableFiles":
        """Look at the files, and refuse columns that they do not have."""
        files = Files.of(given)
        table = files.opened()
        names = table.names
        for what, name in (("target", target), ("weights", weights)):
            if name is not None:
                _require_column(names, name, what)
        taken = {target, weights}
        if features is None:
            chosen = [name for name in names if name not in taken]
        else:
            if isinstance(features, str):
                raise TypeError(f"features must be a list of columns; got the text {features!r}.")
            chosen = list(features)
            for name in chosen:
                _require_column(names, name, "features")
                if name in taken:
                    raise ValueError(f"Column {name!r} is one of features, and the target or the weights as well.")
        if not chosen:
            raise ValueError(f"The files have no column beside {target!r} to predict it from.")
        return TableFiles(files, table, target, tuple(chosen), weights)

    def tasks(self, estimator: Any) -> list[Task]:
        """One model for two classes, else one for each class against the rest; ``estimator`` learns names and classes.

        The files are read twice: once for classes and groups, once to encode the rows.
        """
        prior, _, imputation = estimator.require_settings()
        if estimator.group is not None and estimator.group not in self.features:
            _require_column(list(self.features), estimator.group, "group")
        inputs.read_header(estimator, self.features)
        rows = self._rows(estimator)
        learned, arrays = rows.learned, rows.arrays
        estimator.classes_ = learned["classes"]
        names, summary = validation.column_names(estimator), learned["columns"]
        validation.require_known(summary.ranges, names)
        recipe = summary.recipe(bool(estimator.fit_intercept), bool(estimator.standardize))
        n_rows = len(arrays["X"])
        weights = arrays.get("weights", np.broadcast_to(1.0, n_rows))
        own = arrays.get("own", np.broadcast_to(1.0, n_rows)) if estimator.class_weight is not None else None
        plan = plan_of(recipe, names, str(estimator.group), learned["levels"])
        encoded = Encoded(arrays["X"], () if learned["levels"] is None else (arrays["groups"],))
        found = outcomes(learned["classes"], [arrays[f"signs{k}"] for k in positives(learned["classes"])])
        problem = stated(plan, encoded, weights, summary.ranges, found, prior, imputation, own, pages=rows.pages)
        return problem.under(estimator.likelihood).tasks()

    def _rows(self, estimator: Any) -> CachedRows:
        """The encoded rows: found, or written now."""
        about = {
            "kind": "table",
            "target": self.target,
            "features": self.features,
            "weights": self.weights,
            "group": estimator.group,
            "class_weight": estimator.class_weight,
        }
        return encoded_once(
            self.files,
            self.table,
            about,
            lambda: self._learn(estimator),
            lambda learned, writer: self._write(estimator, learned, writer),
        )

    def _learn(self, estimator: Any) -> "_Learned":
        """What must be known before rows are encoded: classes and groups."""
        group = estimator.group
        columns = [self.target, *([] if self.weights is None else [self.weights])]
        columns += [] if group is None else [group]
        found = None
        for piece in self.table.pieces(columns, "Learning"):
            with piece.numbered():
                weights = self._weights(piece)
                labels = LabelSummary.of(self._labels(piece), weights)
                members = inputs.read_members(piece.frame[group], group) if group is not None else np.empty(0)
                of_groups = LabelSummary.of(members, weights[: len(members)])
                here = _Learned(labels, of_groups)
                found = here if found is None else found + here
                found.labels.require_few(f"The target {self.target!r}")
        if found is None or not found.labels.n_rows:
            raise ValueError("The files hold no rows of positive weight.")
        label_checks.require_classes(found.labels.labels)
        return found

    def _labels(self, piece: Piece) -> NDArray[Any]:
        return label_checks.column_of_labels(piece.frame[self.target])

    def _weights(self, piece: Piece) -> Array:
        if self.weights is None:
            return np.broadcast_to(1.0, len(piece.frame))
        return label_checks.read_weights(
            piece.frame[self.weights], len(piece.frame), self.weights, may_all_be_zero=True
        )

    def _write(self, estimator: Any, learned: "_Learned", writer: Writer) -> None:
        """Encode the rows that count, piece by piece."""
        classes, group = learned.labels.labels, estimator.group
        factors = np.ones(len(classes))
        if estimator.class_weight is not None:
            factors = label_checks.class_factors(estimator.class_weight, classes, learned.labels.totals)
        n_rows, names = learned.labels.n_rows, validation.column_names(estimator)
        types = self.table.types
        dtype = np.float32 if all(types[name] == FLOAT32 for name in self.features) else np.float64
        X = writer.array("X", (n_rows, len(names)), dtype)
        signs = {k: writer.array(f"signs{k}", (n_rows,), np.float64) for k in positives(classes)}
        weighs, balances = self.weights is not None, estimator.class_weight is not None
        own = writer.array("own", (n_rows,), np.float64) if weighs and balances else None
        total = writer.array("weights", (n_rows,), np.float64) if weighs or balances else None
        groups = None if group is None else writer.array("groups", (n_rows,), np.intp)
        levels = None if group is None else Levels.of_labels(learned.groups.labels)
        places = Places(None if group is None else learned.groups.counts)
        summary = None
        for piece in self.table.pieces([*self.features, *_known([self.target, self.weights])], "Encoding"):
            with piece.numbered():
                weights = self._weights(piece)
                kept = slice(None) if weights.all() else weights > 0
                if not weights.any():
                    continue
                table, members = inputs.read_table(estimator, piece.frame[list(self.features)], reset=False)
                codes = np.searchsorted(classes, self._labels(piece)[kept])
                found = ColumnSummary.of(table, weights)
                if not np.isfinite(found.ranges.size[~found.ranges.incomplete]).all() or np.isinf(table[kept]).any():
                    validation.require_finite(np.where((weights > 0)[:, None], table, 0.0), names)
                summary = found if summary is None else summary + found
                member = None if levels is None or members is None else levels.encode([members])[kept]
                where = places.of(len(codes), member)
                X[where] = table[kept]
                for k, of_class in signs.items():
                    of_class[where] = np.where(codes == k, 1.0, -1.0)
                if own is not None:
                    own[where] = weights[kept]
                if total is not None:
                    total[where] = label_checks.require_counts(weights[kept] * factors[codes])
                if groups is not None:
                    groups[where] = member
                writer.wrote(len(codes) * (X.itemsize * X.shape[1] + 8 * (2 + len(signs))))
        writer.finish({"classes": classes, "levels": levels, "columns": summary})


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Learned:
    """Labels and groups of some of the rows."""

    labels: LabelSummary
    groups: LabelSummary

    def __add__(self, other: "_Learned") -> "_Learned":
        """Join two sets of rows."""
        return _Learned(self.labels + other.labels, self.groups + other.groups)


def _require_column(names: list[str], name: Any, what: str) -> None:
    if name not in names:
        raise ValueError(
            f"{what}: the files have no column {name!r}; they have {listed(names)}.{meant(str(name), names)}"
        )


def _known(names: Sequence[str | None]) -> list[str]:
    return [name for name in names if name is not None]
