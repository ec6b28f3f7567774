"""Reproduction of the paper's tables: the runs that a table needs, at a chosen scale, and the table made of them."""
