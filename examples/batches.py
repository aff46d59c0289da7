"""
Data that arrive in batches
===========================

``partial_fit`` updates the fit with each batch and does not store its observations, which are replaced by a few sums.
"""

import matplotlib.pyplot as plt
import numpy as np

from vbsvm import VBSVC

rng = np.random.default_rng(0)
truth = rng.normal(size=12)


def batch(n=500):
    """Observations from the same population."""
    X = rng.normal(size=(n, 12))
    return X, np.where(X @ truth + 2 * rng.logistic(size=n) > 0, "yes", "no")


X_test, y_test = batch(5000)
batches = [batch() for _ in range(20)]
online, accuracy = VBSVC(), []
for X, y in batches:
    online.partial_fit(X, y, classes=["no", "yes"])
    accuracy.append(online.score(X_test, y_test))

whole = VBSVC().fit(np.vstack([X for X, _ in batches]), np.concatenate([y for _, y in batches]))
print(f"accuracy after {len(batches)} batches {accuracy[-1]:.3f}")
print(f"accuracy of one fit to all observations {whole.score(X_test, y_test):.3f}")
print(f"largest difference of a coefficient {np.abs(online.coef_ - whole.coef_).max():.4f}")

# %%

_, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
ax.plot(np.arange(1, 21) * 500, accuracy, "o-", markersize=4, label="partial_fit")
ax.axhline(whole.score(X_test, y_test), color="grey", linestyle="--", label="one fit to all observations")
ax.set(xlabel="observations used", ylabel="accuracy for new observations")
ax.legend(frameon=False)
