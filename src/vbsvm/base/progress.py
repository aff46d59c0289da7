"""What takes its time, told on stderr: a bar with the time that is left, or a line that is written over."""

import sys
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import final


def in_notebook() -> bool:
    """Whether the session is that of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def is_interactive() -> bool:
    """Whether what is written on stderr is seen as it comes: in a terminal or a notebook."""
    return in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


@contextmanager
def bar(what: str, total: int, *, shown: bool | None = None) -> Iterator[Callable[[int], None]]:
    """A function that is told how much has been done. None shows a bar where somebody looks: a terminal, a notebook."""
    notebook = in_notebook()
    if shown is False or (shown is None and not is_interactive()):
        yield lambda done: None
        return
    if not _has("rich") or (notebook and not _has("ipywidgets")):
        with _plain(what, max(1, total)) as tell:
            yield tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=max(1, total))
        yield lambda done: progress.update(task, completed=done)


def _has(package: str) -> bool:
    return find_spec(package) is not None


@contextmanager
def _plain(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A line that is written over, where bars can't be drawn: the share that is done, and the seconds left."""
    line, begun = SharedLine(), time.monotonic()

    def tell(done: int) -> None:
        left = (time.monotonic() - begun) * (total - done) / max(1, done)
        line.show(what, f"{what}: {100 * done // total} %, {left:.0f} s left")

    try:
        yield tell
    finally:
        line.end(what)


@final
class SharedLine:
    """A line for several that are under way at once: it shows what the first of them says, and how many others go on.

    It ends when all of them have.
    """

    def __init__(self) -> None:
        self._texts: dict[Hashable, str] = {}
        self._shown = ""

    def show(self, who: Hashable, text: str) -> None:
        """Take note of how far one of them is."""
        self._texts[who] = text
        self._write()

    def end(self, who: Hashable) -> None:
        """Take note that one of them has ended."""
        if self._texts.pop(who, None) is not None:
            self._write()
        if self._shown and not self._texts:
            self._shown = ""
            sys.stderr.write("\n")

    def _write(self) -> None:
        if not self._texts:
            return
        first, *others = self._texts.values()
        text = f"{first} (and {len(others)} more under way)" if others else first
        if text != self._shown:
            sys.stderr.write(f"\r{text.ljust(len(self._shown))}")
            sys.stderr.flush()
            self._shown = text
