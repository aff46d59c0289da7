"""How a model is fitted: variational Bayes with its proposals, and Gibbs sampling with its scale move and
checkpoints; and how far the coefficients of a variational fit may be off (``spreads``). It may import missing, design,
model and whatever lies below, but never sources: it sees rows only through the ``Source`` interface of model.
"""
