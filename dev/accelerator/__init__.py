"""Measures training and search on the GPUs of a machine, with TensorFlow or JAX, and another toolkit, the peer."""
