"""What a fit keeps of its data."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from vbsvm import VBSVC, Model


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=90), "g": np.repeat(list("ab"), [30, 60]), "h": np.arange(90) % 7})
    frame["arm"] = rng.choice(["one", "two"], 90).astype(object)
    frame["y"] = np.where(frame["x"] + rng.logistic(size=90) > 0, 1, 0)
    return frame


def test_rows_are_counted_by_class_and_by_group(data):
    facts = Model("y ~ x + (1 | g) + (1 | h)", data).fit().facts
    assert facts.rows == tuple(np.bincount(data["y"]))
    assert facts.n_rows == 90
    assert facts.weights is None
    assert [sizes.tolist() for sizes in facts.group_sizes] == [[30, 60], np.bincount(data["h"]).tolist()]


def test_weights_are_summed_by_class_and_rows_without_weight_are_not_there(data):
    weights = np.where(np.arange(90) < 10, 0.0, 1.0 + data["y"])
    by_class = weights @ (data["y"] == 0), weights @ (data["y"] == 1)
    fit = Model("y ~ x + (1 | g)", data, weights=weights).fit()
    clf = VBSVC(group="g").fit(data[["x", "g"]], data["y"], sample_weight=weights)
    for facts in (fit.facts, clf.fit_[0].facts):
        assert facts.rows == tuple(np.bincount(data["y"][10:]))
        assert facts.weights == pytest.approx(by_class)
        assert facts.group_sizes[0].tolist() == [20, 60]


def test_a_row_that_stands_for_several_levels_counts_once(data):
    incomplete = data.copy()
    incomplete.loc[::3, "arm"] = None
    facts = Model("y ~ x + arm + (1 | g)", incomplete).fit().facts
    assert facts.rows == tuple(np.bincount(data["y"]))
    assert facts.group_sizes[0].tolist() == [30, 60]


def test_of_several_classes_each_has_its_own_counts():
    X, y = load_iris(return_X_y=True)
    assert [fit.facts.rows for fit in VBSVC().fit(X, y).fit_] == [(100, 50)] * 3
