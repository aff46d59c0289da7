"""
Logistic regression and support vector machine by one formula
=============================================================

A formula fits a mixed-effects logistic regression: coefficients are log odds. With ``likelihood="hinge"`` it fits a
mixed support vector machine, with the same priors, groups and tables.
"""

import matplotlib.pyplot as plt

from vbsvm import Model, plots
from vbsvm.datasets import load_toenail

data = load_toenail()
formula = "outcome ~ visit * treatment + (1 | patientID)"
fits = {
    likelihood: Model(formula, data, positive="moderate or severe", likelihood=likelihood).fit()
    for likelihood in ("logistic", "hinge")
}
print(
    fits["logistic"].summary()[["estimate", "std_error", "odds_ratio", "odds_ratio_lower", "odds_ratio_upper"]].round(3)
)

# %%
# Here both have similar average probabilities, as patients have intercepts and so many different scores. Where discrete
# predictors are all that there is, those of the hinge mislead.

_, axes = plt.subplots(1, 2, figsize=(8.6, 3.4), layout="constrained", sharey=True)
for ax, (name, fit) in zip(axes, fits.items(), strict=True):
    plots.effects(fit, "visit", by="treatment", ax=ax)
    ax.set_title(name)
