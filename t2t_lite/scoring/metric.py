"""The path under which plug-ins import `Metric`."""

from t2t_lite.metric import TEXTS, TOKENS, TREES, Metric, check_lines

__all__ = ["TEXTS", "TOKENS", "TREES", "Metric", "check_lines"]
