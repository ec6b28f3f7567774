"""Benchmarks of training, decoding, serving, accelerators and single layers."""
