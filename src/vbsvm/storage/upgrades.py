"""Older files as the present ones would be: changes of the tree that a file holds, before any object is made of it."""

from typing import Any

# Until missing values had a slot of their own, their parts were fields of these classes.
_SLOTS = {"Spec": "MissingModel", "State": "MissingState"}
_PARTS = ("inputs", "levels", "values")
# Fields of a fit that had another name.
_RENAMED = {"gaps": "missing_patterns"}


# What the setting said when it was a flag.
_LABELS = {True: "likelihood", False: "none"}


def upgraded(tree: Any) -> Any:
    """The tree with what older versions wrote in the form of this one."""
    if isinstance(tree, list):
        return [upgraded(one) for one in tree]
    if not isinstance(tree, dict):
        return tree
    tree = {key: upgraded(one) for key, one in tree.items()}
    fields = tree.get("fields")
    if tree.get("object") in _SLOTS and isinstance(fields, dict) and any(name in fields for name in _PARTS):
        parts = {name: fields.pop(name) for name in _PARTS if name in fields}
        known = any(one is not None for one in parts.values())
        fields["missing"] = {"object": _SLOTS[tree["object"]], "fields": parts} if known else None
    if tree.get("object") == "GaussianImputation" and isinstance(fields, dict):
        labels = fields.get("labels", True)
        fields["labels"] = _LABELS[labels] if isinstance(labels, bool) else labels
    pairs = tree.get("dict")
    if isinstance(pairs, list) and any(pair[0] == "spec" for pair in pairs):
        tree["dict"] = [[_RENAMED.get(key, key), one] for key, one in pairs]
    return tree
