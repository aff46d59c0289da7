"""Marginal effects, contrasts and slopes on the scale of probabilities: tables, rows at other values, averages with
their standard errors, and checks of their validity. It may import what results may.
"""
