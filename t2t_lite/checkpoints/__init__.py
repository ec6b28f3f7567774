"""Checkpoints: listing, reading and writing them, the state of a training, averages."""
