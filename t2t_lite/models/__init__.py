"""Sequence-to-sequence models. After this import, `keras.models.load_model` can load them, their loss and schedule."""

from t2t_lite.losses import SmoothedCrossEntropy
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.models.hard_alignment import HardAlignmentTransformer
from t2t_lite.models.transformer import Transformer
from t2t_lite.schedules import InverseSqrt

__all__ = ["HardAlignmentTransformer", "InverseSqrt", "Seq2SeqModel", "SmoothedCrossEntropy", "Transformer"]
