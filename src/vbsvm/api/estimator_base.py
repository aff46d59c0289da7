"""What estimators have in common, wherever their rows are: parameters, how a fit is kept, and what it knows."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from vbsvm.api import likelihood_power, priors
from vbsvm.api.data.partitions import EncodedData
from vbsvm.api.fit_warnings import Remark, fit_tasks
from vbsvm.api.task import Task, build_tasks, read_imputation, read_inference
from vbsvm.base import guesses
from vbsvm.base.arrays import Array, single_threaded_blas
from vbsvm.base.printing import progress, warn_user
from vbsvm.base.settings import check_flag
from vbsvm.inference.gibbs import Gibbs
from vbsvm.inference.variational import Variational
from vbsvm.missing.settings import NO_TRANSFORM, GaussianImputation
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.priors import LaplaceZero, Prior
from vbsvm.model.spec import State
from vbsvm.results import tables
from vbsvm.results.fit import Fit

if TYPE_CHECKING:
    import pandas as pd

# Attributes for internal use, not listed for users.
_INTERNAL = {"likelihood", "local", "check_settings"}


def _per_model(name: str, doc: str) -> Any:
    """Property that stacks an attribute of each model's fit in an array."""
    return property(lambda estimator: np.array([getattr(fit, name) for fit in estimator._fits]), doc=doc)


