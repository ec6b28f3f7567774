"""Beam search and sampling over token ids, driven by the step function of a model."""
