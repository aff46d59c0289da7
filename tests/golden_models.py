"""Models whose results are frozen and compared by ``golden.py``: every kind that is fitted to data in memory."""

from collections.abc import Callable
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
    Shift,
    Variational,
    VBLogistic,
)

Run = Callable[[], dict[str, Any]]
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


def estimator(rows: tuple[Any, Any], weights: Any = None, kind: Any = VBSVC, **settings: Any) -> Run:
    """A classifier, and what it says."""

    def run() -> dict[str, Any]:
        X, y = rows
        clf = kind(**settings, random_state=3).fit(X, y, sample_weight=weights)
        found = {"scores": clf.decision_function(X), "chances": clf.predict_proba(X), "cov": clf.coef_cov_}
        found |= {"summary": clf.summary().to_numpy(dtype=float), "penalty": clf.penalty_}
        found["shown"] = "".join(f"{fit}\n" for fit in clf.fit_)
        if not isinstance(settings.get("inference"), Gibbs):
            found["bounds"] = np.concatenate([np.r_[len(trace), trace[-1]] for trace in clf.elbo_trace_])
        if settings.get("group") is not None:
            found["effects"] = clf.random_effects_.to_numpy(dtype=float)
        if isinstance(settings.get("inference"), Gibbs) and len(clf.fit_) == 1:
            found |= draws(clf)
        return found | {"object": clf, "data": X}

    return run


def formula(text: str, data: pd.DataFrame, inference: Any = None, **settings: Any) -> Run:
    """A Model, and what its fit says."""

    def run() -> dict[str, Any]:
        fit = Model(text, data, **{"likelihood": "hinge", **settings}).fit(inference, random_state=3)
        scores, spread = fit.decision_function(data, return_std=True)
        found = {"scores": scores, "spread": spread, "chances": fit.predict_proba(data)}
        found |= {"summary": fit.summary().to_numpy(dtype=float), "shown": str(fit)}
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


