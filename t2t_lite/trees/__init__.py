"""Constituency trees: read, cleaned, written as a sequence of symbols and rebuilt from one. Knows no TensorFlow."""
