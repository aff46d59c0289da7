"""Missing values: what complete cases lose, what is inferred instead, and how far it rests on an assumption."""

import numpy as np
import pandas as pd

from vbsvm import VBSVC, GaussianImputation, Model, NotAtRandom
from vbsvm.datasets import load_toenail

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

formula = "event ~ age + pressure + sugar + arm"
fit = Model(formula, incomplete, positive="event").fit()
print(fit.missing_summary().head(), "\n")
table = pd.DataFrame(
    {
        "nothing missing": Model(formula, whole, positive="event").fit().summary()["coefficient"],
        "inferred": fit.summary()["coefficient"],
        "complete cases": Model(formula, incomplete.dropna(), positive="event").fit().summary()["coefficient"],
    }
)
print(table.round(3), "\n")

# A new patient of whom little is known: expected values, and a prediction that says how unsure it is.
patient = pd.DataFrame({"age": [72.0], "pressure": [np.nan], "sugar": [np.nan], "arm": ["placebo"]})
expected, deviations = fit.impute(patient)
print(expected.round(1).to_string(index=False), deviations.round(1).to_string(index=False), sep="\n")
print("chance of an event:", fit.predict_proba(patient)[0, 1].round(2), "\n")

# What if missing sugar values are higher than the others suggest? And does the data's own pattern suggest it?
print(Model(formula, incomplete, positive="event").sensitivity([-1, 0, 1], columns=["sugar"]).round(3), "\n")
observed = GaussianImputation(mechanism=NotAtRandom(columns=["sugar"]))
known_arm = incomplete.dropna(subset="arm")
print("not at random:", Model(formula, known_arm, positive="event", imputation=observed).fit().coef.round(3), "\n")

# The same in scikit-learn: missing values in fit and in predict.
data = load_toenail()
X = data[["visit", "time"]].mask(rng.random((len(data), 2)) < 0.2).assign(patient=data["patientID"])
clf = VBSVC(group="patient").fit(X, data["outcome"])
print(f"toenail with a fifth of visits and times missing: accuracy {clf.score(X, data['outcome']):.3f}")
