"""
Two thousand inputs, a hundred and fifty rows
=============================================

As in a study of gene expression: far more inputs than rows, and only a handful of them matter. The data are
simulated, so that what is found can be compared with the truth.
"""

import numpy as np
import pandas as pd

from vbsvm import VBSVC, LaplaceZero, plots

rng = np.random.default_rng(1)
n, p, true = 150, 2000, [3, 141, 592, 653, 1589]
X = pd.DataFrame(rng.normal(size=(n, p)), columns=[f"gene {k}" for k in range(p)])
X["gene 142"] = 0.7 * X["gene 141"] + 0.7 * rng.normal(size=n)  # a companion that has no effect of its own
score = X.iloc[:, true] @ [2.0, -2.0, 1.5, -1.5, 2.0]
y = np.where(score + 0.5 * rng.logistic(size=n) > 0, "case", "control")

clf = VBSVC(LaplaceZero(expected_size=5)).fit(X, y)
print("found:", X.columns[clf.selected_[0]].tolist())
print("true: ", [f"gene {k}" for k in true])

# %%

plots.inclusion(clf, top=12)

# %%
# On new rows: the selected inputs against all of them.

new = pd.DataFrame(rng.normal(size=(2000, p)), columns=X.columns)
truth = np.where(new.iloc[:, true] @ [2.0, -2.0, 1.5, -1.5, 2.0] + 0.5 * rng.logistic(size=2000) > 0, "case", "control")
print(f"accuracy with selection {clf.score(new, truth):.3f}, without {VBSVC().fit(X, y).score(new, truth):.3f}")
