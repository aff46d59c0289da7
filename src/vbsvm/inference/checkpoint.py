"""Checkpoints: chains on their way, in a file from which a run goes on to the very same draws."""

import os
from pathlib import Path
from typing import Any

from vbsvm.base.distributions import InverseGamma, InverseWishart, Latent, LatentPoint, MatrixPoint, Point
from vbsvm.missing.candidates import LevelCounts, LevelLaws
from vbsvm.missing.input_distributions import InputSums, JointInputs, KnownInputs, Regressors, Selective
from vbsvm.missing.missingness import ProbitLaw, ProbitSums
from vbsvm.missing.model import MissingState, MissingSums
from vbsvm.model.gates import GateMap, Gates
from vbsvm.model.interfaces import PointLaw
from vbsvm.model.priors.covariance import HuangWandLaw
from vbsvm.model.priors.laplace_zero import LaplaceZeroLaw, Share, SharePoint
from vbsvm.model.spec import State
from vbsvm.storage import archive
from vbsvm.storage.codec import Registry

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
