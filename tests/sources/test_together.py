"""Climbs that share their passes end where each would have ended alone, to the bit; and none stays behind."""

import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from vbsvm import VBSVC, GaussianImputation, LaplaceZero, Variational
from vbsvm.sources import memory, together
from vbsvm.sources.memory import Memory
from vbsvm.sources.together import most_together, run_together

BLOCK = 16
CLASSES = 3


@pytest.fixture(autouse=True)
def no_thread_stays():
    yield
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("climb")]


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(Memory, "_block_rows", lambda self: BLOCK)


def table(n=90, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.digitize(X[:, 0] + 0.5 * rng.normal(size=n), [-0.5, 0.5])


def tasks_of(X, y, weights=None, **settings):
    return VBSVC(**settings)._tasks(X, y, weights)


def with_groups(X):
    return np.column_stack([X, np.random.default_rng(3).integers(0, 7, len(X))])


def with_missing(X):
    return np.where(np.random.default_rng(4).random(X.shape) < 0.1, np.nan, X)


X, Y = table()
WEIGHTS = np.random.default_rng(1).integers(0, 4, len(X)).astype(float)
TASKS = {
    "plain": lambda: tasks_of(X, Y),
    "far from zero": lambda: tasks_of(X + 1e6, Y),
    "weights": lambda: tasks_of(X, Y, WEIGHTS, class_weight={0: 1.0, 1: 3.0, 2: 0.5}),
    "weights, far from zero": lambda: tasks_of(X + 1e6, Y, WEIGHTS, class_weight="balanced"),
    "groups": lambda: tasks_of(with_groups(X), Y, WEIGHTS, group=3),
    "gates": lambda: tasks_of(X, Y, prior=LaplaceZero()),
    "missing": lambda: tasks_of(with_missing(X), Y),
    "missing, no labels": lambda: tasks_of(with_missing(X), Y, imputation=GaussianImputation(labels="none")),
}


def apart(tasks, inference):
    return [inference.run(task.spec, task.source) for task in tasks]


def shared(tasks, inference):
    return run_together([task.source for task in tasks], lambda k, source: inference.run(tasks[k].spec, source))


def same(one, other):
    """Whether two climbs went the same way to the same place."""
    assert (one.passes, one.ending) == (other.passes, other.ending)
    same_mean = np.array_equal(one.state.coefficients.mean, other.state.coefficients.mean)
    same_spread = np.array_equal(one.state.coefficients.variances, other.state.coefficients.variances)
    return same_mean and same_spread and np.array_equal(one.bounds, other.bounds)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.usefixtures("small_blocks")
def test_each_climb_is_the_same_to_the_bit_as_alone(name):
    tasks = TASKS[name]()
    assert len(tasks) == CLASSES
    assert tasks[0].source.n_blocks > 2
    assert tasks[0].source.plain == (name in ("plain", "weights", "gates"))
    for one, other in zip(apart(tasks, Variational()), shared(tasks, Variational()), strict=True):
        assert same(one, other)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("inference", [Variational(bound="exact"), Variational(accelerate=False, max_iter=30)])
def test_other_climbs_are_the_same_too(inference):
    tasks = TASKS["plain"]()
    for one, other in zip(apart(tasks, inference), shared(tasks, inference), strict=True):
        assert same(one, other)


def test_blocks_that_are_summed_in_threads_are_the_same():
    tasks = tasks_of(*table(24_000, 26))
    assert tasks[0].source.n_blocks > 4
    inference = Variational(accelerate=False, max_iter=4)
    for one, other in zip(apart(tasks, inference), shared(tasks, inference), strict=True):
        assert same(one, other)


@pytest.mark.parametrize("name", ["plain", "groups"])
@pytest.mark.usefixtures("small_blocks")
def test_the_comparison_sees_labels_of_another_class(name, monkeypatch):
    """The negative control."""
    inference = Variational(max_iter=3)
    tasks = TASKS[name]()
    alone = apart(tasks, inference)
    for block in (memory._Block, memory._PlainBlock):
        monkeypatch.setattr(block, "relabelled", lambda self, signs: self)
    first, second, _ = shared(tasks, inference)
    assert same(alone[0], first)
    assert not np.array_equal(alone[1].bounds, second.bounds)


@pytest.mark.usefixtures("small_blocks")
def test_rows_are_encoded_once_for_all_classes(monkeypatch):
    tasks, passes = TASKS["groups"](), []
    encoder = Memory.encoder
    monkeypatch.setattr(Memory, "encoder", lambda self: passes.append(self) or encoder(self))
    alone = []
    for task in tasks:
        passes.clear()
        Variational().run(task.spec, task.source)
        alone.append(len(passes))
    passes.clear()
    shared(tasks, Variational())
    assert len(passes) == max(alone) < sum(alone)


def sources(k=CLASSES):
    source = tasks_of(X, Y)[0].source
    return [replace(source, signs=np.full(len(X), float(label))) for label in range(k)]


def sum_signs(part):
    return part.rows.signs.sum()


@pytest.mark.usefixtures("small_blocks")
def test_climbs_may_ask_more_or_less_often():
    found = run_together(sources(), lambda k, source: [source.total(sum_signs) for _ in range(3 * k)])
    assert found == [[], [90.0] * 3, [180.0] * 6]


@pytest.mark.usefixtures("small_blocks")
def test_a_kernel_that_fails_concerns_its_own_climb_alone():
    def failing(part):
        if part.rows.index == 2:
            raise FloatingPointError("here")
        return 0.0

    def climb(k, source):
        if k == 1:
            with pytest.raises(FloatingPointError, match="here"):
                source.total(failing)
        return source.total(sum_signs)

    assert run_together(sources(), climb) == [0.0, 90.0, 180.0]


@pytest.mark.usefixtures("small_blocks")
def test_a_climb_that_fails_ends_all_and_is_raised():
    sums = []

    def climb(k, source):
        while True:
            sums.append(source.total(sum_signs))
            if k == 1 and len(sums) > 7:
                raise ValueError("class 1")

    with pytest.raises(ValueError, match="class 1"):
        run_together(sources(), climb)
    assert len(sums) <= 12


@pytest.mark.usefixtures("small_blocks")
def test_settings_of_the_caller_hold_and_those_of_a_climb_are_its_own():
    def climb(k, source):
        before = np.geterr()["over"]
        seen = []
        with np.errstate(over=("ignore", "raise", "call")[k]):
            source.total(lambda part: seen.append(np.geterr()["over"]) or 0.0)
        return before, set(seen)

    with np.errstate(over="print"):
        found = run_together(sources(), climb)
    assert found == [("print", {"ignore"}), ("print", {"raise"}), ("print", {"call"})]


@pytest.mark.usefixtures("small_blocks")
def test_a_pass_is_light_where_all_of_its_kernels_are(monkeypatch):
    seen, fold = [], together.fold_blocks
    monkeypatch.setattr(together, "fold_blocks", lambda *given, light: seen.append(light) or fold(*given, light=light))

    def climb(k, source):
        source.total(sum_signs, light=True)
        source.total(sum_signs, light=k == 1)

    run_together(sources(), climb)
    assert seen == [True, False]


def interrupt():
    """Ctrl-C; it reaches the main thread, and takes effect within this time."""
    signal.raise_signal(signal.SIGINT)
    time.sleep(5 * together.PATIENCE)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("during_a_pass", [True, False])
def test_ctrl_c_reaches_every_climb(during_a_pass):
    def climb(k, source):
        sums = []
        try:
            while True:
                in_pass = during_a_pass and k == 1 and len(sums) == 2
                sums.append(source.total(lambda part, here=in_pass: interrupt() or 0.0 if here else 0.0))
                if not during_a_pass and k == 1 and len(sums) == 2:
                    interrupt()
        except KeyboardInterrupt:
            return len(sums)

    assert run_together(sources(), climb) == [2, 2, 2]


@pytest.mark.usefixtures("small_blocks")
def test_ctrl_c_before_a_climb_has_anything_is_raised():
    def climb(k, source):
        source.total(lambda part: interrupt() or 0.0 if k == 0 else 0.0)

    with pytest.raises(KeyboardInterrupt):
        run_together(sources(), climb)


@pytest.mark.usefixtures("small_blocks")
def test_what_another_signal_raises_ends_all_climbs():
    def climb(k, source):
        while True:
            try:
                source.total(lambda part: interrupt() or 0.0 if k == 0 else 0.0)
            except KeyboardInterrupt:
                return

    def exits(number, frame):
        raise SystemExit

    before = signal.signal(signal.SIGINT, exits)
    try:
        with pytest.raises(SystemExit):
            run_together(sources(), climb)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("small_blocks")
def test_ctrl_c_after_the_last_sum_is_raised():
    def climb(k, source):
        source.total(sum_signs)
        if k == CLASSES - 1:
            interrupt()

    with pytest.raises(KeyboardInterrupt):
        run_together(sources(), climb)


@pytest.mark.usefixtures("small_blocks")
def test_sources_have_their_rows_in_common():
    one, other = sources(2)
    with pytest.raises(AssertionError):
        run_together([one, replace(other, weights=2 * other.weights)], lambda k, source: None)


def test_few_blocks_are_not_shared_nor_more_than_memory_allows(monkeypatch):
    source = sources(1)[0]
    assert source.n_blocks == most_together(source) == 1
    far = tasks_of(X + 1e6, Y)[0].source
    monkeypatch.setattr(Memory, "_block_rows", lambda self: 45)
    assert most_together(replace(source)) == 1  # blocks are counted once
    assert most_together(replace(far)) > 100
    monkeypatch.setattr(Memory, "_block_rows", lambda self: 10)
    assert most_together(replace(source)) > 100
    monkeypatch.setattr(together, "MOST_KEPT", 3 * (together.KEPT_OF_ROW + 2) * len(X))
    assert most_together(replace(source)) == 3
