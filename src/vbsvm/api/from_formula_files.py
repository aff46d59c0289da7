"""The problem of a formula whose rows lie in files: learned piece by piece, encoded once, and mapped into memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.api.assembly import Problem, TwoClasses
from vbsvm.api.file_rows import encoded_once
from vbsvm.api.from_formula import KeptRows, counts_of, stated
from vbsvm.base.arrays import Array
from vbsvm.design import frames
from vbsvm.design.candidates import Candidates
from vbsvm.design.columns import Encoded
from vbsvm.design.formula import syntax
from vbsvm.design.formula.summary import FormulaSummary, Needs
from vbsvm.design.scaling import ColumnSummary
from vbsvm.missing.settings import GaussianImputation
from vbsvm.model.priors import Prior
from vbsvm.sources.files import Files, FileTable, Piece
from vbsvm.sources.files_cache import Writer
from vbsvm.sources.sorted_rows import Places

# Share of the limit of memory that whole columns may take, of which splines and some transforms are learned.
WHOLE = 1 / 8


@final
@dataclass(frozen=True, eq=False)
class FormulaFiles:
    """Files, the formula that is read in them, and which rows count."""

    files: Files
    table: FileTable
    parts: syntax.FormulaParts
    weights: str | None
    missing: str

    @staticmethod
    def of(given: Any, formula: str, weights: Any, missing: str) -> "FormulaFiles":
        """Look at the files, and read the formula."""
        if weights is not None and not isinstance(weights, str):
            raise TypeError("weights: where the data lie in files, so do the weights; give the name of their column.")
        files = Files.of(given)
        table = files.opened()
        parts = syntax.read(formula, table.names, weights)
        frames.require_column(table.names, weights)
        return FormulaFiles(files, table, parts, weights, missing)

    def problem(
        self,
        positive: Any,
        priors: Mapping[str, Prior | str],
        imputation: GaussianImputation,
        *,
        standardize: bool,
    ) -> Problem:
        """Learn what the terms mean and encode the rows, unless that has been done before.

        The files are read twice, and columns of categories once more where some of these are missing.
        """
        about = {
            "kind": "formula",
            "formula": self.parts.text,
            "columns": self.parts.columns,
            "weights": self.weights,
            "positive": positive,
            "missing": self.missing,
            "standardize": standardize,
        }
        rows = encoded_once(
            self.files, self.table, about, lambda: _Encoding(self, positive, standardize), _Encoding.write
        )
        learned, arrays = rows.learned, rows.arrays
        reader, n_rows = learned["reader"], len(arrays["X"])
        candidates = Candidates(arrays["row"], arrays["levels"]) if "row" in arrays else None
        levels = tuple(arrays[f"groups{k}"] for k in range(len(reader.plan.factors)))
        return stated(
            reader,
            Encoded(arrays["X"], levels, arrays.get("multipliers"), candidates),
            TwoClasses(learned["classes"], arrays["signs"]),
            arrays.get("weights", np.broadcast_to(1.0, n_rows)),
            learned["ranges"],
            priors,
            imputation,
            learned["n_dropped"],
            arrays["given"],
            rows.pages,
            standardize=standardize,
        )

    def kept(self) -> "Iterator[_Kept]":
        """The rows that count, piece by piece."""
        columns = list(self.parts.columns)
        if self.weights is not None and self.weights not in columns:
            columns.append(self.weights)
        first = 0
        for piece in self.table.pieces(columns):
            with piece.numbered():
                counts, n_dropped = counts_of(self.parts, piece.frame, self.weights, self.missing, some=True)
                kept = None if counts is None or counts.all() else np.flatnonzero(counts)
                weights = np.broadcast_to(1.0, len(piece.frame)) if counts is None else counts
            yield _Kept(piece, kept, weights if kept is None else weights[kept], n_dropped, first)
            first += len(piece.frame)


@final
@dataclass(frozen=True, eq=False)
class _Kept:
    """Rows of a piece that count, their weights, and how many were left out; ``first`` counts rows of earlier files."""

    piece: Piece
    rows: NDArray[np.intp] | None
    weights: Array
    n_dropped: int
    first: int


@final
class _Encoding:
    """What is learned before rows are encoded, and how that is done."""

    def __init__(self, source: FormulaFiles, positive: Any, standardize: bool) -> None:
        self._source, self._standardize = source, standardize
        needs, parts = Needs.of(source.parts), source.parts
        total: FormulaSummary | None = None
        self._n_dropped = 0
        for some in source.kept():
            self._n_dropped += some.n_dropped
            if len(some.weights):
                with some.piece.numbered():
                    found = needs.summary(some.piece.frame, some.rows, some.weights, some.first)
                total = found if total is None else total + found
                self._require_room(total)
        if total is None:
            raise ValueError("The files hold no rows that count: all are empty, of weight 0, or miss values.")
        frame = total.frame()
        self._classes = KeptRows(frame, np.ones(len(frame)), 0).outcome(parts, positive).labels
        self._reader, self._centred = total.learn(standardize)
        self._n_rows, self._sizes = total.n_rows, self._tail_sizes(total)
        self._incomplete = bool(frame[[*parts.inputs]].isna().to_numpy().any())
        self._writes_out = any(bool(frame[name].isna().any()) for name in self._reader.categories.names)
        if self._writes_out:
            self._count_candidates()

    def _require_room(self, total: FormulaSummary) -> None:
        if total.n_held > self._source.files.limit * WHOLE:
            raise ValueError(
                f"Splines and transforms such as scale() and poly() are learned from all values of their columns "
                f"({', '.join(total.needs.held)}), which need {total.n_held / 1e9:.1f} GB and more: raise "
                f"Files(…, memory_limit=…) to at least {total.n_held / WHOLE / 1e9:.1f}GB, or leave these terms out."
            )

    def _tail_sizes(self, total: FormulaSummary) -> NDArray[np.intp] | None:
        """Number of rows of each level of the last factor."""
        factors = self._reader.plan.factors
        return total.groups[total.needs.factors.index(factors[-1].columns)].counts if factors else None

    def _count_candidates(self) -> None:
        """Count the rows that there are when those that miss categories have been written out."""
        self._n_rows, sizes = 0, None if self._sizes is None else np.zeros_like(self._sizes)
        reader = self._reader
        for some in self._source.kept():
            if not len(some.weights):
                continue
            with some.piece.numbered():
                frame = reader.taken(some.piece.frame, some.rows)
                missing = np.stack([frame[name].isna().to_numpy() for name in reader.categories.names], axis=1)
                counts = reader.categories.n_candidates(frame, missing)
                self._n_rows += int(counts.sum())
                if sizes is not None:
                    np.add.at(sizes, reader.levels_of(frame)[-1], counts)
        self._sizes = sizes

    def write(self, writer: Writer) -> None:
        """Encode the rows that count, piece by piece."""
        reader, n_rows = self._reader, self._n_rows
        plan, n_links = reader.plan, len(reader.linear.links)
        arrays = {
            "X": writer.array("X", (n_rows, len(plan.names)), np.float64),
            "signs": writer.array("signs", (n_rows,), np.float64),
            "given": writer.array("given", (n_rows,), np.intp),
            **{f"groups{k}": writer.array(f"groups{k}", (n_rows,), np.intp) for k in range(len(plan.factors))},
        }
        if self._source.weights is not None:
            arrays["weights"] = writer.array("weights", (n_rows,), np.float64)
        if self._incomplete:
            arrays["multipliers"] = writer.array("multipliers", (n_rows, n_links), np.float64)
        if self._writes_out:
            arrays["row"] = writer.array("row", (n_rows,), np.intp)
            arrays["levels"] = writer.array("levels", (n_rows, len(reader.categories.names)), np.intp)
        places, summary, n_before = Places(self._sizes), None, 0
        row_bytes = sum(one[:1].nbytes for one in arrays.values())
        for some in self._source.kept():
            if not len(some.weights):
                continue
            with some.piece.numbered():
                values, found = self._encoded(some, n_before)
            summary = found if summary is None else summary + found
            where = places.of(len(values["X"]), values[f"groups{len(plan.factors) - 1}"] if plan.factors else None)
            for name, array in arrays.items():
                array[where] = values[name]
            n_before += len(some.weights)
            writer.wrote(len(values["X"]) * row_bytes)
        assert summary is not None
        recipe = summary.recipe(plan.recipe.intercept, self._standardize, self._centred)
        learned = {"reader": reader.scaled(recipe), "classes": self._classes, "ranges": summary.ranges}
        writer.finish({**learned, "n_dropped": self._n_dropped})

    def _encoded(self, some: _Kept, n_before: int) -> tuple[dict[str, Any], ColumnSummary]:
        """The rows of a piece as they are written, and the summary of their columns."""
        reader, outcome = self._reader, self._source.parts.outcome
        frame = reader.taken(some.piece.frame, some.rows)
        encoded = reader.encode(frame)
        column = frames.take(some.piece.frame, [outcome], some.rows)[outcome]
        signs = np.where((column == self._classes[1]).to_numpy(dtype=bool), 1.0, -1.0)
        row, weights, candidates = np.arange(len(frame)), some.weights, encoded.candidates
        shared = weights
        if candidates is not None:
            row, shared = candidates.row, candidates.split(weights)
        multipliers = encoded.multipliers
        values = {
            "X": encoded.table,
            "signs": signs[row],
            "weights": weights[row],
            "given": (frame.index.to_numpy() + some.first)[row],
            "multipliers": np.zeros((len(row), len(reader.linear.links))) if multipliers is None else multipliers,
            "row": row + n_before,
            "levels": reader.categories.known_levels(frame) if candidates is None else candidates.levels,
            **{f"groups{k}": levels for k, levels in enumerate(encoded.levels)},
        }
        return values, ColumnSummary.of(encoded.table, shared)
