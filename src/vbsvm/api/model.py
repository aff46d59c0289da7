"""Models by formula: fixed effects, random effects, and splines."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from vbsvm.api import likelihood_power as powers
from vbsvm.api import sensitivity
from vbsvm.api.data.formula_reader import FormulaReader
from vbsvm.api.data.partitions import MemoryPartitions, Partitions
from vbsvm.api.fit_warnings import fit_tasks
from vbsvm.api.priors import keys
from vbsvm.api.task import build_tasks, read_imputation, read_inference, read_likelihood
from vbsvm.base import guesses
from vbsvm.base.printing import progress, visible, warn_user
from vbsvm.base.settings import check_flag
from vbsvm.design import frames
from vbsvm.design.formula import syntax
from vbsvm.inference.gibbs import Gibbs
from vbsvm.inference.variational import Variational
from vbsvm.missing.settings import GaussianImputation
from vbsvm.model.priors import Prior
from vbsvm.results.covariance import warn_of_margin
from vbsvm.results.display import Outline
from vbsvm.results.fit import Fit
from vbsvm.results.history import Facts
from vbsvm.sources.files import Files
from vbsvm.sources.memory import Memory

if TYPE_CHECKING:
    import pandas as pd

# Coefficients of standardised columns of this size separate the classes: decision values matter up to ±1.
MAX_EFFECT = 300.0


@final
@guesses.explain(guesses.MODEL, __init__=guesses.MODEL_SETTINGS, fit=guesses.SETTINGS)
class Model:
    """Logistic regression or a support vector machine by a formula, with random effects and splines; nothing to tune.

    Parameters
    ----------
    formula : str
        For example ``"outcome ~ visit * treatment + s(age) + (1 + visit | patient)"``: numeric and categorical columns,
        interactions, transforms such as ``log(x)``, ``poly(x, 2)`` or ``C(x)``; penalised splines ``s(x)``; random
        effects ``(1 | g)``, ``(x | g)`` (correlated), ``(x || g)`` (not), nested ``(1 | a/b)``, crossed by a sum.
    data : pandas or polars DataFrame, arrow table, dict of columns, or names of files
        One row for each observation. The outcome may be text, bool or two numbers. Parquet and CSV files may be named
        by a pattern such as ``"data/*.parquet"``, a folder, a list, or ``Files(…)``: they need not fit in memory.
    priors : dict, default None
        Priors by term, such as ``{"(1 | g)": Ridge(2, 1), "s(age)": Normal(1e-4), "fixed": Ridge()}``. ``print(model)``
        shows the keys. "fixed" means all fixed effects except the intercept that have no prior of their own; they
        share it. By default logistic models have weakly informative priors: Normal(6.25) for fixed effects of
        standardised columns, Normal(1e8) for the intercept (and without ``standardize``), HalfT() for random intercepts
        or slopes alone, Covariance(2.5) for several together, Ridge() for splines. Under the hinge they are the
        paper's: Normal(1e8), Ridge(), and Covariance() for random effects that vary together.
    standardize : bool, default True
        Scale the columns to mean 0 and standard deviation 1 inside the fit. Coefficients are reported on
        the original scale of the columns; priors refer to the scaled ones.
    positive : label, default None
        The modelled level of the outcome: positive decision values predict it. None means the second in sorted order.
        With more than two levels it is compared with all others.
    weights : str or array-like, default None
        A column of the data, or one number for each row: a weight of k counts as k identical rows.
    imputation : GaussianImputation, default None
        Distribution of the predictors, from which missing values are imputed within the fit. None means
        ``GaussianImputation()``. Missing values of a predictor that does not enter linearly, as in ``s(x)``, are drawn.
    missing : {"infer", "drop"}, default "infer"
        How missing values are handled. "infer": missing predictors are imputed, and a missing outcome, weight or level
        of a grouping factor is an error. "drop": rows with a missing value in any column of the formula, or a missing
        weight, are dropped; ``n_dropped`` and ``print(model)`` report how many.
    likelihood : {"logistic", "hinge"}, default "logistic"
        How the outcome depends on the linear predictor. "logistic" is (mixed-effects) logistic regression: coefficients
        are log odds, and probabilities are those of the model. "hinge" is the mixed support vector machine of Luts and
        Ormerod: it estimates which class is more probable, not the probability, so that its effects may mislead with
        discrete predictors.
    likelihood_power : float or "calibrated", default None
        With ``likelihood="hinge"``: the power of the pseudo-likelihood, as in ``VBSVC``. None is "calibrated" in models
        with ``LaplaceZero`` and without random effects, and else 1. ``Fit.likelihood_power`` is the power used.

    Attributes
    ----------
    data : data frame
        The data as they were given.
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
        priors: Mapping[str, Prior | str] | None = None,
        *,
        standardize: bool = True,
        positive: Any = None,
        weights: str | ArrayLike | None = None,
        imputation: GaussianImputation | None = None,
        missing: str = "infer",
        likelihood: str = "logistic",
        likelihood_power: float | str | None = None,
    ) -> None:
        check_flag("Model", standardize=standardize)
        self._power = None if likelihood_power is None else powers.read_power("Model", likelihood_power)
        if self._power is not None and read_likelihood(likelihood).normalised:
            raise ValueError(
                f"Model: likelihood_power={likelihood_power!r} is for likelihood='hinge', a pseudo-likelihood: a "
                "logistic model needs no calibration. Leave likelihood_power at None."
            )
        if not isinstance(formula, str) and isinstance(data, str):
            raise TypeError("Model: the first argument is the formula, the second the data: Model('y ~ x', data).")
        settings, priors, standardize = read_imputation(imputation), {} if priors is None else priors, bool(standardize)
        rows = _partitions(data)
        if weights is not None and not isinstance(weights, str) and not rows.resident:
            raise TypeError(f"weights: for data in {rows.place} give the name of the column of weights.")
        names, column = rows.names, weights if isinstance(weights, str) else None
        parts = syntax.read(formula, names, column)
        frames.check_column(names, column)
        about = weights, missing, positive, priors, settings, standardize, rows.resident, rows.no_rows
        encoded = rows.read(FormulaReader(parts, *about))
        (task,) = build_tasks(encoded, settings, read_likelihood(likelihood))
        self._task = replace(task, data=data) if rows.resident else task
        self.formula, self.n_dropped = parts.text, task.n_dropped
        self.classes = encoded.encoder.classes
        self.spec = self._task.spec
        self.data = data
        self._settings = {
            "priors": priors,
            "standardize": standardize,
            "positive": self.classes[1],
            "imputation": imputation,
            "missing": missing,
            "likelihood": likelihood,
            "likelihood_power": likelihood_power,
        }

    def fit(
        self,
        inference: Variational | Gibbs | str | None = None,
        *,
        random_state: Any = None,
        verbose: int | None = None,
    ) -> Fit:
        """Fit the model by ``inference``, ``Variational()`` by default; ``random_state`` is the seed of ``Gibbs()``.

        ``verbose`` says whether progress is shown on stderr. None is in terminals and notebooks, once it takes seconds.
        """
        inference, remedy = read_inference(inference), "weights=… with {own} for its rows and {others} for all others"
        with progress(verbose):
            (fit,), remarks = fit_tasks("Model.fit", [self._task], inference, random_state, self._power, remedy)
        if np.abs(fit.posterior.mean).max(initial=0.0) > MAX_EFFECT:
            small = " Predictors in very small units have such coefficients, too: use standardize=True."
            units = "" if self._settings["standardize"] else small
            message = (
                "Model.fit: quasi-complete separation: at least one coefficient has no finite maximum-likelihood "
                f"estimate.{units} Use a tighter prior for fixed effects, such as priors={{'fixed': Normal(1.0)}}."
            )
            remarks.append((message, ConvergenceWarning))
        for message, category in remarks:
            warn_user(message, category)
        warn_of_margin(fit)
        return fit

    @property
    def in_files(self) -> bool:
        """Whether the rows are in files."""
        return isinstance(self._task.source, Memory) and self._task.source.pages is not None

    def refitted_to(self, data: Any, weights: ArrayLike) -> "Model":
        """The same model for other rows, to be fitted: used by ``cross_validate``."""
        return Model(self.formula, data, weights=weights, **self._settings)

    def sensitivity(
        self, deltas: Sequence[float], columns: Sequence[str] | None = None, inference: Variational | None = None
    ) -> "pd.DataFrame":
        """Sensitivity of the fit to shifts of missing values: a table with one row for each shift.

        ``deltas`` are shifts in standard deviations of ``columns`` (all that have missing values by default). Columns
        are the coefficients, and the proportion of complete observations whose predicted class changes (NaN without
        complete ones). ``plots.sensitivity`` draws it.
        """
        if self.in_files:
            raise ValueError("sensitivity is only available for data in memory: give Model a sample of the rows.")
        return sensitivity.table("Model.sensitivity", [self._task], inference, self._power, deltas, columns)

    def __getattr__(self, name: str) -> Any:
        """Raise for attributes that only a fit has, and say so."""
        if not name.startswith("_") and hasattr(Fit, name):
            raise AttributeError(f"A Model has no {name!r}, its fit has: fit = model.fit(), and then fit.{name}.")
        raise AttributeError(f"'Model' object has no attribute {name!r}")

    def __repr__(self) -> str:
        """The formula and the number of rows."""
        facts = Facts.from_source(self._task.source, self.n_dropped)
        left_out = f", {facts.left_out}" if facts.left_out else ""
        return visible(f"<Model {self.formula}: {facts.n_rows} observations{left_out}>")

    def __str__(self) -> str:
        """Formula, observations, classes, blocks with sizes and priors, grouping factors, keys of ``priors``."""
        return self._outline.text()

    def _repr_html_(self) -> str:
        """The same in notebooks."""
        return self._outline.html()

    @property
    def _outline(self) -> Outline:
        task, reader = self._task, self._task.reader
        assert reader is not None
        facts = Facts.from_source(task.source, self.n_dropped)
        return Outline(self.formula, facts, self.classes, self.spec, task.plan, keys(reader))


def _partitions(data: Any) -> Partitions:
    """The rows of data in files, which may be names of them, in a cluster, or in memory."""
    listed = isinstance(data, list | tuple) and bool(data) and all(isinstance(one, str | os.PathLike) for one in data)
    if isinstance(data, str | os.PathLike | Files) or listed:
        from vbsvm.api.data.file_partitions import FilePartitions

        files = Files.of(data)
        return FilePartitions(files, files.opened())
    if frames.is_collection(data):
        from vbsvm.api.data.dask_partitions import DaskPartitions

        return DaskPartitions.from_frame(data)
    return MemoryPartitions(data)
