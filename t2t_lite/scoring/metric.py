"""The path under which plug-ins import what is in `t2t_lite.metric`."""

from t2t_lite.metric import *  # noqa: F403
