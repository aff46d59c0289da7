"""
Missing predictors
==================

Missing values (NaN) are allowed in fit and in predict, without further settings. Here a tenth to a third of three
measurements is deleted at random, to show the loss of accuracy.
"""

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from vbsvm import VBSVC, plots

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X = X.iloc[:, :6]
incomplete = X.mask(np.random.default_rng(0).random(X.shape) < [0, 0.3, 0, 0.2, 0.1, 0])
train, test = train_test_split(X.index, random_state=0)

clf = VBSVC().fit(incomplete.loc[train], y[train])
whole = VBSVC().fit(X.loc[train], y[train])
print(f"accuracy for new observations with missing values {clf.score(incomplete.loc[test], y[test]):.3f}")
print(f"accuracy if nothing were missing {whole.score(X.loc[test], y[test]):.3f}")

# %%
# Patterns of missing values, and the fraction of missing information about each coefficient.

plots.missing(clf)

# %%
# Expected values of the missing measurements, compared with the true ones that were deleted.

rows = incomplete.loc[test][incomplete.loc[test, "mean area"].isna()].index[:5]
expected, deviations = clf.impute(incomplete.loc[rows])
pd.DataFrame(
    {
        "expected": np.asarray(expected)[:, 3],
        "sd": np.asarray(deviations)[:, 3],
        "true": X.loc[rows, "mean area"].to_numpy(),
    }
).round(0)
