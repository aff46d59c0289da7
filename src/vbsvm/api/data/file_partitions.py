"""Rows in files: read piece by piece, encoded once into a cache, and mapped into memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from vbsvm.api.data.partitions import EncodedData, Encoder, LabelledData, Partition, Partitions, Reader
from vbsvm.api.data.table_reader import RawTable
from vbsvm.base.settings import log
from vbsvm.design.values import did_you_mean, join_names
from vbsvm.sources.files import FLOAT32, Files, FileTable
from vbsvm.sources.files_cache import Cache, RowPositions, Writer

if TYPE_CHECKING:
    from vbsvm.api.estimator_base import Estimator

# Proportion of the memory limit for whole columns, from which splines and some transforms are learned.
WHOLE_COLUMNS_SHARE = 1 / 8


@final
@dataclass(frozen=True, eq=False)
class FileColumns:
    """Columns of files that are the target, the predictors (and the group) and the weights."""

    target: str
    features: tuple[str, ...]
    weights: str | None

    @staticmethod
    def from_names(names: list[str], target: str, features: Sequence[str] | None, weights: str | None) -> "FileColumns":
        """Check that the columns exist, and choose the predictors."""
        for role, name in (("target", target), ("weights", weights)):
            if name is not None:
                _check_column(names, name, role)
        taken = {target, weights}
        if features is None:
            chosen = [name for name in names if name not in taken]
        else:
            if isinstance(features, str):
                raise TypeError(f"features must be a list of columns; got the text {features!r}.")
            chosen = list(features)
            for name in chosen:
                _check_column(names, name, "features")
                if name in taken:
                    raise ValueError(f"Column {name!r} is one of features, and the target or the weights as well.")
        if not chosen:
            raise ValueError(f"The files have no column other than {target!r} to predict it from.")
        return FileColumns(target, tuple(chosen), weights)

    def settings(self, types: dict[str, str], estimator: "Estimator") -> dict[str, Any]:
        """Keyword arguments of a ``TableReader`` for these columns and the parameters of an estimator."""
        group, class_weight, categories = estimator.group, estimator.class_weight, estimator.categories
        if group is not None:
            _check_column(list(self.features), group, "group")
        labels = [name for name in (self.target, self.weights) if name is not None]
        single = all(types[name] == FLOAT32 for name in self.features)
        key = {"target": self.target, "features": self.features, "weights": self.weights}
        return {
            "columns": (*self.features, *labels),
            "label_columns": [*(self.features if categories else [] if group is None else [group]), *labels],
            "drop_zero_weights": True,
            "dtype": np.float32 if single else np.float64,
            "target": f"The target {self.target!r}",
            "weights": self.weights or "sample_weight",
            "no_rows": "The files have no rows of positive weight.",
            "about": {"kind": "table", **key, "group": group, "class_weight": class_weight, "categories": categories},
        }

    def __call__(self, frame: Any) -> RawTable:
        """Raw table of one piece, with the columns that were read."""
        features = [name for name in self.features if name in frame.columns]
        return RawTable(frame[features], frame[self.target], None if self.weights is None else frame[self.weights])


@final
@dataclass(frozen=True, eq=False)
class FilePartitions(Partitions):
    """Rows in files. ``table`` says which columns are those of a table; without it, partitions are frames."""

    files: Files
    opened: FileTable
    table: FileColumns | None = None
    place = "files"
    no_rows = "The files have no rows to fit: all have weight 0 or missing values, or the files are empty."

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self.opened.names

    def parts(self, columns: Sequence[str] | None = None, doing: str = "Learning") -> Iterator[Partition]:
        """The pieces of all files."""
        first = 0
        for piece in self.opened.pieces(self.names if columns is None else columns, doing):
            yield Partition(piece.frame if self.table is None else self.table(piece.frame), first, piece.numbered)
            first += len(piece.frame)

    def memory_advice(self, n_bytes: int) -> str | None:
        """What to do where whole columns take this many bytes, or more; None where they fit in memory."""
        if n_bytes <= self.files.limit * WHOLE_COLUMNS_SHARE:
            return None
        return (
            f"which need {n_bytes / 1e9:.1f} GB and more: raise Files(…, memory_limit=…) to at least "
            f"{n_bytes / WHOLE_COLUMNS_SHARE / 1e9:.1f}GB, or leave these terms out."
        )

    def read(self, reader: Reader) -> EncodedData:
        """Encoded rows from the cache, which is written first if there is none."""
        files, opened = self.files, self.opened
        key = {"files": opened.stamps, "types": opened.types, "signs": (files.sep, files.decimal), **reader.about}
        cache = Cache.locate(files.cache, key, files.limit)
        rows = cache.load()
        log.info("encoded rows %s", f"are written to {cache.root}" if rows is None else f"were found in {cache.root}")
        if rows is None:
            encoder = self.learn(reader)
            with cache.create() as writer:
                self._write(encoder, writer)
            rows = cache.load(verify=False)
        if rows is None:
            raise OSError(f"The encoded rows were removed from {cache.root} while they were written: fit again.")
        rows.pages.verbose = files.progress
        encoder, learned = reader.encoder(rows.learned["learned"]), rows.learned["columns"]
        return EncodedData(encoder, LabelledData.from_arrays(dict(rows.arrays)), learned, rows.pages)

    def _write(self, encoder: Encoder, writer: Writer) -> None:
        """Encode the rows used, piece by piece, sorted by the levels of the last factor."""
        names = encoder.reader.columns
        counts = encoder.counts or self.sum(encoder.count, names)
        row_order, arrays, summary, n_before = RowPositions(counts.by_level), {}, None, 0
        for part in self.parts(names, "Encoding"):
            with part.error_context():
                rows = encoder(part)
                if rows is None:
                    continue
                columns = encoder.columns(rows)
            values = rows.arrays(n_before)
            if not encoder.in_order:  # a table's rows have no numbers of their own in files
                values.pop("given", None)
            if not arrays:
                for name, value in values.items():
                    same = name in ("weights", "own") and value.strides == (0,)
                    shape = (1 if same else counts.n_rows, *value.shape[1:])
                    arrays[name] = writer.array(name, shape, encoder.dtype if name == "X" else value.dtype)
            row_index = row_order.next_rows(len(rows.weights), rows.encoded.levels[-1] if rows.encoded.levels else None)
            for name, array in arrays.items():
                array[row_index if len(array) == counts.n_rows else slice(None)] = values[name][: len(array)]
            summary = columns if summary is None else summary + columns
            n_before += rows.n_user_rows
            writer.count_bytes(sum(value.nbytes for value in values.values()))
        writer.finish({"learned": encoder.learned, "columns": summary})


def _check_column(names: list[str], name: Any, role: str) -> None:
    if name not in names:
        raise ValueError(
            f"{role}: the files have no column {name!r}; they have {join_names(names)}.{did_you_mean(str(name), names)}"
        )
