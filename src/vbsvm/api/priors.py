"""Priors of blocks of columns: short names, defaults by likelihood, and those of a formula's terms by name."""

from collections.abc import Mapping
from typing import Any, final

from vbsvm.design.columns import INTERCEPT
from vbsvm.design.formula import syntax
from vbsvm.design.formula.reader import Reader
from vbsvm.design.values import did_you_mean
from vbsvm.inference.gibbs import Gibbs
from vbsvm.inference.variational import Variational
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.priors import Covariance, HalfT, InverseWishart, LaplaceZero, Normal, Prior, Ridge
from vbsvm.model.spec import Block

INFERENCES: Mapping[str, type[Any]] = {"variational": Variational, "gibbs": Gibbs}
# Normal has no default variance, and so no short name.
PRIORS: Mapping[str, type[Any]] = {"ridge": Ridge, "half-t": HalfT, "laplace-zero": LaplaceZero}
FORMULA_PRIORS: Mapping[str, type[Any]] = PRIORS | {"covariance": Covariance, "inverse-wishart": InverseWishart}


def resolve_alias(owner: str, value: Any, classes: Mapping[str, type[Any]]) -> Any:
    """Settings object for a short name; other objects are returned unchanged, and classes are rejected."""
    if isinstance(value, type):
        name = value.__name__
        raise TypeError(f"{owner} must be an object such as {name}(…); got the class {name} itself: add the brackets.")
    if not isinstance(value, str):
        return value
    if value not in classes:
        names = ", ".join(map(repr, classes))
        raise ValueError(f"{owner}: {value!r} is not known; the short names are {names}.{did_you_mean(value, classes)}")
    return classes[value]()


# The paper's σ_β² = 1e8.
INTERCEPT_PRIOR = Normal(1e8)
# A standard deviation of 2.5 for the log odds ratio of a standard deviation of the predictor, as in rstanarm.
FIXED_PRIOR = Normal(6.25)


def variance_prior(likelihood: Likelihood) -> Prior:
    """Of an estimator's predictors, and of a random intercept or slope on its own: their variance is inferred."""
    return HalfT() if likelihood.normalised else Ridge()


FIXED = "fixed"


def _fixed_terms(reader: Reader) -> dict[str, slice]:
    """Design columns of the intercept, of each fixed term, and of each spline's line."""
    terms = {INTERCEPT: slice(0, 1)} if reader.fixed.has_intercept else {}
    terms |= reader.fixed.terms
    begin = len(reader.fixed.names)
    for curve in reader.curves:
        if curve.with_line:
            terms[f"{curve.term} line"] = slice(begin, begin + 1)
            begin += 1
    return terms


def keys(reader: Reader) -> list[str]:
    """Valid keys of ``priors``."""
    groups = [str(effects.term) for effects in reader.effects]
    return [FIXED, *_fixed_terms(reader), *(str(curve.term) for curve in reader.curves), *groups]


def prior_blocks(
    reader: Reader, priors: Mapping[str, Prior | str], likelihood: Likelihood, *, standardised: bool
) -> tuple[Block, ...]:
    """One block for each term with a prior of its own, and one for all other fixed effects (Example 2)."""
    user_priors = _UserPriors(priors, likelihood)
    # flat where columns are not standardised, as then no scale is known for their effects
    fixed_prior = FIXED_PRIOR if likelihood.normalised and standardised else INTERCEPT_PRIOR
    fixed = _fixed_blocks(reader, user_priors, fixed_prior)
    wiggly, groups = _spline_blocks(reader, user_priors), _group_blocks(reader, user_priors)
    for block in (*fixed, *wiggly):
        if block.prior.of_groups:
            raise ValueError(f"priors: {type(block.prior).__name__} is for random effects, not for {block.name!r}.")
    for block in (*wiggly, *groups):
        if isinstance(block.prior, LaplaceZero):
            raise ValueError(f"priors: LaplaceZero is for fixed effects, not for {block.name!r}.")
    user_priors.check_all_used(keys(reader))
    return (*fixed, *wiggly, *groups)


