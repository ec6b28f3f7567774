"""Where plug-ins of earlier versions find the learning rate schedules."""

from t2t_lite.schedules import constant, cosine, learning_rate, linear, peak_learning_rate

__all__ = ["constant", "cosine", "learning_rate", "linear", "peak_learning_rate"]
