"""A model by formula: fixed effects, random effects of groups, and splines."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from vbsvm.api import sensitivity, validation
from vbsvm.api.missing_values import Completion
from vbsvm.api.one_class import OneClassWarning, describe_unassigned
from vbsvm.api.problem import Task, read_inference, require_variational, warnings_of, with_layout
from vbsvm.base.arrays import Array
from vbsvm.base.settings import require_flag
from vbsvm.design import frames
from vbsvm.design.columns import INTERCEPT, Encoded, Plan
from vbsvm.design.formula import reader as formulas
from vbsvm.design.formula import syntax
from vbsvm.inference.gibbs import Gibbs
from vbsvm.inference.variational import Variational
from vbsvm.missing.candidates import KNOWN, LevelCounts, LevelModel, Options
from vbsvm.missing.input_model import GaussianImputation
from vbsvm.missing.missingness import NotAtRandom
from vbsvm.missing.model import MissingModel
from vbsvm.missing.patterns import MissingPatterns
from vbsvm.model.priors import Covariance, LaplaceZero, Normal, Prior, Ridge
from vbsvm.model.spec import Block, Spec
from vbsvm.results.data_summary import Facts
from vbsvm.results.display import Outline
from vbsvm.results.fit import Fit
from vbsvm.sources.memory import Grouping, Memory, MissingInputs

if TYPE_CHECKING:
    import pandas as pd

FIXED = "fixed"
FIXED_PRIOR = Normal(1e8)
# Scores matter up to ±1: standardised columns with coefficients of this size separate the classes.
LARGEST_EFFECT = 300.0


@final
class Model:
    """A support vector machine specified by a formula, with random effects and splines; nothing to tune.

    Parameters
    ----------
    formula : str
        For example ``"outcome ~ visit * treatment + s(age) + (1 + visit | patient)"``: numeric and categorical columns,
        interactions, transforms such as ``log(x)``, ``poly(x, 2)`` or ``C(x)``; penalised splines ``s(x)``; effects of
        groups ``(1 | g)``, ``(x | g)`` (correlated), ``(x || g)`` (not), nested ``(1 | a/b)``, crossed by a sum.
    data : pandas or polars DataFrame, arrow table, or dict of columns
        One row for each observation. The outcome may be text, bool or two numbers.
    priors : dict, default None
        Priors by term, such as ``{"(1 | g)": Ridge(2, 1), "s(age)": Normal(1e-4), "fixed": Ridge()}``. ``print(model)``
        shows the keys. "fixed" means all fixed effects except the intercept that have no prior of their own; they
        share it. By default fixed effects are Normal(1e8), terms with one effect Ridge(), with several Covariance().
    standardize : bool, default True
        Scale the columns to mean 0 and standard deviation 1 inside the fit. Coefficients are reported on
        the original scale of the columns; priors refer to the scaled ones.
    positive : label, default None
        The level of the outcome that positive scores mean. None means the second in sorted order. With more
        than two levels this one is set against the rest.
    weights : str or array-like, default None
        A column of the data, or one number for each row: a weight of k counts as k identical rows.
    imputation : GaussianImputation, default None
        Distribution of the inputs, from which missing values are inferred together with the coefficients. None means
        ``GaussianImputation()``. A missing input must enter linearly: as itself, a transform such as ``log(x)``, or in
        products with known ones.
    missing : {"infer", "drop"}, default "infer"
        How missing values are handled. "infer": missing inputs are inferred, and a missing outcome, weight or group is
        an error. "drop": rows with a missing value in any column of the formula, or a missing weight, are left out of
        the fit; ``n_dropped`` and ``print(model)`` report how many.

    Attributes
    ----------
    n_dropped : int
        Rows of positive weight that ``missing="drop"`` left out.

    Examples
    --------
    >>> from vbsvm import Model
    >>> from vbsvm.datasets import load_toenail
    >>> fit = Model("outcome ~ visit * treatment + (1 | patientID)", load_toenail()).fit()
    >>> fit.random_effects().shape
    (294, 2)
    """

    def __init__(
        self,
        formula: str,
        data: Any,
        priors: Mapping[str, Prior] | None = None,
        *,
        standardize: bool = True,
        positive: Any = None,
        weights: str | ArrayLike | None = None,
        imputation: GaussianImputation | None = None,
        missing: str = "infer",
    ) -> None:
        require_flag("Model", standardize=standardize)
        if missing not in ("infer", "drop"):
            raise ValueError(f"missing must be 'infer' or 'drop'; got {missing!r}.")
        parts = syntax.read(formula, frames.names_of(data), weights if isinstance(weights, str) else None)
        if missing == "drop":
            counts, self.n_dropped = _complete_counts(parts, data, weights)
        else:
            counts, self.n_dropped = _read_weights(weights, data, parts.outcome), 0
        kept = None if counts is None or counts.all() else np.flatnonzero(counts)
        frame = frames.take(data, parts.columns, kept, may_miss=parts.inputs)
        counts = np.broadcast_to(1.0, len(frame)) if counts is None else counts if kept is None else counts[kept]
        self.formula = parts.text
        self.classes, signs = validation.read_outcome(parts.outcome, frame[parts.outcome], positive)
        validation.require_both_signs(signs, parts.outcome)
        self._reader, encoded = formulas.learn(parts, frame, counts, bool(standardize))
        plan = self._reader.plan
        known_levels = None
        if encoded.origin is not None:
            signs, counts = signs[encoded.origin], counts[encoded.origin]
            known_levels = LevelCounts(self._reader.categories.counts)
        completion = _completion(self._reader, encoded, counts, imputation)
        levels = None if known_levels is None else LevelModel(tuple(len(one) for one in known_levels.counts))
        blocks = tuple(_blocks(self._reader, {} if priors is None else priors))
        self.spec = Spec(blocks, MissingModel.of(completion.distribution, levels))
        validation.require_moderate_core(plan)
        validation.require_gates_that_fit(self.spec, plan)
        source = replace(_source(plan, encoded, signs, counts, completion.missing_inputs), known_levels=known_levels)
        self._source = with_layout(self.spec, source)
        self._task = Task(self.spec, plan, completion, self._source, self.classes, self._reader, self.n_dropped)

    def fit(self, inference: Variational | Gibbs | None = None, *, random_state: Any = None) -> Fit:
        """Fit the model by ``inference``, ``Variational()`` by default; ``random_state`` is the seed of ``Gibbs()``."""
        inference = read_inference(inference)
        seed = validation.read_seed(random_state) if isinstance(inference, Gibbs) else 0
        fit = self._task.fit(inference, seed=seed)
        for message in warnings_of("Model.fit", fit, inference):
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
        if fit.largest_fixed_effect > LARGEST_EFFECT:
            warnings.warn(
                "Model.fit found a fixed effect that is hardly bounded: the columns separate the classes, or nearly "
                "so. Give the fixed effects a tighter prior, such as priors={'fixed': Normal(1.0)}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        remedy = "weights=… with {own} for its rows and {others} for all others"
        unassigned = describe_unassigned("Model.fit", remedy, [self._task], [fit], self.classes)
        if unassigned is not None:
            warnings.warn(unassigned, OneClassWarning, stacklevel=2)
        return fit

    def sensitivity(
        self, deltas: Sequence[float], columns: Sequence[str] | None = None, inference: Variational | None = None
    ) -> "pd.DataFrame":
        """How the fit changes when missing values are shifted: one row for each shift.

        ``deltas`` are shifts in standard deviations of ``columns`` (all that have missing values by default). Given are
        the coefficients, and the share of complete rows whose predicted class changes (NaN where no row is complete).
        ``plots.sensitivity`` draws it.
        """
        variational = require_variational("sensitivity", read_inference(inference))
        return sensitivity.table(self._task, variational, deltas, columns)

    def __repr__(self) -> str:
        """The formula and the number of rows."""
        facts = Facts.of(self._source, self.n_dropped)
        left_out = f", {facts.left_out}" if facts.left_out else ""
        return f"<Model {self.formula}: {facts.n_rows} rows{left_out}>"

    def __str__(self) -> str:
        """Formula, rows and classes, blocks with their sizes and priors, groups, and the keys of ``priors``."""
        return self._outline.text()

    def _repr_html_(self) -> str:
        """The same in notebooks."""
        return self._outline.html()

    @property
    def _outline(self) -> Outline:
        facts, plan = Facts.of(self._source, self.n_dropped), self._reader.plan
        return Outline(self.formula, facts, self.classes, self.spec, plan, _keys(self._reader))


def _completion(
    reader: formulas.Reader, encoded: Encoded, counts: Array, imputation: GaussianImputation | None
) -> Completion:
    settings = GaussianImputation() if imputation is None else imputation
    if not isinstance(settings, GaussianImputation):
        raise TypeError(f"imputation must be an object such as GaussianImputation(), or None; got {settings!r}.")
    missing = np.isnan(encoded.table.sum(axis=0))
    linear = reader.linear
    links = [(column, linear.variables[k].place) for column, k in linear.links]
    if encoded.origin is not None and isinstance(settings.mechanism, NotAtRandom):
        raise ValueError("NotAtRandom does not support missing categories: make missing a category of its own.")
    found = Completion.of(
        settings,
        reader.plan,
        encoded.table,
        counts,
        missing,
        reader.mains,
        links,
        encoded.multipliers,
        reader.uncertain,
    )
    return (
        found
        if encoded.origin is None
        else replace(found, missing_patterns=_missing_patterns(reader, encoded, found.missing_patterns.names))
    )


def _missing_patterns(reader: formulas.Reader, encoded: Encoded, names: tuple[str, ...]) -> MissingPatterns:
    """Patterns of missing inputs and categories; alternatives count as the one row that they are."""
    assert encoded.origin is not None
    assert encoded.codes is not None
    _, first = np.unique(encoded.origin, return_index=True)
    lost = encoded.codes[first] != KNOWN
    chosen = lost.any(axis=0)
    columns = [reader.plan.names.index(name) for name in names]
    missing = np.column_stack([np.isnan(encoded.table[first][:, columns]), lost[:, chosen]])
    return MissingPatterns.of(
        missing, (*names, *(name for name, one in zip(reader.categories.names, chosen, strict=True) if one))
    )


def _source(plan: Plan, encoded: Encoded, signs: Array, counts: Array, missing_inputs: MissingInputs | None) -> Memory:
    """Rows in the order of the largest factor's levels, so that a pass finds what it looks up side by side."""
    table, all_levels, options = encoded.table, encoded.levels, None
    if encoded.origin is not None and encoded.codes is not None:
        options = Options(encoded.origin, encoded.codes)
    if all_levels and (all_levels[-1][1:] < all_levels[-1][:-1]).any():
        order = np.argsort(all_levels[-1], kind="stable")
        table, signs, counts = table.T[:, order].T, signs[order], counts[order]
        missing_inputs = (
            None if missing_inputs is None else replace(missing_inputs, multipliers=missing_inputs.multipliers[order])
        )
        options = None if options is None else options.take(order)
        all_levels = tuple(levels[order] for levels in all_levels)
    groupings = tuple(
        Grouping(levels, len(factor.levels), factor.slopes)
        for factor, levels in zip(plan.factors, all_levels, strict=True)
    )
    return Memory(
        table, signs, counts, plan.recipe, groupings, plan.n_carried, missing_inputs=missing_inputs, options=options
    )


