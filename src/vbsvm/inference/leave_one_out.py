"""What each row did to a finished fit: one pass for the curvature, and one over the rows with it; and refits."""

from dataclasses import replace

import numpy as np

from vbsvm.base.update_mode import mean_field
from vbsvm.inference.gibbs import Sample
from vbsvm.inference.loop import OptimizeResult
from vbsvm.inference.variational import Variational
from vbsvm.missing.model import MissingModel, MissingState
from vbsvm.model.interfaces import EffectiveCoefficients, Gram
from vbsvm.model.layouts.dual import DualGaussian
from vbsvm.model.row_pass import RowInfluence, RowPass, Source
from vbsvm.model.spec import Spec, State
from vbsvm.model.sweep import pass_rows


def row_influence(spec: Spec, outcome: OptimizeResult | Sample, source: Source, every: int = 1) -> RowInfluence:
    """Influence of each row on the fit with this outcome, or of the rows of every ``every``-th block.

    After a sampler the covariance of the draws is the response of their mean, and mean slopes are those of the exact
    bound. Where random effects were integrated out, the covariance is the posterior's as well: with the scales'
    uncertainty in it, it is also how the mean responds where a row that leaves moves the scales.
    """
    state, drawn = outcome.state, isinstance(outcome, Sample)
    likelihood = spec.likelihood.exact if isinstance(outcome, Sample) else outcome.likelihood
    row_pass = RowPass(likelihood, state.coefficients.effective(state.gates), mean_field, not drawn, state.missing)
    own = isinstance(outcome, Sample) or outcome.integrated
    response = row_pass.coefficients if own else _response(spec, outcome.state, source, row_pass)
    row_pass = _as_predicted(row_pass, spec, outcome)
    return source.sum_parts(
        lambda part: RowInfluence.empty() if part.rows.index % every else part.influence(row_pass, response)
    )


def refit(spec: Spec, outcome: OptimizeResult, source: Source, inference: Variational) -> OptimizeResult:
    """Refit from this outcome to a source with other weights of rows.

    It begins where that ended, unless what the rows that left did would stay: inclusion indicators have many optima,
    and the distribution of missing values is learned before the coefficients. The dual layout's state is of its rows.
    """
    plain = spec.gate_map is None and spec.missing is None
    warm = plain and not isinstance(outcome.state.coefficients, DualGaussian)
    return inference.run(spec, source, outcome.state if warm else None).finished()


def unseen_rows(spec: Spec, outcome: OptimizeResult, source: Source) -> RowInfluence:
    """Scores of rows that were not in a fit, with their variance by the coefficients as ``response``."""
    state = outcome.state
    row_pass = RowPass(outcome.likelihood, state.coefficients.effective(state.gates), mean_field, True, state.missing)
    row_pass = _as_predicted(row_pass, spec, outcome)
    return source.sum_parts(lambda part: part.influence(row_pass, row_pass.coefficients))


def _as_predicted(row_pass: RowPass, spec: Spec, outcome: OptimizeResult | Sample) -> RowPass:
    """Pass over rows with missing values treated as in prediction."""
    missing = outcome.state.missing
    if not isinstance(spec.missing, MissingModel) or not isinstance(missing, MissingState):
        return row_pass
    return replace(row_pass, missing=spec.missing.marginal_over_labels(missing, outcome.inputs))


def _response(spec: Spec, state: State, source: Source, row_pass: RowPass) -> EffectiveCoefficients:
    """The distribution with precision H + Λ, indicators applied; with G in place of H if that is not positive."""
    curvature: Gram = source.sum_parts(lambda part: part.curvature(row_pass))
    if state.gates is not None:
        curvature = curvature.gated(state.gates, pass_rows(spec, state, source, mean_field).gram)
    precision, nothing = spec.precision(state), np.zeros(len(state.coefficients.mean))
    try:
        return curvature.conditional(nothing, precision).effective(state.gates)
    except (FloatingPointError, np.linalg.LinAlgError):
        return row_pass.coefficients
