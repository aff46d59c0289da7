"""What takes its time, told on stderr: a bar with the time that is left, or a line that is written over."""

import sys
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import final


@contextmanager
def bar(what: str, total: int, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """A function that is told how much has been done; nothing is shown unless it is asked for."""
    if not shown:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as found:
        task = found.add_task(what, total=max(1, total))
        yield lambda done: found.update(task, completed=done)


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
