"""Measures an accelerator with our training step under JAX, and a peer's step for comparison."""
