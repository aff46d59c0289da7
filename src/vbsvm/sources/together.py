"""Several climbs over the same rows that share their passes: each block is encoded once, and summed for all of them.

Each climb runs in a thread of its own, but one at a time: they are threads only so that a climb can stop anywhere to
wait for a sum. It then lets the next one compute. When all that are under way wait, the last makes one pass over the
blocks for all. A climb's sums are those of its own source to the last bit, as blocks are added in the same order.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, TypeVar, final

from vbsvm.base.arrays import Array
from vbsvm.base.row_sums import fold_blocks, single_threaded_blas
from vbsvm.model.row_pass import Part, RowPass, Source, Stats
from vbsvm.sources.memory import Memory

T = TypeVar("T")

# What a climb keeps while it is under way, in numbers: of each row, and of each pair of columns.
KEPT_OF_ROW = 10
KEPT_OF_PAIR = 10
# Climbs that are under way together may keep as many numbers as the table has, or 128 MB.
MOST_KEPT = 2**24
# A table of one block is encoded once anyway. Where larger ones are standardised by algebra, nothing is saved but the
# way from memory, and a few blocks stay in the processor's cache: then taking turns costs more.
FEWEST_BLOCKS = 2
FEWEST_PLAIN_BLOCKS = 8
# Seconds after which the main thread looks for Ctrl-C, on systems where that does not end a wait.
PATIENCE = 0.1


def most_together(source: Source) -> int:
    """How many climbs over these rows may share their passes; 1 where nothing is gained by it."""
    if not isinstance(source, Memory) or source.n_blocks < (FEWEST_PLAIN_BLOCKS if source.plain else FEWEST_BLOCKS):
        return 1
    of_rows = KEPT_OF_ROW * len(source.X) if source.looks_are_cheap else 0
    most = max(source.X.size, MOST_KEPT) if source.pages is None else source.pages.most_kept
    return max(1, most // (of_rows + KEPT_OF_PAIR * source.n_core**2))


def run_together(sources: Sequence[Memory], climb: Callable[[int, Source], T]) -> list[T]:
    """Give ``climb(k, source)`` of each source; they have the same rows, of which only the labels differ.

    Ctrl-C reaches every climb as a KeyboardInterrupt where it waits for a sum, and a climb may return what it has. The
    first climb that fails stops the others, and its error is raised.
    """
    first = sources[0]
    for field in fields(Memory):
        if field.name != "signs":
            assert all(getattr(source, field.name) is getattr(first, field.name) for source in sources)
    with single_threaded_blas():  # only the thread that held BLAS to one thread before may do it again
        return _Climbs(first, [source.signs for source in sources], climb).run()


@final
class _Climbs(Generic[T]):
    """Climbs that take turns. All but ``run`` is done by the one whose turn it is, so there is nothing to lock."""

    def __init__(self, source: Memory, labels: list[Array], climb: Callable[[int, Source], T]) -> None:
        self._source, self._labels, self._climb = source, labels, climb
        self._threads = [
            threading.Thread(target=copy_context().run, args=(self._run, k), name=f"climb {k}", daemon=True)
            for k in range(len(labels))
        ]
        self._gates = [_locked() for _ in labels]
        self._ready = deque(range(len(labels)))
        self._requests: dict[int, _Request] = {}
        self._answers: dict[int, Any] = {}
        self._outcomes: dict[int, T] = {}
        self._errors: list[BaseException] = []
        self._begin, self._bell = _locked(), _locked()
        self._stopped = self._told = self._ended = False

    def run(self) -> list[T]:
        """Start the climbs and wait for their ends; Ctrl-C arrives here, in the main thread, and is passed on."""
        signalled: BaseException | None = None
        try:
            self._start()
            while not self._ended:
                try:
                    self._wait()
                except BaseException as error:  # Ctrl-C, or what the handler of another signal raises
                    self._stopped, signalled = True, error
        finally:
            self._stopped = True
        for thread in self._threads:
            thread.join()
        if signalled is not None and not isinstance(signalled, KeyboardInterrupt):
            raise signalled
        if self._errors:
            raise self._errors[0]
        if signalled is not None and not self._told:  # it came after the last sum
            raise signalled
        return [self._outcomes[k] for k in range(len(self._labels))]

    def _start(self) -> None:
        """Start the first climb, which starts the next; interrupted meanwhile, it ends at its first sum, alone."""
        try:
            self._threads[self._ready.popleft()].start()
        except BaseException:
            self._ready.clear()
            self._stopped = True
            self._begin.release()
            self._bell.acquire(timeout=10 * PATIENCE)  # not for ever: it is not known whether the thread runs
            raise
        self._begin.release()

    def _wait(self) -> None:
        """Wait for the end; by a plain lock, as an exception within an Event could leave it locked."""
        while not self._ended:
            self._bell.acquire(timeout=PATIENCE)

    def _run(self, k: int) -> None:
        """A climb from its start to its end."""
        if k == 0:  # until then the main thread is busy with the start of this one
            self._begin.acquire()
        try:
            self._outcomes[k] = self._climb(k, _SharedRows(self, k))
        except BaseException as error:  # raised again in the caller's thread
            self._errors.append(error)
            self._stopped = True
        self._next()

    def _next(self) -> None:
        """Let the next climb compute; where all that are under way wait for sums, pass over the rows first."""
        if not self._ready and self._requests:
            self._pass()
        if not self._ready:
            self._ended = True
            self._bell.release()
            return
        k = self._ready.popleft()
        if self._threads[k].ident is None:
            self._threads[k].start()
        else:
            self._gates[k].release()

    def ask(self, k: int, kernel: Callable[[Part], Any], *, light: bool) -> Any:
        """Wait for the sum of a kernel over all rows, with the labels of a climb."""
        self._requests[k] = _Request(kernel, light, self._labels[k], copy_context())
        self._next()
        self._gates[k].acquire()
        answer = self._answers.pop(k)
        if isinstance(answer, _Failure):
            raise answer.error
        return answer

    @property
    def source(self) -> Memory:
        """The rows, with the labels of the first climb."""
        return self._source

    def labelled(self, k: int) -> Memory:
        """The rows, with the labels of a climb."""
        return replace(self._source, signs=self._labels[k])

    def _pass(self) -> None:
        """Answer all requests."""
        requests = dict(sorted(self._requests.items()))
        self._requests.clear()
        try:
            answers = self._sums(list(requests.values()))
        except BaseException as error:  # raised again in the climbs
            self._told = self._told or isinstance(error, KeyboardInterrupt)
            answers = [_Failure(error)] * len(requests)
        self._answers.update(zip(requests, answers, strict=True))
        self._ready.extend(requests)

    def _sums(self, requests: "list[_Request]") -> list[Any]:
        """The only pass over the data: of each block all kernels, one after another in the block's work space."""

        def of_thread() -> Callable[[int], _Sums]:
            block_of = self._source.encoder()
            contexts = [request.context.copy() for request in requests]

            def of_block(index: int) -> _Sums:
                if self._stopped:
                    raise KeyboardInterrupt
                block = block_of(index)
                return _Sums([one.of_block(block, context) for one, context in zip(requests, contexts, strict=True)])

            return of_block

        light = all(request.light for request in requests)
        return fold_blocks(self._source.n_blocks, self._source.n_columns, of_thread, light=light).sums