@guesses.explain(guesses.ESTIMATOR)
@dataclass(eq=False, repr=False)
class Estimator(BaseEstimator):
    """Parameters, documented by each estimator, and a fit that replaces the one before when it is complete.

    Attributes with a trailing underscore are those of ``fit_``: k models, one for two classes, else one for each class.
    """

    likelihood: ClassVar[Likelihood]
    fit_: tuple[Fit, ...] = field(init=False)
    classes_: NDArray[Any] = field(init=False)
    levels_: dict[Any, NDArray[Any]] = field(init=False)

    prior: Prior | str | None = None
    inference: Variational | Gibbs | str | None = None
    _: KW_ONLY
    imputation: GaussianImputation | None = None
    group: str | int | None = None
    standardize: bool = True
    fit_intercept: bool = True
    class_weight: dict[Any, float] | str | None = None
    random_state: Any = None
    verbose: int | None = None
    categories: str | None = None

    def __dir__(self) -> list[str]:
        """Names for tab completion: what users look for."""
        return sorted({*super().__dir__()} - _INTERNAL - {*guesses.ESTIMATOR})

    def __sklearn_tags__(self) -> Any:
        """Tags: NaN is supported, and text and categories if they are encoded."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = tags.input_tags.string = self.categories is not None
        return tags

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``prior__rate=…`` or ``inference__tol=…`` replaces the frozen object by a changed one."""
        nested: dict[str, dict[str, Any]] = {"prior": {}, "inference": {}, "imputation": {}}
        whole = {}
        known = self.get_params(deep=False)
        for name, value in params.items():
            owner, delimiter, inner = name.partition("__")
            if delimiter and owner in nested:
                nested[owner][inner] = value
            elif name in known:
                whole[name] = value
            else:
                hint = f" Of {name}: {guesses.SETTINGS[name]}." if name in guesses.SETTINGS else ""
                raise ValueError(
                    f"Invalid parameter {name!r} for {type(self).__name__}: it has {list(known)}, and those of "
                    f"prior, inference and imputation, such as 'prior__rate'.{hint}"
                )
        changed = type(self)(**(known | whole))
        for owner, changes in nested.items():
            if changes:
                current = getattr(changed, f"_{owner}")()
                inner = [field.name for field in fields(current)]
                unknown = [name for name in changes if name not in inner]
                if unknown:
                    raise ValueError(f"{type(current).__name__} has no parameter {unknown[0]!r}; it has {inner}.")
                whole[owner] = replace(current, **changes)
        return super().set_params(**whole)

    def check_settings(self) -> tuple[Prior, Variational | Gibbs, GaussianImputation]:
        """Prior, inference and imputation, defaults filled in; types are validated."""
        if self.categories not in (None, "one-hot"):
            raise ValueError(f"{type(self).__name__}: categories must be None or 'one-hot'; got {self.categories!r}.")
        check_flag(type(self).__name__, standardize=self.standardize, fit_intercept=self.fit_intercept)
        self._likelihood_power()
        return self._prior(), self._inference(), self._imputation()

    def _likelihood_power(self) -> float | str | None:
        """The likelihood power requested; only estimators with a pseudo-likelihood have the setting."""
        power = getattr(self, "likelihood_power", None)
        return None if power is None else likelihood_power.read_power(type(self).__name__, power)

    def _prior(self) -> Prior:
        if self.prior is None:
            return priors.variance_prior(self.likelihood)
        prior = priors.resolve_alias("prior", self.prior, priors.PRIORS)
        if not isinstance(prior, Prior):
            raise TypeError(f"prior must be an object such as Ridge() or Normal(variance=1.0), or None; got {prior!r}.")
        if prior.of_groups:
            raise TypeError(f"{prior!r} is a prior of random effects, for Model only: use Ridge() or Normal(1.0).")
        return prior

    def _inference(self) -> Variational | Gibbs:
        return read_inference(self.inference)

    def _imputation(self) -> GaussianImputation:
        settings = read_imputation(self.imputation)
        if settings.transform != NO_TRANSFORM:
            raise ValueError(
                f"GaussianImputation: transform={settings.transform!r} is supported by Model only: use a "
                "formula, or transform the columns first."
            )
        return settings

    def _build_tasks(self, data: EncodedData, imputation: GaussianImputation) -> list[Task]:
        """The tasks of encoded rows, whose classes are those of the estimator."""
        self.classes_ = data.encoder.classes
        if levels := getattr(data.encoder, "categories", None):
            self.levels_ = levels
        return build_tasks(data, imputation, self.likelihood)

    def _fit_tasks(self, tasks: Callable[[], list[Task]]) -> Self:
        """Build the tasks, fit them, and store the fits."""
        return self._replace_fit(lambda: self._fit(tasks()))

    def _replace_fit(self, fit: Callable[[], tuple[tuple[Fit, ...], list[Remark]]]) -> Self:
        """Store the fits of a function and issue its warnings; on failure the estimator is restored."""
        before = dict(vars(self))
        try:
            with progress(self.verbose), single_threaded_blas():
                fits, remarks = fit()
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
        self.fit_ = fits
        if any(fit.interrupted for fit in fits):
            raise KeyboardInterrupt
        for message, category in remarks:
            warn_user(message, category)
        return self

    def _fit(self, tasks: list[Task]) -> tuple[tuple[Fit, ...], list[Remark]]:
        """The fits, and warnings about them."""
        owner, power, remedy = type(self).__name__, self._likelihood_power(), 'class_weight="balanced"'
        starts = self._initial_states(tasks)
        return fit_tasks(owner, tasks, self._inference(), self.random_state, power, remedy, starts)

    def _initial_states(self, tasks: list[Task]) -> list[State] | None:
        """Initial states of the optimisation, or None for the default."""
        return None

    @property
    def _fits(self) -> tuple[Fit, ...]:
        check_is_fitted(self)
        return self.fit_

    coef_ = _per_model("coef", "Means of the coefficients, (k, n_features).")
    coef_std_ = _per_model("coef_std", "Standard deviations of the coefficients, (k, n_features).")
    coef_cov_ = _per_model("coef_cov", "Covariances of the coefficients, (k, n_features, n_features).")
    intercept_ = _per_model("intercept", "Means of the intercepts, (k,).")
    intercept_std_ = _per_model("intercept_std", "Standard deviations of the intercepts, (k,).")
    slopes_ = _per_model("slope", "Derivatives of the log odds with respect to the decision value, at 0, (k,).")
    penalty_ = _per_model("penalty", "Expected penalty α of the standardised predictors, (k,).")
    imputation_mean_ = _per_model("imputation_mean", "Means of the predictors, (k, n_features).")
    imputation_cov_ = _per_model("imputation_cov", "Covariances of the predictors, (k, n_features, n_features).")

    @property
    def likelihood_power_(self) -> Array:
        """Likelihood power of each model, (k,)."""
        if self._fits[0].spec.likelihood.normalised:
            raise AttributeError("likelihood_power_ is only available under the hinge loss: the power is 1 here.")
        return np.array([fit.likelihood_power for fit in self._fits])

    @property
    def inclusion_probability_(self) -> Array:
        """Probability that each predictor is included, (k, n_features)."""
        self._check_gates("inclusion_probability_")
        return np.stack([fit.inclusion_probability for fit in self._fits])

    @property
    def sign_probability_(self) -> Array:
        """Probability that the coefficient is positive if the predictor is included, (k, n_features)."""
        self._check_gates("sign_probability_")
        return np.stack([fit.sign_probability for fit in self._fits])

    def _check_gates(self, name: str) -> None:
        if not self._fits[0].selects:
            raise AttributeError(f"{name} is only available after a fit with prior=LaplaceZero().")

    @property
    def elbo_(self) -> float:
        """Evidence lower bound, summed over the models."""
        return float(sum(fit.elbo for fit in self._fits))

    @property
    def elbo_trace_(self) -> list[Array]:
        """ELBO of each model after each accepted step."""
        return [fit.bounds for fit in self._fits]

    @property
    def n_iter_(self) -> int:
        """Number of iterations, the maximum over the models."""
        return max(fit.outcome.passes for fit in self._fits)

    @property
    def converged_(self) -> bool:
        """Whether all models converged."""
        return all(fit.converged for fit in self._fits)

    @property
    def selected_(self) -> NDArray[np.bool_]:
        """Whether each predictor's inclusion probability is above the prior's threshold, (k, n_features)."""
        self._check_gates("selected_")
        prior = next(block.prior for block in self.fit_[0].spec.blocks if block.gate_of is not None)
        assert isinstance(prior, LaplaceZero)
        return self.inclusion_probability_ > prior.threshold

    @property
    def random_effects_(self) -> Any:
        """Mean and standard deviation of each random intercept; with several classes, the class is the first level."""
        if self.group is None:
            raise AttributeError("random_effects_ is only available after a fit with group= set to a column of X.")
        frames = [tables.random_effects(fit) for fit in self._fits]
        return tables.like_rows(self._fits[0], frames[0] if len(frames) == 1 else self._by_class(frames))

    def _by_class(self, frames: "list[pd.DataFrame]") -> "pd.DataFrame":
        """Tables of the models, concatenated."""
        import pandas as pd

        from vbsvm.results.summary_table import SummaryTable

        joined = SummaryTable(pd.concat(frames, keys=self.classes_, names=["class", frames[0].index.name]))
        notes = [frame.attrs["note"] for frame in frames]  # common to all classes, or by class if they differ
        by_class = [f"Class {label!s}: {note}" for label, note in zip(self.classes_, notes, strict=True)]
        joined.attrs = frames[0].attrs | {"note": notes[0] if len(set(notes)) == 1 else " ".join(by_class)}
        return joined
