"""The distribution of the inputs, learned before the coefficients: missing values then do not adapt to these.

Each step takes expectations of the missing values given the known ones of their rows, and the distribution that is best
for these: an EM algorithm, whose steps are extrapolated. Where labels are among what is known, it is run twice: first
they tell as much as they seem to; then there is the prior that the evidence asks for.
"""

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from vbsvm.base.update_mode import mean_field
from vbsvm.inference.steps import FixedPoint, largest_change
from vbsvm.missing.distributions import FixedInputs, InputDistribution, InputSums
from vbsvm.missing.labelled_inputs import LabelledInputs
from vbsvm.missing.model import InputModel, MissingModel, input_model
from vbsvm.model.row_pass import Source
from vbsvm.model.spec import Spec
from vbsvm.model.sweep import pass_rows

# The distribution is at rest when no number of it, for standardised inputs, changes by more than this in a step.
AT_REST = 1e-9


@final
@dataclass(frozen=True, slots=True, eq=False)
class LearnedInputs:
    """The distribution of the inputs, and whether it converged within the passes that were allowed."""

    distribution: FixedInputs
    converged: bool


def learn_inputs(spec: Spec, source: Source, max_passes: int) -> LearnedInputs:
    """Learn the distribution of the inputs, which is the same whatever the coefficients are."""
    model = input_model(spec.missing)
    assert model is not None
    found = _at_rest(model, spec, source, model.start(), max_passes)
    labelled = found.distribution.inputs
    if not isinstance(labelled, LabelledInputs):
        return found
    held = model.with_label_prior(labelled, source.input_sums(labelled.without_labels))
    return _at_rest(model, spec, source, held, max_passes)


def _at_rest(
    model: InputModel, spec: Spec, source: Source, distribution: InputDistribution, max_passes: int
) -> LearnedInputs:
    """Go on from a distribution until it no longer changes."""
    fixed_point = FixedPoint[InputDistribution]()
    for _ in range(max_passes):
        image = model.update(distribution, _sums(spec, source, distribution), mean_field)
        before, after = np.array(distribution.pack()), np.array(image.pack())
        if len(before) != len(after):  # the start has no spread
            distribution = image
        elif largest_change(before, after) < AT_REST:
            return LearnedInputs(FixedInputs(image), True)
        else:
            distribution = fixed_point.advance(image, before, after)
    return LearnedInputs(FixedInputs(distribution if fixed_point.fallback is None else fixed_point.fallback), False)


def _sums(spec: Spec, source: Source, distribution: InputDistribution) -> InputSums:
    """Sums of the inputs with missing values as this distribution expects them.

    At coefficients of 0 a pass finds them as well, where being missing depends on the value.
    """
    if distribution.probit is None:
        return source.input_sums(distribution)
    assert isinstance(spec.missing, MissingModel)
    state = replace(spec.start(), missing=replace(spec.missing.start(), inputs=distribution))
    return pass_rows(spec, state, source, mean_field).missing.inputs
