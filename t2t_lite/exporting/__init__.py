"""Writes trained models in formats that other programs read. `export_dir.py` describes the contents of an export."""
