"""The round trip through MLflow that docs/ecosystem.md shows."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from vbsvm import VBSVC

PAGE = Path(__file__).parents[2] / "docs" / "ecosystem.md"


def block(words):
    return next(one for one in re.findall(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S) if words in one)


@pytest.mark.filterwarnings("ignore")  # of MLflow about itself
def test_mlflow_serves_a_model_file(tmp_path, monkeypatch):
    pytest.importorskip("mlflow", reason="MLflow is not installed")
    monkeypatch.chdir(tmp_path)
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    clf = VBSVC().fit(X, y)
    place = {"clf": clf, "X": X}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(block("import mlflow"), place)
    np.testing.assert_array_equal(place["probabilities"], clf.predict_proba(X))


@pytest.mark.filterwarnings("ignore")
def test_onnx_predicts_as_the_page_shows():
    pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    clf = VBSVC().fit(X, y)
    place = {"clf": clf, "X": X}
    exec(block("skl2onnx"), place)
    assert (place["labels"] == clf.predict(X)).mean() > 0.99
