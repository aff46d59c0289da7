"""
Calibration of probabilities
============================

``predict_proba`` transforms decision values by a link that is fitted to leave-one-out decision values, so no
observations are set aside for it. Here its calibration is checked on new observations: of those with a predicted
probability of 70 %, about 70 % should belong to the class.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vbsvm import VBSVC, plots

rng = np.random.default_rng(0)
X = rng.normal(size=(5000, 8))
y = np.where(X @ rng.normal(size=8) / 2 + rng.logistic(size=5000) > 0, "yes", "no")
train, test = slice(1000), slice(1000, None)

clf = VBSVC().fit(X[train], y[train])
logistic = make_pipeline(StandardScaler(), LogisticRegression())
logistic.fit(X[train], y[train])
print(f"log-loss of VBSVC {log_loss(y[test], clf.predict_proba(X[test])):.3f}")
print(f"log-loss of logistic regression {log_loss(y[test], logistic.predict_proba(X[test])):.3f}")

# %%
# ``pseudo_probability`` is the normalised pseudo-likelihood of the hinge loss. It is overconfident; the figure compares
# it with the calibrated probabilities.

figure, (left, right) = plt.subplots(1, 2, figsize=(8.2, 4.2), layout="constrained")
plots.calibration(clf, X[test], y[test], ax=left)
raw = clf.pseudo_probability(X[test])[:, 1]
bins = np.minimum((10 * raw).astype(int), 9)
proportions = [np.mean(y[test][bins == k] == "yes") for k in range(10)]
right.plot([0, 1], [0, 1], "--", color="grey")
right.plot([raw[bins == k].mean() for k in range(10)], proportions, "o-", color="#d55e00")
right.set(title="the pseudo-likelihood by itself", xlabel="probability", ylabel="proportion of yes", box_aspect=1)
