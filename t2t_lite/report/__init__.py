"""Writes the report of runs, one HTML file, from the stored results of training and evaluation."""
