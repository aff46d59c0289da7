"""scikit-learn routes weights to the estimators, knows what they take, and shows their parameters."""

import re

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils import get_tags
from sklearn.utils.fixes import parse_version

from vbsvm import VBSVC, Variational, VBLogistic
from vbsvm.dask import DaskVBSVC


@pytest.fixture
def routed():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def weighted_rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 3)), columns=["a", "b", "c"])
    return X, X["a"] + rng.logistic(size=120) > 0, rng.integers(0, 4, 120).astype(float)


def weighted(kind, **settings):
    return kind(inference=Variational(tol=1e-12), **settings).set_fit_request(sample_weight=True)


@pytest.mark.parametrize("kind", [VBSVC, VBLogistic])
def test_weights_are_routed_through_pipelines(kind, routed):
    X, y, w = weighted_rows()
    pipeline = make_pipeline(MaxAbsScaler(), weighted(kind)).fit(X, y, sample_weight=w)
    expected = kind(inference=Variational(tol=1e-12)).fit(MaxAbsScaler().fit_transform(X), y, sample_weight=w)
    np.testing.assert_allclose(pipeline[-1].coef_, expected.coef_, rtol=1e-6)
    with pytest.raises(UnsetMetadataPassedError, match=rf"requested or not requested for {kind.__name__}\.fit"):
        make_pipeline(MaxAbsScaler(), kind()).fit(X, y, sample_weight=w)
    ignored = make_pipeline(MaxAbsScaler(), kind().set_fit_request(sample_weight=False))
    with pytest.raises(TypeError, match="sample_weight"):
        ignored.fit(X, y, sample_weight=w)


@pytest.mark.parametrize("kind", [VBSVC, VBLogistic])
def test_weights_are_routed_through_searches_and_folds(kind, routed):
    X, y, w = weighted_rows()
    clf, folds = weighted(kind).set_score_request(sample_weight=True), StratifiedKFold(3)
    expected = []
    for train, test in folds.split(X, y):
        fold = kind(inference=Variational(tol=1e-12)).fit(X.iloc[train], y[train], sample_weight=w[train])
        expected.append(fold.score(X.iloc[test], y[test], sample_weight=w[test]))
    scores = cross_validate(clf, X, y, params={"sample_weight": w}, cv=folds)["test_score"]
    np.testing.assert_allclose(scores, expected)
    search = GridSearchCV(clf, {"standardize": [True]}, cv=folds).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(search.best_score_, np.mean(expected))
    assert search.best_estimator_.coef_ == pytest.approx(weighted(kind).fit(X, y, sample_weight=w).coef_)


def test_weights_reach_the_selection_whose_frame_goes_on(routed):
    X, y, w = weighted_rows()
    selection = weighted(VBSVC, prior="laplace-zero").set_output(transform="pandas")
    pipeline = make_pipeline(selection, weighted(VBLogistic)).fit(X, y, sample_weight=w)
    assert pipeline[-1].feature_names_in_.tolist() == selection.get_feature_names_out().tolist() == ["a"]
    assert pipeline.get_metadata_routing().consumes("fit", ["sample_weight"]) == {"sample_weight"}


def test_tags_say_what_is_taken():
    for kind in (VBSVC, VBLogistic, DaskVBSVC):
        tags = get_tags(kind())
        assert tags.estimator_type == "classifier"
        assert tags.input_tags.allow_nan
        assert tags.input_tags.sparse == (kind is not DaskVBSVC)
        assert not tags.input_tags.categorical
        assert not tags.input_tags.string
        encoding = get_tags(kind(categories="one-hot")).input_tags
        assert encoding.categorical
        assert encoding.string
    assert get_tags(VBSVC()).transformer_tags is None
    assert get_tags(VBSVC("laplace-zero")).transformer_tags is not None


@pytest.mark.skipif(parse_version(sklearn.__version__) < parse_version("1.7"), reason="older pages have no parameters")
def test_a_pipeline_shows_the_parameters_that_were_set():
    page = make_pipeline(MaxAbsScaler(), VBSVC("ridge", fit_intercept=False))._repr_html_()
    rows = re.findall(r'<tr class="(default|user-set)">.*?<td class="param">(.*?)</td>', page, re.DOTALL)
    named = {re.sub("<.*?>", "", name).split()[0]: how for how, name in rows if re.sub("<.*?>", "", name).split()}
    assert {name for name, how in named.items() if how == "user-set"} >= {"prior", "fit_intercept"}
    assert set(VBSVC().get_params(deep=False)) <= set(named)
    assert named["standardize"] == "default"