def _fixed_terms(reader: formulas.Reader) -> dict[str, slice]:
    """Design columns of the intercept, of each fixed term, and of each spline's line."""
    terms = {INTERCEPT: slice(0, 1)} if reader.fixed.has_intercept else {}
    terms |= reader.fixed.terms
    begin = len(reader.fixed.names)
    for curve in reader.curves:
        if curve.with_line:
            terms[f"{curve.term} line"] = slice(begin, begin + 1)
            begin += 1
    return terms


def _keys(reader: formulas.Reader) -> list[str]:
    """What ``priors`` may name."""
    groups = [str(effects.term) for effects in reader.effects]
    return [FIXED, *_fixed_terms(reader), *(str(curve.term) for curve in reader.curves), *groups]


def _blocks(reader: formulas.Reader, priors: Mapping[str, Prior]) -> list[Block]:
    """One block for each term with a prior of its own, and one for all other fixed effects (Example 2)."""
    given = _Given(priors)
    fixed, bends, groups = _fixed_blocks(reader, given), _spline_blocks(reader, given), _group_blocks(reader, given)
    for block in (*fixed, *bends):
        if block.prior.of_groups:
            raise ValueError(f"priors: {type(block.prior).__name__} is for effects of groups, not for {block.name!r}.")
    for block in (*bends, *groups):
        if isinstance(block.prior, LaplaceZero):
            raise ValueError(f"priors: LaplaceZero is for fixed effects, not for {block.name!r}.")
    blocks = [*fixed, *bends, *groups]
    given.require_all_taken(_keys(reader))
    return blocks


