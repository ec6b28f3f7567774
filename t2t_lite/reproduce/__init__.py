"""Reproduces the paper's tables, from training runs at a chosen scale, and its attention figures."""