def models() -> dict[str, Run]:
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
    return (
        {
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
        | logistic_models(plain, incomplete, mixed, mixed_incomplete)
        | sparse_models()
    )


def logistic(text: str, data: pd.DataFrame, inference: Any = None, **settings: Any) -> Run:
    """A logistic Model."""
    return formula(text, data, inference, likelihood="logistic", **settings)


def logistic_models(plain: Any, incomplete: Any, mixed: pd.DataFrame, mixed_incomplete: pd.DataFrame) -> dict[str, Run]:
    """Logistic models, and support vector machines by the exact bound."""
    numbers = mixed_incomplete.assign(k=mixed["k"])
    several = plain[0], np.digitize(plain[0]["x0"] + plain[0]["x3"], [-0.7, 0.7])
    separated = plain[0], np.where(plain[0]["x0"] > 0, "yes", "no")
    of_groups = plain[0].assign(g=np.arange(200) % 17), plain[1]
    text = plain[0].assign(k=np.array(["u", "v", "w"])[np.arange(200) % 3]), plain[1]
    exact, augmented = Variational(bound="exact"), Variational(bound="augmented")
    classifiers = {
        "dense": estimator(plain, kind=VBLogistic),
        "blocks": estimator(table(5000, 50), kind=VBLogistic),
        "ridge": estimator(plain, kind=VBLogistic, prior=Ridge()),
        "augmented": estimator(plain, kind=VBLogistic, inference=augmented),
        "several classes": estimator(several, kind=VBLogistic),
        "separated": estimator(separated, kind=VBLogistic),
        "group": estimator(of_groups, kind=VBLogistic, group="g"),
        "dual": estimator(table(30, 200), kind=VBLogistic),
        "gates": estimator(plain, kind=VBLogistic, prior=LaplaceZero()),
        "class weights": estimator(plain, kind=VBLogistic, class_weight={"yes": 3.0}),
        "missing": estimator(incomplete, kind=VBLogistic),
        "missing, label in the likelihood": estimator(
            incomplete, kind=VBLogistic, imputation=GaussianImputation(labels="likelihood"), inference=augmented
        ),
        "categories": estimator(text, kind=VBLogistic, categories="one-hot"),
        "Gibbs": estimator(plain, kind=VBLogistic, inference=DRAWS),
        "Gibbs, gates": estimator(plain, kind=VBLogistic, inference=DRAWS, prior=LaplaceZero()),
    }
    formulas = {
        "fixed": logistic("y ~ x * k", mixed),
        "flat priors": logistic("y ~ x * k", mixed, priors={"fixed": Normal(1e8)}),
        "intercepts": logistic("y ~ x * k + (1 | a)", mixed),
        "intercepts, weights": logistic("y ~ x * k + (1 | a)", mixed, weights="w"),
        "intercepts, exact": logistic("y ~ x * k + (1 | a)", mixed, exact),
        "intercepts, augmented": logistic("y ~ x * k + (1 | a)", mixed, augmented),
        "intercepts, ridge": logistic("y ~ x * k + (1 | a)", mixed, priors={"(1 | a)": Ridge()}),
        "slopes": logistic("y ~ x + k + (x | a)", mixed),
        "slopes apart": logistic("y ~ x + (x || a)", mixed),
        "crossed": logistic("y ~ x + (1 | a) + (1 | b)", mixed),
        "nested": logistic("y ~ x + (1 | a/c)", mixed),
        "splines": logistic("y ~ x + s(z) + (1 | a)", mixed),
        "missing inputs": logistic("y ~ x + z + (1 | a)", numbers),
        "missing categories": logistic("y ~ x + k", mixed_incomplete),
        "missing curves": logistic("y ~ s(x) + z", numbers),
        "missing curves, groups": logistic("y ~ poly(x, 2) + z + (1 | a)", numbers),
        "missing, transformed": logistic("y ~ x + z", numbers, imputation=GaussianImputation(transform="rank")),
        "missing, dropped": logistic("y ~ x + k", mixed_incomplete, missing="drop"),
        "Gibbs, intercepts": logistic("y ~ x + (1 | a)", mixed, DRAWS),
        "Gibbs, slopes": logistic("y ~ x + (x | a)", mixed, DRAWS),
        "Gibbs, missing": logistic("y ~ x + z + (1 | a)", numbers, DRAWS),
    }
    hinges = {
        "exact": estimator(plain, inference=exact),
        "exact, group": estimator(of_groups, inference=exact, group="g"),
        "exact, missing": estimator(incomplete, inference=exact),
        "exact, dual": estimator(table(30, 200), inference=exact),
        "augmented, group": estimator(of_groups, inference=augmented, group="g"),
        "paper's missing values": estimator(incomplete, imputation=GaussianImputation(labels="likelihood")),
        "shifted missing values": estimator(incomplete, imputation=GaussianImputation(mechanism=Shift({"x0": 0.5}))),
        "power": estimator(plain, likelihood_power=0.4),
        "power, calibrated": estimator(plain, likelihood_power="calibrated"),
        "separated": estimator(separated),
        "splines of missing inputs": formula("y ~ s(x) + z", numbers),
    }
    return {
        f"{family}, {name}": run
        for family, some in (("logistic", classifiers), ("logistic formula", formulas), ("hinge", hinges))
        for name, run in some.items()
    }


def sparse(n: int, p: int, density: float) -> tuple[Any, Any]:
    """A sparse table and labels."""
    from scipy.sparse import random_array

    rng = np.random.default_rng([n, p])
    X = random_array((n, p), density=density, rng=rng, format="csr")
    scores = X @ (rng.normal(size=p) * (rng.random(p) < 0.2)) / np.sqrt(density * p)
    return X, np.where(scores + 0.1 * rng.logistic(size=n) > 0, 1, 0)


def sparse_models() -> dict[str, Run]:
    """Sparse tables: products of pairs of entries, the dual form, and the covariance by draws."""
    short = {"inference": Variational(max_iter=20)}
    return {
        "sparse": estimator(sparse(300, 40, 0.1)),
        "sparse, logistic": estimator(sparse(300, 40, 0.1), kind=VBLogistic),
        "sparse, gates": estimator(sparse(300, 40, 0.1), prior=LaplaceZero()),
        "sparse, dual": estimator(sparse(60, 900, 0.03)),
        "sparse, covariance by draws": scores_only(sparse(3200, 3200, 0.004), VBSVC(**short)),
        "sparse, covariance by draws, logistic": scores_only(sparse(3200, 3200, 0.004), VBLogistic(**short)),
    }


def scores_only(rows: tuple[Any, Any], clf: Any) -> Run:
    """A classifier of so many columns that it has no covariance matrix to show."""

    def run() -> dict[str, Any]:
        X, y = rows
        clf.fit(X, y)
        return {"scores": clf.decision_function(X), "coef": clf.coef_, "std": clf.coef_std_, "object": clf, "data": X}

    return run
