"""The way in: readers say what columns mean, partitions where rows are (memory, files, Dask), and ``build_tasks``
makes models of both. It may import what api may.
"""
