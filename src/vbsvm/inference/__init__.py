"""How a model is fitted: variational Bayes by a table of solvers and one loop, Gibbs sampling with checkpoints; and the
covariances of the coefficients of a variational fit (``covariance``). It may import missing, design, model and whatever
lies below, but never sources: it sees rows only through the ``Source`` interface of model.
"""
