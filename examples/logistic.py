"""
Odds ratios from the same formula
=================================

With ``likelihood="logistic"`` a formula fits a mixed logistic regression instead of a support vector machine:
coefficients are log odds, and the priors, groups and tables are the same.
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
print(fits["logistic"].summary()[["coefficient", "odds_ratio", "lower", "upper"]].round(3))

# %%
# Both likelihoods tell the same story in probabilities.

_, axes = plt.subplots(1, 2, figsize=(8.6, 3.4), layout="constrained", sharey=True)
for ax, (name, fit) in zip(axes, fits.items(), strict=True):
    plots.effects(fit, "visit", by="treatment", ax=ax)
    ax.set_title(name)
