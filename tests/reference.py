"""The paper written out plainly, and exact integrals for small models: what the package is compared with."""

import math

import numpy as np
from scipy import integrate, special, stats


def simulate(n, d, seed):
    """Draw standardised inputs and labels ±1 from the paper's generator (Section 4.2)."""
    rng = np.random.default_rng([seed, n, d])
    beta, u, D = rng.normal(), rng.normal(size=d), rng.normal(size=(n, d))
    y = np.where(rng.random(n) < special.expit(beta + D @ u), 1.0, -1.0)
    return (D - D.mean(0)) / D.std(0), y


def algorithm_1(X, y, alpha, max_sweeps=100_000):
    """Algorithm 1, and its bound, swept until the coefficients stand still."""
    n, p = X.shape
    w, previous = np.ones(n), np.full(p, np.inf)
    for _ in range(max_sweeps):
        Sigma = np.linalg.inv(X.T @ (w[:, None] * X) + 4 * alpha * np.eye(p))
        mu = Sigma @ X.T @ ((1 + w) * y)
        chi = (1 - y * (X @ mu)) ** 2 + np.einsum("ij,jk,ik->i", X, Sigma, X)
        w = chi**-0.5
        if np.abs(mu - previous).max() < 1e-13:
            break
        previous = mu
    else:
        raise AssertionError("Algorithm 1 did not come to rest")
    bound = (
        p / 2 - n + n * math.log(2) - n / 2 * math.log(2 * math.pi) + p / 2 * math.log(4 * alpha)
        + 0.5 * np.linalg.slogdet(Sigma)[1] - 2 * alpha * (mu @ mu + np.trace(Sigma))
        + y @ X @ mu + 0.25 * np.log(chi).sum() + np.log(special.kv(0.5, np.sqrt(chi))).sum()
    )  # fmt: skip
    return mu, Sigma, bound


def algorithm_2(D, y, A=0.01, B=0.01, variance=1e8, max_sweeps=100_000, stop=1e-13):
    """Algorithm 2 with Example 1, and its bound; swept until the coefficients stand still, or ``max_sweeps`` times."""
    n, m = D.shape
    C = np.column_stack([np.ones(n), D])
    w, tau, previous, bounds = np.ones(n), 1.0, np.full(m + 1, np.inf), []
    for _ in range(max_sweeps):
        Sigma = np.linalg.inv(C.T @ (w[:, None] * C) + np.diag(np.r_[1 / variance, np.full(m, tau)]))
        mu = Sigma @ C.T @ ((1 + w) * y)
        chi = (1 - y * (C @ mu)) ** 2 + np.einsum("ij,jk,ik->i", C, Sigma, C)
        w = chi**-0.5
        Bq = B + 0.5 * (mu[1:] @ mu[1:] + np.trace(Sigma[1:, 1:]))
        tau = (A + m / 2) / Bq
        bounds.append(paper_bound_2(C, y, mu, Sigma, Bq, chi, A, B, variance))
        if np.abs(mu - previous).max() < stop:
            break
        previous = mu
    else:
        if stop > 0:
            raise AssertionError("Algorithm 2 did not come to rest")
    return mu, Sigma, tau / 4, np.array(bounds)


def paper_bound_2(C, y, mu, Sigma, Bq, chi, A, B, variance):
    """The bound as printed in Section 3.1, for an intercept and m inputs."""
    n, m = len(y), len(mu) - 1
    return (
        (1 + m) / 2 - n + n * math.log(2) - n / 2 * math.log(2 * math.pi) - 0.5 * math.log(variance)
        + 0.5 * np.linalg.slogdet(Sigma)[1] - (mu[0] ** 2 + Sigma[0, 0]) / (2 * variance)
        + A * math.log(B) - math.lgamma(A) - (A + m / 2) * math.log(Bq) + math.lgamma(A + m / 2)
        + y @ C @ mu + 0.25 * np.log(chi).sum() + np.log(special.kv(0.5, np.sqrt(chi))).sum()
    )  # fmt: skip


def hinge_log_likelihood(margin):
    """Of a row of weight 1, from its label times its score."""
    return -2 * np.maximum(1 - margin, 0)


class Quadrature:
    """Posterior of an intercept N(0, variance) and one slope N(0, σ²), σ² ~ IG(A, B), on a fine grid.

    σ² is integrated out in closed form: the slope's prior is then a t distribution with 2A degrees of freedom.
    """

    def __init__(self, x, y, s, A, B, variance, half_width=12.0, points=1201, log_likelihood=None):
        if log_likelihood is None:
            log_likelihood = hinge_log_likelihood
        beta = np.linspace(-half_width, half_width, points)
        slope = np.linspace(-half_width, half_width, points)
        b, u = np.meshgrid(beta, slope, indexing="ij")
        log_density = stats.norm.logpdf(b, scale=math.sqrt(variance))
        log_density += stats.t.logpdf(u, 2 * A, scale=math.sqrt(B / A))
        for xi, yi, si in zip(x, y, s, strict=True):
            log_density += si * log_likelihood(yi * (b + u * xi))
        top = log_density.max()
        density = np.exp(log_density - top)
        edge = max(density[0].max(), density[-1].max(), density[:, 0].max(), density[:, -1].max())
        assert edge < 1e-6, "the grid cuts the posterior off"
        mass = integrate.simpson(integrate.simpson(density, x=slope), x=beta)
        self.log_evidence = top + math.log(mass)

        def expectation(values):
            return integrate.simpson(integrate.simpson(density * values, x=slope), x=beta) / mass

        self.mean = np.array([expectation(b), expectation(u)])
        self.sd = np.sqrt([expectation(b**2) - self.mean[0] ** 2, expectation(u**2) - self.mean[1] ** 2])
        self.precision = expectation((A + 0.5) / (B + 0.5 * u**2))


