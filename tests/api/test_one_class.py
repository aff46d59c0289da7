"""A model that assigns no training row to one of the classes says so once, and says what to do."""

import warnings

import numpy as np
import pandas as pd
import pytest

from vbsvm import VBSVC, Gibbs, Model, OneClassWarning
from vbsvm.api import fit_warnings

SHORT = Gibbs(draws=100, tune=100, chains=2)


def collapsed(n=400, seed=0):
    """P(yes) is .15 in group a and .4 in group b: associated, and yet never the likelier class."""
    rng = np.random.default_rng(seed)
    x = np.repeat(["a", "b"], n // 2)
    y = np.where(rng.random(n) < np.where(x == "a", 0.15, 0.4), "yes", "no")
    return pd.DataFrame({"y": y, "x": x, "b": (x == "b").astype(float), "z": rng.normal(size=n), "g": np.arange(n) % 8})


def warned(call):
    """What is said of classes without rows; other warnings are not looked at."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in caught if one.category is OneClassWarning]


def missing(data, *columns):
    gone = np.random.default_rng(1).random((len(data), len(columns))) < 0.2
    return data.assign(**{name: data[name].mask(gone[:, k]) for k, name in enumerate(columns)})


@pytest.mark.parametrize(
    "fit",
    [
        lambda data: VBSVC().fit(data[["b", "z"]], data["y"]),
        lambda data: VBSVC(inference=SHORT, random_state=0).fit(data[["b", "z"]], data["y"]),
        lambda data: VBSVC(group="g").fit(data[["b", "z", "g"]], data["y"]),
        lambda data: VBSVC().fit(missing(data, "b", "z")[["b", "z"]], data["y"]),
        lambda data: VBSVC().fit(
            np.r_[data[["b"]], [[50.0]] * 9],
            np.r_[data["y"], ["yes"] * 9],
            sample_weight=np.r_[np.ones(len(data)), np.zeros(9)],
        ),
        lambda data: Model("y ~ x", data, likelihood="hinge").fit(),
        lambda data: Model("y ~ x + (1 | g)", data, likelihood="hinge").fit(),
        lambda data: Model("y ~ z * b", missing(data, "z"), likelihood="hinge").fit(),
        lambda data: Model("y ~ x + z", missing(data, "x", "z"), likelihood="hinge").fit(),
        lambda data: Model("y ~ x", data, likelihood="hinge").fit(SHORT, random_state=0),
    ],
    ids=["plain", "Gibbs", "group", "missing", "weight-0", "Model", "mixed", "products", "categories", "Model-Gibbs"],
)
def test_a_class_without_rows_is_named_once(fit):
    (said,) = warned(lambda: fit(collapsed()))
    assert "class 'yes' predicted for no training observation" in said
    assert "coefficients near 0 then do not mean" in said
    assert "class_weight" in said if said.startswith("VBSVC") else "weights=" in said


@pytest.mark.parametrize(
    "fit",
    [
        lambda data: VBSVC(class_weight="balanced").fit(data[["b", "z"]], data["y"]),
        lambda data: Model("y ~ x", data, weights=np.where(data["y"] == "yes", 1.8, 0.7), likelihood="hinge").fit(),
        lambda data: VBSVC().fit(data[["z"]], data["z"] > 1.5),
        lambda data: Model("w ~ z", data.assign(w=data["z"] > 1.5), likelihood="hinge").fit(),
        lambda data: Model("y ~ 1", data, likelihood="hinge").fit(),
    ],
    ids=["balanced", "weights", "a rare class that is found", "the same by formula", "nothing but an intercept"],
)
def test_nothing_is_said_where_each_class_has_rows(fit):
    assert warned(lambda: fit(collapsed())) == []


def test_the_weights_that_it_names_help():
    data = collapsed()
    (said,) = warned(lambda: Model("y ~ x", data, likelihood="hinge").fit())
    own, others = (float(part.split()[0]) for part in said.split("with ")[-1].split("and "))
    weights = np.where(data["y"] == "yes", own, others)
    np.testing.assert_allclose(weights[data["y"] == "yes"].sum(), weights[data["y"] == "no"].sum(), rtol=0.01)
    assert warned(lambda: Model("y ~ x", data, weights=weights, likelihood="hinge").fit()) == []


def test_of_several_classes_the_largest_score_counts():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.where(rng.random(300) < 0.1, "c", np.where(X[:, 0] > 0, "a", "b"))
    (said,) = warned(lambda: VBSVC().fit(X, y))
    assert "class 'c'" in said
    corners = np.array([[0, 3], [3, -3], [-3, -3]])[np.arange(300) % 3]
    assert warned(lambda: VBSVC().fit(X + corners, np.arange(300) % 3)) == []


def test_where_weights_are_even_they_are_not_advised():
    (said,) = warned(lambda: VBSVC().fit(np.zeros((101, 1)), np.arange(101) % 2))
    assert "the predictors may be uninformative" in said
    assert "class_weight" not in said


@pytest.mark.parametrize("last", [0, 700, 2999])
def test_rows_are_looked_at_until_each_class_is_seen(last):
    """One row alone is assigned to the second class, wherever it stands."""
    x = np.where(np.arange(3000) == last, 8.0, 0.0)[:, None]
    y = np.where((np.arange(3000) == last) | (np.arange(3000) % 10 == 5), 1, 0)
    clf = VBSVC()
    assert warned(lambda: clf.fit(x, y)) == []
    assert np.flatnonzero(clf.predict(x) == 1).tolist() == [last]
    assert len(warned(lambda: VBSVC().fit(np.zeros_like(x), y))) == 1


def test_few_rows_are_scored_where_both_classes_come_soon(monkeypatch):
    """The check costs a part of the rows, unless a class is without any."""
    seen = []
    encoded = fit_warnings.Task.encoded
    monkeypatch.setattr(fit_warnings.Task, "encoded", lambda task, where: seen.append(where) or encoded(task, where))
    X = np.random.default_rng(0).normal(size=(5000, 2))
    VBSVC().fit(X, X[:, 0] > 0)
    assert seen == [slice(0, fit_warnings.FIRST_ROWS)]
