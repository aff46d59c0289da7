"""What a run leaves behind: its numbers, the figures, and a page with the paper's claims beside what was found."""

import math
from collections.abc import Mapping
from pathlib import Path

from reproduction import figures, numbers
from reproduction.claims import CLAIMS, DECISIONS, PAPERS_SECONDS, Outcome
from reproduction.findings import Findings, Interval
from reproduction.markdown import markdown
from reproduction.work import EXPERIMENTS, GIBBS, MCMC, PAPERS_METHODS, SVM, VB, Job, Result, Settings
from vbsvm.plots import style
from vbsvm.report.document import Cell, Limitation, Section, Table, Text, cell, document, picture, write_page

PAIRS = ((SVM, VB), (SVM, MCMC), (VB, MCMC))
SAMPLERS = (VB, MCMC, GIBBS)
PAIRS_OF_SAMPLERS = ((VB, GIBBS), (MCMC, GIBBS))
TITLES = {
    "simulation": "Penalty parameter inference: simulated data (Section 4.2, Figure 1)",
    "toenail": "Random intercepts: toenail infection (Section 4.3, Figure 2)",
    "spam": "Variable selection: spam (Section 4.4, Figure 3)",
    "cardiac": "Missing values: cardiac catheterisation (Section 4.5, Figure 4)",
}


def write(folder: Path, results: Mapping[Job, Result], settings: Settings, skipped: Mapping[str, str]) -> str:
    """Write numbers, figures, the page and its text as Markdown; give a few lines for the terminal."""
    findings = Findings(results)
    numbers.write(folder, results)
    sections, images = [_overview(findings, settings)], {}
    for experiment in EXPERIMENTS:
        found = figures.drawing(experiment, findings)
        if found is None:
            if experiment in skipped:
                sections.append(Section(TITLES[experiment], (Limitation("Left out.", skipped[experiment]),)))
            continue
        draw, told = found
        name = figures.NAMES[experiment]
        figure = style.new_figure()
        draw(figure)
        figure.savefig(folder / f"{name}.png", dpi=130)
        drawn = picture(name, told, f"{name.replace('figure', 'Figure ')} of the paper, with our results", draw)
        images[drawn.caption] = f"{name}.png"
        sections.append(
            Section(TITLES[experiment], (*_tables(experiment, findings), drawn, *_claims(experiment, findings)))
        )
    sections.append(Section("Decisions, and departures from the paper", tuple(Text(one) for one in DECISIONS)))
    write_page(folder / "results.md", markdown(sections, images))
    path = write_page(folder / "index.html", document("The paper's experiments, run again", sections))
    lines = [f"{count:3} {outcome}" for outcome, count in _counts(findings).items()]
    return "\n".join(["", "Claims of the paper:", *lines, "", f"The page: {path}"])


def _counts(findings: Findings) -> dict[str, int]:
    found = [claim.judge(findings).outcome for claim in CLAIMS]
    return {outcome.value: found.count(outcome) for outcome in Outcome if outcome in found}


def _overview(findings: Findings, settings: Settings) -> Section:
    ours = findings.by_gibbs()
    judges = (findings, ours) if any(job.method == MCMC for job in ours.results) else (findings,)
    rows = []
    for claim in CLAIMS:
        outcomes = (Cell(claim.judge(one).outcome.value) for one in judges)
        rows.append((Cell(claim.text), Cell(claim.experiment), *outcomes))
    about = (
        "The numerical experiments of Luts and Ormerod, Mean field variational Bayesian inference for support vector "
        f"machine classification, Section 4, run again: up to {settings.data_sets} simulated data sets a cell and "
        f"{settings.splits} splits of real data, {settings.holdouts} hold-outs a grid point (the paper's are 100), "
        f"{settings.sweeps} + {settings.sweeps} sweeps of MCMC, {settings.spam_sweeps} + {settings.spam_sweeps} on "
        f"spam. All data sets come from the seed {settings.seed}. Each claim is judged by a rule that was written "
        "before the run; the rule stands beside it. An SVM is the default method, with its penalty by a grid search."
    )
    head = ("Claim", "Experiment", "Outcome", "with Gibbs")[: 2 + len(judges)]
    return Section("Claims", (Text(about), Table("Claims and outcomes", head, tuple(rows))))


def _claims(experiment: str, findings: Findings) -> list[Limitation]:
    judged = [(claim, claim.judge(findings)) for claim in CLAIMS if claim.experiment == experiment]
    return [
        Limitation(
            f"“{claim.text}” {verdict.outcome.value.capitalize()}.",
            f"{verdict.evidence}. Rule: {claim.rule}".removeprefix(". "),
        )
        for claim, verdict in judged
    ]


def _tables(experiment: str, findings: Findings) -> list[Table]:
    told = "Mean balanced error in per cent, and paired differences in points with 95 % intervals"
    ours = f"This package's sampler (Gibbs) beside the others. {told}"
    tables: list[Table | None] = []
    if experiment != "spam":
        tables.append(_errors(told, experiment, findings, PAPERS_METHODS, PAIRS))
        tables.append(_errors(ours, experiment, findings, SAMPLERS, PAIRS_OF_SAMPLERS))
    tables.append(_times(experiment, findings))
    return [table for table in tables if table is not None]


def _errors(
    told: str, experiment: str, findings: Findings, methods: tuple[str, ...], pairs: tuple[tuple[str, str], ...]
) -> Table | None:
    """Errors on the data sets that all of these methods have seen, a row for each cell; None without any."""
    jobs = sorted((job for job in findings.results if job.experiment == experiment), key=lambda job: job.sizes)
    rows = []
    for one in dict.fromkeys(job.cell for job in jobs):
        errors = findings.errors(experiment, one, methods)
        if not len(errors[VB]):
            continue
        means = (Cell(f"{100 * values.mean():.2f}", float(values.mean())) for values in errors.values())
        differences = (Interval.of(errors[a] - errors[b]) for a, b in pairs)
        found = (Cell(str(interval), interval.mean) for interval in differences)
        rows.append((Cell(one or "all"), cell(len(errors[VB])), *means, *found))
    head = ("rows x predictors", "data sets", *methods, *(f"{one} − {other}" for one, other in pairs))
    return Table(told, head, tuple(rows)) if rows else None


def _times(experiment: str, findings: Findings) -> Table | None:
    """Times as ratios to VB, ours beside the paper's."""
    papers = PAPERS_SECONDS[experiment]
    found = {method: findings.seconds(experiment, method) for method in (*papers, GIBBS)}
    known = {method: seconds for method, seconds in found.items() if seconds is not None}
    if not known.keys() >= papers.keys():
        return None
    rows = []
    for method, seconds in known.items():
        ratio = seconds / known[VB]
        theirs = papers.get(method, math.nan)
        paper = (cell(theirs), cell(theirs / papers[VB]))
        rows.append((Cell(method), cell(seconds), Cell(f"{ratio:.3g}", ratio), *paper))
    held = " (the paper's MCMC: over 10 hours)" if experiment == "spam" else ", with all 100 hold-outs"
    return Table(
        f"Time for one data set{held}", ("", "seconds", "ratio to VB", "paper: seconds", "paper: ratio"), tuple(rows)
    )
