"""Measures our training step on an accelerator under JAX, and the step of another toolkit, the peer."""
