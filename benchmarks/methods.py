"""What is compared: a named way to make a classifier."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

from sklearn.exceptions import ConvergenceWarning

from vbsvm import VBSVC


@final
@dataclass(frozen=True)
class Method:
    """A classifier by name; ``tuned`` says that it chooses its own penalty by resampling."""

    name: str
    make: Callable[[], Any]
    tuned: bool = False


OURS = Method("VBSVC", VBSVC)


@contextmanager
def rivals_may_not_converge() -> Iterator[None]:
    """Silence the rivals' convergence warnings, which their tuning grids provoke; ours stay audible."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("always", message="VBSVC", category=ConvergenceWarning)
        yield
