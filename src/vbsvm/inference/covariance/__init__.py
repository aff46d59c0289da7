"""Covariances of coefficients after variational Bayes: which kinds there are and how far each can be relied on, linear
response of the optimum, and sandwich estimators. It may import what inference may.
"""
