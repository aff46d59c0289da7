"""Representations of the joint distribution of all coefficients, with solvers and draws: dense, arrow (groups),
dual (more columns than rows), indicators with coefficients, and draws. It may import base, and the interfaces and
indicators of model.
"""
