"""Repeated measurements: a random intercept for each patient, without tuning (the paper's toenail data).

Run it with ``python examples/toenail.py``.
"""

import warnings

from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, cross_val_score

from vbsvm import VBSVC, OneClassWarning
from vbsvm.datasets import load_toenail

# Without patients every visit is assigned to the larger class: that is what the comparison shows.
warnings.simplefilter("ignore", OneClassWarning)

data = load_toenail()
X = data[["visit", "patientID"]].assign(terbinafine=(data["treatment"] == "terbinafine").astype(float))
X["visit:terbinafine"] = X["visit"] * X["terbinafine"]
y = data["outcome"]


def balanced_error(model, table, cv):
    """Mean balanced error over the splits."""
    groups = data["patientID"] if isinstance(cv, GroupShuffleSplit) else None
    return 1 - cross_val_score(model, table, y, cv=cv, groups=groups, scoring="balanced_accuracy").mean()


for name, splitter in {"visits": ShuffleSplit, "patients": GroupShuffleSplit}.items():
    splits = splitter(20, test_size=0.25, random_state=0)
    mixed = balanced_error(VBSVC(group="patientID"), X, splits)
    pooled = balanced_error(VBSVC(), X.drop(columns="patientID"), splits)
    print(f"a quarter of the {name} held out: balanced error {mixed:.3f} with random intercepts, {pooled:.3f} without")

clf = VBSVC(group="patientID").fit(X, y)
print(f"\nPositive coefficients mean {clf.classes_[1]!r}.\n")
print(clf.summary().round(3))
print(clf.random_effects_.round(2).head())
