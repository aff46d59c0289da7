"""
One fit instead of a grid search
================================

A classifier for thirty measurements of breast tumours. The penalty is inferred, so there is no grid and no cross-
validation; the same fit gives predictions, probabilities, and coefficients with intervals.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from vbsvm import VBSVC, plots

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=1)

clf = VBSVC().fit(X_train, y_train)
print(
    f"held-out accuracy {clf.score(X_test, y_test):.3f}; penalty {clf.penalty_[0]:.2f} after {clf.n_iter_} iterations"
)

# %%
# Coefficients per standard deviation of each predictor, with robust confidence intervals. Points are filled if the
# interval excludes 0. The modelled class is 1, benign: a negative coefficient means that larger values of the predictor
# indicate a malignant tumour.

plots.coefficients(clf, top=12)

# %%
# Decision values of the two classes for held-out observations.

plots.scores(clf, X_test, y_test)
