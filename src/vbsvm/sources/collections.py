"""Dask's arrays and data frames: their partitions, and predictions that wait until somebody asks."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vbsvm.design.spelling import listed
from vbsvm.sources.cluster import INSTALL


def is_collection(data: Any) -> bool:
    """Whether something is an array, a series or a data frame of Dask."""
    return type(data).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(data, "to_delayed")


def is_array(data: Any) -> bool:
    """Whether a collection is an array."""
    return hasattr(data, "chunks")


def require_collection(data: Any, name: str) -> None:
    """Refuse what is not in a cluster."""
    if not is_collection(data):
        raise TypeError(
            f"{name} must be a dask array or data frame; got {type(data).__name__}. Data in memory are fitted by "
            "VBSVC, or put into a cluster by dask.array.from_array."
        )


def header(X: Any) -> Any:
    """A table without rows that has the columns of a collection."""
    require_collection(X, "X")
    if not is_array(X):
        return X._meta
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: X must have rows and columns.")
    if np.isnan(X.shape[1]):
        raise ValueError("X has an unknown number of columns: compute them first, as by X.compute_chunk_sizes().")
    return np.empty((0, X.shape[1]))


def require_in_memory(**given: Any) -> None:
    """Refuse collections where rows are taken from memory."""
    for name, data in given.items():
        if is_collection(data):
            raise TypeError(
                f"{name} is a collection of Dask: use DaskVBSVC or DaskVBLogistic of vbsvm.dask, or pass "
                f"{name}.compute() if it fits in memory."
            )


def columns_of_part(part: Any, names: Sequence[Any]) -> Any:
    """These columns of a partition, which may be in another order than the collection says, but must be there."""
    if not hasattr(part, "columns"):
        raise TypeError(f"it is no data frame, but {type(part).__name__}: let every partition be one.")
    lost = [name for name in names if name not in part.columns]
    if lost:
        raise ValueError(f"it has no column {lost[0]!r}; it has {listed(list(part.columns))}.")
    return part.loc[:, list(names)]


def taken(data: Any, target: str, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Inputs, labels and weights of a data frame that has the labels in a column; weights may be one, too."""
    require_collection(data, "X")
    columns = [] if is_array(data) else [str(name) for name in data.columns]
    names = [target, sample_weight] if isinstance(sample_weight, str) else [target]
    for name in names:
        if name not in columns:
            raise ValueError(f"X has no column {name!r}: target is the column of a data frame that holds the labels.")
    weights = data[sample_weight] if isinstance(sample_weight, str) else sample_weight
    return data.drop(columns=names), data[target], weights


def partitions(X: Any, y: Any, sample_weight: Any) -> list[Any]:
    """Delayed partitions, each of X, of y, and of the weights or None."""
    others = [(y, "y")] if sample_weight is None else [(y, "y"), (sample_weight, "sample_weight")]
    for one, name in others:
        require_collection(one, name)
    aligned = [_whole_rows(X), *(_aligned(X, one, name) for one, name in others)]
    for other, (_, name) in zip(aligned[1:], others, strict=True):
        if other.npartitions != aligned[0].npartitions:
            raise ValueError(
                f"X has {aligned[0].npartitions} partitions, and {name} has {other.npartitions}: their rows can't be "
                "paired. Put both into one data frame and name the labels' column, as in fit(frame, target='y'). "
                "Columns of one frame that were made arrays (.values, .to_dask_array()) or persisted each by itself "
                "are divided by their own sizes: persist the frame first, and take columns from that."
            )
    if not any(map(is_array, aligned)):
        # One graph for all of them: where files are small, Dask joins so many as the columns that are read allow.
        return delayed_parts(aligned[0].map_partitions(_row, *aligned[1:], meta=X._meta, enforce_metadata=False))
    return [delayed(_row)(*row) for row in zip(*map(delayed_parts, aligned), strict=True)]


def _row(X: Any, y: Any, sample_weight: Any = None) -> tuple[Any, Any, Any]:
    return X, y, sample_weight


def _whole_rows(X: Any) -> Any:
    """X with all columns of a row in one partition."""
    return X.rechunk({1: -1}) if is_array(X) and len(X.chunks[1]) > 1 else X


def _aligned(X: Any, other: Any, name: str) -> Any:
    """Labels or weights in the chunks of X, where the sizes of both are known."""
    if not is_array(other):
        return other
    if other.ndim == 2 and other.shape[1] == 1:
        other = other[:, 0]
    if other.ndim != 1:
        raise ValueError(f"{name} must have one dimension; got an array of {other.ndim}.")
    if not is_array(X) or np.isnan(X.shape[0]) or np.isnan(other.shape[0]):
        return other
    if X.shape[0] != other.shape[0]:
        raise ValueError(f"X has {X.shape[0]} rows, and {name} has {other.shape[0]}.")
    return other if other.chunks[0] == X.chunks[0] else other.rechunk((X.chunks[0],))


def delayed_parts(collection: Any) -> list[Any]:
    """Delayed values of the partitions of a collection."""
    found = collection.to_delayed()
    return list(found.ravel()) if isinstance(found, np.ndarray) else list(found)


def delayed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, to be called in a worker."""
    try:
        from dask.delayed import delayed as dask_delayed
    except ImportError as error:
        raise ImportError(INSTALL) from error
    return dask_delayed(function, pure=False)


def mapped(function: Callable[[Any, Any], Any], model: Any, X: Any, example: Any) -> Any:
    """What a function of a model and of a table gives for each partition, when it is asked for.

    ``example`` is its answer for a frame, or an array, without rows. The model is put into the graph once.
    """
    held = delayed(_itself)(model)
    if not is_array(X):
        return X.map_partitions(_called, held, function, meta=example)
    X = _whole_rows(X)
    if example.ndim == 1:
        return X.map_blocks(_called, held, function, drop_axis=1, dtype=example.dtype, meta=example)
    chunks = (X.chunks[0], (example.shape[1],))
    return X.map_blocks(_called, held, function, chunks=chunks, dtype=example.dtype, meta=example)


def _itself(model: Any) -> Any:
    return model


def _called(block: Any, model: Any, function: Callable[[Any, Any], Any]) -> Any:
    return function(model, block)