def _fixed_blocks(reader: formulas.Reader, given: "_Given") -> list[Block]:
    own, flat, shared = [], [], []
    of_all = given.take(FIXED)
    for name, columns in _fixed_terms(reader).items():
        prior = given.take(name)
        if prior is not None:
            own.append(_block(reader, name, [columns], prior))
        else:
            (flat if of_all is None or name == INTERCEPT else shared).append(columns)
    if of_all is not None:
        if not shared:
            raise ValueError("priors: 'fixed' is given, but no fixed effect is left for it: remove 'fixed'.")
        own.insert(0, _block(reader, FIXED, shared, of_all))
    return [Block("fixed effects", _joined(flat), FIXED_PRIOR), *own] if flat else own


def _block(reader: formulas.Reader, name: str, terms: list[slice], prior: Prior) -> Block:
    """Columns of one or several terms; where the prior has gates, the columns of a term share one."""
    columns = _joined(terms)
    of_terms = sorted((k, term) for term, one in enumerate(terms) for k in range(one.start, one.stop))
    names = [reader.plan.name_of(k) for k, _ in of_terms]
    gate_of = prior.gate_of(names, [term for _, term in of_terms])
    if gate_of is not None and len(columns) > 1:
        raise ValueError(f"priors: {type(prior).__name__} for {name!r} needs adjacent terms: {names}.")
    return Block(name, columns, prior, gate_of)


