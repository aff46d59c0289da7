"""A reader as plain values, and back.

What formulaic learned is kept as numbers and levels. Its own objects are made anew from the formula's text, which goes
through the guard again: the text of a file is not trusted.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from vbsvm.design.formula import syntax
from vbsvm.design.formula.matrix import Matrix
from vbsvm.design.formula.reader import Curve, Effects, Reader
from vbsvm.storage.codec import Form, require_types

if TYPE_CHECKING:
    import pandas as pd

_TYPES = {"b": np.bool_, "i": np.int64, "u": np.uint64, "f": np.float64}
# What a reader holds beside what formulaic learned.
_PLAIN = ("parts", "carried", "linear", "categories", "mains", "uncertain", "plan", "kinds", "drawn")


def take(reader: Reader) -> dict[str, Any]:
    """The reader's fields, with what formulaic learned as plain values."""
    return {
        **{name: getattr(reader, name) for name in _PLAIN},
        "fixed": reader.fixed.learned,
        "curves": [(one.term, one.spline, one.with_line, one.values.learned) for one in reader.curves],
        "effects": [(one.term, one.factor, one.places, one.matrix.learned) for one in reader.effects],
        "hidden": [(one.formula, one.learned) for one in reader.hidden],
    }


def make(saved: Mapping[str, Any]) -> Reader:
    """The reader of these fields; older versions drew no columns."""
    saved = {"drawn": None, **saved}
    if set(saved) != {field.name for field in fields(Reader)}:
        raise ValueError(f"a reader does not have the fields {sorted(saved)}")
    plain = {name: saved[name] for name in _PLAIN}
    require_types(Reader, plain)
    parts, columns = saved["parts"], list(saved["parts"].columns)
    syntax.require_safe(parts)
    if set(saved["kinds"]) != set(columns):
        raise ValueError("the columns are not those of the formula")
    nothing = _without_rows(saved["kinds"])
    curves = []
    for term, spline, with_line, learned in saved["curves"]:
        require_types(Curve, {"term": term, "spline": spline, "with_line": with_line})
        curves.append(Curve(term, Matrix.of_learned(f"0 + {term.expression}", learned, nothing), spline, with_line))
    effects = []
    for term, factor, places, learned in saved["effects"]:
        require_types(Effects, {"term": term, "factor": factor, "places": places})
        effects.append(Effects(term, Matrix.of_learned(term.effects, learned, nothing), factor, places))
    if tuple(one.term for one in curves) != parts.splines or {one.term for one in effects} != set(parts.groups):
        raise ValueError("splines or groups are not those of the formula")
    hidden = []
    for text, learned in saved["hidden"]:
        syntax.require_safe_text(text, columns)
        hidden.append(Matrix.of_learned(text, learned, nothing))
    fixed = Matrix.of_learned(parts.fixed, saved["fixed"], nothing)
    return Reader(fixed=fixed, curves=tuple(curves), effects=tuple(effects), hidden=tuple(hidden), **plain)


def _without_rows(kinds: Mapping[str, str]) -> "pd.DataFrame":
    """A frame of the data's columns, each of its kind: what formulaic needs to see which columns it would give."""
    import pandas as pd

    return pd.DataFrame({name: pd.Series([], dtype=_TYPES.get(kind, object)) for name, kind in kinds.items()})


FORM = Form(Reader, take, make)
