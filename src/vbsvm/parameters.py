"""What priors and inferences have in common: frozen settings that a grid search can name and replace."""

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Parameters:
    """Base of every frozen settings object: scikit-learn reads its fields by ``get_params``."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Give the settings by name, as scikit-learn's ``clone`` and grids ask for them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def require_positive(owner: str, **values: float) -> None:
    """Raise a ``ValueError`` that names the first value that is not a positive finite number."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise ValueError(f"{owner}: {name} must be a positive finite number; got {value!r}.")
