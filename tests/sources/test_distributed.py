"""Rows in the workers of a cluster give the results of all rows in memory: every model, by both inferences."""

import os
import threading
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from clusters import kill_during, wait_until, workers
from parts import Parts
from vbsvm import VBSVC, Gibbs, LaplaceZero, Model, Variational
from vbsvm.missing.categories import LevelCounts
from vbsvm.sources.cluster import FAN_IN, Cluster
from vbsvm.sources.distributed import Distributed, WorkerPart

pytest.importorskip("distributed")

TIGHT = Variational(tol=1e-12, max_iter=20_000)
SHORT = Gibbs(draws=3, tune=2, chains=2)
ENDS = (0, 17, 17, 58, 90)  # the second part has no rows


@pytest.fixture(scope="module")
def client():
    with workers(2) as found:
        yield found


def table(n=90, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=n), rng.normal(size=n)
    data = pd.DataFrame({"x": x, "z": z, "k": rng.choice(["u", "v"], n), "g": rng.integers(0, 5, n)})
    data["y"] = np.where(x - z + (data["k"] == "u") + rng.logistic(size=n) > 0, "yes", "no")
    for name in ("x", "k") if missing else ():
        data[name] = data[name].mask(rng.random(n) < missing)
    return data


def task_of(text, data=None, **settings):
    return Model(text, table() if data is None else data, **settings)._task


def columns_of(data, **settings):
    return VBSVC(**settings)._tasks(data[["x", "z"]], data["y"], None)[0]


TASKS = {
    "dense": lambda: columns_of(table()),
    "gates": lambda: columns_of(table(), prior=LaplaceZero()),
    "groups": lambda: task_of("y ~ x + (1 | g)"),
    "missing": lambda: columns_of(table(missing=0.2)),
    "categories": lambda: task_of("y ~ k + z", table(missing=0.2)),
}


def cut(source):
    """Parts of the rows, one of them without any; rows stay with their candidates."""
    parts = []
    for k, (begin, end) in enumerate(zip(ENDS, (*ENDS[1:-1], len(source.X)), strict=False)):
        where, known = source._aligned(slice(begin, end)), source.known_levels
        if known is not None and k:
            known = LevelCounts(tuple(np.zeros_like(one) for one in known.counts))
        parts.append(replace(source.take(where), known_levels=known))
    return parts


def itself(thing):
    return thing


def spread_out(client, source):
    """The same rows in workers; each part is a task, so that it can be made again."""
    cluster, parts = Cluster.from_client(client), cut(source)
    return Distributed.from_memories(cluster, [client.submit(itself, part, pure=False) for part in parts], parts[1])


def same_as_parts(client, source):
    return spread_out(client, source), Parts.of(*(part for part in cut(source) if part.n_rows))


@pytest.mark.parametrize("name", ["dense", "gates", "groups", "missing", "categories"])
def test_draws_are_those_of_the_same_parts_in_memory(client, name):
    """Block numbers give the random numbers, so that workers and memory draw alike; sums agree to rounding."""
    spec, source = TASKS[name]().sampler_input
    far, near = same_as_parts(client, source)
    np.testing.assert_allclose(
        SHORT.run(spec, far, 1).coefficients, SHORT.run(spec, near, 1).coefficients, rtol=1e-6, atol=1e-8
    )


def test_a_killed_worker_costs_time_and_not_a_bit(client, monkeypatch):
    task = columns_of(table(n=90, seed=3))
    whole = TIGHT.run(task.spec, spread_out(client, task.source))
    source, passes = spread_out(client, task.source), []
    fold = Distributed.sum_stats
    monkeypatch.setattr(Distributed, "sum_stats", lambda self, row_pass: (passes.append(1), fold(self, row_pass))[1])
    before = set(client.run(os.getpid).values())
    killing = kill_during(client, passes, after=3)
    found = TIGHT.run(task.spec, source)
    killing.join()
    client.wait_for_workers(2, timeout=60)
    assert set(client.run(os.getpid).values()) != before
    np.testing.assert_array_equal(found.bounds, whole.bounds)
    np.testing.assert_array_equal(found.state.packed, whole.state.packed)


def test_two_fits_at_once_do_not_mix(client):
    tasks = [columns_of(table(seed=seed)) for seed in (1, 2)]
    alone = [TIGHT.run(task.spec, spread_out(client, task.source)) for task in tasks]
    together = {}

    def run(k):
        together[k] = TIGHT.run(tasks[k].spec, spread_out(client, tasks[k].source))

    threads = [threading.Thread(target=run, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(2):
        np.testing.assert_array_equal(together[k].state.packed, alone[k].state.packed)


def number(k):
    return np.float64(1.0) / (k + 1)


@pytest.mark.parametrize("n", [1, FAN_IN, FAN_IN + 1, FAN_IN**2 + 1])
def test_terms_are_added_in_a_tree_of_fixed_shape(client, n):
    terms = [number(k) for k in range(n)]
    expected = list(terms)
    while len(expected) > 1:
        expected = [sum(expected[k + 1 : k + FAN_IN], expected[k]) for k in range(0, len(expected), FAN_IN)]
    assert Cluster.from_client(client).sum(number, client.map(itself, range(n), pure=False)) == expected[0]


def failing(thing):
    raise FloatingPointError("the matrix is not positive")


def test_an_error_in_a_worker_arrives_as_it_is(client):
    with pytest.raises(FloatingPointError, match="not positive"):
        Cluster.from_client(client).sum(failing, [client.submit(itself, 1)])


def test_what_a_clusters_own_failures_mean_is_said(client):
    from distributed import CancelledError, KilledWorker

    for error, message in (
        (KilledWorker("part", None, 3), "Several workers died over the same part"),
        (CancelledError("part"), "The cluster has lost the data"),
    ):
        with pytest.raises(RuntimeError, match=message), Cluster.from_client(client)._explained_errors([]):
            raise error


def held_by(client):
    return client.run_on_scheduler(lambda dask_scheduler: [key for key in dask_scheduler.tasks if "vbsvm" in str(key)])


def test_nothing_is_left_in_the_cluster(client):
    task = columns_of(table())
    source = spread_out(client, task.source)
    Variational().run(task.spec, source)
    assert held_by(client)
    del source
    wait_until(lambda: not held_by(client))


def test_a_part_says_how_many_bytes_it_has():
    memory = columns_of(table()).source
    assert WorkerPart(memory).__sizeof__() == 90 * (2 + 1) * 8 + memory.weights.nbytes
