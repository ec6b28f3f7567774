"""Optimizers: what they have in common, Adam with a fused kernel, and any other optimizer of Keras."""
