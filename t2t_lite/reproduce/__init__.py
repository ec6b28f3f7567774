"""Reproduces the paper's tables: executes the runs for a table at a chosen scale, and makes the table from them."""
