"""The training step and the search under JAX, for measuring accelerators on machines without TensorFlow.

This is not a second trainer: it has no checkpoints, reports, evaluation or resuming, and only the optimizer adam.
"""
