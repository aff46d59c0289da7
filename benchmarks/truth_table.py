"""Designs of simulated data sets, lines of a table that summarise what was measured in them, and their targets."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Numbers = Mapping[str, float]
Array = NDArray[np.float64]

Z = 1.959964
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
RELIABILITY = "ReliabilityWarning"  # by name: older versions do not have it


@final
@dataclass(frozen=True)
class Design:
    """A kind of data set, what is measured in one of them given its seed, and how many make a full run."""

    name: str
    one_set: Callable[[int], Numbers]
    sets: int = 200


@final
@dataclass(frozen=True)
class Estimate:
    """A summary over data sets, its 95 % interval, and both as text."""

    value: float
    low: float
    high: float
    text: str


def percent(values: Array) -> Estimate:
    """A proportion: with Wilson's interval if each data set has 0 or 1, else the mean of proportions ± its s.e."""
    n, mean = len(values), float(values.mean())
    if np.isin(values, (0.0, 1.0)).all():
        centre, half = (mean + Z**2 / (2 * n)) / (1 + Z**2 / n), Z * np.sqrt(mean * (1 - mean) / n + (Z / (2 * n)) ** 2)
        low, high = max(centre - half / (1 + Z**2 / n), 0.0), min(centre + half / (1 + Z**2 / n), 1.0)
        return Estimate(mean, low, high, f"{100 * mean:.1f} % ({100 * low:.1f}–{100 * high:.1f})")
    error = _standard_error(values)
    return Estimate(mean, mean - Z * error, mean + Z * error, f"{100 * mean:.1f} ± {100 * error:.1f} %")


def average(values: Array) -> Estimate:
    """The mean ± its standard error."""
    with np.errstate(invalid="ignore"):
        mean, error = float(values.mean()), _standard_error(values)
    return Estimate(mean, mean - Z * error, mean + Z * error, f"{_short(mean)} ± {_short(error)}")


def largest(values: Array) -> Estimate:
    """The maximum, which has no interval."""
    value = float(values.max())
    return Estimate(value, value, value, _short(value))


def _standard_error(values: Array) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


def _short(value: float) -> str:
    return f"{value:.3g}" if abs(value) >= 1000 else f"{value:.3f}"


@final
@dataclass(frozen=True)
class Target:
    """Limits of the estimate; ``paired`` means that it must not be smaller than before, on the same data sets."""

    low: float = -np.inf
    high: float = np.inf
    text: str = ""
    paired: bool = False

    def verdict(self, estimate: Estimate) -> str:
        """Whether the estimate is within the limits; "near" if it is not, and its interval reaches them."""
        if self.low <= estimate.value <= self.high:
            return "met"
        return "near" if estimate.high >= self.low and estimate.low <= self.high else "missed"


def at_most(value: float, text: str = "") -> Target:
    """A target from above."""
    return Target(high=value, text=text or f"≤ {value:g}")


def at_least(value: float, text: str = "") -> Target:
    """A target from below."""
    return Target(low=value, text=text or f"≥ {value:g}")


def coverage(value: float) -> Target:
    """Of nominal 95 % intervals."""
    return at_least(value, f"≥ {100 * value:g} %")


NO_WORSE = Target(paired=True, text="no worse than before")


@final
@dataclass(frozen=True)
class Line:
    """A line of the table: which number of which design, over which of its data sets, and what is to be reached."""

    design: str
    what: str
    key: str
    how: Callable[[Array], Estimate] = percent
    target: Target | None = None
    where: Mapping[str, float] = field(default_factory=dict)
    none_is_met: bool = False  # whether the target is met where no data set is a case of it

    def values(self, sets: Mapping[int, Numbers]) -> dict[int, float]:
        """The number in each data set that has it, by seed."""
        chosen = {
            s: one for s, one in sets.items() if all(one.get(name) == value for name, value in self.where.items())
        }
        found = {seed: one.get(self.key, np.nan) for seed, one in chosen.items()}
        return {seed: value for seed, value in found.items() if not np.isnan(value)}


NOT_RUN, NO_CASE = "–", "no case"


def table_row(line: Line, before: Mapping[int, Numbers], now: Mapping[int, Numbers]) -> list[str]:
    """What was measured, before, now, target and verdict; the verdict is on the newer of the two that is there."""
    found = [line.values(sets) for sets in (before, now)]
    estimates = [line.how(np.array(list(one.values()))) if one else None for one in found]
    cells = []
    for sets, one, estimate in zip((before, now), found, estimates, strict=True):
        cells += [estimate.text if estimate else NO_CASE if sets else NOT_RUN, str(len(one)) if sets else ""]
    return [line.what, *cells, line.target.text if line.target else "", _verdict(line, before, now, found, estimates)]


def _verdict(
    line: Line,
    before: Mapping[int, Numbers],
    now: Mapping[int, Numbers],
    found: Sequence[Mapping[int, float]],
    estimates: Sequence[Estimate | None],
) -> str:
    if line.target is None or not (before or now):
        return ""
    if line.target.paired:
        return _no_worse(*found)
    estimate = estimates[1] if now else estimates[0]
    if estimate is None:
        return "met" if line.none_is_met else ""
    return line.target.verdict(estimate)


def _no_worse(before: Mapping[int, float], now: Mapping[int, float]) -> str:
    """Whether the paired difference is above 0, or its interval reaches 0."""
    change = np.array([now[seed] - before[seed] for seed in now if seed in before])
    if len(change) < 2:
        return ""
    estimate = average(change)
    return f"{'met' if estimate.high >= 0 else 'missed'} ({change.mean():+.3f} ± {_standard_error(change):.3f})"


@contextmanager
def recorded() -> Iterator[list[warnings.WarningMessage]]:
    """All warnings of a block, none of them shown."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


def is_warned(found: Sequence[warnings.WarningMessage]) -> bool:
    """Whether one of the warnings says that a result may mislead."""
    return any(one.category.__name__ == RELIABILITY for one in found)


def bernoulli(rng: np.random.Generator, log_odds: Array) -> NDArray[np.int64]:
    """Outcomes 0 and 1."""
    return (rng.random(len(log_odds)) < expit(log_odds)).astype(np.int64)


def averaged_over(sd: float, function: Callable[[Array], Array], log_odds: Array) -> Array:
    """Mean of a function of the log odds, to which a normal random effect is added."""
    return function(log_odds[:, None] + sd * NODES) @ WEIGHTS
