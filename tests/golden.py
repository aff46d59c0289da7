"""Results of many models, frozen with one version of the package and compared with another on the same machine.

``python tests/golden.py freeze DIR`` writes them, ``python tests/golden.py check DIR`` compares. ``make golden`` does
both, the first with the code of another commit. It is for changes that must not change any result. Bits differ between
machines, so nothing of it is kept in the repository, and it is no part of the tests.

Only public names are used, so that both versions may look different inside.
"""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from vbsvm import (
    VBSVC,
    Covariance,
    GaussianImputation,
    Gibbs,
    InverseWishart,
    Joint,
    LaplaceZero,
    Model,
    Normal,
    NotAtRandom,
    Ridge,
    Variational,
    load,
)

# Variational results may differ by the order of sums; draws may not differ at all.
TOLERANCE = 1e-10
DRAWS = Gibbs(draws=60, tune=40, chains=2)


def table(n: int, p: int, seed: int = 0, missing: float = 0.0) -> tuple[pd.DataFrame, Any]:
    """Inputs with a signal in the first of them, and labels."""
    rng = np.random.default_rng([seed, n, p])
    X = rng.normal(size=(n, p))
    X[:, 1:3] += 0.5 * X[:, :1]
    y = np.where(X[:, 0] - 0.7 * X[:, 1] + rng.logistic(size=n) > 0, "yes", "no")
    X[:, :3][rng.random((n, 3)) < missing] = np.nan
    return pd.DataFrame(X, columns=[f"x{k}" for k in range(p)]), y


def grouped(n: int = 300, missing: float = 0.0) -> pd.DataFrame:
    """A table for formulas: numbers, categories, two crossed factors, one nested in the first, an outcome."""
    rng = np.random.default_rng(7)
    a, b = rng.integers(0, 25, n), rng.integers(0, 12, n)
    x, z, k = rng.normal(size=n), rng.uniform(-2, 2, n), rng.choice(["u", "v", "w"], n)
    score = x + np.sin(2 * z) + (k == "v") + rng.normal(size=25)[a] + 0.7 * rng.normal(size=25)[a] * x
    y = np.where(score + rng.normal(size=12)[b] + rng.logistic(size=n) > 0, 1, 0)
    data = pd.DataFrame({"y": y, "x": x, "z": z, "k": k, "a": a, "b": b, "c": 10 * a + rng.integers(0, 3, n)})
    data["w"] = rng.integers(0, 4, n)
    for name in ("x", "k") if missing else ():
        data[name] = data[name].mask(rng.random(n) < missing)
    return data


def estimator(rows: tuple[pd.DataFrame, Any], weights: Any = None, **settings: Any) -> Callable[[], dict[str, Any]]:
    """A VBSVC, and what it says."""

    def run() -> dict[str, Any]:
        X, y = rows
        clf = VBSVC(**settings, random_state=3).fit(X, y, sample_weight=weights)
        found = {"scores": clf.decision_function(X), "chances": clf.predict_proba(X), "cov": clf.coef_cov_}
        found |= {"summary": clf.summary().to_numpy(dtype=float), "penalty": clf.penalty_}
        if not isinstance(settings.get("inference"), Gibbs):
            found["bounds"] = np.concatenate([np.r_[len(trace), trace[-1]] for trace in clf.elbo_trace_])
        if settings.get("group") is not None:
            found["effects"] = clf.random_effects_.to_numpy(dtype=float)
        if isinstance(settings.get("inference"), Gibbs) and len(clf.fit_) == 1:
            found |= draws(clf)
        return found | {"object": clf, "data": X}

    return run


