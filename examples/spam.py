"""
Variable selection for spam e-mails
===================================

4601 e-mails and 57 predictors (Hopkins et al. 1999; an example of the paper). ``LaplaceZero`` infers for each predictor
the probability that it is included in the model.
"""

from vbsvm import VBSVC, LaplaceZero, plots
from vbsvm.datasets import load_spam

data = load_spam()
X, y = data.drop(columns="class"), data["class"]

clf = VBSVC(LaplaceZero()).fit(X, y)
table = clf.summary().round(3)
print(f"{clf.selected_.sum()} of {X.shape[1]} predictors are selected, after {clf.n_iter_} iterations.\n")
print(table[table["inclusion"] > 0.5].sort_values("estimate")[["estimate", "p_positive", "inclusion"]])

# %%
# The predictors with the highest inclusion probabilities. A + or − marks those whose sign is nearly certain.

plots.inclusion(clf, top=20)
