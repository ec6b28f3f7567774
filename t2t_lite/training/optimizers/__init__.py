"""Optimizers: their common base, Adam with a fused kernel, and any other Keras optimizer."""
