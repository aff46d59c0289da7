"""What there is to do: one job is one method on one data set, with a seed of its own."""

import contextlib
import io
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from reproduction import data, default_svm
from reproduction.data import CELLS, Array, Split
from reproduction.default_svm import balanced_error
from vbsvm import VBSVC, GaussianImputation, Gibbs, LaplaceZero, Model, Variational

# MCMC is the paper's sampler, Gibbs this package's, which moves faster through the same posterior.
SVM, VB, MCMC, GIBBS = "SVM", "VB", "MCMC", "Gibbs"
PAPERS_METHODS = (SVM, VB, MCMC)
METHODS = (*PAPERS_METHODS, GIBBS)
EXPERIMENTS = ("simulation", "toenail", "spam", "cardiac")
# The timed runs repeat the data set that the paper gives times for; every hold-out counts there.
TIMED = {"simulation": "200x10", "toenail": "", "cardiac": ""}
PAPERS_HOLDOUTS = 100
RHO = 0.01


@final
@dataclass(frozen=True)
class Settings:
    """What a run's results depend on."""

    seed: int = 0
    data_sets: int = 200
    splits: int = 100
    holdouts: int = 10
    sweeps: int = 5000
    spam_sweeps: int = 50_000

    def quick(self) -> "Settings":
        """A tenth of the data sets and splits, and of the sweeps on spam."""
        tenths = {name: getattr(self, name) // 10 for name in ("data_sets", "splits", "spam_sweeps")}
        return replace(self, **tenths)


@final
@dataclass(frozen=True)
class Job:
    """A method on a replicate of an experiment; ``cell`` is "200x10" in the simulation and else empty."""

    experiment: str
    cell: str
    replicate: int
    method: str
    timed: bool = False

    @property
    def sizes(self) -> list[int]:
        """Rows and inputs of a simulated data set; empty for the others."""
        return [int(size) for size in self.cell.split("x")] if self.cell else []

    def stream(self, settings: Settings) -> list[int]:
        """Numbers that seed the data set: the same for all methods, whatever else is run."""
        return [settings.seed, EXPERIMENTS.index(self.experiment), *self.sizes, self.replicate]


@final
@dataclass(frozen=True)
class Result:
    """Balanced error on the test rows, or, for spam, inclusion and P(v > 0) of each input; and the seconds it took."""

    job: Job
    error: float | None
    seconds: float
    inclusion: tuple[float, ...] = ()
    positive: tuple[float, ...] = ()


def jobs_of(experiments: tuple[str, ...], settings: Settings, methods: tuple[str, ...] = PAPERS_METHODS) -> list[Job]:
    """All jobs, the longest first and then by replicate, so that a run that is cut short has some of everything."""
    on_spam = [method for method in (GIBBS, MCMC, VB) if method in methods]
    jobs = [Job("spam", "", 0, method) for method in on_spam if "spam" in experiments]
    for replicate in range(max(settings.data_sets, settings.splits)):
        if "simulation" in experiments and replicate < settings.data_sets:
            jobs += [Job("simulation", f"{n}x{d}", replicate, method) for n, d in CELLS for method in methods]
        for name in ("toenail", "cardiac"):
            if name in experiments and replicate < settings.splits:
                jobs += [Job(name, "", replicate, method) for method in methods]
    return jobs


def timed_jobs(experiments: tuple[str, ...], methods: tuple[str, ...] = PAPERS_METHODS) -> list[Job]:
    """One data set for each of the paper's times, with all of the paper's hold-outs; nothing else runs meanwhile."""
    return [Job(name, TIMED[name], 0, method, True) for name in experiments if name in TIMED for method in methods]


def run(job: Job, settings: Settings) -> Result:
    """Fit on the training rows and look at the test rows. Warnings of single fits and their progress are kept back."""
    stream = job.stream(settings)
    rng = np.random.default_rng(stream)
    seed = int(np.random.SeedSequence([*stream, 1]).generate_state(1)[0])
    holdouts = PAPERS_HOLDOUTS if job.timed else settings.holdouts
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        if job.experiment == "spam":
            return _select(job, settings, seed)
        if job.experiment == "toenail":
            fit = _fit_toenail(job.method, rng, _inference(job.method, settings.sweeps), seed, holdouts)
        else:
            if job.experiment == "simulation":
                n, d = job.sizes
                split = data.simulate(n, d, rng)
            else:
                split = data.split_cardiac(rng)
            fit = _fit(job.method, split, _inference(job.method, settings.sweeps), seed, holdouts)
        # The first fit of a process loads and warms; where that would show, the time is that of another one.
        if job.timed and job.method == VB:
            fit()
        begin = time.perf_counter()
        error = fit()
        return Result(job, error[0], time.perf_counter() - begin - error[1])


# Missing values as the paper infers them.
ALGORITHM_5 = GaussianImputation(labels="likelihood")


def _inference(method: str, sweeps: int) -> Variational | Gibbs:
    """The paper's: sweeps until the bound rises by less than 1e−10, or as many sweeps again as were thrown away."""
    if method in (MCMC, GIBBS):
        return Gibbs(sweeps, sweeps, chains=1, accelerate=method == GIBBS)
    return Variational(tol=1e-10, bound="paper")


def _fit(
    method: str, split: Split, inference: Variational | Gibbs, seed: int, holdouts: int
) -> Callable[[], tuple[float, float]]:
    def run() -> tuple[float, float]:
        if method == SVM:
            whole = split.complete()
            machine: Any = default_svm.fit(whole.X, whole.signs, holdouts, seed)
            return _test(machine.scores, split.X_test, split.signs_test)
        clf = VBSVC(inference=inference, imputation=ALGORITHM_5, random_state=seed).fit(split.X, split.signs)
        return _test(clf.decision_function, split.X_test, split.signs_test)

    return run


def _fit_toenail(
    method: str, rng: np.random.Generator, inference: Variational | Gibbs, seed: int, holdouts: int
) -> Callable[[], tuple[float, float]]:
    train, test = data.split_toenail(rng)
    X_test, signs_test = data.toenail_columns(test)

    def run() -> tuple[float, float]:
        if method == SVM:
            machine = default_svm.fit(*data.toenail_columns(train), holdouts, seed)
            return _test(machine.scores, X_test, signs_test)
        fit = Model(data.TOENAIL_FORMULA, train, likelihood="hinge").fit(inference, random_state=seed)
        sign = 1.0 if fit.classes[1] == "moderate or severe" else -1.0
        return _test(lambda rows: sign * np.asarray(fit.decision_function(rows)), test, signs_test)

    return run


def _test(scores: Callable[[Any], Array], rows: Any, signs: Array) -> tuple[float, float]:
    """Balanced error, and the seconds that testing took."""
    begin = time.perf_counter()
    error = float(balanced_error(signs, scores(rows)))
    return error, time.perf_counter() - begin


def _select(job: Job, settings: Settings, seed: int) -> Result:
    _, X, signs = data.spam()
    inference = _inference(job.method, settings.spam_sweeps)
    begin = time.perf_counter()
    clf = VBSVC(LaplaceZero(rho=RHO), inference, random_state=seed, likelihood_power=1).fit(X, signs)
    seconds = time.perf_counter() - begin
    inclusion, positive = clf.inclusion_probability_[0], clf.sign_probability_[0]
    return Result(job, None, seconds, tuple(map(float, inclusion)), tuple(map(float, positive)))
