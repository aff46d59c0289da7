"""How often intervals hold the truth, and leave out 0 where 0 is the truth: simulated data sets of seven designs.

The truth is what a fit to endless data would find: the minimiser of the expected hinge loss; with groups the fixed
effects of the same model, fitted to very many groups.
"""

import csv
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from benchmarks.tables import print_table
from vbsvm import VBSVC, Gibbs, Model, Variational
from vbsvm.results.fit import Fit

RESULTS = Path(__file__).parent / "results"
INTERVALS, TRUTHS = "uncertainty_coverage.csv", "uncertainty_truths.json"
HEADER = ("design", "data_set", "method", "coefficient", "estimate", "sd", "low90", "high90", "low95", "high95")
LEVELS = {"90": 0.9, "95": 0.95}
KINDS = ("mean-field", "posterior", "robust")
EXACT = "robust, exact bound"
GIBBS = "Gibbs"
METHODS = (*KINDS, EXACT, GIBBS)
GIBBS_SETS = 40
NULL = "noise"  # the column whose coefficient is truly 0
ROWS_A_GROUP = 10
POSSIBLE = 1000  # seeds below are those of data sets, this one that of the truth


@final
@dataclass(frozen=True)
class Design:
    """Rows, or groups of them, that can be drawn in any number, how many a data set has, and how many tell the truth.

    ``formula`` is that of a ``Model``; without one it is fitted by ``VBSVC``. Some designs are ``sampled``, too.
    """

    draw: Callable[[np.random.Generator, int], pd.DataFrame]
    size: int
    many: int = 400_000
    formula: str | None = None
    sampled: bool = False

    def data_set(self, number: int) -> pd.DataFrame:
        """The data set of this number, which is its seed."""
        return self.draw(np.random.default_rng([number, self.size]), self.size)

    def fit(self, data: pd.DataFrame, inference: Variational | Gibbs | None = None, seed: int = 0) -> Fit:
        """Fit a data set."""
        if self.formula is not None:
            return Model(self.formula, data, likelihood="hinge").fit(inference, random_state=seed)
        return VBSVC(inference=inference, random_state=seed).fit(data.drop(columns="y"), data["y"]).fit_[0]

    def truth(self) -> dict[str, float]:
        """Coefficients of a fit to very many rows; they are on the inputs' own scale."""
        many = self.draw(np.random.default_rng([POSSIBLE, self.size]), self.many)
        table = self.fit(many, Variational(bound="exact")).summary(covariance="mean-field")
        return {str(name): float(value) for name, value in table["estimate"].items()} | {NULL: 0.0}


def _plain(d: int, intercept: float = 0.0) -> Callable[[np.random.Generator, int], pd.DataFrame]:
    """Independent normal inputs, the last without effect, and a logistic outcome whose score has a deviation of 2."""
    beta = np.r_[np.linspace(1.0, -0.6, d - 1), 0.0]
    beta *= 2 / np.linalg.norm(beta)

    def draw(rng: np.random.Generator, n: int) -> pd.DataFrame:
        X = rng.normal(size=(n, d))
        return _frame(X, intercept + X @ beta + rng.logistic(size=n) > 0)

    return draw


def _heteroscedastic(rng: np.random.Generator, n: int, d: int = 5) -> pd.DataFrame:
    """Noise that grows with the first input, and with the size of the one without effect."""
    X = rng.normal(size=(n, d))
    noise = np.exp(0.5 * X[:, 0]) * (0.4 + np.abs(X[:, -1])) * rng.logistic(size=n)
    return _frame(X, 0.3 + X @ np.array([1.2, -1.2, 0.8, 0.4, 0.0]) + noise > 0)


