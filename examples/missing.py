"""
Missing values
==============

What complete cases lose, what is inferred instead, and how far the answer rests on an assumption. The data are
simulated: a third of two measurements is missing, and a tenth of the treatments.
"""

import numpy as np
import pandas as pd

from vbsvm import Model, plots

rng = np.random.default_rng(1)
n = 600
age = rng.normal(60, 10, size=n)
pressure = 120 + 0.8 * (age - 60) + rng.normal(0, 12, size=n)
sugar = 5.5 + 0.02 * (pressure - 120) + rng.normal(0, 0.6, size=n)
arm = rng.choice(["placebo", "drug"], size=n)
risk = 0.06 * (age - 60) + 0.05 * (pressure - 120) + 1.2 * (sugar - 5.5) - 1.0 * (arm == "drug")
event = np.where(risk + rng.logistic(size=n) > 0, "event", "none")
whole = pd.DataFrame({"event": event, "age": age, "pressure": pressure, "sugar": sugar, "arm": arm})

incomplete = whole.astype({"arm": object})
incomplete.loc[rng.random(n) < 0.3, "pressure"] = np.nan
incomplete.loc[rng.random(n) < 0.3, "sugar"] = np.nan
incomplete.loc[rng.random(n) < 0.1, "arm"] = None

# %%
# One fit infers missing numbers and missing categories with the coefficients.

formula = "event ~ age + pressure + sugar + arm"
fit = Model(formula, incomplete, positive="event").fit()
print(fit.missing_summary().head())
plots.missing(fit)

# %%
# Coefficients beside those of the whole data, and of the rows that are complete.

table = pd.DataFrame(
    {
        "nothing missing": Model(formula, whole, positive="event").fit().summary()["coefficient"],
        "inferred": fit.summary()["coefficient"],
        "complete cases": Model(formula, incomplete.dropna(), positive="event").fit().summary()["coefficient"],
    }
)
print(table.round(3))

# %%
# A new patient of whom little is known: expected values with standard deviations, and a probability that includes
# what is not known.

patient = pd.DataFrame({"age": [72.0], "pressure": [np.nan], "sugar": [np.nan], "arm": ["placebo"]})
expected, deviations = fit.impute(patient)
print(expected.round(1).to_string(index=False), deviations.round(1).to_string(index=False), sep="\n")
print("chance of an event:", fit.predict_proba(patient)[0, 1].round(2))

# %%
# **What if missing sugar values are higher than the others suggest?** ``sensitivity`` shifts them by so many
# standard deviations, and shows what becomes of the coefficients.

shifted = Model(formula, incomplete, positive="event").sensitivity([-1, -0.5, 0, 0.5, 1], columns=["sugar"])
plots.sensitivity(shifted)
