"""What users should know of how a fit ended, and what they can do."""

from collections.abc import Iterator

import numpy as np

from vbsvm.base import diagnostics
from vbsvm.base.printing import ReliabilityWarning, warn_user
from vbsvm.inference.gibbs import Gibbs
from vbsvm.inference.loop import OptimizeResult, Status
from vbsvm.inference.variational import Variational
from vbsvm.missing.model import input_model
from vbsvm.model.spec import Spec
from vbsvm.results.fit import Fit
from vbsvm.results.traces import Worst


def warnings_of(what: str, fit: Fit, inference: Variational | Gibbs) -> list[str]:
    """What the user should know of how a fit ended."""
    if isinstance(inference, Variational):
        return [] if fit.converged else [_why_not_converged(what, fit, inference)]
    if fit.course.separable:
        return [_why_separable(what)]
    worst = fit.worst_mixing()
    found = [f"{what} was interrupted after {fit.course.passes} sweeps."] if fit.interrupted else []
    return found if worst is None else [*found, _why_not_mixed(what, worst, inference, fit.spec)]


def warn_of_random_effects(what: str, fit: Fit) -> None:
    """Warn where the data do not determine their variance, or where they should be integrated out, and could not be."""
    unknown = list(_undetermined(fit))
    for name, why in unknown:
        warn_user(
            f"{what}: the grouping factor {name!r} has {why}, which does not determine the variance of its random "
            "effects: it depends on the prior. Leave this term out of the model.",
            ReliabilityWarning,
        )
    if not unknown and isinstance(fit.outcome, OptimizeResult) and fit.outcome.declined:
        warn_user(
            f"{what}: the random effects of {fit.plan.factors[-1].name!r} could not be integrated out, as "
            "happens where groups have one or two observations, or very many, and where a predictor nearly separates "
            "the classes. Standard deviations of these are then too small, and coefficients can be off by a posterior "
            "standard deviation: use inference=Gibbs().",
            ReliabilityWarning,
        )


def _undetermined(fit: Fit) -> Iterator[tuple[str, str]]:
    """Grouping factors without replication: of one level, or of one observation for each level."""
    assert fit.facts is not None
    for factor, sizes in zip(fit.plan.factors, fit.facts.group_sizes, strict=True):
        if len(sizes) == 1:
            yield factor.name, "one level only"
        elif fit.facts.weights is None and (sizes == 1).all():
            yield factor.name, "one observation for each level"


def _why_not_mixed(what: str, worst: Worst, inference: Gibbs, spec: Spec) -> str:
    """Say that chains have not mixed, and what to do."""
    rhat = f"{worst.rhat_of!r} has an R-hat of {worst.rhat:.3f} (up to {diagnostics.LARGEST_RHAT} is good), and "
    n_tune = inference.n_tune(warm=inference.suits_warm_start(spec))
    return (
        f"{what}: the chains have not mixed well enough: {'' if np.isnan(worst.rhat) else rhat}"
        f"{worst.ess_of!r} has {worst.ess:.0f} effective draws ({diagnostics.SMALLEST_ESS} are needed). Draw more, as "
        f"with Gibbs(draws={4 * int(inference.draws)}, tune={2 * n_tune}), or check the last columns of "
        "the tables before you trust a number."
    )


def _why_separable(what: str) -> str:
    """Say that the classes are separated, and what to do."""
    return (
        f"{what}: most draws separate the classes. Under this prior the posterior is then hardly bounded, and its "
        "means depend on how long the chains ran. Use a tighter prior, such as Ridge(3, 3) or Normal(1.0), or "
        "inference=Variational(), which stays finite."
    )


def _stronger(spec: Spec) -> float:
    """A scale of the inputs' covariance that holds it."""
    inputs = input_model(spec.missing)
    assert inputs is not None
    return 10.0 * max(1.0, inputs.psi)


def _why_not_converged(what: str, fit: Fit, inference: Variational) -> str:
    """Say why a climb did not converge, and what to do."""
    spec, course = fit.spec, fit.course
    if course.ending is Status.INTERRUPTED:
        return f"{what} was interrupted after {course.passes} passes: the coefficients may still change."
    more = f"Variational(max_iter={10 * inference.most_passes(spec)})"
    if course.ending is Status.INPUTS_OUT_OF_PASSES or (
        course.ending is Status.OUT_OF_PASSES and input_model(spec.missing) is not None
    ):
        learning = "while it learned the distribution of the inputs"
        tried = f"in {course.passes} passes" if course.ending is Status.OUT_OF_PASSES else learning
        return (
            f"{what} did not converge {tried}: the coefficients may still change. Rows may be too few to learn how "
            "the columns with missing values vary together: hold that by a stronger prior, as with "
            f"imputation=GaussianImputation(psi={_stronger(spec):g}), leave such columns out, or allow more passes "
            f"with inference={more}."
        )
    if course.ending is Status.OUT_OF_PASSES:
        return (
            f"{what} reached the limit of passes ({course.passes}) before it converged to tol={inference.tol:g}: "
            f"the coefficients may still change. Allow more passes with inference={more}, or accept the result with a "
            "larger tol."
        )
    return (
        f"{what} stopped because rounding errors outweighed every further step: the coefficients are not at the "
        "optimum. Columns are large relative to their spread, or linearly dependent under a nearly flat prior: "
        "centre and scale them (standardize=True with an intercept does this), drop the dependent ones, "
        "or use Ridge()."
    )
