"""The path under which plug-ins import `SummedStatistics`."""

from t2t_lite.metric import SummedStatistics
from t2t_lite.scoring.text_metrics import summed

__all__ = ["SummedStatistics", "summed"]
