"""A rehearsal of training on WMT, on synthetic text of the same size: what it takes on a machine without GPUs."""
