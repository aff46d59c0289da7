"""The sandwich: against refits without a row or a group, with weights, and with errors that must be seen."""

from dataclasses import replace

import numpy as np
import pytest

from grouped_models import dense_twin
from models import source_of, spec_of, unscaled
from spread_models import overlapping, sds
from vbsvm import Normal, Ridge, Variational
from vbsvm.base.update_mode import mean_field
from vbsvm.inference.covariance.kinds import Covariances
from vbsvm.inference.covariance.sandwich import sandwich_of_rows
from vbsvm.model.likelihoods.hinge import HINGE
from vbsvm.model.spec import Block, Spec
from vbsvm.sources.memory import Memory
from vbsvm.sources.rows import Grouping

TIGHT = Variational(tol=1e-10, bound="augmented")


def ratio(one, other):
    return float(np.exp(np.log(sds(one) / sds(other)).mean()))


def jackknife(estimates):
    """Covariance of the estimates that leave out one row or group each."""
    m = len(estimates)
    return (m - 1) / m * (apart := estimates - estimates.mean(axis=0)).T @ apart


def test_rows_against_refits_without_each_row():
    """The exact bound's estimate, with its own response as bread; refits that leave out one row each."""
    X, y = overlapping(150, 3, seed=0)
    spec, source = spec_of(3), source_of(X, y)
    state = TIGHT.run(spec, source).state
    exact = Variational(bound="exact", tol=1e-9)
    estimates = np.array(
        [
            exact.run(spec, source_of(np.delete(X, i, 0), np.delete(y, i)), state).state.coefficients.mean
            for i in range(len(y))
        ]
    )
    found = Covariances(spec, state, source, 4).of("robust")
    expected = jackknife(estimates)
    assert 0.9 < ratio(found.covariance, expected) < 1.1
    assert not 0.9 < ratio(2 * found.covariance, expected) < 1.1  # a factor of 2 in the meat
    assert not 0.9 < ratio(Covariances(spec, state, source, 4).of("posterior").covariance, expected) < 1.1


@pytest.mark.parametrize("by", ["response", "curvature"])
def test_whole_weights_are_repeated_rows(by):
    X, y = overlapping(80, 3, seed=1)
    s = np.random.default_rng(0).integers(1, 4, size=80)
    spec = spec_of(3)
    found = []
    for source in (source_of(X, y, s), source_of(np.repeat(X, s, axis=0), np.repeat(y, s))):
        state = TIGHT.run(spec, source).state
        found.append(Covariances(spec, state, source, 4).of("robust", by=by).covariance)
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-6)
    # Not what a weight in the loss alone would make of it.
    source = source_of(X, y, s)
    as_rows = Covariances(spec, TIGHT.run(spec, source).state, source, 4, squared=source_of(X, y, s * s)).of(
        "robust", by=by
    )
    assert np.abs(as_rows.covariance / found[0] - 1).max() > 0.1


def test_class_weights_are_not_repetitions():
    """Rows that are there twice, with class weights: the same as the rows written out twice."""
    X, y = overlapping(80, 3, seed=2)
    s, of_class = np.random.default_rng(0).integers(1, 4, size=80), np.where(y > 0, 1.0, 2.5)
    spec = spec_of(3)
    few = source_of(X, y, s * of_class)
    many = source_of(np.repeat(X, s, axis=0), np.repeat(y, s), np.repeat(of_class, s))
    state = TIGHT.run(spec, few).state
    one = Covariances(spec, state, few, 4, squared=source_of(X, y, s * of_class**2)).of("robust").covariance
    other = (
        Covariances(spec, state, many, 4, squared=replace(many, weights=np.repeat(of_class, s) ** 2))
        .of("robust")
        .covariance
    )
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    forgotten = Covariances(spec, state, few, 4).of("robust").covariance
    assert np.abs(forgotten / one - 1).max() > 0.1


def test_meat_of_several_blocks():
    """Σ g²/k c cᵀ by hand, with repetitions and class weights, over rows in several blocks."""
    X, y = overlapping(3000, 59, seed=4)
    k, of_class = np.random.default_rng(0).integers(1, 4, size=3000), np.where(y > 0, 1.0, 2.5)
    spec, source = spec_of(59), source_of(X, y, k * of_class)
    assert source.n_blocks > 1
    state, C = Variational().run(spec, source).state, np.column_stack([np.ones(3000), X])
    f, v = C @ state.coefficients.mean, np.square(C @ state.coefficients.root).sum(axis=1)
    slope = HINGE.slopes(f, v, y, k * of_class)[1]
    found = sandwich_of_rows(np.eye(60), spec, state, source_of(X, y, k * of_class**2))
    np.testing.assert_allclose(found, C.T @ ((slope**2 / k)[:, None] * C), rtol=1e-9, atol=1e-7)


