"""How labels depend on scores: ``base`` says what a likelihood provides; ``hinge`` and ``logistic`` each have the exact
expectation under a normal score, and a bound with latent scales. It may import base, and the interfaces of model.
"""
