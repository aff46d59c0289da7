"""Rows in several parts give the results of all rows in one: every model, by both inferences."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from parts import Parts, columns_of, cut, table
from vbsvm import GaussianImputation, Gibbs, LaplaceZero, Model, NotAtRandom, Variational
from vbsvm.inference import chains
from vbsvm.sources import memory

TIGHT = Variational(tol=1e-12, max_iter=20_000)
BLOCK = 16
SHORT = Gibbs(draws=20, tune=10, chains=2)


def task_of(text, data=None, **settings):
    """What a Model fits."""
    return Model(text, table(60) if data is None else data, likelihood="hinge", **settings)._task


TASKS = {
    "dense": lambda: columns_of(table(60)),
    "gates": lambda: columns_of(table(60), prior=LaplaceZero()),
    "groups": lambda: task_of("y ~ x + (1 | g)"),
    "slopes": lambda: task_of("y ~ x + (x | g)"),
    "crossed": lambda: task_of("y ~ x + (1 | g) + (1 | k)"),
    "splines": lambda: task_of("y ~ s(x) + z"),
    "missing": lambda: columns_of(table(60, missing=0.2)),
    "missing, paper": lambda: columns_of(table(60, missing=0.2), imputation=GaussianImputation(joint=True)),
    "not at random": lambda: columns_of(table(60, missing=0.2), imputation=GaussianImputation(mechanism=NotAtRandom())),
    "categories": lambda: task_of("y ~ k + z + (1 | g)", table(60, missing=0.2)),
    "both": lambda: task_of("y ~ x * z + k", table(60, seed=1, missing=0.2)),
}


def in_parts(source):
    """Three parts that begin where blocks begin."""
    ends = [0, BLOCK, 3 * BLOCK, len(source.X)]
    assert all(source._aligned(slice(*one)) == slice(*one) for one in pairwise(ends))
    return Parts.of(*cut(source, ends))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(memory.Memory, "_block_rows", lambda self: BLOCK)
    monkeypatch.setattr(chains, "WORTH_A_PROCESS", np.inf)  # other processes have blocks of the usual size


@pytest.mark.parametrize("name", TASKS)
def test_a_climb_ends_at_the_same_place(name):
    task = TASKS[name]()
    whole, parts = TIGHT.run(task.spec, task.source), TIGHT.run(task.spec, in_parts(task.source))
    assert parts.bounds[-1] == pytest.approx(whole.bounds[-1], rel=1e-9)
    np.testing.assert_allclose(parts.state.coefficients.mean, whole.state.coefficients.mean, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", TASKS)
def test_draws_are_the_same_to_the_bit(name):
    task = TASKS[name]()
    spec, source = task.sampler_input
    whole, parts = SHORT.run(spec, source, 1), SHORT.run(spec, in_parts(source), 1)
    np.testing.assert_array_equal(parts.coefficients, whole.coefficients)
    for one, other in zip(parts.scales, whole.scales, strict=True):
        np.testing.assert_array_equal(one, other)


def test_parts_that_share_block_numbers_would_share_random_numbers():
    """The negative control of the numbering."""
    spec, source = TASKS["dense"]().sampler_input
    parts = in_parts(source)
    same = Parts(tuple(replace(part, first_block=0) for part in parts.parts))
    assert (SHORT.run(spec, same, 1).coefficients != SHORT.run(spec, source, 1).coefficients).any()
