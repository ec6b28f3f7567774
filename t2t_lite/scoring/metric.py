"""The path under which plug-ins import what is in `t2t_lite.metric`."""

from t2t_lite.metric import TEXTS as TEXTS
from t2t_lite.metric import TOKENS as TOKENS
from t2t_lite.metric import TREES as TREES
from t2t_lite.metric import Metric as Metric
from t2t_lite.metric import SummedStatistics as SummedStatistics
from t2t_lite.metric import check_language as check_language
from t2t_lite.metric import check_lines as check_lines
from t2t_lite.metric import compute_score as compute_score
from t2t_lite.metric import figure_label as figure_label
from t2t_lite.metric import figure_name as figure_name
from t2t_lite.metric import make_metric as make_metric
from t2t_lite.metric import metric_named as metric_named
from t2t_lite.metric import metric_needs as metric_needs
