"""What each row did to a finished fit: one pass for the curvature, and one over the rows with it."""

from dataclasses import replace

import numpy as np

from vbsvm.base.reading import expect
from vbsvm.inference.climb import Outcome
from vbsvm.inference.gibbs import Sample
from vbsvm.missing.model import MissingModel, MissingState
from vbsvm.model.interfaces import Gram, Message
from vbsvm.model.left_out import RowInfluence
from vbsvm.model.row_pass import RowPass, Source
from vbsvm.model.spec import Spec, State
from vbsvm.model.sweep import pass_rows


def row_influence(spec: Spec, outcome: Outcome | Sample, source: Source, every: int = 1) -> RowInfluence:
    """What each row did to the fit that ended like this, or those of ``every`` so many-th block.

    After a sampler the covariance of the draws is the response of their mean, and mean slopes are those of the exact
    bound.
    """
    state = outcome.state
    if isinstance(outcome, Sample):
        row_pass = RowPass(spec.likelihood.exact, state.coefficients.message(None), expect, missing=state.missing)
        response = row_pass.message
    else:
        row_pass = RowPass(outcome.likelihood, state.coefficients.message(state.gates), expect, True, state.missing)
        response = _response(spec, state, source, row_pass)
    if isinstance(spec.missing, MissingModel) and isinstance(state.missing, MissingState):
        row_pass = replace(row_pass, missing=spec.missing.as_predicted(state.missing, outcome.inputs))
    return source.total(
        lambda part: RowInfluence.none() if part.rows.index % every else part.influence(row_pass, response)
    )


def _response(spec: Spec, state: State, source: Source, row_pass: RowPass) -> Message:
    """The distribution with the precision H + Λ, gates applied; with G in place of H where that is not positive."""
    curvature: Gram = source.total(lambda part: part.curvature(row_pass))
    if state.gates is not None:
        curvature = curvature.gated(state.gates, pass_rows(spec, state, source, expect).gram)
    precision, nothing = spec.precision(state), np.zeros(len(state.coefficients.mean))
    try:
        return curvature.conditional(nothing, precision).message(state.gates)
    except (FloatingPointError, np.linalg.LinAlgError):
        return row_pass.message
