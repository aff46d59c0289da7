"""The rivals, one file each."""

from benchmarks.rivals import grid_search, linear_svc, linear_svc_hinge, logistic_regression_cv, svc_default_method

ALL = (
    *linear_svc.METHODS,
    *linear_svc_hinge.METHODS,
    *svc_default_method.METHODS,
    *grid_search.METHODS,
    *logistic_regression_cv.METHODS,
)
TUNED = tuple(method for method in ALL if method.tuned)
