"""Decoding: beam search and sampling, translation, scoring and word alignment with trained models."""
