"""LinearSVC with the hinge loss, which it solves in the dual only; its penalty is left at the default."""

from sklearn.svm import LinearSVC

from benchmarks.methods import Method


def make() -> LinearSVC:
    """Make the classifier; the dual solver visits rows at random, so it is given a seed."""
    return LinearSVC(loss="hinge", dual=True, random_state=0)


METHODS = (Method("LinearSVC hinge", make),)
