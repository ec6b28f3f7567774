"""Evaluation of runs: decodes a split once, keeps outputs and scores in the run directory, and compares runs."""
