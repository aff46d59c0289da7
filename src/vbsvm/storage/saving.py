"""Model files: what a fit knows, in a file that is read without executing anything.

A file holds settings, learned numbers and levels, and not the data, with one exception: the law of a model with many
more columns than rows is made of its rows. Whatever is wrong with a file is a ``ModelFileError``.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

from vbsvm.base.distributions import InverseWishart as InverseWishartLaw
from vbsvm.design.columns import FactorPlan, Plan
from vbsvm.design.formula import saved
from vbsvm.design.formula.missing_categories import Categories
from vbsvm.design.formula.missing_inputs import Linear, Variable
from vbsvm.design.formula.reader import Reader
from vbsvm.design.formula.syntax import GroupTerm, Parts, SplineTerm
from vbsvm.design.levels import Levels
from vbsvm.design.scaling import Recipe
from vbsvm.design.splines import Spline
from vbsvm.inference.checkpoint import STATES
from vbsvm.inference.gibbs import Gibbs, Sample
from vbsvm.inference.variational import Ending, Outcome, Variational
from vbsvm.missing.candidates import LevelModel
from vbsvm.missing.input_distributions import Learned, MeanLaw, Regression
from vbsvm.missing.input_model import GaussianImputation, InputModel
from vbsvm.missing.missingness import NotAtRandom, Shift
from vbsvm.missing.model import MissingModel, MissingState
from vbsvm.missing.patterns import Gaps
from vbsvm.missing.population import Population
from vbsvm.missing.rows import Inputs
from vbsvm.model.layouts.arrow import ArrowGaussian
from vbsvm.model.layouts.dense import DenseGaussian
from vbsvm.model.layouts.dual import DualGaussian, DualParts
from vbsvm.model.layouts.spike_slab import SpikeLaw
from vbsvm.model.likelihoods.hinge import Hinge
from vbsvm.model.priors import Beta, Covariance, Factorised, InverseWishart, Joint, LaplaceZero, Normal, Ridge
from vbsvm.model.spec import Block, Spec, State
from vbsvm.results.data_summary import Facts
from vbsvm.storage import archive
from vbsvm.storage.archive import ArchiveError, ModelFileError
from vbsvm.storage.codec import Form, Registry, public_fields

FORMAT, SCHEMA = "vbsvm model", 1
# A class that can be reached from a fit belongs here; its name is a part of the format.
REGISTRY = Registry(
    *(one for one in STATES if one is not State),
    *(Normal, Ridge, LaplaceZero, Covariance, InverseWishart, Beta, Factorised, Joint),
    *(Variational, Gibbs, GaussianImputation, NotAtRandom, Shift),
    *(Block, Hinge, MissingModel, InputModel, Inputs, LevelModel, Outcome, Ending, Sample, Population, Gaps, Facts),
    *(DenseGaussian, ArrowGaussian, DualGaussian, DualParts, SpikeLaw, Learned, MeanLaw, Regression),
    *(Plan, FactorPlan, Recipe, Levels, Parts, SplineTerm, GroupTerm, Spline, Linear, Variable, Categories),
    Form(Reader, saved.take, saved.make),
    Form(Spec, public_fields, lambda values: REGISTRY.make(Spec, _with_slot(values, MissingModel))),
    Form(State, public_fields, lambda values: REGISTRY.make(State, _with_slot(values, MissingState))),
    InverseWishartLaw=InverseWishartLaw,
)


def _with_slot(values: dict[str, Any], slot: type) -> dict[str, Any]:
    """Fields of a class of which older files have the parts of what is missing one by one."""
    apart = {name: values[name] for name in ("inputs", "levels", "values") if name in values}
    if not apart:
        return values
    rest = {name: value for name, value in values.items() if name not in apart}
    return rest | {"missing": slot(**apart) if any(one is not None for one in apart.values()) else None}


def write(path: str | os.PathLike[str], kind: str, content: Mapping[str, Any]) -> None:
    """Write the content of a model of this kind; a failure leaves a file that was there as it was."""
    tree, arrays = REGISTRY.encode(content, kind)
    archive.write(path, FORMAT, SCHEMA, archive.Archive({"kind": kind}, tree, arrays))


def read(path: str | os.PathLike[str], makers: Mapping[str, Callable[[Mapping[str, Any]], Any]]) -> Any:
    """The model in a file, made by the maker of its kind."""
    try:
        file = archive.read(path, FORMAT, SCHEMA)
        kind = file.about["kind"]
        if kind not in makers:
            raise ArchiveError(f"it holds a model of the kind {kind!r}")
        return makers[kind](REGISTRY.decode(file.tree, file.arrays))
    except IsADirectoryError as error:
        raise ModelFileError(f"{os.fspath(path)} is a directory, not a model file.") from error
    except OSError:
        raise
    except ArchiveError as error:
        raise ModelFileError(f"{os.fspath(path)} can't be read as a model file: {error}.") from error
    except Exception as error:
        raise ModelFileError(f"{os.fspath(path)} holds no model that makes sense: {error}.") from error
