"""NumPyro's NUTS on the same posterior: the hinge pseudo-likelihood, an intercept, inputs with an inferred variance."""

import time
from typing import Any

import numpy as np

VARIANCE, SHAPE, RATE = 1e8, 0.01, 0.01


def sample(X: np.ndarray, y: np.ndarray, draws: int, tune: int, chains: int, seed: int) -> tuple[np.ndarray, float]:
    """Draws of the coefficients, chains × draws × (1 + inputs), and the seconds of sampling, compilation left out."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    jax.config.update("jax_enable_x64", True)
    C = np.column_stack([np.ones(len(y)), X])

    def model(C: Any, y: Any) -> None:
        # Without a centre: coefficients in units of their standard deviation, which NUTS takes best.
        scale = numpyro.sample("scale", dist.InverseGamma(SHAPE, RATE))
        beta = numpyro.sample("beta", dist.Normal(0.0, VARIANCE**0.5))
        z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([C.shape[1] - 1]).to_event(1))
        theta = jnp.concatenate([beta[None], jnp.sqrt(scale) * z])
        numpyro.factor("hinge", -2.0 * jnp.maximum(1.0 - y * (C @ theta), 0.0).sum())
        numpyro.deterministic("theta", theta)

    kernel = NUTS(model)
    mcmc = MCMC(
        kernel, num_warmup=tune, num_samples=draws, num_chains=chains, chain_method="sequential", progress_bar=False
    )
    mcmc.warmup(jax.random.PRNGKey(seed), C, y)  # compiles, and adapts
    begin = time.perf_counter()
    mcmc.run(mcmc.post_warmup_state.rng_key, C, y)
    theta = np.asarray(mcmc.get_samples(group_by_chain=True)["theta"])
    return theta, time.perf_counter() - begin
