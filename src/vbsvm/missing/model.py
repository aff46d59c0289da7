"""What may be missing as one part of a model: inputs and categories, their distributions, and the sums they need."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar, final

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.base.reading import Reading
from vbsvm.missing.input_distributions import InputDistribution, InputSums
from vbsvm.missing.input_model import InputModel
from vbsvm.missing.level_model import LevelCounts, LevelDistributions, LevelModel
from vbsvm.model.interfaces import Rows
from vbsvm.model.row_pass import added

INPUTS = "distribution of the inputs"
LEVELS = "distribution of the levels"

Found = TypeVar("Found")


@final
@dataclass(frozen=True, eq=False)
class MissingSums:
    """Sums over rows of what may be missing. ``values`` are a sampler's draws of missing inputs, by block of rows."""

    inputs: InputSums | None = None
    levels: LevelCounts | None = None
    values: Mapping[int, Array] = field(default_factory=dict)

    def __add__(self, other: Self) -> "MissingSums":
        """Add the sums of two sets of rows."""
        values = {**self.values, **other.values}
        return MissingSums(added(self.inputs, other.inputs), added(self.levels, other.levels), values)


@final
@dataclass(frozen=True, eq=False)
class MissingState:
    """Distributions of the inputs and of the levels of categories, and a sampler's last draws of missing inputs."""

    inputs: InputDistribution | None = None
    levels: LevelDistributions | None = None
    values: Mapping[int, Array] | None = None

    def pack(self) -> list[float]:
        """Give the numbers of the levels, then those of the inputs."""
        return [x for one in (self.levels, self.inputs) if one is not None for x in one.pack()]

    def unpack(self, numbers: Array) -> "MissingState":
        """Make the distributions that have these numbers."""
        at = 0 if self.levels is None else len(self.levels.pack())
        levels = None if self.levels is None else self.levels.unpack(numbers[:at])
        return MissingState(None if self.inputs is None else self.inputs.unpack(numbers[at:]), levels)

    def without_values(self) -> "MissingState":
        """The same without a sampler's draws."""
        return replace(self, values=None)

    def with_complete_rows(self, sums: MissingSums | None, rows: Rows, resolve: Reading) -> MissingSums | None:
        """Add what complete rows say about being observed, where values are missing not at random."""
        if self.inputs is None or self.inputs.probit is None:
            return sums
        probit = self.inputs.probit
        values = rows.columns(probit.columns)
        observed = np.ones(values.shape, dtype=bool)
        latent = resolve(probit.latents(values, observed), "observed rows", rows.index).value
        found = probit.sums(values, np.zeros_like(values), observed, rows.weights, latent)
        shape = self.inputs.coefficients.shape
        own = MissingSums(InputSums(np.zeros(shape), np.zeros((shape[1], shape[1])), probit=found))
        return added(sums, own)


@final
@dataclass(frozen=True, eq=False)
class MissingModel:
    """Models of the inputs and of the levels of categories, where some are missing."""

    inputs: InputModel | None = None
    levels: LevelModel | None = None

    @staticmethod
    def of(inputs: InputModel | None, levels: LevelModel | None = None) -> "MissingModel | None":
        """A model of these; None where nothing is missing."""
        return None if inputs is None and levels is None else MissingModel(inputs, levels)

    @property
    def held(self) -> bool:
        """Whether what is missing has a distribution that coefficients do not change."""
        inputs = self.inputs is None or self.inputs.settings.held
        return inputs and (self.levels is None or self.levels.held)

    def start(self) -> MissingState:
        """Independent standardised inputs, and levels that are equally likely."""
        return MissingState(
            None if self.inputs is None else self.inputs.start(), None if self.levels is None else self.levels.start()
        )

    def update(self, state: MissingState, sums: MissingSums, resolve: Reading) -> MissingState:
        """Both distributions given the sums of a pass, or draws (Algorithm 5, lines 13 and 14; Appendix C)."""
        levels = None if self.levels is None else self.levels.update(_there(sums.levels), resolve)
        updated = replace(state, levels=levels, values=sums.values or state.values)
        return self.update_inputs(updated, sums, resolve)

    def update_inputs(self, state: MissingState, sums: MissingSums, resolve: Reading) -> MissingState:
        """The distribution of the inputs alone."""
        if self.inputs is None:
            return state
        return replace(state, inputs=self.inputs.update(_there(state.inputs), _there(sums.inputs), resolve))

    def as_predicted(self, state: MissingState, sums: InputSums | None) -> MissingState:
        """The same distributions where labels are not known, as those of new rows."""
        if self.inputs is None or not self.inputs.n_beside:
            return state
        return replace(state, inputs=self.inputs.without_labels(_there(sums)))

    def bound(self, state: MissingState, sums: MissingSums) -> dict[str, float]:
        """Terms of both distributions."""
        named = {}
        if self.inputs is not None:
            named[INPUTS] = self.inputs.bound(_there(state.inputs), _there(sums.inputs))
        if self.levels is not None:
            named[LEVELS] = self.levels.bound(_there(state.levels), _there(sums.levels))
        return named


def input_model(missing: object) -> InputModel | None:
    """The model of inputs that may be missing, of what a ``Spec`` has in its slot for missing values."""
    return missing.inputs if isinstance(missing, MissingModel) else None


def _there(one: Found | None) -> Found:
    """What every state or pass has where something is missing."""
    assert one is not None
    return one
