"""E log expit(m + √v z) and its derivatives by m, as series in v/2 of higher derivatives: for small variances.

With q = expit(−m), r = q(1 − q) and t = 1 − 2q, the first derivative of log expit is q. From the second on, those of
even order are −r P(r) and those of odd order r t Q(r), with Q = (rP)′, and then P = (1 − 4r)(rQ)′ − 2rQ.
"""

import threading
from functools import cache
from math import factorial

import numpy as np
from numpy.polynomial import Polynomial

from vbsvm.base.arrays import Array

# Up to which variance so many terms are right to 1e−9.
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


def _table(first: int, end: int, n_terms: int) -> Array:
    """Coefficients of powers of r, for each power of v/2 from the last on, and for these derivatives."""
    polynomials = _polynomials(end + 2 * n_terms)
    table = np.zeros((n_terms + 1, end - first, n_terms + (end - 1) // 2))
    for k in range(n_terms + 1):
        for order in range(max(first, 2 - 2 * k), end):
            numbers = np.asarray(polynomials[order + 2 * k - 2].coef, dtype=np.float64) / factorial(k)
            table[n_terms - k, order - first, : len(numbers)] = numbers
    return table


@cache
def _tables(first: int, end: int) -> list[tuple[float, Array]]:
    return [(reach, _table(first, end, n_terms)) for n_terms, reach in _REACH.items()]


def curve(margin: Array) -> tuple[Array, Array]:
    """Log expit(m) and expit(−m), by one exponential."""
    small, q = _opposite(margin)
    return np.minimum(margin, 0.0) - np.log1p(small), q


def _opposite(margin: Array) -> tuple[Array, Array]:
    """exp(−|m|) and expit(−m)."""
    small = np.exp(-np.abs(margin))
    return small, np.where(margin > 0.0, small, 1.0) / (1.0 + small)


def series(margin: Array, v: Array, first: int, end: int) -> Array:
    """Derivatives from ``first``, which is 0 (the expectation itself) or 1, to before ``end``, at most the fourth.

    They lie in work space, which the next call in the same thread overwrites.
    """
    largest, tables = v.max(initial=0.0), _tables(first, end)
    table = next((table for reach, table in tables if largest <= reach), tables[-1][1])
    value, q = curve(margin) if first == 0 else _opposite(margin)
    n_lines, n_powers = table.shape[0] * table.shape[1], table.shape[2]
    room = _room(n_lines + n_powers, len(margin))
    powers = room[n_lines:]
    powers[0] = 1.0
    r = np.multiply(q, 1.0 - q, out=powers[1])
    for k in range(2, len(powers)):
        np.multiply(powers[k - 1], r, out=powers[k])
    np.matmul(table.reshape(n_lines, n_powers), powers, out=room[:n_lines])
    total, *others = room[:n_lines].reshape(len(table), -1, len(margin))
    half = 0.5 * v
    for terms in others:
        total *= half
        total += terms
    total *= r
    np.negative(total[first::2], out=total[first::2])
    total[1 - first :: 2] *= 1.0 - 2.0 * q
    total[1 - first] += q
    if first == 0:
        total[0] += value
    return total


_kept = threading.local()


def _room(n_lines: int, n_rows: int) -> Array:
    """Work space of the thread: asking the system for so much memory each time would take longer than to fill it."""
    space: Array | None = getattr(_kept, "space", None)
    if space is None or len(space) < n_lines * n_rows:
        space = _kept.space = np.empty(n_lines * n_rows)
    return space[: n_lines * n_rows].reshape(n_lines, n_rows)
