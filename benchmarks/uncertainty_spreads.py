"""Spreads and means of variational fits beside those of long Gibbs runs, which are kept from run to run."""

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd
from scipy.special import ndtri

from benchmarks import groups, missing_data
from benchmarks.real_data import tables
from benchmarks.simulation import simulate_overlapping
from benchmarks.tables import print_table
from vbsvm import VBSVC, Gibbs, LaplaceZero, Model, Variational
from vbsvm.base.diagnostics import Mixing
from vbsvm.datasets import load_toenail
from vbsvm.results.fit import Fit

RESULTS = Path(__file__).parent / "results" / "uncertainty_gibbs"
KINDS = ("mean-field", "curvature", "posterior")
MAX_RHAT = 1.01
FEWEST_EFFECTIVE = 1000
SURELY_IN = 0.99
LEVEL = 0.95

# Fits by an inference and a seed.
Fitting = Callable[[Variational | Gibbs, int], Fit]
# A number for each coefficient or variance component, by name.
Numbers = dict[str, float]


@final
@dataclass(frozen=True)
class Case:
    """A model and its data; cases of one group make one line, as a range.

    A Gibbs run that has not mixed is followed by one with twice the ``draws``, at most so many times.
    """

    group: str
    name: str
    fit: Fitting
    draws: int = 10_000
    doublings: int = 3


@final
@dataclass(frozen=True)
class Reference:
    """What a long Gibbs run says: moments of coefficients, and median and spread of log σ² of effects of groups."""

    mean: Numbers
    sd: Numbers
    scale: Numbers
    log_variance_sd: Numbers
    sure: list[str]
    rhat: float
    ess: float


def cases(*, quick: bool) -> list[Case]:
    """All of them, or the smallest."""
    seeds = (1,) if quick else (1, 2, 3)
    found = [_simulated(n, d, seed) for n, d in ((200, 10), (500, 20), (500, 50)) for seed in seeds]
    if quick:
        return [replace(case, draws=2000) for case in found[:1]] + [_real("diabetes", 2000)]
    found += [_real(name) for name in ("diabetes", *(("votes", "affairs") if find_spec("statsmodels") else ()))]
    found += [_formula("toenail, (1 | patientID)", groups.FORMULA, load_toenail(), 40_000)]
    found += [_formula("crossed, 40 x 15 levels", "y ~ x + z + (1 | a) + (1 | b)", _crossed())]
    cardiac = missing_data.cardiac()
    if cardiac is not None:
        found.append(_table("cardiac, missing values", *cardiac))
    (spam,) = tables(["spam"]).values()
    return [*found, replace(_table("spam, LaplaceZero", *spam, draws=80_000, prior=LaplaceZero()), doublings=0)]


def _table(name: str, X: Any, y: Any, draws: int = 10_000, group: str | None = None, **settings: Any) -> Case:
    def fit(inference: Variational | Gibbs, seed: int) -> Fit:
        return VBSVC(inference=inference, random_state=seed, **settings).fit(X, y).fit_[0]

    return Case(group or name, name, fit, draws)


def _formula(name: str, formula: str, data: pd.DataFrame, draws: int = 10_000) -> Case:
    model = Model(formula, data, likelihood="hinge")
    return Case(name, name, lambda inference, seed: model.fit(inference, random_state=seed), draws)


def _simulated(n: int, d: int, seed: int) -> Case:
    return _table(f"{n} x {d}, seed {seed}", *simulate_overlapping(n, d, seed=seed), group=f"{n} x {d}")


def _real(name: str, draws: int = 10_000) -> Case:
    return _table(name, *tables([name])[name], draws=draws)


