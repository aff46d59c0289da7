"""What a fit knows: one two-class model, its coefficients on the user's scale, and how it was reached."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr, ndtri

from vbsvm import components, hinge, prediction
from vbsvm.arrays import Array
from vbsvm.design.plan import INTERCEPT, Encoded, FactorPlan, Plan
from vbsvm.fit.variational import Ending, Outcome
from vbsvm.layout.arrow import ArrowGaussian
from vbsvm.layout.base import CoefficientLaw
from vbsvm.layout.dense import DenseGaussian
from vbsvm.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.design.formula import Reader

SPREAD_NOTE = "mean field: too narrow"
INPUTS = "inputs"


@final
@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """A fitted two-class model. Scores are positive for the second of its classes.

    Spreads are those of the mean-field law, about half of the posterior's: tables say so in their corner.
    """

    spec: Spec
    plan: Plan
    outcome: Outcome
    classes: NDArray[Any]
    reader: "Reader | None" = None

    def __repr__(self) -> str:
        """One line: what was fitted, and how it ended."""
        what = self.reader.parts.text if self.reader is not None else f"{len(self.plan.names)} columns"
        return f"<Fit of {what}: {self.outcome.passes} passes, bound {self.elbo:.4f}, {self.outcome.ending.value}>"

    def __str__(self) -> str:
        """Formula, how it ended, fixed effects and variance components."""
        lines = [
            repr(self)[1:-1],
            f"A positive score speaks for {self.classes[1]!s}.",
            "",
            self.summary().round(4).to_string(),
        ]
        found = self.variance_components()
        if len(found):
            lines += ["", found.round(4).to_string()]
        return "\n".join(lines)

    @property
    def elbo(self) -> float:
        """Lower bound on the log evidence of the pseudo-likelihood."""
        return float(self.outcome.bounds[-1])

    @property
    def converged(self) -> bool:
        """Whether the bound stood still."""
        return self.outcome.ending is Ending.CONVERGED

    @property
    def _coefficients(self) -> CoefficientLaw:
        return self.outcome.state.coefficients

    @property
    def law(self) -> DenseGaussian:
        """Law of the coefficients of the design's (standardised) columns, group effects aside."""
        law = self._coefficients
        core = law.core if isinstance(law, ArrowGaussian) else law
        assert isinstance(core, DenseGaussian)
        return core.marginal(self.plan.n_fixed)

    @property
    def coef(self) -> Array:
        """Coefficients of the raw columns."""
        return self._shown(self.law.mean) / self._scale

    @property
    def coef_std(self) -> Array:
        """Standard deviations of the coefficients of the raw columns."""
        root = self._shown(self.law.root)
        return np.sqrt(np.einsum("ij,ij->i", root, root)) / self._scale

    @property
    def coef_cov(self) -> Array:
        """Covariance of the coefficients of the raw columns."""
        root = self._shown(self.law.root) / self._scale[:, None]
        return root @ root.T

    @property
    def intercept(self) -> float:
        """Score of a raw row of zeros, splines at their mean; 0 in a model without intercept."""
        return float(self._intercept_row() @ self.law.mean)

    @property
    def intercept_std(self) -> float:
        """Standard deviation of the intercept."""
        return float(np.linalg.norm(self._intercept_row() @ self.law.root))

    @property
    def penalty(self) -> float:
        """E[α] = E[σ⁻²]/4 of the inputs' prior, for the standardised columns: the paper's penalty parameter."""
        names = [block.name for block in self.spec.blocks]
        return 0.25 * self.outcome.state.scales[names.index(INPUTS)].inverse_mean

    def _shown(self, of_design: Array) -> Array:
        begin = int(self.plan.recipe.intercept)
        return of_design[begin : begin + self.plan.n_shown]

    @property
    def _scale(self) -> Array:
        return self.plan.recipe.scale[: self.plan.n_shown]

    def _intercept_row(self) -> Array:
        """Give t such that tᵀθ is the intercept on the user's scale: 1, and −centre/scale for what users see."""
        recipe, row = self.plan.recipe, np.zeros(self.plan.n_fixed)
        row[: int(recipe.intercept)] = 1.0
        self._shown(row)[:] = -recipe.centre[: self.plan.n_shown] / self._scale
        return row

    def summary(self, level: float = 0.95) -> "pd.DataFrame":
        """One row for each coefficient: mean, standard deviation, interval, and the probability that it is positive."""
        import pandas as pd

        _require_level("summary", level)
        mean, sd, names = self.coef, self.coef_std, self.plan.names[: self.plan.n_shown]
        if self.plan.recipe.intercept:
            mean, sd = np.r_[self.intercept, mean], np.r_[self.intercept_std, sd]
            names = (INTERCEPT, *names)
        half_width = ndtri(0.5 + 0.5 * level) * sd
        frame = pd.DataFrame(
            {
                "coefficient": mean,
                "sd": sd,
                "lower": mean - half_width,
                "upper": mean + half_width,
                "p_positive": ndtr(np.divide(mean, sd, out=np.zeros_like(sd), where=sd > 0)),
            },
            index=pd.Index(names),
        )
        return _noted(frame, level)

    def random_effects(self, factor: str | None = None) -> "pd.DataFrame":
        """Mean and standard deviation of each group's effects on the score.

        Slopes are given for the user's column. In a standardised model random intercepts are deviations at the mean of
        the slopes' columns. With several factors name one, or get all of them with the factor as the first level.
        """
        import pandas as pd

        names = [plan.name for plan in self.plan.factors]
        if factor is not None and factor not in names:
            raise ValueError(f"random_effects: there is no factor {factor!r}; there are {names}.")
        chosen = names if factor is None else [factor]
        if not chosen:
            raise ValueError("random_effects: the model has no groups.")
        frames = {name: self._effects_of(names.index(name)) for name in chosen}
        if len(chosen) == 1:
            return frames.popitem()[1]
        flat = {
            name: frame.set_axis([" ".join(map(str, np.atleast_1d(label))) for label in frame.index])
            for name, frame in frames.items()
        }
        return _noted(pd.concat(flat, names=["factor", "group"]))

    def _effects_of(self, k: int) -> "pd.DataFrame":
        import pandas as pd

        plan, begin = self.plan.factors[k], self.plan.first_effects()[k]
        shape = len(plan.levels), len(plan.slopes)
        of_factor, law = slice(begin, begin + plan.size), self._coefficients
        mean = law.mean[of_factor].reshape(shape)
        sd = np.sqrt(np.maximum(law.squares[of_factor].reshape(shape) - np.square(mean), 0.0))
        units = self._units(plan)
        labels = plan.levels.labels
        if len(plan.columns) > 1:
            index: Any = pd.MultiIndex.from_tuples(labels, names=plan.columns)
        else:
            index = pd.Index(labels, name=plan.name)
        frames = {
            name: pd.DataFrame({"mean": mean[:, j] * units[j], "sd": sd[:, j] * units[j]}, index=index)
            for j, name in enumerate(plan.effects)
        }
        if len(frames) == 1:
            return _noted(next(iter(frames.values())))
        joined = pd.concat(frames, names=["effect"])
        order = list(range(1, joined.index.nlevels))
        return _noted(joined.reorder_levels([*order, 0]).sort_index(kind="stable", sort_remaining=False))

    def _units(self, plan: FactorPlan) -> list[float]:
        """What makes an effect of a design column one of the user's column."""
        columns = [slope - int(self.plan.recipe.intercept) for slope in plan.slopes]
        return [1.0 if column < 0 else 1.0 / float(self.plan.recipe.scale[column]) for column in columns]

    def variance_components(self, level: float = 0.95) -> "pd.DataFrame":
        """Standard deviations of random effects and splines with their spread; correlations of slopes.

        ``sd`` is the median, with an interval; ``variance`` is the mean of the variance. Slopes are given for the
        user's column.
        """
        _require_level("variance_components", level)
        return _noted(components.table(self.plan, self.spec, self.outcome.state, level), level)

    def decision_function(
        self, data: Any, *, return_std: bool = False, new_groups: str = "population"
    ) -> Array | tuple[Array, Array]:
        """Mean score of each row, and on request its standard deviation.

        A group that was not seen in fit gets the population's score, and the variance of its effects is added to the
        score's; ``new_groups="error"`` refuses it.
        """
        encoded = self._read(data, new_groups)
        if not return_std:
            return prediction.mean_scores(self.plan, self.outcome.state, encoded)
        mean, variance = prediction.score_moments(self.plan, self.spec, self.outcome.state, encoded)
        return mean, np.sqrt(variance)

    def predict(self, data: Any, *, new_groups: str = "population") -> NDArray[Any]:
        """Class of each row: by the sign of its score."""
        scores = prediction.mean_scores(self.plan, self.outcome.state, self._read(data, new_groups))
        return self.classes[(scores > 0).astype(np.intp)]

    def predict_proba(self, data: Any, *, new_groups: str = "population") -> Array:
        """Probabilities of the two classes by the normalised pseudo-likelihood; they are not calibrated."""
        scores = prediction.mean_scores(self.plan, self.outcome.state, self._read(data, new_groups))
        log_odds = hinge.log_odds(scores)
        return np.stack([expit(-log_odds), expit(log_odds)], axis=1)

    def _read(self, data: Any, new_groups: str) -> Encoded:
        if new_groups not in ("population", "error"):
            raise ValueError(f"new_groups must be 'population' or 'error'; got {new_groups!r}.")
        if isinstance(data, Encoded):
            encoded = data
        elif self.reader is None:
            raise TypeError("This fit belongs to an estimator, which knows its columns: use the estimator's methods.")
        else:
            encoded = self.reader.read(data)
        unseen = encoded.first_unseen() if new_groups == "error" else None
        if unseen is not None:
            factor, row = unseen
            raise ValueError(
                f"The group of row {row} in {self.plan.factors[factor].name!r} was not there in fit. "
                "new_groups='population' gives such rows the population's score."
            )
        return encoded


def _require_level(what: str, level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"{what}: level must lie between 0 and 1; got {level!r}.")


def _noted(frame: "pd.DataFrame", level: float | None = None) -> "pd.DataFrame":
    """Say in the table's corner what its spreads are."""
    frame.columns.name = SPREAD_NOTE
    frame.attrs = {"spreads": SPREAD_NOTE} if level is None else {"level": level, "spreads": SPREAD_NOTE}
    return frame
