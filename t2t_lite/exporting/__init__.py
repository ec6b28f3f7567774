"""Writes trained models in formats that other programs read: see `t2t_lite.export_dir` for what an export holds."""
