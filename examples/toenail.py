"""
Repeated measurements
=====================

294 patients with a toenail infection had up to seven visits (De Backer et al. 1998; an example of the paper). In a
mixed-effects logistic regression, each patient has a random intercept, whose variance is inferred.
"""

import warnings

from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, cross_val_score

from vbsvm import VBSVC, Model, OneClassWarning, plots
from vbsvm.datasets import load_toenail

data = load_toenail()
fit = Model("outcome ~ visit * treatment + (1 | patientID)", data, positive="moderate or severe").fit()
print(fit)

# %%
# Average probabilities of a moderate or severe infection, by visit, for both treatments.

plots.effects(fit, "visit", by="treatment")

# %%
# The patients in order of their intercepts, with intervals: most recover, and in some the infection persists.

plots.random_effects(fit)

# %%
# **Predictive value of the random intercepts.** For held-out visits of known patients it is large. For new patients it
# is nil, and both models predict from the fixed effects only. The comparison uses the support vector machine of the
# paper; in scikit-learn the grouping factor is a column of X.

X = data[["visit", "patientID"]].assign(terbinafine=(data["treatment"] == "terbinafine").astype(float))
X["visit:terbinafine"] = X["visit"] * X["terbinafine"]
y = data["outcome"]

# Without random intercepts, every visit is assigned to the larger class.
warnings.simplefilter("ignore", OneClassWarning)


def balanced_error(model, table, cv):
    """Mean balanced error over the splits."""
    groups = data["patientID"] if isinstance(cv, GroupShuffleSplit) else None
    return 1 - cross_val_score(model, table, y, cv=cv, groups=groups, scoring="balanced_accuracy").mean()


for name, splitter in {"visits": ShuffleSplit, "patients": GroupShuffleSplit}.items():
    splits = splitter(5, test_size=0.25, random_state=0)
    mixed = balanced_error(VBSVC(group="patientID"), X, splits)
    pooled = balanced_error(VBSVC(), X.drop(columns="patientID"), splits)
    print(f"a quarter of the {name} held out: balanced error {mixed:.3f} with random intercepts, {pooled:.3f} without")