def in_groups(n_groups=60, size=5, seed=0, crossed=0):
    """Random intercepts, inputs that vary between groups; a second factor on request."""
    rng = np.random.default_rng(seed)
    n, g = n_groups * size, np.repeat(np.arange(n_groups), size)
    X = np.column_stack([rng.normal(size=n_groups)[g], rng.normal(size=n)])
    score = X @ [1.0, 0.7] + 1.2 * rng.normal(size=n_groups)[g]
    groupings, blocks, n_core = [], [Block("fixed", (slice(0, 3),), Normal(100.0))], 3
    if crossed:
        h = rng.integers(0, crossed, size=n)
        score += 1.0 * rng.normal(size=crossed)[h]
        groupings.append(Grouping(h, crossed, (0,)))
        blocks.append(Block("crossed", (slice(3, 3 + crossed),), Ridge()))
        n_core += crossed
    groupings.append(Grouping(g, n_groups, (0,)))
    blocks.append(Block("groups", (slice(n_core, n_core + n_groups),), Ridge()))
    y = np.where(score + rng.logistic(size=n) > 0, 1.0, -1.0)
    source = Memory(X, y, np.ones(n), unscaled(2), tuple(groupings))
    return Spec(tuple(blocks)), source, g


def without(source, rows):
    kept = np.ones(len(source.X), dtype=bool)
    kept[rows] = False
    return replace(
        source,
        X=source.X[kept],
        y=source.y[kept],
        weights=source.weights[kept],
        groupings=tuple(grouping.take(kept) for grouping in source.groupings),
    )


@pytest.mark.parametrize("crossed", [0, 8])
def test_groups_against_refits_without_each_group(crossed):
    """Fits of the exact bound, scales inferred."""
    spec, source, g = in_groups(crossed=crossed)
    state, exact = TIGHT.run(spec, source).state, Variational(bound="exact")
    estimates = np.array(
        [exact.run(spec, without(source, g == j), state).state.coefficients.mean[:3] for j in range(60)]
    )
    spreads = Covariances(spec, state, source, 3)
    expected, found = jackknife(estimates), spreads.of("robust")
    assert 0.93 < ratio(found.covariance, expected) < 1.08
    assert np.abs(np.log(sds(spreads.of("posterior").covariance) / sds(expected))).max() > 0.3
    assert ("Factors are crossed" in " ".join(found.reliability.warnings)) == bool(crossed)


@pytest.mark.parametrize("crossed", [0, 8])
def test_groups_by_the_curvature_alone(crossed):
    """Fits of the paper's bound, scales known: the curvature does not see how they answer."""
    spec, source, g = in_groups(crossed=crossed)
    state = TIGHT.run(spec, source).state
    known = Spec(
        tuple(replace(b, prior=Normal(1 / s.inverse_mean)) for b, s in zip(spec.blocks, state.scales, strict=True))
    )
    state = TIGHT.run(known, source).state
    estimates = np.array(
        [TIGHT.run(known, without(source, g == j), state).state.coefficients.mean[:3] for j in range(60)]
    )
    expected = jackknife(estimates)
    found = Covariances(known, state, source, 3).of("robust", by="curvature").covariance
    assert 0.88 < ratio(found[:2, :2], expected[:2, :2]) < 1.1  # the intercept and an input that groups share
    # Planted: rows taken for independent; sums of groups with their own columns, but without the prior's gradient.
    twin = dense_twin(source)
    C, bread = twin.X, full_covariance(known, state, twin)[:3]
    f, v = C @ state.coefficients.mean, np.einsum("ij,jk,ik->i", C, twin_covariance(known, state, twin), C)
    scores = HINGE.slopes(f, v, source.y, source.weights)[1][:, None] * C
    sums = np.array([scores[g == j].sum(axis=0) for j in range(60)])
    by_hand = (apart := sums[:, : source.n_core] @ bread[:, : source.n_core].T) - apart.mean(axis=0)
    np.testing.assert_allclose(found, by_hand.T @ by_hand * 60 / 59, rtol=1e-4, atol=1e-6)
    for wrong in (scores @ bread.T, sums @ bread.T):
        assert ratio((wrong.T @ wrong)[:2, :2], expected[:2, :2]) < 0.85
    assert not 0.85 < ratio(2 * found, expected) < 1.1


def full_covariance(spec, state, twin):
    """(H + Λ)⁻¹ with the groups' columns written out."""
    C = twin.X
    f, v = C @ state.coefficients.mean, np.einsum("ij,jk,ik->i", C, twin_covariance(spec, state, twin), C)
    H = HINGE.terms(f, v, twin.y, twin.weights, mean_field).curvature
    return np.linalg.inv(C.T @ (H[:, None] * C) + np.diag(spec.precision(state).diagonal))


def twin_covariance(spec, state, twin):
    """Σ of the state with the groups' columns written out."""
    again = TIGHT.run(spec, twin).state.coefficients
    np.testing.assert_allclose(again.mean, state.coefficients.mean, atol=1e-4)
    return again.covariance
