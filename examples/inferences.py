"""
Variational Bayes compared with Gibbs sampling
==============================================

The same model by both methods. ``compare`` shows the overlap of the variational and the posterior distribution for each
parameter.
"""

import numpy as np

from vbsvm import VBSVC, Gibbs, Variational, compare, plots

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 3))
y = np.where(X @ [1.0, -0.5, 0.0] + 1.5 * rng.logistic(size=200) > 0, "yes", "no")
drawn = VBSVC(inference=Gibbs(draws=1500, tune=500), random_state=0).fit(X, y)

paper = compare(VBSVC().fit(X, y), drawn)
exact = compare(VBSVC(inference=Variational(bound="exact")).fit(X, y), drawn)
print("the paper's bound:", paper, "the exact bound:", exact, sep="\n\n")

# %%
# With the paper's bound, means are accurate and standard deviations are too small.

plots.densities(paper)

# %%
# The exact expectation of the hinge loss is more accurate. ``summary()`` uses neither of them for its intervals, which
# are robust confidence intervals.

plots.densities(exact)
