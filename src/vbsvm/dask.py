"""Tables in a Dask cluster: ``DaskVBSVC``."""

from vbsvm.api.dask_estimator import DaskVBSVC

__all__ = ["DaskVBSVC"]
