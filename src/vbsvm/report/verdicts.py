"""Checks of a fit with their verdicts in plain language: good, or look at this."""

from collections.abc import Iterator

import numpy as np

from vbsvm.base import diagnostics
from vbsvm.inference.gibbs import Sample
from vbsvm.inference.variational import Ending, Outcome
from vbsvm.plots.resolve_fit import Predicted
from vbsvm.report.blocks import Verdict, names, told
from vbsvm.results.fit import Fit

FEW_ROWS = 10
FEW_GROUPS = 5
# Above this share of missing values the coefficient of a column says more about the model than about the column.
MUCH = 0.3


def of(fit: Fit) -> Iterator[Verdict]:
    """How the fit ended, and what of its data asks for care."""
    yield from _of_sample(fit, fit.outcome) if isinstance(fit.outcome, Sample) else _of_climb(fit, fit.outcome)
    if fit.facts is not None:
        for label, rows in zip(fit.classes, fit.facts.rows, strict=True):
            if label is not None and rows < FEW_ROWS:
                yield Verdict(False, f"The class {label!s} has only {rows} rows.")
    if fit.missing_patterns is not None:
        total = fit.missing_patterns.total
        much = [name for name, count in fit.missing_patterns.by_column.items() if count > MUCH * total]
        if much:
            said = f"More than {100 * MUCH:.0f} % of the values are missing in {names(much)}."
            yield Verdict(False, f"{said} Do not interpret their coefficients without a sensitivity analysis.")
    for factor in fit.plan.factors:
        if len(factor.levels) < FEW_GROUPS:
            yield Verdict(
                False,
                f"{factor.name} has only {len(factor.levels)} groups: they carry little information about the spread "
                "between groups, and the prior influences it.",
            )


def _of_climb(fit: Fit, outcome: Outcome) -> Iterator[Verdict]:
    passes, ending = outcome.passes, outcome.ending
    if ending is Ending.CONVERGED:
        yield Verdict(True, f"The fit converged after {passes} passes over the data.")
    elif ending is Ending.INTERRUPTED:
        yield Verdict(False, f"The fit was interrupted after {passes} passes: the coefficients may still change.")
    elif ending is Ending.INPUTS_OUT_OF_PASSES:
        yield Verdict(
            False,
            "The distribution of the inputs did not converge: the coefficients may still change. Use a stronger "
            "prior of the inputs, as with GaussianImputation(psi=10), or allow more with Variational(max_iter=…).",
        )
    elif ending is Ending.OUT_OF_PASSES:
        yield Verdict(
            False,
            f"The fit reached the limit of passes ({passes}) before it converged: the coefficients may still change. "
            "Allow more with Variational(max_iter=…).",
        )
    else:
        yield Verdict(
            False,
            "Rounding errors outweighed every further step: the coefficients are not at the optimum. Columns are large "
            "relative to their spread, or linearly dependent.",
        )
    if outcome.others:
        ends = fit.starts()
        told_ends = "; ".join(f"bound {told(bound, 7)}, {count} inputs included" for bound, count in ends)
        agree = len({count for _, count in ends}) == 1 and ends[0][0] - ends[-1][0] < 0.01
        said = f"{len(ends)} starts {'agree' if agree else 'disagree, and the highest bound was kept'}: {told_ends}."
        yield Verdict(agree, said)


def _of_sample(fit: Fit, sample: Sample) -> Iterator[Verdict]:
    if sample.interrupted:
        yield Verdict(False, f"The sampler was interrupted after {sample.sweeps} sweeps.")
    if sample.separable:
        yield Verdict(
            False,
            "Most draws separate the classes: the posterior is hardly bounded under this prior, and its means depend "
            "on how long the chains ran. Use a tighter prior, such as Ridge(3, 3).",
        )
    worst = fit.worst_mixing()
    if worst is None:
        table = fit.summary()
        yield Verdict(
            True,
            f"The chains agree: the largest R̂ is {np.nanmax(table['rhat']):.3f} (up to {diagnostics.LARGEST_RHAT} is "
            f"good), and every coefficient has at least {np.nanmin(table['ess_bulk']):.0f} effective draws "
            f"({diagnostics.SMALLEST_ESS} are needed).",
        )
    else:
        yield Verdict(
            False,
            f"The chains have not mixed well enough: {worst.rhat_of} has R̂ {told(worst.rhat, 4)} (up to "
            f"{diagnostics.LARGEST_RHAT} is good), and {worst.ess_of} has {told(round(worst.ess))} effective draws "
            f"({diagnostics.SMALLEST_ESS} are needed). Draw more.",
        )


def of_rows(found: Predicted, *, several: bool) -> Iterator[Verdict]:
    """What the predictions of rows with known classes ask for; ``several`` classes are predicted by several scores."""
    sides = found.scores > 0
    if (sides == found.positive).all():
        yield Verdict(
            False,
            "Every row is on the correct side: the columns separate these classes, and the size of the coefficients "
            "depends on the prior as much as on the data.",
        )
    for side, label in ((False, found.classes[0]), (True, found.classes[1])):
        if (sides == side).any():
            continue
        if several:
            text = f"No row has a {'positive' if side else 'negative'} score for {found.classes[1]}."
        else:
            text = f"No row is predicted as {label}."
        yield Verdict(
            False,
            f"{text} With a hinge loss this can happen even if inputs are associated with the outcome: coefficients "
            "near 0 do not rule out an association. If the classes differ in size, fit again with "
            'class_weight="balanced", or in a formula with weights.',
        )