def formula(text: str, data: pd.DataFrame, inference: Any = None, **settings: Any) -> Callable[[], dict[str, Any]]:
    """A Model, and what its fit says."""

    def run() -> dict[str, Any]:
        fit = Model(text, data, **{"likelihood": "hinge", **settings}).fit(inference, random_state=3)
        scores, spread = fit.decision_function(data, return_std=True)
        found = {"scores": scores, "spread": spread, "chances": fit.predict_proba(data)}
        found["summary"] = fit.summary().to_numpy(dtype=float)
        found["components"] = (
            fit.variance_components().drop(columns="note", errors="ignore").to_numpy(dtype=float)[:, :3]
        )
        if "|" in text:
            found["effects"] = fit.random_effects().to_numpy(dtype=float)
        found |= draws(fit) if isinstance(inference, Gibbs) else {"bounds": np.r_[len(fit.bounds), fit.elbo]}
        return found | {"object": fit, "data": data}

    return run


def draws(fitted: Any) -> dict[str, Any]:
    """A sampler's draws, by name."""
    posterior = fitted.to_arviz().posterior
    return {f"draws {name}": np.asarray(posterior[name]) for name in posterior.data_vars}


def models() -> dict[str, Callable[[], dict[str, Any]]]:
    """Every kind of model that there is."""
    plain, incomplete, mixed, mixed_incomplete = (
        table(200, 10),
        table(150, 6, missing=0.2),
        grouped(),
        grouped(missing=0.15),
    )
    numbers = mixed_incomplete.assign(k=mixed["k"])
    several = plain[0], np.digitize(plain[0]["x0"] + plain[0]["x3"], [-0.7, 0.7])
    weights = np.random.default_rng(1).integers(0, 4, 200).astype(float)
    of_groups = plain[0].assign(g=np.arange(200) % 17), plain[1]
    slopes = "y ~ x + k + (x | a)"
    return {
        "dense": estimator(plain),
        "dense, blocks": estimator(table(5000, 50)),
        "dense, paper": estimator(plain, inference=Variational(accelerate=False, tol=1e-8)),
        "normal": estimator(plain, prior=Normal(0.5), fit_intercept=False),
        "raw columns": estimator(plain, standardize=False),
        "weights": estimator(plain, weights, class_weight="balanced"),
        "several classes": estimator(several),
        "several classes, gates": estimator(several, prior=LaplaceZero()),
        "group": estimator(of_groups, group="g"),
        "dual": estimator(table(30, 200)),
        "dual, gates": estimator(table(30, 200), prior=LaplaceZero()),
        "gates": estimator(plain, prior=LaplaceZero(rho=0.2, restarts=2)),
        "gates, joint": estimator(plain, prior=LaplaceZero(gates=Joint())),
        "missing": estimator(incomplete),
        "missing, joint distribution": estimator(incomplete, imputation=GaussianImputation(joint=True)),
        "missing, without labels": estimator(incomplete, imputation=GaussianImputation(labels="none")),
        "missing, gates": estimator(incomplete, prior=LaplaceZero()),
        "missing, group": estimator((incomplete[0].assign(g=np.arange(150) % 9), incomplete[1]), group="g"),
        "missing, not at random": estimator(incomplete, imputation=GaussianImputation(mechanism=NotAtRandom())),
        "intercepts": formula("y ~ x * k + (1 | a)", mixed),
        "slopes": formula(slopes, mixed),
        "slopes apart": formula("y ~ x + (x || a)", mixed, priors={"(1 | a)": Ridge(2, 1)}),
        "slopes, inverse Wishart": formula(slopes, mixed, priors={"(x | a)": InverseWishart(0.5)}),
        "slopes, half t": formula(slopes, mixed, priors={"(x | a)": Covariance()}),
        "crossed": formula("y ~ x + (1 | a) + (1 | b)", mixed),
        "nested": formula("y ~ x + (1 | a/c)", mixed, weights="w"),
        "splines": formula("y ~ x + s(z) + (1 | a)", mixed),
        "shared gates": formula("y ~ x + z + k", mixed, priors={"fixed": LaplaceZero()}),
        "missing categories": formula("y ~ x + k + (1 | a)", mixed_incomplete),
        "missing products": formula("y ~ x * z + (x | a)", numbers),
        "Gibbs, dense": estimator(plain, inference=DRAWS),
        "Gibbs, paper": estimator(plain, inference=Gibbs(draws=60, tune=40, chains=2, accelerate=False)),
        "Gibbs, blocks": estimator(table(5000, 50), inference=Gibbs(draws=5, tune=5, chains=1)),
        "Gibbs, weights": estimator(plain, weights, inference=DRAWS),
        "Gibbs, several classes": estimator(several, inference=DRAWS),
        "Gibbs, dual": estimator(table(30, 200), inference=DRAWS),
        "Gibbs, dual gates": estimator(table(30, 200), inference=DRAWS, prior=LaplaceZero()),
        "Gibbs, gates": estimator(plain, inference=DRAWS, prior=LaplaceZero()),
        "Gibbs, group": estimator(of_groups, inference=DRAWS, group="g"),
        "Gibbs, missing": estimator(incomplete, inference=DRAWS),
        "Gibbs, not at random": estimator(
            incomplete, inference=DRAWS, imputation=GaussianImputation(mechanism=NotAtRandom())
        ),
        "Gibbs, slopes": formula(slopes, mixed, DRAWS),
        "Gibbs, crossed": formula("y ~ x + (1 | a) + (1 | b)", mixed, DRAWS),
        "Gibbs, splines": formula("y ~ x + s(z) + (1 | a)", mixed, DRAWS),
        "Gibbs, categories": formula("y ~ x + k + (1 | a)", mixed_incomplete, DRAWS),
        "Gibbs, products": formula("y ~ x * z + (x | a)", numbers, DRAWS),
    }


