"""The machine and the process: memory, GPUs, locks, installed packages, and how TensorFlow is imported."""
