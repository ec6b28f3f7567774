"""Scores of output text against references."""
