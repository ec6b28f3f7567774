"""Attention masks stand in `t2t_lite.layers.attention`; plug-ins import them from here."""

from t2t_lite.layers.attention import causal_mask, padding_mask

__all__ = ["causal_mask", "padding_mask"]
