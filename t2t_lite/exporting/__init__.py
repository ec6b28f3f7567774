"""Writes trained models in formats that other programs read. `decoding/export_dir.py` describes an export."""