@final
@dataclass(frozen=True, slots=True, eq=False)
class _SharedRows:
    """The source that one of the climbs sees."""

    climbs: _Climbs[Any]
    k: int

    @property
    def n_rows(self) -> int:
        """Number of rows that count."""
        return self.climbs.source.n_rows

    @property
    def drawn_covariance(self) -> bool:
        """No: such tables have one block."""
        return False

    @property
    def n_core(self) -> int:
        """Number of coefficients whose covariances are all kept."""
        return self.climbs.source.n_core

    @property
    def looks_are_cheap(self) -> bool:
        """Whether rows may be looked at often, and a few numbers of each be kept."""
        return self.climbs.source.looks_are_cheap

    def sample(self, n_rows: int) -> Memory | None:
        """Some of the rows with the labels of this climb, which has them for itself."""
        return self.climbs.labelled(self.k).sample(n_rows)

    def fold(self, row_pass: RowPass) -> Stats:
        """The only pass over the data in a sweep; what no pass changes is added."""
        return self.climbs.source.with_known(self.total(lambda part: part.stats(row_pass)))

    def input_sums(self, distribution: Any) -> Any:
        """Sums of the inputs, in which labels have no say: for one climb alone."""
        return self.climbs.source.input_sums(distribution)

    def total(self, kernel: Callable[[Part], Any], *, light: bool = False) -> Any:
        """Sum anything that adds over the parts of all blocks."""
        return self.climbs.ask(self.k, kernel, light=light)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    """A sum that a climb waits for: its kernel and labels, and the context in which the kernel is to run."""

    kernel: Callable[[Part], Any]
    light: bool
    signs: Array
    context: Context

    def of_block(self, block: Any, context: Context) -> Any:
        """The kernel's sum over a block; an error concerns this climb alone."""
        try:
            return context.run(block.relabelled(self.signs).sum, self.kernel)
        except Exception as error:  # raised again in the climb
            return _Failure(error)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Failure:
    """What stands in place of a sum that could not be formed."""

    error: BaseException


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Sums of several kernels."""

    sums: list[Any]

    def __add__(self, other: "_Sums") -> "_Sums":
        """Add kernel by kernel; the first failure stays."""
        return _Sums([_added(one, more) for one, more in zip(self.sums, other.sums, strict=True)])


def _added(one: Any, other: Any) -> Any:
    if isinstance(one, _Failure):
        return one
    return other if isinstance(other, _Failure) else one + other


def _locked() -> threading.Lock:
    """A lock that one thread waits for, and another releases."""
    lock = threading.Lock()
    lock.acquire()
    return lock
