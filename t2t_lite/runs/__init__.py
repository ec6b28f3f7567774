"""A run directory: its settings, checkpoints, evaluations and tuned settings. Reads, selects, writes and averages."""