def _binary(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Inputs of 0 and 1, which pile rows on the kink of the loss."""
    X = (rng.random((n, 5)) < 0.5).astype(float)
    return _frame(X, -1.0 + X @ np.array([1.5, -1.0, 2.0, 0.7, 0.0]) + rng.logistic(size=n) > 0)


def draw_grouped(rng: np.random.Generator, n_groups: int) -> pd.DataFrame:
    """Random intercepts; one input varies within groups, one between them only, and one is without effect."""
    n, group = n_groups * ROWS_A_GROUP, np.repeat(np.arange(n_groups), ROWS_A_GROUP)
    X = np.column_stack([rng.normal(size=n), rng.normal(size=n_groups)[group], rng.normal(size=n)])
    effects = 1.5 * rng.normal(size=n_groups)[group]
    return _frame(X, 0.5 + X @ np.array([1.5, 1.0, 0.0]) + effects + rng.logistic(size=n) > 0).assign(g=group)


def _frame(X: np.ndarray, y: np.ndarray) -> pd.DataFrame:
    names = [f"x{k}" for k in range(1, X.shape[1])] + [NULL]
    return pd.DataFrame(X, columns=pd.Index(names)).assign(y=y.astype(int))


GROUPED = f"y ~ x1 + x2 + {NULL} + (1 | g)"
DESIGNS = {
    "200 x 5": Design(_plain(5), 200, sampled=True),
    "500 x 20": Design(_plain(20), 500, sampled=True),
    "30 groups x 10": Design(draw_grouped, 30, 4000, GROUPED),
    "400 x 5, 20 % in a class": Design(_plain(5, -2.25), 400),
    "400 x 5, heteroscedastic": Design(_heteroscedastic, 400),
    "10 groups x 10": Design(draw_grouped, 10, 4000, GROUPED),
    "400 x 5, binary inputs": Design(_binary, 400),
}


@final
@dataclass(frozen=True, order=True)
class Job:
    """A data set of a design, to be fitted by variational Bayes or sampled; data sets come first in the order."""

    data_set: int
    design: str
    sampled: bool = False


Row = tuple[str, int, str, str, float, float, float, float, float, float]


def run_job(job: Job) -> list[Row]:
    """Fit one data set, and read the intervals of every kind from its summary."""
    design = DESIGNS[job.design]
    data = design.data_set(job.data_set)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some data sets are nearly separable, and the sampler's chains are short
        if job.sampled:
            fit = design.fit(data, Gibbs(draws=2000, tune=500, chains=2), job.data_set)
            return list(_rows(job, fit, GIBBS, None))
        fit, rows = design.fit(data), []
        for kind in KINDS:
            rows += _rows(job, fit, kind, kind)
        return [*rows, *_rows(job, design.fit(data, Variational(bound="exact")), EXACT, "robust")]


def _rows(job: Job, fit: Fit, method: str, kind: str | None) -> Iterator[Row]:
    """One row for each coefficient; one of NaN where the fit does not have this kind."""
    try:
        at90, at95 = (fit.summary(level, covariance=kind) for level in LEVELS.values())
    except ValueError:
        yield job.design, job.data_set, method, NULL, *[np.nan] * 6
        return
    for name in at90.index:
        a, b = at90.loc[name], at95.loc[name]
        numbers = (float(x) for x in (a.estimate, a.std_error, a.lower, a.upper, b.lower, b.upper))
        yield job.design, job.data_set, method, str(name), *numbers


def truths(designs: Sequence[str], at: Path) -> dict[str, dict[str, float]]:
    """The truth of each design, which is kept."""
    path = at / TRUTHS
    found = json.loads(path.read_text()) if path.exists() else {}
    for name in designs:
        if name not in found:
            found[name] = DESIGNS[name].truth()
            path.write_text(json.dumps(found, indent=1))
    return found


def read(path: Path) -> pd.DataFrame:
    """Intervals that are there already; a run that was killed may have left half a line, which is cut off."""
    if path.exists():
        text = path.read_text()
        path.write_text(text[: text.rfind("\n") + 1])
    else:
        path.write_text(",".join(HEADER) + "\n")
    return pd.read_csv(path)


def judge(found: pd.DataFrame, known: dict[str, dict[str, float]]) -> pd.DataFrame:
    """Whether each interval holds the truth, and the error in standard deviations."""
    truth = np.array([known[d][c] for d, c in zip(found["design"], found["coefficient"], strict=True)])
    held = {f"held{at}": (found[f"low{at}"] <= truth) & (truth <= found[f"high{at}"]) for at in LEVELS}
    return found.assign(truth=truth, **held).dropna()


def print_coverage(found: pd.DataFrame, designs: Sequence[str]) -> None:
    """Print coverage over all coefficients with its standard error over data sets, the worst, and type-I errors."""
    rows = []
    for design in designs:
        for method in METHODS:
            part = found[(found["design"] == design) & (found["method"] == method)]
            if not len(part):
                continue
            sets, cells = part["data_set"].nunique(), []
            for at in LEVELS:
                by_set = part.groupby("data_set")[f"held{at}"].mean()
                error = by_set.std() / np.sqrt(len(by_set)) if len(by_set) > 1 else np.nan
                cells.append(f"{100 * by_set.mean():.1f} ± {100 * error:.1f}")
            by_name = part.groupby("coefficient")["held90"].mean()
            null = part[part["coefficient"] == NULL]
            cells += [f"{100 * by_name.min():.1f} ({by_name.idxmin()})", f"{100 * (1 - null['held95'].mean()):.1f}"]
            cells.append(f"{_sd_over_error(part):.2f}")
            rows.append([design if method == METHODS[0] else "", method, str(sets), *cells])
    print("\nCoverage in % of nominal intervals, mean over coefficients ± s.e. over data sets; sd: over the error made")
    print_table(["", "", "data sets", "90 %", "95 %", "worst at 90 %", "0 left out at 95 %", "sd / error"], rows)


def _sd_over_error(part: pd.DataFrame) -> float:
    """Root mean square of standard deviations over that of errors, geometric mean over coefficients."""
    squares = part.assign(sd=part["sd"] ** 2, error=(part["estimate"] - part["truth"]) ** 2)
    means = squares.groupby("coefficient")[["sd", "error"]].mean()
    return float(np.exp(0.5 * np.log(means["sd"] / means["error"]).mean()))


def run(sets: int, workers: int, designs: Sequence[str], at: Path = RESULTS) -> None:
    """Run what is missing, and print the table."""
    at.mkdir(parents=True, exist_ok=True)
    path = at / INTERVALS
    known, done = truths(designs, at), read(path)
    have = {(one.design, one.data_set, one.method) for one in done[["design", "data_set", "method"]].itertuples()}
    jobs = [Job(i, name) for i in range(1, sets + 1) for name in designs if (name, i, EXACT) not in have]
    few = min(sets, GIBBS_SETS)
    sampled = [name for name in designs if DESIGNS[name].sampled]
    jobs += [Job(i, name, True) for i in range(1, few + 1) for name in sampled if (name, i, GIBBS) not in have]
    print(f"\n{len(jobs)} data sets to do; intervals are kept in {path}", flush=True)
    with path.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for rows in Parallel(n_jobs=workers, return_as="generator_unordered")(delayed(run_job)(job) for job in jobs):
            writer.writerows(rows)
            file.flush()
    found = read(path)
    print_coverage(judge(found[found["data_set"] <= sets], known), designs)
    failed = found[found["estimate"].isna()]
    if len(failed):
        print("\nNot available:", failed.groupby(["design", "method"]).size().to_dict())
