"""Where plug-ins of earlier versions find the learning rate schedules."""

from t2t_lite.schedules import constant, cosine, learning_rate, linear, peak_learning_rate
from t2t_lite.schedules import paper_schedule as inverse_sqrt

__all__ = ["constant", "cosine", "inverse_sqrt", "learning_rate", "linear", "peak_learning_rate"]
