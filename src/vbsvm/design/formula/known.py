"""What was learned of all rows, for a formula that is learned from a frame that holds only some of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from vbsvm.base.arrays import Array
from vbsvm.design.formula.syntax import SplineTerm
from vbsvm.design.levels import Levels
from vbsvm.design.splines import Spline


@final
@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """States of transforms by expression, splines by term, levels by the columns of a factor, weights of levels.

    What is not here is learned from the frame.
    """

    transforms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    splines: Mapping[SplineTerm, Spline] = field(default_factory=dict)
    levels: Mapping[tuple[str, ...], Levels] = field(default_factory=dict)
    totals: Mapping[str, Array] = field(default_factory=dict)


NOTHING = Known()
