"""
Pupils in forms and schools
===========================

Nested grouping factors, slopes that vary between schools, and a smooth curve, in one formula and without tuning. The
data are simulated, so that estimates can be compared with the true values.
"""

import warnings

import numpy as np
import pandas as pd

from vbsvm import Model, ReliabilityWarning, plots

rng = np.random.default_rng(0)
n, n_schools, n_forms = 6000, 60, 5
school, form = rng.integers(0, n_schools, n), rng.integers(0, n_forms, n)
hours, age = rng.gamma(4.0, 2.0, n), rng.uniform(10, 18, n)
of_school = rng.multivariate_normal([0, 0], [[2.0, 0.3], [0.3, 0.2]], size=n_schools)
of_form = 0.8 * rng.normal(size=(n_schools, n_forms))
eta = 0.3 * (hours - 8) + 2 * np.sin(age) + of_form[school, form]
eta += of_school[school, 0] + of_school[school, 1] * (hours - 8)
pupils = pd.DataFrame(
    {
        "school": [f"school {k:02d}" for k in school],
        "form": np.array(list("ABCDE"))[form],
        "hours": hours,
        "age": age,
        "passed": np.where(rng.random(n) < 1 / (1 + np.exp(-eta)), "yes", "no"),
    }
)
train, test = pupils[:4500], pupils[4500:]

# %%
# The model has a slope of hours for each school, an intercept for each form in each school, and a curve over age.
# Intervals of its variance components are approximate, and a warning is given; for accurate ones use ``Gibbs()``.

warnings.simplefilter("ignore", ReliabilityWarning)
model = Model("passed ~ hours + s(age) + (hours | school) + (1 | school:form)", train)
print(model, end="\n\n")
fit = model.fit()
print(fit)

# %%
# The curve over age (a sine in the simulation), and the slopes of the schools.

plots.spline(fit)

# %%

plots.random_effects(fit, factor="school", effect="hours")
slopes = fit.random_effects("school")["estimate"].unstack("effect")["hours"]
print(f"correlation of estimated and true slopes of schools {np.corrcoef(slopes, of_school[:, 1])[0, 1]:.2f}")

# %%
# Predictive performance of parts of the model, for held-out observations.

for formula in (
    "passed ~ hours + age",
    "passed ~ hours + s(age)",
    "passed ~ hours + s(age) + (1 | school)",
    model.formula,
):
    found = Model(formula, train).fit().predict(test)
    errors = [np.mean(found[test["passed"] == label] != label) for label in ("yes", "no")]
    print(f"balanced error {np.mean(errors):.3f}  {formula}")

# %%
# For a new school, the linear predictor is that of the population, with a large standard deviation.

grid = pd.DataFrame({"age": [11, 14, 17], "hours": 8.0, "school": "a new one", "form": "A"})
mean, sd = fit.decision_function(grid, return_std=True)
print("a new school, by age:", ", ".join(f"{m:+.2f} ± {s:.2f}" for m, s in zip(mean, sd, strict=True)))
