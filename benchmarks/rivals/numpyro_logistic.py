"""NumPyro's NUTS on logistic models with the priors of ours: fixed effects, effects of groups, a missing input."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np


@final
@dataclass(frozen=True, eq=False)
class Effects:
    """Effects N(0, σ²) of levels that multiply z, with σ² ~ IG(shape, rate); z is 1 for intercepts."""

    levels: np.ndarray
    z: np.ndarray
    shape: float
    rate: float


@final
@dataclass(frozen=True, eq=False)
class MissingInput:
    """A column in the design that is N(μ, τ²) with μ ~ N(0, variance) and τ² ~ IG(shape, rate); NaN where missing."""

    column: int
    variance: float
    shape: float
    rate: float


@final
@dataclass(frozen=True, eq=False)
class Problem:
    """Design with a column of ones, labels ±1, weights, and prior variances of its coefficients."""

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    variances: np.ndarray
    effects: tuple[Effects, ...] = ()
    missing: MissingInput | None = None


def sample(problem: Problem, draws: int, tune: int, chains: int, seed: int) -> dict[str, np.ndarray]:
    """Draws of the coefficients ("fixed") and of the standard deviations of effects ("sd 0", …), chains first."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    jax.config.update("jax_enable_x64", True)

    def model() -> None:
        X, scale = jnp.asarray(problem.X), jnp.sqrt(problem.variances)
        theta = numpyro.sample("fixed", dist.Normal(0.0, scale).to_event(1))
        if problem.missing is not None:
            X = X.at[:, problem.missing.column].set(_completed(problem.X, problem.missing))
        score = X @ theta
        for k, one in enumerate(problem.effects):
            variance = numpyro.sample(f"variance {k}", dist.InverseGamma(one.shape, one.rate))
            sd = numpyro.deterministic(f"sd {k}", jnp.sqrt(variance))
            size = int(one.levels.max()) + 1
            unit = numpyro.sample(f"unit {k}", dist.Normal(0.0, 1.0).expand([size]).to_event(1))
            score += sd * unit[one.levels] * one.z
        numpyro.factor("labels", (problem.weights * jax.nn.log_sigmoid(problem.y * score)).sum())

    def _completed(X: np.ndarray, missing: MissingInput) -> Any:
        known = X[:, missing.column]
        mean = numpyro.sample("mean", dist.Normal(0.0, missing.variance**0.5))
        sd = jnp.sqrt(numpyro.sample("spread", dist.InverseGamma(missing.shape, missing.rate)))
        lost = np.isnan(known)
        unit = numpyro.sample("lost", dist.Normal(0.0, 1.0).expand([int(lost.sum())]).to_event(1))
        numpyro.sample("known", dist.Normal(mean, sd), obs=jnp.asarray(known[~lost]))
        return jnp.asarray(known).at[np.flatnonzero(lost)].set(mean + sd * unit)

    mcmc = MCMC(
        NUTS(model, target_accept_prob=0.95),
        num_warmup=tune,
        num_samples=draws,
        num_chains=chains,
        chain_method="sequential",
        progress_bar=False,
    )
    mcmc.run(jax.random.PRNGKey(seed))
    found = mcmc.get_samples(group_by_chain=True)
    return {name: np.asarray(value) for name, value in found.items() if name == "fixed" or name.startswith("sd ")}
