"""Writes a report about runs as one HTML file, from the stored results of training and evaluation."""
