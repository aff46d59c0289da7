"""``python -m reproduction``: run what is missing, then write numbers, figures and the page."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from joblib import Parallel, delayed, parallel_config
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from reproduction import page, work
from reproduction.journal import Journal, OtherSettingsError
from reproduction.work import EXPERIMENTS, METHODS, PAPERS_METHODS, Job, Result, Settings
from vbsvm.datasets import load_acath
from vbsvm.report.document import check_dependencies


@click.command(
    epilog="""\b
Examples:
  python -m reproduction toenail --quick
  python -m reproduction all --out folder
  VBSVM_DATA=folder/with/acath.csv python -m reproduction cardiac
"""
)
@click.argument("experiment", type=click.Choice([*EXPERIMENTS, "all"]))
@click.option("--quick", is_flag=True, help="Run a tenth of the data sets and splits.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default="reproduction-results", show_default=True
)
@click.option(
    "--holdouts",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Holdouts to tune the SVM on; the paper has 100.",
)
@click.option(
    "--gibbs", is_flag=True, help="Run this package's own sampler beside the paper's, too, which doubles the time."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of all data sets.")
@click.option("--jobs", type=int, default=-1, show_default=True, help="Number of processes; -1 is one for each core.")
def reproduce(experiment: str, quick: bool, out: Path, holdouts: int, gibbs: bool, seed: int, jobs: int) -> None:
    """Run the numerical experiments of the paper again, and set its claims beside what is found.

    A run that was stopped goes on with the same command. The folder --out gets the numbers, the figures and a page.
    """
    check_dependencies()  # before hours of work, not after them
    settings = Settings(seed=seed, holdouts=holdouts)
    settings = settings.quick() if quick else settings
    names = EXPERIMENTS if experiment == "all" else (experiment,)
    skipped: dict[str, str] = {}
    if "cardiac" in names:
        try:
            load_acath()
        except FileNotFoundError as error:
            skipped["cardiac"] = str(error)
            names = tuple(name for name in names if name != "cardiac")
    try:
        journal = Journal(out, settings)
    except OtherSettingsError as error:
        raise click.ClickException(str(error)) from None
    for name, reason in skipped.items():
        click.echo(f"{name} is left out. {reason}", err=True)
    if not names:
        raise click.ClickException("There is nothing to run.")
    try:
        run(journal, names, METHODS if gibbs else PAPERS_METHODS, settings, jobs)
    except KeyboardInterrupt:
        click.echo("Stopped. The same command goes on from here.", err=True)
        click.get_current_context().exit(130)
    click.echo(page.write(out, journal.results, settings, skipped))


def run(journal: Journal, names: tuple[str, ...], methods: tuple[str, ...], settings: Settings, n_jobs: int) -> None:
    """Run what the journal does not hold; timed jobs come last and alone."""
    wanted = [job for job in work.jobs_of(names, settings, methods) if job not in journal.results]
    timed = [job for job in work.timed_jobs(names, methods) if job not in journal.results]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # Costs differ a hundredfold between jobs, so only the speed of a long while tells the time left.
    with Progress(
        *columns, TimeRemainingColumn(), console=Console(stderr=True), speed_estimate_period=3600
    ) as progress:
        task = progress.add_task(", ".join(names), total=len(wanted) + len(timed))
        for result in _results(wanted, settings, n_jobs):
            journal.add(result)
            progress.advance(task)
        for job in timed:
            progress.update(task, description=f"times: {job.experiment}, {job.method}")
            journal.add(work.run(job, settings))
            progress.advance(task)


def _results(jobs: list[Job], settings: Settings, n_jobs: int) -> Iterator[Result]:
    if n_jobs == 1 or len(jobs) < 2:
        yield from (work.run(job, settings) for job in jobs)
        return
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    # One by one, so that a kill loses no more than is under way.
    options: dict[str, Any] = {"return_as": "generator_unordered", "batch_size": 1}
    with parallel_config(backend="loky", inner_max_num_threads=1):
        parallel = Parallel(n_jobs, **options)
    results: Any = parallel(delayed(work.run)(job, settings) for job in jobs)
    yield from results
