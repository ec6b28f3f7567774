"""Constituency trees: reading, cleaning, conversion to and from symbol sequences, drawing. Needs no TensorFlow."""
