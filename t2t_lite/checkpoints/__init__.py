"""Checkpoints: which there are, reading and writing them, the state of a training, averages."""