def log_evidence_1d(x, y, s, log_prior):
    """Log evidence of a single slope, by adaptive quadrature."""

    def log_joint(u):
        return log_prior(u) - 2 * np.sum(s * np.maximum(1 - y * u * x, 0))

    top = max(log_joint(u) for u in np.linspace(-10, 10, 2001))
    area, error = integrate.quad(
        lambda u: math.exp(log_joint(u) - top), -60, 60, points=sorted(set(np.clip(1 / (y * x), -60, 60))), limit=500
    )
    assert error < 1e-6 * area
    return top + math.log(area)


def algorithm_2_grouped(D, groups, y, A=0.01, B=0.01, variance=1e8, max_sweeps=100_000):
    """Algorithm 2 with Example 2: fixed effects [1, D] and a one-hot block of groups; swept until it stands still."""
    n, p, m = len(y), D.shape[1] + 1, groups.max() + 1
    C = np.column_stack([np.ones(n), D, np.eye(m)[groups]])
    w, tau, previous = np.ones(n), 1.0, np.full(p + m, np.inf)
    for _ in range(max_sweeps):
        Sigma = np.linalg.inv(C.T @ (w[:, None] * C) + np.diag(np.r_[np.full(p, 1 / variance), np.full(m, tau)]))
        mu = Sigma @ C.T @ ((1 + w) * y)
        chi = (1 - y * (C @ mu)) ** 2 + np.einsum("ij,ij->i", C @ Sigma, C)
        w = chi**-0.5
        Bq = B + 0.5 * (mu[p:] @ mu[p:] + np.trace(Sigma[p:, p:]))
        tau = (A + m / 2) / Bq
        if np.abs(mu - previous).max() < 1e-12:
            break
        previous = mu
    else:
        raise AssertionError("Algorithm 2 did not come to rest")
    bound = (
        (p + m) / 2 - n + n * math.log(2) - n / 2 * math.log(2 * math.pi) - p / 2 * math.log(variance)
        + 0.5 * np.linalg.slogdet(Sigma)[1] - (mu[:p] @ mu[:p] + np.trace(Sigma[:p, :p])) / (2 * variance)
        + A * math.log(B) - math.lgamma(A) - (A + m / 2) * math.log(Bq) + math.lgamma(A + m / 2)
        + y @ C @ mu + 0.25 * np.log(chi).sum() + np.log(special.kv(0.5, np.sqrt(chi))).sum()
    )  # fmt: skip
    return mu, tau / 4, bound


def algorithm_3(D, y, rho=0.01, A=0.01, B=0.01, variance=1e8, max_sweeps=20_000, stop=1e-10, opened=1.0):
    """Algorithm 3 for an intercept and m gated inputs; swept until the bound rises by less than ``stop``."""
    n, m = D.shape
    C = np.column_stack([np.ones(n), D])
    w, tau, b, gates, bounds = np.ones(n), 1.0, np.ones(m), np.r_[1.0, np.full(m, opened)], [-np.inf]
    for _ in range(max_sweeps):
        G, r = C.T @ (w[:, None] * C), C.T @ ((1 + w) * y)
        Omega_gates = np.outer(gates, gates) + np.diag(gates * (1 - gates))
        Sigma = np.linalg.inv(G * Omega_gates + np.diag(np.r_[1 / variance, tau * b]))
        mu = Sigma @ (gates * r)
        Omega = Sigma + np.outer(mu, mu)
        b = (tau * np.diagonal(Omega)[1:]) ** -0.5
        eta = np.empty(m)
        for k in range(1, m + 1):
            others = np.arange(m + 1) != k
            met = (G[k] * gates * Omega[k])[others].sum()
            eta[k - 1] = special.logit(rho) - 0.5 * G[k, k] * Omega[k, k] + r[k] * mu[k] - met
            gates[k] = special.expit(eta[k - 1])
        Omega_gates = np.outer(gates, gates) + np.diag(gates * (1 - gates))
        chi = 1 - 2 * y * (C @ (gates * mu)) + np.einsum("ij,ij->i", C @ (Omega_gates * Omega), C)
        w = chi**-0.5
        Bq = B + 0.5 * b @ np.diagonal(Omega)[1:]
        tau = (A + m / 2) / Bq
        inside = gates[1:]
        bounds.append(
            (n - m) * math.log(2) - n + (1 + m) / 2 - (n - m) / 2 * math.log(2 * math.pi) + y @ C @ (gates * mu)
            + 0.25 * np.log(chi).sum() + np.log(special.kv(0.5, np.sqrt(chi))).sum()
            + 0.5 * np.linalg.slogdet(Sigma)[1] - 0.5 * math.log(variance) - Omega[0, 0] / (2 * variance)
            - 0.5 * (1 / b).sum() + A * math.log(B) - math.lgamma(A) - (A + m / 2) * math.log(Bq)
            + math.lgamma(A + m / 2) - special.rel_entr(inside, rho).sum() - special.rel_entr(1 - inside, 1 - rho).sum()
        )  # fmt: skip
        if bounds[-1] - bounds[-2] < stop:
            break
    return gates[1:], mu, np.array(bounds[1:])