def _crossed(n: int = 1200, n_a: int = 40, n_b: int = 15) -> pd.DataFrame:
    """Rows that belong to a level of each of two factors at random."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"a": rng.integers(0, n_a, n), "b": rng.integers(0, n_b, n)})
    frame = frame.assign(x=rng.normal(size=n), z=rng.normal(size=n))
    effects = 1.5 * rng.normal(size=n_a)[frame["a"]] + rng.normal(size=n_b)[frame["b"]]
    return frame.assign(y=0.5 + frame["x"] - 0.5 * frame["z"] + effects + rng.logistic(size=n) > 0)


def reference(case: Case, at: Path = RESULTS) -> Reference:
    """The first Gibbs run of a case, each with twice the draws of the last, that has mixed; or the longest."""
    draws, found = case.draws, None
    for _ in range(1 + case.doublings):
        found = _sampled(case, draws, at)
        if found.rhat <= MAX_RHAT and found.ess >= FEWEST_EFFECTIVE:
            break
        draws *= 2
    assert found is not None
    return found


def _sampled(case: Case, draws: int, at: Path) -> Reference:
    """A Gibbs run, from its file, or made and kept."""
    at.mkdir(parents=True, exist_ok=True)
    name = "".join(letter if letter.isalnum() else "_" for letter in case.name)
    path = at / f"{name}_{draws}.json"
    if path.exists():
        return Reference(**json.loads(path.read_text()))
    found = _read(case.fit(Gibbs(draws=draws, tune=draws // 4, checkpoint=path.with_suffix(".checkpoint")), 1))
    path.write_text(json.dumps(vars(found), indent=1))
    print(f"{case.name}: {draws} draws, R-hat {found.rhat:.3f}, {found.ess:.0f} effective", flush=True)
    return found


def _read(fit: Fit) -> Reference:
    """Moments of the draws, and how well those mix that are compared."""
    draws = {one.name: one.draws for one in fit.traces.coefficients()}
    table = fit.summary()
    sure = list(draws)
    if fit.selects:  # some inputs change places with others too seldom for any run
        sure = list(table.index[(table["inclusion"] > SURELY_IN) & (table["rhat"] <= MAX_RHAT)])
    scales = {f"{one.term}, {one.effect}": one.trace for one in fit.traces.components() if "(" in one.term}
    mixing = [Mixing.of(draws[name]) for name in sure] + [one.mixing for one in scales.values()]
    return Reference(
        {name: float(one.mean()) for name, one in draws.items()},
        {name: float(one.std()) for name, one in draws.items()},
        {name: float(np.median(one.draws)) for name, one in scales.items()},
        {name: float(2 * np.log(one.draws).std()) for name, one in scales.items()},
        sure,
        max(one.rhat for one in mixing),
        min(one.ess_bulk for one in mixing),
    )


@final
@dataclass(frozen=True)
class Compared:
    """A variational fit of one case beside its reference."""

    case: Case
    reference: Reference
    n_compared: int
    ratios: dict[str, float]  # geometric mean of sd / Gibbs sd, by bound and kind
    off: dict[str, float]  # root mean square of the means' distance in Gibbs sds, by bound
    scales: dict[str, pd.DataFrame]  # variance components: the fit's own, and those that users get


def compare(case: Case) -> Compared:
    """Fit by both bounds; a bound or a kind that the model does not have is left out."""
    known, ratios, off, scales, sure = reference(case), {}, {}, {}, []
    for bound in ("augmented", "exact"):
        try:
            fit = case.fit(Variational(bound=bound), 1)
        except ValueError:  # the exact bound does not support every model
            continue
        sure = _sure(fit, known)
        apart = [(fit.summary(covariance="mean-field").loc[name, "estimate"] - known.mean[name]) for name in sure]
        off[bound] = float(np.sqrt(np.mean(np.square(np.array(apart) / [known.sd[name] for name in sure]))))
        for kind in KINDS:
            try:
                sds = fit.summary(covariance=kind)["std_error"]
            except ValueError:  # the posterior's spread is not available for every model
                continue
            logs = [np.log(sds[name] / known.sd[name]) for name in sure]
            ratios[f"{bound}, {kind}"] = float(np.exp(np.nanmean(logs)))  # beside gates the intercept may have none
        if known.scale:
            scales |= {f"{bound}, mean-field": fit.posterior.variance_components(LEVEL)}
            scales |= {f"{bound}, as shown": fit.variance_components(LEVEL)}
    return Compared(case, known, len(sure), ratios, off, scales)


def _sure(fit: Fit, known: Reference) -> list[str]:
    """Coefficients that are in for sure by both."""
    table = fit.summary(covariance="mean-field")
    return [name for name in known.sure if "inclusion" not in table or table.loc[name, "inclusion"] > SURELY_IN]


def print_spreads(found: Sequence[Compared]) -> None:
    """Print ratios of standard deviations, and how far means are off; ranges where a group has several data sets."""
    by_group: dict[str, list[Compared]] = {}
    for one in found:
        by_group.setdefault(one.case.group, []).append(one)
    shown = ["augmented, mean-field", "augmented, curvature", "exact, mean-field"]  # whose curvature is the same
    rows = []
    for group, members in by_group.items():
        posterior = "exact, posterior" if "exact" in members[0].off else "augmented, posterior"
        ratios = [_range([one.ratios.get(key) for one in members]) for key in (*shown, posterior)]
        off = [_range([one.off.get(bound) for one in members]) for bound in ("augmented", "exact")]
        rhat = max(one.reference.rhat for one in members)
        rows.append([group, str(len(members)), str(members[0].n_compared), f"{rhat:.3f}", *ratios, *off])
    print(
        "\nStandard deviations over those of Gibbs, geometric mean over coefficients; means' distance in Gibbs sds, rms"
    )
    print_table(
        ["", "sets", "coefficients", "R-hat", *shown, "posterior", "means off, augmented", "means off, exact"], rows
    )


def _range(values: Sequence[float | None]) -> str:
    known = [f"{value:.2f}" for value in sorted(value for value in values if value is not None)]
    if not known:
        return "–"
    return known[0] if known[0] == known[-1] else f"{known[0]}–{known[-1]}"


def print_scales(found: Sequence[Compared]) -> None:
    """Print σ of effects of groups over that of Gibbs (medians), and the same of the spread of log σ²."""
    rows = []
    for one in found:
        for name in one.reference.scale:
            for fit, table in one.scales.items():
                line = table.loc[tuple(name.split(", ", 1))]
                sd = float(np.log(line["upper"] / line["lower"]) / ndtri(0.5 + 0.5 * LEVEL))
                truth = one.reference.log_variance_sd[name]
                ratio = line["std_dev"] / one.reference.scale[name]
                rows.append([f"{one.case.group}: {name}", fit, f"{ratio:.2f}", f"{sd:.3f}", f"{truth:.3f}"])
                rows[-1].append(f"{sd / truth:.2f}")
    if rows:
        print("\nEffects of groups: median of σ over that of Gibbs, and standard deviation of log σ²")
        print_table(["", "bound, spread", "σ / Gibbs", "sd of log σ²", "Gibbs", "ratio"], rows)


def run(*, quick: bool) -> None:
    """Print both tables."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of gates that have not mixed: those that are compared are checked here
        found = []
        for case in cases(quick=quick):
            found.append(compare(case))
            print(f"{case.name}: done", flush=True)
    print_spreads(found)
    print_scales(found)