def _fixed_blocks(reader: Reader, user_priors: "_UserPriors", default: Prior) -> list[Block]:
    separate, flat, shared, intercept = [], [], [], []
    shared_prior = user_priors.take(FIXED)
    for name, columns in _fixed_terms(reader).items():
        prior = user_priors.take(name)
        if prior is not None:
            separate.append(_block(reader, name, [columns], prior))
        elif name == INTERCEPT:
            intercept.append(columns)
        else:
            (flat if shared_prior is None else shared).append(columns)
    if shared_prior is not None:
        if not shared:
            raise ValueError("priors: 'fixed' is given, but all fixed effects have their own priors: remove 'fixed'.")
        separate.insert(0, _block(reader, FIXED, shared, shared_prior))
    if default == INTERCEPT_PRIOR:
        flat, intercept = intercept + flat, []
    plain = [Block("intercept", _merged_slices(intercept), INTERCEPT_PRIOR)] if intercept else []
    return [*plain, Block("fixed effects", _merged_slices(flat), default), *separate] if flat else [*plain, *separate]


def _block(reader: Reader, name: str, terms: list[slice], prior: Prior) -> Block:
    """Columns of one or several terms; where the prior has indicators, the columns of a term share one."""
    columns = _merged_slices(terms)
    of_terms = sorted((k, term) for term, part in enumerate(terms) for k in range(part.start, part.stop))
    names = [reader.plan.names[k - reader.plan.recipe.first] for k, _ in of_terms]
    gate_of = prior.gate_of(names, [term for _, term in of_terms])
    if gate_of is not None and len(columns) > 1:
        raise ValueError(f"priors: {type(prior).__name__} for {name!r} needs adjacent terms: {names}.")
    return Block(name, columns, prior, gate_of)


def _spline_blocks(reader: Reader, user_priors: "_UserPriors") -> list[Block]:
    blocks, begin = [], reader.plan.n_shown + reader.plan.recipe.first
    for curve in reader.curves:
        end = begin + curve.spline.n_columns
        blocks.append(Block(str(curve.term), (slice(begin, end),), user_priors.take(str(curve.term)) or Ridge()))
        begin = end
    return blocks


def _group_blocks(reader: Reader, user_priors: "_UserPriors") -> list[Block]:
    blocks = []
    for effects in reader.effects:
        first, factor = reader.plan.first_effects()[effects.factor], reader.plan.factors[effects.factor]
        stop, q = first + factor.size, len(factor.slopes)
        columns = tuple(slice(first + position, stop, q) for position in effects.places)
        prior, likelihood = user_priors.take(str(effects.term), effects.term.written), user_priors.likelihood
        if prior is None and len(columns) == 1:
            prior = variance_prior(likelihood)
        elif prior is None:
            prior = Covariance(scale=2.5) if likelihood.normalised else Covariance()
        blocks.append(Block(str(effects.term), columns, prior))
    return blocks


def _merged_slices(columns: list[slice]) -> tuple[slice, ...]:
    """Adjacent slices merged."""
    joined: list[slice] = []
    for part in sorted(columns, key=lambda part: part.start):
        if joined and joined[-1].stop == part.start:
            joined[-1] = slice(joined[-1].start, part.stop)
        else:
            joined.append(part)
    return tuple(joined)


@final
class _UserPriors:
    """The user's priors by normalised term; records which have been used."""

    def __init__(self, priors: Mapping[str, Prior | str], likelihood: Likelihood) -> None:
        self.likelihood = likelihood
        self._priors, self._taken = {}, set()
        if not isinstance(priors, Mapping) or not all(isinstance(key, str) for key in priors):
            raise TypeError(f"priors must be a dictionary such as {{'x': Ridge()}}; got {priors!r}.")
        for key, given in priors.items():
            prior = resolve_alias(f"priors: {key!r}", given, FORMULA_PRIORS)
            if syntax.normal_form(key) in self._priors:
                raise ValueError(f"priors: {key!r} is given twice.")
            if not isinstance(prior, Prior):
                raise TypeError(f"priors: {key!r} must be an object such as Ridge() or Normal(1.0); got {prior!r}.")
            self._priors[syntax.normal_form(key)] = (key, prior)

    def take(self, *names: str) -> Prior | None:
        """The user's prior of a term, by one of its names, or None."""
        for name in names:
            entry = self._priors.get(syntax.normal_form(name))
            if entry is not None:
                self._taken.add(entry[0])
                return entry[1]
        return None

    def check_all_used(self, keys: list[str]) -> None:
        """Reject priors of terms that do not exist."""
        for key, _ in self._priors.values():
            if key not in self._taken:
                raise ValueError(f"priors: there is no term {key!r}; there are {', '.join(map(repr, keys))}.")
