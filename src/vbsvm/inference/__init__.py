"""Inferences: how a model is fitted."""
