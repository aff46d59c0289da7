"""Likelihoods of a label given its score: ``base`` is the interface; ``hinge`` and ``logistic`` each have the exact
expectation under a normal score, and an augmented bound with latent scales. It may import base,
and the interfaces of model.
"""
