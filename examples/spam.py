"""Which words make a mail spam? Inclusion probabilities for the inputs of an SVM (the paper's spam data).

Run it with ``python examples/spam.py``; with matplotlib installed, ``python examples/spam.py inclusion.png`` draws the
paper's Figure 3 too.
"""

import sys

from vbsvm import VBSVC, Joint, LaplaceZero
from vbsvm.datasets import load_spam

data = load_spam()
X, y = data.drop(columns="class"), data["class"]

clf = VBSVC(LaplaceZero(rho=0.01)).fit(X, y)
table = clf.summary().round(3)
print(f"{clf.selected_.sum()} of {X.shape[1]} inputs are in, after {clf.n_iter_} passes over the data.\n")
print(table[table["inclusion"] > 0.5].sort_values("coefficient")[["coefficient", "p_positive", "inclusion"]])

print("\nDoes the answer depend on where the climb starts?")
for name, prior in {"Factorised()": LaplaceZero(restarts=2), "Joint()": LaplaceZero(gates=Joint(), restarts=2)}.items():
    starts = VBSVC(prior).fit(X, y).fit_[0].starts()
    print(f"{name:13}", "; ".join(f"bound {bound:.1f}, {count} in" for bound, count in starts))

if len(sys.argv) > 1:
    from vbsvm import plots

    plots.inclusion(clf).figure.savefig(sys.argv[1], dpi=200)
