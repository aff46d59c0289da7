"""Base of the settings of priors and inferences (frozen, scikit-learn compatible), checks of values, and the log.

Fits log the ends of optimisations and chains at INFO and iterations at DEBUG, under the name ``vbsvm``. Nothing is
shown unless logging is configured, as with ``logging.basicConfig(level="INFO")``.
"""

import logging
import numbers
from dataclasses import dataclass, fields
from typing import Any, TypeGuard

import numpy as np

log = logging.getLogger("vbsvm")
log.addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Parameters:
    """Base class of frozen settings; scikit-learn reads the fields by ``get_params``."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name, for scikit-learn's ``clone`` and grid search."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def written(self) -> str:
        """The constructor call as text, with short numbers."""
        settings = (
            f"{name}={f'{value:g}' if isinstance(value, float) else value}" for name, value in self.get_params().items()
        )
        return f"{type(self).__name__}({', '.join(settings)})"


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a real number and no bool."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_within(value: object, least: float, most: float) -> bool:
    """Whether a value is a real number from ``least`` to ``most``; False if it overflows a float."""
    try:
        return is_number(value) and least <= float(value) <= most
    except OverflowError:
        return False


def check_whole(owner: str, least: int, most: int, **values: int) -> None:
    """Raise a ``ValueError`` that names the first value that is not a whole number within these limits."""
    for name, value in values.items():
        if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"{owner}: {name} must be a whole number from {least} to {most}; got {value!r}.")


def read_seed(random_state: Any) -> int:
    """Integer seed from None, an integer or a NumPy generator."""
    if random_state is None:
        random_state = np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(0, 2**31 - 1))
    check_whole("random_state", 0, 2**32 - 1, seed=random_state)
    return int(random_state)


def check_positive(owner: str, least: float = 1e-100, most: float = 1e100, **values: float) -> None:
    """Raise a ``ValueError`` that names the first value that is not a positive number within these limits."""
    for name, value in values.items():
        if not is_within(value, least, most):
            raise ValueError(f"{owner}: {name} must be a positive number, {least:g} to {most:g}; got {value!r}.")


def check_level(owner: str, level: float) -> None:
    """Raise a ``ValueError`` unless a probability lies between 0 and 1."""
    if not isinstance(level, numbers.Real) or isinstance(level, bool) or not 0 < level < 1:
        raise ValueError(f"{owner}: level must be a number between 0 and 1, such as 0.95; got {level!r}.")


def check_count(owner: str, **values: int) -> None:
    """Raise a ``ValueError`` that names the first value that is not a whole number of at least 1."""
    for name, value in values.items():
        if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{owner}: {name} must be a whole number of at least 1; got {value!r}.")


def check_flag(owner: str, **values: bool) -> None:
    """Raise a ``ValueError`` that names the first value that is neither True nor False."""
    for name, value in values.items():
        if not isinstance(value, bool) and type(value).__name__ != "bool":
            raise ValueError(f"{owner}: {name} must be True or False; got {value!r}.")
