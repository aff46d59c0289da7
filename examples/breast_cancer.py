"""Instead of a grid search: one fit, and what it tells.

Run it with ``python examples/breast_cancer.py``.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from vbsvm import VBSVC

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=1)

clf = VBSVC().fit(X_train, y_train)
print(f"held-out accuracy {clf.score(X_test, y_test):.3f}; penalty {clf.penalty_[0]:.2f} after {clf.n_iter_} passes\n")
print(clf.summary().round(3))
