"""Benchmarks of training, decoding and single layers."""
