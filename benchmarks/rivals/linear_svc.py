"""LinearSVC with the squared hinge loss in the primal, its penalty left at the default."""

from sklearn.svm import LinearSVC

from benchmarks.methods import Method


def make() -> LinearSVC:
    """Make the classifier."""
    return LinearSVC(dual=False)


METHODS = (Method("LinearSVC", make),)
