"""
Logistic regression and support vector machine by formula
=========================================================

``Model`` fits a mixed-effects logistic regression, whose coefficients are log odds ratios. With ``likelihood="hinge"``
it fits a mixed support vector machine, with the same terms and tables.
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
# The average probabilities are similar here, because patients have random intercepts and so decision values vary. If
# all predictors are discrete, effects of the hinge are misleading.

_, axes = plt.subplots(1, 2, figsize=(8.6, 3.4), layout="constrained", sharey=True)
for ax, (name, fit) in zip(axes, fits.items(), strict=True):
    plots.effects(fit, "visit", by="treatment", ax=ax)
    ax.set_title(name)
