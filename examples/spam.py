"""
Which words make a mail spam?
=============================

4601 mails and 57 inputs (Hopkins et al. 1999; the paper's example). ``LaplaceZero`` infers for each input the
probability that it belongs in the model.
"""

from vbsvm import VBSVC, LaplaceZero, plots
from vbsvm.datasets import load_spam

data = load_spam()
X, y = data.drop(columns="class"), data["class"]

clf = VBSVC(LaplaceZero()).fit(X, y)
table = clf.summary().round(3)
print(f"{clf.selected_.sum()} of {X.shape[1]} inputs are in, after {clf.n_iter_} passes over the data.\n")
print(table[table["inclusion"] > 0.5].sort_values("estimate")[["estimate", "p_positive", "inclusion"]])

# %%
# The likeliest inputs. A + or − marks those whose sign is nearly certain.

plots.inclusion(clf, top=20)
