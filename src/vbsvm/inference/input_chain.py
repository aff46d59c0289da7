"""A sampler of the inputs' distribution alone: values given its parameters, and parameters given the values, in turn.

Coefficients are 0 meanwhile, so that they have no say. What it gives are the parameters of multiple imputation.
"""

from dataclasses import replace

import numpy as np

from vbsvm.base.reading import Draw
from vbsvm.base.row_sums import single_threaded_blas
from vbsvm.missing.distributions import FixedInputs
from vbsvm.missing.imputation import ProperDraw
from vbsvm.missing.model import FIXED_SWEEPS, MissingModel, MissingState
from vbsvm.model.row_pass import Source
from vbsvm.model.spec import Spec
from vbsvm.model.sweep import pass_rows

# Rounds before the first draw, and between draws: what is left of a start falls by the share that is missing in each.
FIRST, BETWEEN = 40, 10


def proper_draws(spec: Spec, missing: MissingState, source: Source, n: int, seed: int) -> list[ProperDraw]:
    """Draw the distribution of labels and inputs so often, from where a fit ended."""
    model, found, rng = spec.missing, [], np.random.default_rng(seed)
    assert isinstance(model, MissingModel)
    assert model.inputs is not None
    free = missing.inputs.inputs if isinstance(missing.inputs, FixedInputs) else missing.inputs
    at = replace(missing, inputs=free, values=None)
    with single_threaded_blas(), np.errstate(all="ignore"):
        for k in range(FIRST + BETWEEN * (n - 1)):
            draw = Draw(seed, 0, FIXED_SWEEPS * k)
            sums = pass_rows(spec, replace(spec.start(), missing=at), source, draw).missing
            if k >= FIRST - 1 and (k - FIRST + 1) % BETWEEN == 0:
                found.append(ProperDraw.of(model.inputs, sums.inputs, rng))
            at = model.update(at, sums, draw)
    return found
