"""Progress on stderr: a bar with the remaining time, or one line that is overwritten."""

import sys
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import final


def in_notebook() -> bool:
    """Whether the code runs in a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def is_interactive() -> bool:
    """Whether stderr is shown as it is written: in a terminal or a notebook."""
    return in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


@contextmanager
def bar(what: str, total: int, *, shown: bool | None = None) -> Iterator[Callable[[int], None]]:
    """Context of a progress bar: yields a function of the amount done. ``shown=None`` shows it if interactive."""
    notebook = in_notebook()
    if shown is False or (shown is None and not is_interactive()):
        yield lambda done: None
        return
    if not _has("rich") or (notebook and not _has("ipywidgets")):
        with _plain(what, max(1, total)) as update:
            yield update
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
    """One overwritten line for where bars can't be drawn: the percentage done, and the seconds left."""
    line, begun = SharedLine(), time.monotonic()

    def update(done: int) -> None:
        seconds_left = (time.monotonic() - begun) * (total - done) / max(1, done)
        line.show(what, f"{what}: {100 * done // total} %, {seconds_left:.0f} s left")

    try:
        yield update
    finally:
        line.end(what)


@final
class SharedLine:
    """Progress line of several concurrent tasks: the text of the first one, and the number of the others.

    It ends with the last of them.
    """

    def __init__(self) -> None:
        self._texts: dict[Hashable, str] = {}
        self._shown = ""

    def show(self, task: Hashable, text: str) -> None:
        """Update the text of a task."""
        self._texts[task] = text
        self._write()

    def end(self, task: Hashable) -> None:
        """Remove a task that has ended."""
        if self._texts.pop(task, None) is not None:
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
