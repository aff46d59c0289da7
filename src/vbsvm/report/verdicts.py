"""Checks of a fit with their verdicts in plain language: good, or look at this."""

from collections.abc import Iterator

from vbsvm.plots.resolve_fit import Predicted
from vbsvm.report.blocks import Verdict, names
from vbsvm.results.fit import Fit

FEW_ROWS = 10
FEW_GROUPS = 5
# Above this share of missing values the coefficient of a column says more about the model than about the column.
MUCH = 0.3


def of(fit: Fit) -> Iterator[Verdict]:
    """How the fit ended, and what of its data asks for care."""
    yield from (Verdict(check.good, check.text) for check in fit.course.checks())
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


def of_rows(found: Predicted, *, several: bool, hinge: bool) -> Iterator[Verdict]:
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
        if not hinge:
            yield Verdict(True, f"{text} Where a class is rare, that is to be expected: look at the probabilities.")
            continue
        yield Verdict(
            False,
            f"{text} With a hinge loss this can happen even if inputs are associated with the outcome: coefficients "
            "near 0 do not rule out an association. If the classes differ in size, fit again with "
            'class_weight="balanced", or in a formula with weights.',
        )
