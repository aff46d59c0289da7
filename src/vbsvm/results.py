"""What a fit knows: one two-class model, its coefficients on the user's scale, and how it was reached."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from vbsvm.arrays import Array
from vbsvm.design.levels import UNSEEN, Levels
from vbsvm.design.recipe import Recipe
from vbsvm.fit.variational import Outcome
from vbsvm.layout.arrow import ArrowGaussian
from vbsvm.layout.dense import DenseGaussian
from vbsvm.rowblocks import block_rows, single_threaded_blas
from vbsvm.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

INTERCEPT = "(intercept)"
SPREAD_NOTE = "mean field: too narrow"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A fitted two-class model. Scores are positive for the class that was labelled +1."""

    spec: Spec
    recipe: Recipe
    outcome: Outcome
    names: tuple[str, ...]
    levels: Levels | None = None

    @property
    def law(self) -> DenseGaussian:
        """Law of the coefficients of the design's (standardised) columns, group effects aside."""
        law = self.outcome.state.coefficients
        if isinstance(law, ArrowGaussian):
            return law.core
        assert isinstance(law, DenseGaussian)
        return law

    @property
    def coef(self) -> Array:
        """Coefficients of the raw columns."""
        return self._inputs(self.law.mean) / self.recipe.scale

    @property
    def coef_std(self) -> Array:
        """Standard deviations of the coefficients of the raw columns."""
        root = self._inputs(self.law.root)
        return np.sqrt(np.einsum("ij,ij->i", root, root)) / self.recipe.scale

    @property
    def coef_cov(self) -> Array:
        """Covariance of the coefficients of the raw columns."""
        root = self._inputs(self.law.root) / self.recipe.scale[:, None]
        return root @ root.T

    @property
    def intercept(self) -> float:
        """Score of a raw row of zeros; 0 in a model without intercept."""
        return float(self.recipe.intercept_row() @ self.law.mean)

    @property
    def intercept_std(self) -> float:
        """Standard deviation of the intercept."""
        return float(np.linalg.norm(self.recipe.intercept_row() @ self.law.root))

    @property
    def penalty(self) -> float:
        """E[α] = E[σ⁻²]/4 of the inputs' prior, for the standardised columns: the paper's penalty parameter."""
        return 0.25 * self.outcome.state.scales[int(self.recipe.intercept)].inverse_mean

    def random_effects(self) -> "pd.DataFrame":
        """Mean and standard deviation of each group's effect on the score."""
        import pandas as pd

        law = self.outcome.state.coefficients
        assert isinstance(law, ArrowGaussian)
        assert self.levels is not None
        effects = {"mean": law.effects[:, 0], "sd": np.sqrt(law.effect_covariances[:, 0, 0])}
        frame = pd.DataFrame(effects, index=pd.Index(self.levels.values, name="group"))
        frame.columns.name = SPREAD_NOTE
        return frame

    def decision_function(self, X: NDArray[np.floating], labels: NDArray[Any] | None = None) -> Array:
        """Mean score of each row, from standardised blocks as in fitting; a group not seen in fit adds nothing."""
        scores, size = np.empty(len(X)), block_rows(self.recipe.n_columns)
        buffer = self.recipe.work_space(min(size, len(X)))
        with np.errstate(over="ignore", invalid="ignore"), single_threaded_blas():  # the caller looks at the scores
            for begin in range(0, len(X), size):
                raw = X[begin : begin + size]
                scores[begin : begin + size] = self.recipe.encode(raw, buffer) @ self.law.mean
        law = self.outcome.state.coefficients
        if self.levels is not None and labels is not None and isinstance(law, ArrowGaussian):
            groups = self.levels.encode(labels)
            scores += np.where(groups == UNSEEN, 0.0, law.effects[groups, 0])
        return scores

    def summary(self, level: float = 0.95) -> "pd.DataFrame":
        """One row for each coefficient: mean, standard deviation, interval, and the probability that it is positive."""
        import pandas as pd

        if not 0 < level < 1:
            raise ValueError(f"summary: level must lie between 0 and 1; got {level!r}.")
        mean, sd, names = self.coef, self.coef_std, self.names
        if self.recipe.intercept:
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
        frame.columns.name = SPREAD_NOTE
        frame.attrs = {"level": level, "spreads": SPREAD_NOTE}
        return frame

    def _inputs(self, of_design: Array) -> Array:
        return of_design[1:] if self.recipe.intercept else of_design
