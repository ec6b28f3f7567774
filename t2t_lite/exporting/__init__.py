"""Writes trained models in formats that other programs read; what an export holds: `export_dir.py`."""
