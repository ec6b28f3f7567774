"""The attention masks of `t2t_lite.layers.attention`, which plug-ins may import from here."""

from t2t_lite.layers.attention import causal_mask, padding_mask

__all__ = ["causal_mask", "padding_mask"]
