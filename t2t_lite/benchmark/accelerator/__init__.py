"""Measures an accelerator with the step under JAX, and a peer's step beside it."""
