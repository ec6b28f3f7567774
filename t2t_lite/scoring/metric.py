"""The path under which plug-ins import what is in `t2t_lite.metric`."""

from t2t_lite.metric import (
    TEXTS,
    TOKENS,
    TREES,
    Metric,
    SummedStatistics,
    check_language,
    check_lines,
    compute_score,
    figure_label,
    figure_name,
    make_metric,
    metric_named,
    metric_needs,
)

__all__ = [
    "TEXTS",
    "TOKENS",
    "TREES",
    "Metric",
    "SummedStatistics",
    "check_language",
    "check_lines",
    "compute_score",
    "figure_label",
    "figure_name",
    "make_metric",
    "metric_named",
    "metric_needs",
]
