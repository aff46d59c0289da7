"""Representations of the joint distribution of all coefficients, with solvers and draws: dense, arrow (groups),
dual (more columns than rows), gates with coefficients, and draws. It may import base, and the interfaces and gates of
model.
"""
