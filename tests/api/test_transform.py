"""A classifier that selects inputs is one of scikit-learn's selectors."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from optional import optional
from vbsvm import VBSVC, LaplaceZero, VBLogistic

pl = optional("polars")

SELECTOR_METHODS = (
    "transform",
    "fit_transform",
    "inverse_transform",
    "get_support",
    "get_feature_names_out",
    "set_output",
)


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return X.iloc[:, :12], y


@pytest.fixture(scope="module")
def selector(cancer):
    return VBSVC(LaplaceZero(0.1)).fit(*cancer)


def test_only_a_prior_with_gates_makes_it_a_selector():
    for prior, expected in [(None, False), ("ridge", False), ("laplace-zero", True), (LaplaceZero(0.2), True)]:
        clf = VBLogistic(prior)
        assert [hasattr(clf, name) for name in SELECTOR_METHODS] == [expected] * len(SELECTOR_METHODS)
        assert (get_tags(clf).transformer_tags is not None) is expected
    with pytest.raises(AttributeError) as raised:
        VBSVC().transform([[1.0]])
    assert 'only selected with prior="laplace-zero"' in str(raised.value.__cause__)


def test_the_selected_columns_are_those_of_selected(selector, cancer):
    X, _ = cancer
    mask = selector.selected_[0]
    assert 0 < mask.sum() < len(mask)
    np.testing.assert_array_equal(selector.get_support(), mask)
    np.testing.assert_array_equal(selector.get_support(indices=True), np.flatnonzero(mask))
    assert selector.get_feature_names_out().tolist() == X.columns[mask].tolist()
    np.testing.assert_array_equal(selector.transform(X), X.to_numpy()[:, mask])
    back = selector.inverse_transform(selector.transform(X))
    np.testing.assert_array_equal(back, np.where(mask, X, 0.0))


@pytest.mark.parametrize(("kind", "frame"), [("pandas", lambda: pd.DataFrame), ("polars", lambda: pl.DataFrame)])
def test_set_output_chooses_the_frame(selector, cancer, kind, frame):
    X, _ = cancer
    try:
        found = selector.set_output(transform=kind).transform(X)
    finally:
        selector.set_output(transform="default")
    assert isinstance(found, frame())
    assert list(found.columns) == selector.get_feature_names_out().tolist()


def test_with_several_classes_a_column_counts_that_any_of_them_selects():
    X, y = load_iris(return_X_y=True)
    clf = VBSVC(LaplaceZero(0.05)).fit(np.column_stack([X, np.zeros(len(X))]), y)
    np.testing.assert_array_equal(clf.get_support(), clf.selected_.any(axis=0))
    assert clf.get_feature_names_out().tolist() == [f"x{k}" for k in clf.get_support(indices=True)]


def test_the_group_is_no_input(cancer):
    X, y = cancer[0].iloc[:200, :3], cancer[1][:200]
    X.insert(1, "g", np.resize(["u", "v", "w"], 200))
    clf = VBSVC(LaplaceZero(0.5), group="g").fit(X, y)
    assert clf.get_support().tolist() == [bool(clf.selected_[0, 0]), False, *map(bool, clf.selected_[0, 1:])]


def test_a_pipeline_and_a_column_transformer_select_by_it(cancer):
    X, y = cancer
    chain = (
        make_pipeline(StandardScaler(), VBSVC("laplace-zero"), VBLogistic()).set_output(transform="pandas").fit(X, y)
    )
    kept = chain[:-1].get_feature_names_out().tolist()
    assert chain[-1].feature_names_in_.tolist() == kept
    assert 0 < len(kept) < X.shape[1]
    parted = ColumnTransformer([("few", VBSVC(LaplaceZero(0.05)), list(X.columns[:6]))], remainder="passthrough")
    table = parted.set_output(transform="polars").fit_transform(pl.from_pandas(X), y)
    own = VBSVC(LaplaceZero(0.05)).fit(X.iloc[:, :6], y).get_feature_names_out()
    assert table.columns == [*(f"few__{name}" for name in own), *(f"remainder__{name}" for name in X.columns[6:])]


def test_before_a_fit_there_is_no_support():
    with pytest.raises(NotFittedError):
        VBSVC("laplace-zero").get_support()
