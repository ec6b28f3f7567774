"""Evaluation of runs: decodes a split once, stores outputs and scores in the run directory, and compares runs."""