def algorithm_5(
    D, y, nu=None, psi=0.01, A=0.01, B=0.01, variance=1e8, mean_variance=1e8, max_sweeps=20_000, stop=1e-12
):
    """Algorithm 5 for an intercept and d inputs with NaN, row by row; swept until the coefficients stand still.

    With errata 1 (the transpose) mended. The weights of a row and its missing values are updated once a sweep, in turn.
    """
    n, d = D.shape
    nu = d + 1 if nu is None else nu
    missing = np.isnan(D)
    filled, w, tau = np.where(missing, 0.0, D), np.ones(n), 1.0
    spread = np.zeros((n, d, d))
    T, m, previous, bounds = np.eye(d), np.zeros(d), np.full(d + 1, np.inf), []
    for _ in range(max_sweeps):
        C = np.column_stack([np.ones(n), filled])
        G = C.T @ (w[:, None] * C)
        G[1:, 1:] += np.einsum("i,ijk->jk", w, spread)
        Sigma = np.linalg.inv(G + np.diag(np.r_[1 / variance, np.full(d, tau)]))
        mu = Sigma @ C.T @ ((1 + w) * y)
        Omega = Sigma + np.outer(mu, mu)
        chi, entropy = np.empty(n), 0.0
        for i in range(n):
            M, Q = missing[i], ~missing[i]
            if M.any():
                known = np.where(Q, D[i], 0.0)
                P = T + w[i] * Omega[1:, 1:]
                cov = np.linalg.inv(P[np.ix_(M, M)])
                right = T @ m + y[i] * (1 + w[i]) * mu[1:] - w[i] * Omega[1:, 0] - P @ known
                filled[i, M] = cov @ right[M]
                spread[i][np.ix_(M, M)] = cov
                entropy += 0.5 * M.sum() * (1 + math.log(2 * math.pi)) + 0.5 * np.linalg.slogdet(cov)[1]
            c = np.r_[1.0, filled[i]]
            chi[i] = (1 - y[i] * c @ mu) ** 2 + c @ Sigma @ c + np.vdot(Omega[1:, 1:], spread[i])
        w = chi**-0.5
        S_m = np.linalg.inv(np.eye(d) / mean_variance + n * T)
        m = S_m @ T @ filled.sum(axis=0)
        Psi = psi * np.eye(d) + n * S_m + (filled - m).T @ (filled - m) + spread.sum(axis=0)
        T = (nu + n) * np.linalg.inv(Psi)
        Bq = B + 0.5 * (mu[1:] @ mu[1:] + np.trace(Sigma[1:, 1:]))
        tau = (A + d / 2) / Bq
        C = np.column_stack([np.ones(n), filled])
        bounds.append(
            n * math.log(2) - n - n / 2 * math.log(2 * math.pi) + y @ C @ mu + 0.25 * np.log(chi).sum()
            + np.log(special.kv(0.5, np.sqrt(chi))).sum() + A * math.log(B) - math.lgamma(A)
            - (A + d / 2) * math.log(Bq) + math.lgamma(A + d / 2) - 0.5 * math.log(variance)
            - Omega[0, 0] / (2 * variance) + (1 + d) / 2 + 0.5 * np.linalg.slogdet(Sigma)[1]
            + d / 2 + 0.5 * np.linalg.slogdet(S_m)[1] - n * d / 2 * math.log(2 * math.pi)
            - d / 2 * math.log(mean_variance) - (m @ m + np.trace(S_m)) / (2 * mean_variance)
            + nu / 2 * d * math.log(psi) - (special.multigammaln(nu / 2, d) if nu > d - 1 else 0.0)
            - (nu + n) / 2 * np.linalg.slogdet(Psi)[1] + d * n / 2 * math.log(2)
            + special.multigammaln((nu + n) / 2, d) + entropy
        )  # fmt: skip
        if np.abs(mu - previous).max() < stop:
            break
        previous = mu
    else:
        raise AssertionError("Algorithm 5 did not come to rest")
    return mu, filled, spread, m, T, np.array(bounds)
