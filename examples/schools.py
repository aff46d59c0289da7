"""Pupils in forms in schools: nested groups, slopes that vary, and a smooth curve, by formula and without tuning.

Run it with ``python examples/schools.py``. The data are simulated, so that what is found can be set beside the truth.
"""

import numpy as np
import pandas as pd

from vbsvm import Model

rng = np.random.default_rng(0)
n, n_schools, n_forms = 12_000, 60, 5
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
train, test = pupils[:9000], pupils[9000:]

model = Model("passed ~ hours + s(age) + (hours | school) + (1 | school:form)", train)
print(model, end="\n\n")
fit = model.fit()
print(fit, end="\n\n")

for formula in (
    "passed ~ hours + age",
    "passed ~ hours + s(age)",
    "passed ~ hours + s(age) + (1 | school)",
    model.formula,
):
    found = Model(formula, train).fit().predict(test)
    errors = [np.mean(found[test["passed"] == label] != label) for label in ("yes", "no")]
    print(f"balanced error {np.mean(errors):.3f}  {formula}")

effects = fit.random_effects("school")["mean"].unstack("effect")
print(f"\nfound and true slopes of schools correlate by {np.corrcoef(effects['hours'], of_school[:, 1])[0, 1]:.2f}")
grid = pd.DataFrame({"age": [11, 14, 17], "hours": 8.0, "school": "a new one", "form": "A"})
mean, sd = fit.decision_function(grid, return_std=True)
print("a new school, by age:", ", ".join(f"{m:+.2f} ± {s:.2f}" for m, s in zip(mean, sd, strict=True)))
