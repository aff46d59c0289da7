"""The table of random effects: mean and standard deviation of each group's effects, on the user's scale."""

from typing import TYPE_CHECKING, Any

from vbsvm.design.columns import Plan
from vbsvm.results.posterior import Posterior

if TYPE_CHECKING:
    import pandas as pd


def table(plan: Plan, posterior: Posterior, factor: str | None) -> "pd.DataFrame":
    """Effects of one factor; or of all of them, with the factor as the first level of the index."""
    import pandas as pd

    names = [of_factor.name for of_factor in plan.factors]
    if factor is not None and factor not in names:
        raise ValueError(f"random_effects: there is no factor {factor!r}; there are {names}.")
    chosen = names if factor is None else [factor]
    if not chosen:
        raise ValueError("random_effects: the model has no groups.")
    frames = {name: _of_factor(plan, posterior, names.index(name)) for name in chosen}
    if len(chosen) == 1:
        return frames.popitem()[1]
    pieces, plans = [], dict(zip(names, plan.factors, strict=True))
    for name, frame in frames.items():
        several = len(plans[name].effects) > 1
        rows = [label if isinstance(label, tuple) else (label,) for label in frame.index]
        groups = [":".join(map(str, row[:-1] if several else row)) for row in rows]
        effects = [row[-1] for row in rows] if several else [plans[name].effects[0]] * len(rows)
        index = pd.MultiIndex.from_arrays([[name] * len(rows), groups, effects], names=["factor", "group", "effect"])
        pieces.append(frame.set_axis(index))
    return pd.concat(pieces)


def _of_factor(plan: Plan, posterior: Posterior, k: int) -> "pd.DataFrame":
    import pandas as pd

    factor, begin = plan.factors[k], plan.first_effects()[k]
    shape = len(factor.levels), len(factor.slopes)
    of_factor = slice(begin, begin + factor.size)
    mean, sd = (moment.reshape(shape) for moment in posterior.effects(of_factor))
    units = plan.units(factor)
    labels = factor.levels.labels
    if len(factor.columns) > 1:
        index: Any = pd.MultiIndex.from_tuples(labels, names=factor.columns)
    else:
        index = pd.Index(labels, name=factor.name)
    frames = {
        name: pd.DataFrame({"mean": mean[:, j] * units[j], "sd": sd[:, j] * units[j]}, index=index)
        for j, name in enumerate(factor.effects)
    }
    if len(frames) == 1:
        return next(iter(frames.values()))
    joined = pd.concat(frames, names=["effect"])
    order = list(range(1, joined.index.nlevels))
    return joined.reorder_levels([*order, 0]).sort_index(kind="stable", sort_remaining=False)
