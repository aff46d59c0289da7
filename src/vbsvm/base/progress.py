"""A bar on stderr for what takes its time, with the time that is left."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
