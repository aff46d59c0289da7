"""Files of older versions: their trees, rewritten as they were, still make the models."""

import numpy as np
import pytest

import vbsvm
from saved_models import made
from vbsvm.storage import saving


def _older(tree):
    """The tree as it was before missing values had a slot of their own and patterns their name."""
    if isinstance(tree, list):
        return [_older(one) for one in tree]
    if not isinstance(tree, dict):
        return tree
    tree = {key: _older(one) for key, one in tree.items()}
    fields = tree.get("fields")
    if tree.get("object") in ("Spec", "State"):
        slot = fields.pop("missing", None)
        fields.update(slot["fields"] if slot else {"inputs": None, "levels": None})
    if "dict" in tree:
        tree["dict"] = [["gaps" if key == "missing_patterns" else key, one] for key, one in tree["dict"]]
    return tree


@pytest.mark.parametrize("name", ["weights", "missing", "missing categories", "draws of what is missing"])
def test_older_files_are_read(name, tmp_path, monkeypatch):
    model, data = made(name)
    encode, trees = saving.REGISTRY.encode, []

    def older(content, kind):
        tree, arrays = encode(content, kind)
        trees.append((tree, _older(tree)))
        return trees[-1][1], arrays

    monkeypatch.setattr(saving.REGISTRY, "encode", older)
    model.save(tmp_path / "old.vbsvm")
    assert trees[0][0] != trees[0][1]
    np.testing.assert_array_equal(
        vbsvm.load(tmp_path / "old.vbsvm").decision_function(data), model.decision_function(data)
    )
    upgrade = saving.upgrade
    monkeypatch.setattr(saving, "upgrade", lambda tree: tree)
    with pytest.raises(vbsvm.ModelFileError):
        vbsvm.load(tmp_path / "old.vbsvm")
    assert upgrade(trees[0][0]) == trees[0][0]


def _with_flags(tree):
    """The tree as it was when labels were a flag."""
    if isinstance(tree, list):
        return [_with_flags(one) for one in tree]
    if not isinstance(tree, dict):
        return tree
    tree = {key: _with_flags(one) for key, one in tree.items()}
    if tree.get("object") == "GaussianImputation":
        tree["fields"]["labels"] = tree["fields"]["labels"] == "likelihood"
    return tree


@pytest.mark.parametrize("name", ["missing, as in the paper", "missing, without labels"])
def test_labels_that_were_a_flag_are_read_without_a_warning(name, tmp_path, monkeypatch):
    model, data = made(name)
    encode = saving.REGISTRY.encode

    def older(content, kind):
        tree, arrays = encode(content, kind)
        return _with_flags(tree), arrays

    monkeypatch.setattr(saving.REGISTRY, "encode", older)
    model.save(tmp_path / "old.vbsvm")
    found = vbsvm.load(tmp_path / "old.vbsvm")
    assert found.imputation == model.imputation
    np.testing.assert_array_equal(found.decision_function(data), model.decision_function(data))


def _without_likelihood(tree):
    """The tree as it was when the hinge was the only likelihood."""
    if isinstance(tree, list):
        return [_without_likelihood(one) for one in tree]
    if not isinstance(tree, dict):
        return tree
    tree = {key: _without_likelihood(one) for key, one in tree.items()}
    if tree.get("object") == "Spec":
        del tree["fields"]["likelihood"]
    return tree


def test_files_that_know_of_no_likelihood_are_support_vector_machines(tmp_path, monkeypatch):
    model, data = made("plain formula")
    encode = saving.REGISTRY.encode

    def older(content, kind):
        tree, arrays = encode(content, kind)
        return _without_likelihood(tree), arrays

    monkeypatch.setattr(saving.REGISTRY, "encode", older)
    model.save(tmp_path / "old.vbsvm")
    found = vbsvm.load(tmp_path / "old.vbsvm")
    assert str(found).startswith("Support vector machine: y ~ a + b.")
    assert "odds_ratio" not in found.summary()
    np.testing.assert_array_equal(found.predict_proba(data), model.predict_proba(data))
