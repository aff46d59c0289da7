"""Parquet files, read in pieces; the only module that imports pyarrow."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    import pandas as pd

FLOAT32 = "float32 numbers"


@final
@dataclass(frozen=True, eq=False)
class Parquet:
    """A Parquet file: path, column types, number of rows."""

    path: Path
    types: dict[str, str]
    n_rows: int

    @staticmethod
    def open(path: Path) -> "Parquet":
        """Read the metadata of a file."""
        with _explained_errors(path), _parquet().ParquetFile(path) as file:
            schema, n_rows = file.schema_arrow, file.metadata.num_rows
            index = (schema.pandas_metadata or {}).get("index_columns", [])
            names = [name for name in schema.names if name not in index]
            twice = [name for name in names if names.count(name) > 1]
            types = {name: _type_name(schema.field(name).type) for name in names if name not in twice}
        if twice:
            raise ValueError(f"{path} has two columns named {twice[0]!r}: rename one.")
        return Parquet(path, types, n_rows)

    def with_types(self, types: dict[str, str]) -> "Parquet":
        """The same file with column types that hold for all files of the table."""
        return replace(self, types=types)

    def pieces(self, columns: Sequence[str], n_rows: int) -> "Iterator[pd.DataFrame]":
        """Yield these columns in pieces of n rows."""
        with _explained_errors(self.path), _parquet().ParquetFile(self.path, pre_buffer=False) as file:
            for batch in file.iter_batches(batch_size=n_rows, columns=list(columns)):
                yield batch.to_pandas()[list(columns)].reset_index(drop=True)


def _parquet() -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ImportError("Parquet files are read by pyarrow: pip install vbsvm[files]") from error
    return parquet


@contextmanager
def _explained_errors(path: Path) -> Iterator[None]:
    """Turn pyarrow's errors into one message."""
    try:
        yield
    except Exception as error:
        if isinstance(error, ImportError) or (isinstance(error, OSError) and error.errno is not None):
            raise
        raise ValueError(
            f"{path} can't be read as Parquet: it was cut short or damaged, or is of another kind."
        ) from error


def _type_name(dtype: Any) -> str:
    """Name of a column's type, the same for types that become the same values."""
    import pyarrow.types as types

    if types.is_dictionary(dtype):
        dtype = dtype.value_type
    for words, is_one in (
        ("text", lambda: types.is_string(dtype) or types.is_large_string(dtype) or types.is_string_view(dtype)),
        ("whole numbers", lambda: types.is_integer(dtype)),
        ("true or false", lambda: types.is_boolean(dtype)),
        (FLOAT32, lambda: types.is_float32(dtype) or types.is_float16(dtype)),
        ("numbers", lambda: types.is_floating(dtype)),
        ("nothing", lambda: types.is_null(dtype)),
    ):
        if is_one():
            return words
    return str(dtype)


@final
class ParquetWriter:
    """Writes a Parquet file piece by piece, with the types of the first piece."""

    def __init__(self, file: Any) -> None:
        self._file, self._writer, self._schema = file, None, None

    def __enter__(self) -> "ParquetWriter":
        """Check that pyarrow is installed."""
        _parquet()
        return self

    def write(self, frame: "pd.DataFrame") -> None:
        """Write the next rows."""
        import pyarrow

        table = pyarrow.Table.from_pandas(frame, self._schema, preserve_index=False)
        if self._writer is None:
            self._schema = table.schema.remove_metadata()
            self._writer = _parquet().ParquetWriter(self._file, self._schema)
        self._writer.write_table(table.cast(self._schema))

    def __exit__(self, *error: object) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
