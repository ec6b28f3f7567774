"""Measurements of this project's own parts."""
