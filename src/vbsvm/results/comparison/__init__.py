"""Comparing models: predictions of observations that were left out, models side by side, and variational Bayes against
Gibbs, and fits to imputed tables pooled. It may import what results may.
"""
