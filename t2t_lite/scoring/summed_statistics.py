"""The path under which plug-ins import `SummedStatistics`."""

from t2t_lite.metric import SummedStatistics as SummedStatistics
from t2t_lite.scoring.text_metrics import summed as summed
