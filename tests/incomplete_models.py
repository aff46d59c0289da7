"""Data with missing values and small models of them, for tests."""

from dataclasses import replace

import numpy as np

from models import spec_of, unscaled
from vbsvm import GaussianImputation
from vbsvm.missing.model import InputModel, MissingModel
from vbsvm.missing.rows import Inputs
from vbsvm.model.row_pass import CompleteRows
from vbsvm.sources.memory import Memory
from vbsvm.sources.rows import MissingInputs

# The model of the paper, in which missing values are inferred with the coefficients (Algorithm 5).
PAPER = GaussianImputation(labels="likelihood")


def correlated(n, d, seed, share=0.25):
    """Standardised correlated inputs with missing values, and labels ±1."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.5 * np.tri(d, k=-1))
    y = np.where(X @ rng.normal(size=d) + rng.logistic(size=n) > 0, 1.0, -1.0)
    X[rng.random(X.shape) < share] = np.nan
    return (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0), y


def incomplete_model(X, y, s=None, prior=None, **imputation):
    """Spec and source of an array with NaN, as it is; the paper's model unless it is said otherwise."""
    settings, d = GaussianImputation(**({"labels": "likelihood"} | imputation)), X.shape[1]
    beside = y[:, None] if settings.labels == "regressor" else np.empty((len(y), 0))
    incomplete = np.isnan(X).any(axis=0)
    columns = 1 + np.arange(d)
    inputs = (
        Inputs.from_lists(columns, [])
        if settings.joint
        else Inputs.from_lists(columns[incomplete], columns[~incomplete])
    )
    spec = replace(spec_of(d, prior), missing=MissingModel(InputModel(settings, inputs, d, n_beside=beside.shape[1])))
    s = np.ones(len(y)) if s is None else s
    shift = np.zeros(len(inputs.variables))
    incomplete = MissingInputs(inputs, np.empty((len(y), 0)), shift, beside, not settings.fixed)
    return spec, Memory(X, y, s, unscaled(d), missing_inputs=incomplete)


def incomplete_parts(source):
    """The parts of the rows that miss something."""
    parts = []
    source.sum_parts(lambda part: 0 if isinstance(part, CompleteRows) else parts.append(part) or 0)
    return parts
