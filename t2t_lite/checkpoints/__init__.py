"""Checkpoints: listing, selecting, reading, writing and averaging them, and the training state."""
