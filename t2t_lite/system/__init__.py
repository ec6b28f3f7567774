"""The machine and the process: memory, GPUs, locks, installed packages, and the import of TensorFlow."""
