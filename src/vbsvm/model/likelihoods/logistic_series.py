"""E log expit(m + √v z) and its derivatives by m, as series in v/2 of higher derivatives: for small variances.

With q = expit(−m), r = q(1 − q) and t = 1 − 2q, the derivatives of log expit are q, and from the second on −r P(r), those
of even order, and r t Q(r), those of odd order: Q = (rP)′, and the next P is (1 − 4r)(rQ)′ − 2rQ.
"""

from math import factorial

import numpy as np
from numpy.polynomial import Polynomial

from vbsvm.base.arrays import Array

# Up to which variances so many terms are right to 1e−9; they are summed over all rows together.
_REACH = {3: 0.02, 5: 0.05, 8: 0.15}
NARROW = max(_REACH.values())


def _polynomials(most: int) -> list[Polynomial]:
    """P and Q of the derivatives of log expit from the second on."""
    r, found = Polynomial([0.0, 1.0]), [Polynomial([1.0])]
    while len(found) < most:
        product = r * found[-1]
        odd = len(found) % 2
        found.append(product.deriv() if odd else (1 - 4 * r) * product.deriv() - 2 * product)
    return found


def _table(n: int, n_terms: int) -> Array:
    """Coefficients of powers of r, for each power of v/2 from the last on, and for n derivatives from the 0th on."""
    polynomials = _polynomials(n + 2 * n_terms)
    table = np.zeros((n_terms + 1, n, n_terms + (n - 1) // 2))
    for k in range(n_terms + 1):
        for order in range(max(0, 2 - 2 * k), n):
            numbers = polynomials[order + 2 * k - 2].coef / factorial(k)
            table[n_terms - k, order, : len(numbers)] = numbers
    return table


_TABLES = {n: [(reach, _table(n, n_terms)) for n_terms, reach in _REACH.items()] for n in (2, 3, 5)}


def curve(margin: Array) -> tuple[Array, Array]:
    """Log expit(m) and expit(−m), by one exponential."""
    small = np.exp(-np.abs(margin))
    return np.minimum(margin, 0.0) - np.log1p(small), np.where(margin > 0.0, small, 1.0) / (1.0 + small)


def series(margin: Array, v: Array, n: int) -> Array:
    """The expectation and its first n − 1 derivatives: one, two or four."""
    largest, tables = v.max(initial=0.0), _TABLES[n]
    table = next((table for reach, table in tables if largest <= reach), tables[-1][1])
    value, q = curve(margin)
    powers = np.empty((table.shape[2], len(margin)))
    powers[0] = 1.0
    r = np.multiply(q, 1.0 - q, out=powers[1])
    for k in range(2, len(powers)):
        np.multiply(powers[k - 1], r, out=powers[k])
    total, *others = (table.reshape(-1, len(powers)) @ powers).reshape(-1, n, len(margin))
    half = 0.5 * v
    for terms in others:
        total *= half
        total += terms
    total *= r
    np.negative(total[::2], out=total[::2])
    total[1::2] *= 1.0 - 2.0 * q
    total[0] += value
    total[1] += q
    return total
