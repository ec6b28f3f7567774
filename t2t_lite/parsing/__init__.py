"""Constituency parsing on top of decoding: words in, trees out."""
