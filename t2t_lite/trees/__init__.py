"""Constituency trees: reading, cleaning, conversion to and from symbol sequences, and drawing. Needs no TensorFlow."""
