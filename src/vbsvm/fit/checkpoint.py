"""Checkpoints: chains on their way, in a file from which a run goes on to the very same draws."""

import os
from pathlib import Path
from typing import Any

from vbsvm import archive
from vbsvm.codec import Registry
from vbsvm.gates import GateMap, Gates
from vbsvm.input_laws import InputSums, JointInputs, KnownInputs, Regressors, Selective
from vbsvm.laws import InverseGamma, InverseWishart, Latent, LatentPoint, MatrixPoint, Point
from vbsvm.layout.base import PointLaw
from vbsvm.layout.options import LevelCounts, LevelLaws
from vbsvm.mechanism import ProbitLaw, ProbitSums
from vbsvm.missing_model import MissingState, MissingSums
from vbsvm.priors.covariance import HuangWandLaw
from vbsvm.priors.laplace_zero import LaplaceZeroLaw, Share, SharePoint
from vbsvm.spec import State

FORMAT, SCHEMA = "vbsvm chains", 3
# Classes that a sampler's state is made of.
STATES = (
    State, MissingState, MissingSums,
    PointLaw, Point, MatrixPoint, LatentPoint, Latent, SharePoint, Share, LaplaceZeroLaw, HuangWandLaw, Gates,
    GateMap, KnownInputs, JointInputs, LevelLaws, LevelCounts, InverseGamma, InputSums, Regressors, Selective,
    ProbitLaw, ProbitSums,
)  # fmt: skip
_REGISTRY = Registry(*STATES, InverseWishartLaw=InverseWishart)


class CheckpointError(ValueError):
    """A checkpoint that is damaged, or of another run."""


def write(path: str | os.PathLike[str], about: dict[str, Any], content: Any) -> None:
    """Write what the run is about, and its chains."""
    archive.write(path, FORMAT, SCHEMA, archive.Archive({"about": about}, *_REGISTRY.encode(content, "a chain")))


def read(path: str | os.PathLike[str], about: dict[str, Any]) -> Any | None:
    """Chains of an earlier run of the same; None where there is no file. Anything else is an error that says so."""
    if not Path(path).exists():
        return None
    try:
        file = archive.read(path, FORMAT, SCHEMA)
        found = file.about["about"]
        chains = _REGISTRY.decode(file.tree, file.arrays)
    except Exception as error:
        raise CheckpointError(f"The checkpoint {path} can't be read ({error}): remove it to start anew.") from error
    if found != about:
        different = [name for name in about if found.get(name) != about[name]]
        raise CheckpointError(
            f"The checkpoint {path} is of another run (different: {', '.join(different)}): name another file, or "
            "remove it to start anew."
        )
    return chains
