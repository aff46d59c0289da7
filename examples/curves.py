"""
Splines with inferred smoothness
================================

``s(x)`` is a penalised spline: a straight line plus deviations, whose variance is inferred with the coefficients.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from vbsvm import Model, compare_models, plots

rng = np.random.default_rng(0)
n = 1500
age = rng.uniform(20, 80, size=n)
dose = rng.gamma(2.0, 1.0, size=n)
chance = 1 / (1 + np.exp(-(1.5 * np.sin(age / 9) + 0.6 * (dose - 2))))
data = pd.DataFrame({"age": age, "dose": dose, "event": np.where(rng.random(n) < chance, "yes", "no")})

fits = {formula: Model(formula, data).fit() for formula in ("event ~ age + dose", "event ~ s(age) + dose")}
print(compare_models(fits))

# %%
# Left: the contribution of the curve to the linear predictor, with its band and its knots. Right: the effect on the
# probability scale.

_, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.4), layout="constrained")
plots.spline(fits["event ~ s(age) + dose"], left)
plots.effects(fits["event ~ s(age) + dose"], "age", at=np.linspace(22, 78, 30), ax=right)
