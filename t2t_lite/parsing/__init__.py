"""Constituency parsing on top of decoding: trees in, trees out."""
