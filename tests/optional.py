"""Packages that users need not have: without one, the tests that use it are skipped, and no other."""

from importlib import import_module
from typing import Any

import pytest


class Missing:
    """Stands for a package that is not installed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # pytest looks for marks at what a file holds
            raise AttributeError(attribute)
        pytest.skip(f"{self.name} is not installed", allow_module_level=True)


def optional(name: str) -> Any:
    """The package; if it is not installed, something whose first use skips the test, or the file outside of tests."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.split(".", maxsplit=1)[0]:
            raise
        return Missing(name)
