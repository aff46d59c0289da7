"""Checkpoints: chains on their way, in a file from which a run goes on to the very same draws.

The file is a zip of plain arrays and one text that says how they belong together; nothing in it is executed. It is
written beside its place and then moved there, so that a broken write leaves the last one whole.
"""

import io
import json
import os
import zipfile
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vbsvm.gates import GateMap, Gates
from vbsvm.input_laws import InputSums, JointInputs, KnownInputs, Regressors, Selective
from vbsvm.laws import InverseGamma, InverseWishart, Latent, LatentPoint, MatrixPoint, Point
from vbsvm.layout.base import PointLaw
from vbsvm.layout.options import LevelCounts, LevelLaws
from vbsvm.mechanism import ProbitLaw, ProbitSums
from vbsvm.priors.covariance import HuangWandLaw
from vbsvm.priors.laplace_zero import LaplaceZeroLaw, Share, SharePoint
from vbsvm.spec import State

FORMAT = "vbsvm chains 1"
TEXT = "chains.json"
_KNOWN: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        State, PointLaw, Point, MatrixPoint, LatentPoint, Latent, SharePoint, Share, LaplaceZeroLaw, HuangWandLaw,
        Gates, GateMap, KnownInputs, JointInputs, LevelLaws, LevelCounts, InverseGamma, InverseWishart, InputSums,
        Regressors, Selective, ProbitLaw, ProbitSums,
    )
}  # fmt: skip


class CheckpointError(ValueError):
    """A checkpoint that is damaged, or of another run."""


def write(path: str | os.PathLike[str], about: dict[str, Any], content: Any) -> None:
    """Write what the run is about, and its chains."""
    arrays: list[Any] = []
    text = json.dumps({"format": FORMAT, "about": about, "content": _encode(content, arrays)})
    place = Path(path)
    beside = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        with zipfile.ZipFile(beside, "w") as file:
            file.writestr(TEXT, text)
            for k, array in enumerate(arrays):
                buffer = io.BytesIO()
                np.save(buffer, array, allow_pickle=False)
                file.writestr(f"{k}.npy", buffer.getvalue())
        beside.replace(place)
    finally:
        beside.unlink(missing_ok=True)


def read(path: str | os.PathLike[str], about: dict[str, Any]) -> Any | None:
    """Chains of an earlier run of the same; None where there is no file. Anything else is an error that says so."""
    if not Path(path).exists():
        return None
    try:
        with zipfile.ZipFile(path) as file:
            damaged = file.testzip()
            if damaged is not None:
                raise CheckpointError(f"The checkpoint {path} is damaged ({damaged}): remove it to start anew.")
            text = json.loads(file.read(TEXT))
            arrays = {
                name: np.load(io.BytesIO(file.read(name)), allow_pickle=False)
                for name in file.namelist()
                if name.endswith(".npy")
            }
        found, content = text["about"], text["content"]
        if text["format"] != FORMAT or found != about:
            different = [name for name in about if found.get(name) != about[name]]
            raise CheckpointError(
                f"The checkpoint {path} is of another run (different: {', '.join(different) or 'its format'}): name "
                "another file, or remove it to start anew."
            )
        return _decode(content, arrays)
    except CheckpointError:
        raise
    except Exception as error:
        raise CheckpointError(f"The checkpoint {path} can't be read ({error}): remove it to start anew.") from error


def _encode(value: Any, arrays: list[Any]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": f"{len(arrays) - 1}.npy"}
    if isinstance(value, np.floating | np.integer):
        return value.item()
    if isinstance(value, tuple | list):
        return {"tuple": [_encode(one, arrays) for one in value]}
    if isinstance(value, dict):
        return {"dict": [[key, _encode(one, arrays)] for key, one in value.items()]}
    if is_dataclass(value) and type(value).__name__ in _KNOWN:
        named = {one.name: _encode(getattr(value, one.name), arrays) for one in fields(value) if one.name[0] != "_"}
        return {"type": type(value).__name__, "fields": named}
    raise TypeError(f"{type(value).__name__} has no place in a checkpoint.")


def _decode(value: Any, arrays: dict[str, Any]) -> Any:
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "tuple" in value:
        return tuple(_decode(one, arrays) for one in value["tuple"])
    if "dict" in value:
        return {key: _decode(one, arrays) for key, one in value["dict"]}
    return _KNOWN[value["type"]](**{name: _decode(one, arrays) for name, one in value["fields"].items()})
