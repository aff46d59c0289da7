"""Warnings to users: the category of results that may mislead, how a warning is given, and how others are dropped."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from vbsvm.base.locks import new_lock


class ReliabilityWarning(UserWarning):
    """A result was computed, and may mislead: the message names the result, the reason and the remedy."""


_FILTERS = new_lock()
_MUTED: ContextVar[tuple[type[Warning], ...]] = ContextVar("_MUTED", default=())


@contextmanager
def muted(category: type[Warning]) -> Iterator[None]:
    """Drop what ``warn_user`` would say of this category, in this thread alone: filters belong to the process."""
    token = _MUTED.set((*_MUTED.get(), category))
    try:
        yield
    finally:
        _MUTED.reset(token)


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn, with the first frame outside the package as the place."""
    if issubclass(category, _MUTED.get()):
        return
    level = 1
    while sys._getframe(level).f_globals.get("__name__", "").startswith("vbsvm."):
        level += 1
    warnings.warn(message, category, stacklevel=level + 1)


@contextmanager
def ignored(*categories: type[Warning], message: str = "") -> Iterator[None]:
    """Ignore warnings that other libraries give; a ``message`` begins with this pattern.

    Filters of warnings belong to the process. Two threads that replaced and restored them in turns would leave wrong
    ones behind: here one thread at a time does so. What is computed for each prediction must do without.
    """
    with _FILTERS, warnings.catch_warnings():
        for category in categories:
            warnings.filterwarnings("ignore", message, category)
        yield
