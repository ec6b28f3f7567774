"""Metrics such as BLEU, chrF and PARSEVAL, with confidence intervals and significance tests."""
