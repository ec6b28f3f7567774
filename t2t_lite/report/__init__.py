"""The report of runs: one HTML file, made from what training and evaluation have stored."""
