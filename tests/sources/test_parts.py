"""Rows in several parts give the results of all rows in one: every model, by both inferences."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from parts import Parts
from vbsvm import VBSVC, GaussianImputation, Gibbs, LaplaceZero, Model, NotAtRandom, Variational
from vbsvm.inference import chains
from vbsvm.missing.categories import LevelCounts
from vbsvm.sources import memory

TIGHT = Variational(tol=1e-12, max_iter=20_000)
BLOCK = 16
SHORT = Gibbs(draws=20, tune=10, chains=2)


def table(n=60, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=n), rng.normal(size=n)
    data = pd.DataFrame({"x": x, "z": z, "k": rng.choice(["u", "v"], n), "g": rng.integers(0, 5, n)})
    data["y"] = np.where(x - z + (data["k"] == "u") + rng.logistic(size=n) > 0, "yes", "no")
    for name in ("x", "k") if missing else ():
        data[name] = data[name].mask(rng.random(n) < missing)
    return data


def task_of(text, data=None, **settings):
    """What a Model fits."""
    return Model(text, table() if data is None else data, likelihood="hinge", **settings)._task


def columns_of(data, **settings):
    """What a VBSVC fits."""
    return VBSVC(**settings)._tasks(data[["x", "z"]], data["y"], None)[0]


TASKS = {
    "dense": lambda: columns_of(table()),
    "gates": lambda: columns_of(table(), prior=LaplaceZero()),
    "groups": lambda: task_of("y ~ x + (1 | g)"),
    "slopes": lambda: task_of("y ~ x + (x | g)"),
    "crossed": lambda: task_of("y ~ x + (1 | g) + (1 | k)"),
    "splines": lambda: task_of("y ~ s(x) + z"),
    "missing": lambda: columns_of(table(missing=0.2)),
    "missing, paper": lambda: columns_of(table(missing=0.2), imputation=GaussianImputation(joint=True)),
    "not at random": lambda: columns_of(table(missing=0.2), imputation=GaussianImputation(mechanism=NotAtRandom())),
    "categories": lambda: task_of("y ~ k + z + (1 | g)", table(missing=0.2)),
    "both": lambda: task_of("y ~ x * z + k", table(seed=1, missing=0.2)),
}


def cut(source):
    """Three parts that begin where blocks begin; counts of known levels go to the first one."""
    ends = [0, BLOCK, 3 * BLOCK, len(source.X)]
    parts = []
    for k, (begin, end) in enumerate(pairwise(ends)):
        where = slice(begin, end)
        assert source._aligned(where) == where  # blocks begin at the same rows
        parts.append(replace(source.take(where), known_levels=_levels(source, first=k == 0)))
    return Parts.of(*parts)


def _levels(source, *, first):
    known = source.known_levels
    return known if known is None or first else LevelCounts(tuple(np.zeros_like(one) for one in known.counts))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(memory.Memory, "_block_rows", lambda self: BLOCK)
    monkeypatch.setattr(chains, "WORTH_A_PROCESS", np.inf)  # other processes have blocks of the usual size


@pytest.mark.parametrize("name", TASKS)
def test_a_climb_ends_at_the_same_place(name):
    task = TASKS[name]()
    whole, parts = TIGHT.run(task.spec, task.source), TIGHT.run(task.spec, cut(task.source))
    assert parts.bounds[-1] == pytest.approx(whole.bounds[-1], rel=1e-9)
    np.testing.assert_allclose(parts.state.coefficients.mean, whole.state.coefficients.mean, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", TASKS)
def test_draws_are_the_same_to_the_bit(name):
    task = TASKS[name]()
    spec, source = task.sampler_input
    whole, parts = SHORT.run(spec, source, 1), SHORT.run(spec, cut(source), 1)
    np.testing.assert_array_equal(parts.coefficients, whole.coefficients)
    for one, other in zip(parts.scales, whole.scales, strict=True):
        np.testing.assert_array_equal(one, other)


def test_parts_that_share_block_numbers_would_share_random_numbers():
    """The negative control of the numbering."""
    spec, source = TASKS["dense"]().sampler_input
    parts = cut(source)
    same = Parts(tuple(replace(part, first_block=0) for part in parts.parts))
    assert (SHORT.run(spec, same, 1).coefficients != SHORT.run(spec, source, 1).coefficients).any()