def _spline_blocks(reader: formulas.Reader, given: "_Given") -> list[Block]:
    blocks, begin = [], reader.plan.n_shown + reader.plan.recipe.first
    for curve in reader.curves:
        end = begin + curve.spline.n_columns
        blocks.append(Block(str(curve.term), (slice(begin, end),), given.take(str(curve.term)) or Ridge()))
        begin = end
    return blocks


def _group_blocks(reader: formulas.Reader, given: "_Given") -> list[Block]:
    blocks = []
    for effects in reader.effects:
        first, factor = reader.plan.first_effects()[effects.factor], reader.plan.factors[effects.factor]
        stop, q = first + factor.size, len(factor.slopes)
        columns = tuple(slice(first + place, stop, q) for place in effects.places)
        prior = given.take(str(effects.term), effects.term.written)
        default = Ridge() if len(columns) == 1 else Covariance()
        blocks.append(Block(str(effects.term), columns, default if prior is None else prior))
    return blocks


def _joined(columns: list[slice]) -> tuple[slice, ...]:
    """Neighbouring slices made one."""
    joined: list[slice] = []
    for one in sorted(columns, key=lambda one: one.start):
        if joined and joined[-1].stop == one.start:
            joined[-1] = slice(joined[-1].start, one.stop)
        else:
            joined.append(one)
    return tuple(joined)


@final
class _Given:
    """The user's priors by term, in any way of writing it; knows which have been taken."""

    def __init__(self, priors: Mapping[str, Prior]) -> None:
        self._priors, self._taken = {}, set()
        if not isinstance(priors, Mapping) or not all(isinstance(key, str) for key in priors):
            raise TypeError(f"priors must be a dictionary such as {{'x': Ridge()}}; got {priors!r}.")
        for key, prior in priors.items():
            if syntax.normal_form(key) in self._priors:
                raise ValueError(f"priors: {key!r} is given twice.")
            if not isinstance(prior, Prior):
                raise TypeError(f"priors: {key!r} must be an object such as Ridge() or Normal(1.0); got {prior!r}.")
            self._priors[syntax.normal_form(key)] = (key, prior)

    def take(self, *names: str) -> Prior | None:
        """The prior that was given for a term by one of its names."""
        for name in names:
            found = self._priors.get(syntax.normal_form(name))
            if found is not None:
                self._taken.add(found[0])
                return found[1]
        return None

    def require_all_taken(self, keys: list[str]) -> None:
        """Refuse a prior for a term that is not there."""
        for key, _ in self._priors.values():
            if key not in self._taken:
                raise ValueError(f"priors: there is no term {key!r}; there are {', '.join(map(repr, keys))}.")


def _complete_counts(parts: syntax.Parts, data: Any, weights: str | ArrayLike | None) -> tuple[Array, int]:
    """Weights of the rows, 0 for those that miss something; and how many these are that would have counted."""
    masks = frames.missing_rows(data, parts.columns)
    given: Any = weights
    if isinstance(weights, str):
        given = frames.take(data, [weights], may_miss=[weights])[weights].to_numpy()
    unknown = np.zeros(len(masks[parts.outcome]), dtype=bool)
    if np.shape(given) == unknown.shape:
        unknown = frames.missing_rows({"weights": given}, ["weights"])["weights"]
        given = np.where(unknown, 0.0, given)
    counts = validation.read_weights(given, len(unknown), "weights")
    complete = ~np.logical_or.reduce([*masks.values()])
    if not (counts[complete] > 0).any():
        worst = max(masks, key=lambda name: int(masks[name].sum()))
        raise ValueError(
            f"missing='drop' leaves no row: each has a missing value; column {worst!r} is missing in "
            f"{masks[worst].sum()} of {len(complete)} rows."
        )
    return np.where(complete, counts, 0.0), int(((counts > 0) & ~complete | unknown).sum())


def _read_weights(weights: str | ArrayLike | None, data: Any, outcome: str) -> Array | None:
    if weights is None:
        return None
    if isinstance(weights, str):
        weights = frames.take(data, [weights])[weights].to_numpy()
    return validation.read_weights(weights, len(frames.column(data, outcome)), "weights")
