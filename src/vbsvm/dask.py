"""Tables in a Dask cluster: ``DaskVBSVC`` and ``DaskVBLogistic``."""

from vbsvm.api.dask_estimator import DaskVBLogistic, DaskVBSVC

__all__ = ["DaskVBLogistic", "DaskVBSVC"]
