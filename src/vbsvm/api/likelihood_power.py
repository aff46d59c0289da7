"""Power of the hinge pseudo-likelihood: the user's setting, the default, and its calibration.

The hinge loss is not a log likelihood; as one it is overconfident: intervals of its posterior are too narrow, and
``LaplaceZero`` includes noise predictors with certainty. A power η below 1, exp{−2η(1 − y f)₊}, corrects both (Bissiri,
Holmes & Walker 2016). It is a part of the likelihood and not a weight of the observations, so that sandwich estimates
and the calibration of probabilities count each observation once.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from vbsvm.api.task import Task
from vbsvm.base.arrays import single_threaded_blas
from vbsvm.base.settings import is_within
from vbsvm.inference.gibbs import Gibbs
from vbsvm.inference.variational import AUTO, Variational
from vbsvm.missing.model import MissingModel
from vbsvm.model.likelihoods.hinge import Hinge
from vbsvm.model.priors import Beta, LaplaceZero, Ridge
from vbsvm.results.training_rows import TrainingRows

CALIBRATED = "calibrated"
# Power of the first pilot fit; a second is run if the estimate differs by more than this ratio.
PILOT, MAX_PILOT_RATIO = 1 / 3, 1.3
PILOT_FIT = Variational(bound="exact")
# Digits of a calibrated power, which varies by .01 to .05 between samples: the same wherever the rows are.
DIGITS = 3
# Where the posterior is not overconfident, it can be left to infer how many predictors are included.
INCLUSION_PRIOR = Beta(1.0, 20.0)
LOGISTIC = "Use VBLogistic, or Model(…, likelihood='logistic')."


def read_power(owner: str, value: Any) -> float | str:
    """Validated likelihood power: "calibrated" or a number."""
    if isinstance(value, str) and value == CALIBRATED:
        return value
    if isinstance(value, str) or not is_within(value, 1e-6, 1.0):
        raise ValueError(
            f"{owner}: likelihood_power must be None, 'calibrated', or a number above 0 and up to 1; got {value!r}."
        )
    return float(value)


def with_powers(
    owner: str, tasks: Sequence[Task], requested: float | str | None, inference: Variational | Gibbs
) -> tuple[list[Task], list[str]]:
    """Tasks at their likelihood powers, and messages about these."""
    powered, remarks = [], []
    for task in tasks:
        power, remark = _choose_power(owner, task, requested, inference)
        if power != 1.0:
            spec = task.spec.with_priors(lambda prior: cast(LaplaceZero, prior).with_default_rho(INCLUSION_PRIOR))
            task = replace(task, spec=replace(spec, likelihood=Hinge(power)))
        powered.append(task)
        remarks += [] if remark is None else [remark]
    return powered, list(dict.fromkeys(remarks))


def _choose_power(
    owner: str, task: Task, requested: float | str | None, inference: Variational | Gibbs
) -> tuple[float, str | None]:
    """Likelihood power of one model, requested or with indicators, and a message or None."""
    if task.spec.likelihood.normalised:
        return 1.0, None
    unsound = _unsupported_reason(task)
    is_paper_algorithm = isinstance(inference, Variational) and not (inference.bound == AUTO and inference.accelerate)
    too_few = None if task.spec.gate_map is None else _too_few_rows(task)
    if requested == 1.0 or (requested is None and is_paper_algorithm):
        return 1.0, None if too_few is None else _uncalibrated_message(owner, too_few)
    if requested is None and (unsound or too_few):
        return 1.0, _uncalibrated_message(owner, unsound or too_few)
    if unsound is not None:
        raise ValueError(
            f"{owner}: likelihood_power={requested!r} is not supported. {unsound}, a power below 1 would bias the "
            "estimates: use likelihood_power=1, or a logistic model."
        )
    if isinstance(requested, float):
        return requested, None
    power = _calibrated_power(owner, task)
    if power < 1.0:
        return power, None if too_few is None else (
            f"{owner}: inclusion probabilities are not calibrated. {too_few}, the calibrated likelihood power "
            f"({power:.3g}) may leave no predictor selected. {LOGISTIC}"
        )
    return 1.0, (
        f"{owner}: the calibrated likelihood power is above 1 ({power:.3g}) and was set to 1: the fit predicts "
        "one class only, or the observations lie on the margin. Posterior intervals and inclusion probabilities "
        f"are not calibrated. {LOGISTIC}"
    )


def _uncalibrated_message(owner: str, why: str | None) -> str:
    return (
        f"{owner}: inclusion probabilities are not calibrated. {why}, the likelihood power of the hinge loss stays 1, "
        f"at which LaplaceZero may include noise predictors with a probability near 1. {LOGISTIC}"
    )


def _unsupported_reason(task: Task) -> str | None:
    """Reason why a power below 1 is not supported, or None."""
    if task.plan.factors:
        return "With random effects, whose variances a lower power shrinks"
    missing = task.spec.missing
    if isinstance(missing, MissingModel) and not missing.fixed:
        return "With missing values that are inferred together with the coefficients"
    return None


def _too_few_rows(task: Task) -> str | None:
    """Message that predictors outnumber observations, or None."""
    gates = task.spec.gate_map
    assert gates is not None
    rows = task._unweighted()
    n_predictors = int(np.count_nonzero(gates.gate_of >= 0))
    counted = task.source if rows is None else rows.counted
    n = counted.sum_parts(lambda part: float(part.rows.weights.sum()), memory_bound=True)
    return None if n_predictors <= n else f"With more predictors ({n_predictors}) than observations ({n:g})"


def _calibrated_power(owner: str, task: Task) -> float:
    """Calibrated power from one or two pilot fits; above 1 if the fit is degenerate."""
    if task.source.drawn_covariance:
        raise ValueError(
            f"{owner}: likelihood_power='calibrated' does not support tables of this size: give a number, such "
            "as the power of a fit to a sample of the rows."
        )
    power = _pilot_power(task, PILOT)
    return power if 1 / MAX_PILOT_RATIO < power / PILOT < MAX_PILOT_RATIO or power >= 1 else _pilot_power(task, power)


def _pilot_power(task: Task, power: float) -> float:
    """Power estimated from the influence of each row in a pilot fit with ``Ridge`` at this power."""
    spec = replace(task.spec.with_priors(lambda _: Ridge()), likelihood=Hinge(power))
    outcome = PILOT_FIT.run(spec, task.source).finished()
    pilot = TrainingRows(
        spec, outcome, task.source, task.plan.n_fixed, task._unweighted, task.row_numbers, lambda: None
    )
    with single_threaded_blas(), np.errstate(all="ignore"):
        rows, counts = pilot.influence()
        calibrated = rows.calibrated_power(rows.s if counts is None else counts, power)
    return max(round(calibrated, DIGITS), 0.1**DIGITS)