def freeze(folder: Path) -> None:
    """Write the results and the model files."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (name, run) in enumerate(models().items()):
        found = run()
        found.pop("object").save(folder / f"{number}.vbsvm")
        found.pop("data")
        np.savez(folder / f"{number}.npz", **{key.replace("/", "|"): value for key, value in found.items()})
        print(f"{name}: {len(found)} results", flush=True)


def check(folder: Path) -> int:
    """Compare with what was frozen, and read the frozen files; give the number of models that differ."""
    failed = 0
    for number, (name, run) in enumerate(models().items()):
        found, old = run(), np.load(folder / f"{number}.npz")
        loaded, data = load(folder / f"{number}.vbsvm"), found.pop("data")
        found.pop("object").save(folder / "again.vbsvm")
        found["scores of the old file"], wanted = np.asarray(loaded.decision_function(data)), dict(old)
        wanted["scores of the old file"] = wanted["scores"]
        exact = name.startswith("Gibbs")
        worst = {key: difference(found.get(key.replace("|", "/"), found.get(key)), one) for key, one in wanted.items()}
        bad = {
            key: size
            for key, size in worst.items()
            if not size <= (0.0 if exact and key.startswith("draws") else TOLERANCE)
        }
        failed += bool(bad)
        told = ", ".join(f"{key} {size:.1e}" for key, size in bad.items()) or f"same ({max(worst.values()):.1e})"
        print(f"{'DIFFERS' if bad else 'ok':8}{name}: {told}", flush=True)
    return failed


def difference(new: Any, old: Any) -> float:
    """Largest difference beside the size of the array; infinite where shapes differ or only one is NaN."""
    if new is None or np.shape(new) != np.shape(old):
        return float("inf")
    new, old = np.asarray(new, dtype=float), np.asarray(old, dtype=float)
    if (np.isnan(new) != np.isnan(old)).any() or (np.isinf(new) != np.isinf(old)).any():
        return float("inf")
    both = np.isfinite(new)
    size = np.abs(old[both]).max(initial=1e-300)
    return float(np.abs(new[both] - old[both]).max(initial=0.0) / size)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    command, where = sys.argv[1], Path(sys.argv[2])
    if command == "freeze":
        freeze(where)
    else:
        sys.exit(1 if check(where) else 0)
