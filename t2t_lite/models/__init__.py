"""Sequence-to-sequence models."""
