"""Real tables with two or more classes: scikit-learn's, those of this package, and those that statsmodels ships."""

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from sklearn import datasets

from benchmarks.missing_data import cardiac
from vbsvm.datasets import load_spam, load_toenail

Table = tuple[np.ndarray, np.ndarray]


def _of_scikit_learn(load: Callable[..., Table]) -> Callable[[], Table]:
    return lambda: load(return_X_y=True)


def _two_digits() -> Table:
    X, y = datasets.load_digits(return_X_y=True)
    chosen = np.isin(y, (3, 8))
    return X[chosen], y[chosen]


def _diabetes() -> Table:
    X, y = datasets.load_diabetes(return_X_y=True)
    return X, y > np.median(y)


def _spam() -> Table:
    data = load_spam()
    return data.drop(columns="class").to_numpy(dtype=float), data["class"].to_numpy() == "spam"


def _toenail() -> Table:
    data = load_toenail()
    treated = data["treatment"].to_numpy() == "terbinafine"
    X = np.column_stack([data["visit"], treated, data["visit"] * treated]).astype(float)
    return X, data["outcome"].to_numpy() == data["outcome"].iloc[0]


def _complete_cardiac() -> Table | None:
    if (data := cardiac()) is None:
        return None
    X, y = (np.asarray(one) for one in data)
    known = ~np.isnan(X).any(axis=1)
    return X[known], y[known]


def _of_statsmodels(name: str, outcome: str, positive: Callable[[np.ndarray], np.ndarray], *dropped: str) -> Callable:
    def load() -> Table:
        from statsmodels import datasets as of_statsmodels

        data = getattr(of_statsmodels, name).load_pandas().data
        return data.drop(columns=[outcome, *dropped]).to_numpy(dtype=float), positive(data[outcome].to_numpy())

    return load


def _of_schools() -> Table:
    from statsmodels.datasets import star98

    data = star98.load_pandas().data
    return data.drop(columns=["NABOVE", "NBELOW"]).to_numpy(dtype=float), (data["NABOVE"] > data["NBELOW"]).to_numpy()


def _is_one(values: np.ndarray) -> np.ndarray:
    return values == 1


LOADERS: dict[str, Callable[[], Table | None]] = {
    "breast cancer": _of_scikit_learn(datasets.load_breast_cancer),
    "iris": _of_scikit_learn(datasets.load_iris),
    "wine": _of_scikit_learn(datasets.load_wine),
    "digits 3, 8": _two_digits,
    "diabetes": _diabetes,
    "spam": _spam,
    "toenail, no groups": _toenail,
    "cardiac, complete": _complete_cardiac,
}
SHIPPED: dict[str, Callable[[], Table | None]] = {
    "affairs": _of_statsmodels("fair", "affairs", lambda values: values > 0),
    "grades": _of_statsmodels("spector", "GRADE", _is_one),
    "votes": _of_statsmodels("anes96", "vote", _is_one),
    "travel by air": _of_statsmodels("modechoice", "choice", _is_one, "individual", "mode"),
    "doctor visits": _of_statsmodels("randhie", "mdvis", lambda values: values > 0),
    "schools": _of_schools,
}


def tables(names: list[str] | None = None) -> dict[str, Table]:
    """The tables that can be had here, by name."""
    known = LOADERS | (SHIPPED if find_spec("statsmodels") else {})
    found = {name: known[name]() for name in (names or known)}
    return {name: table for name, table in found.items() if table is not None}
