"""The training step and the search under JAX, for measuring accelerators on machines without TensorFlow.

It is not a second trainer. It has no checkpoints, reports, evaluation or resuming, and only the optimizer adam.
"""
