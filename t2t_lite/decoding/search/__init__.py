"""Beam search and sampling: they know token ids and a model's step function, and no text."""
