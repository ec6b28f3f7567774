"""Scores of outputs against references: BLEU, chrF and PARSEVAL."""
