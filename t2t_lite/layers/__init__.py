"""Keras layers of the Transformer, one concept per file. They use only `keras.ops`, so any Keras backend runs them."""

from t2t_lite.layers.attention import MultiHeadAttention
from t2t_lite.layers.convolution import Convolution
from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.embedding import Embedding
from t2t_lite.layers.feed_forward import FeedForward, GatedFeedForward, ParameterAttention
from t2t_lite.layers.local_attention import LocalSelfAttention
from t2t_lite.layers.norm import LayerNorm, RMSNorm
from t2t_lite.layers.positions import LearnedPositions, NoPositions, SinusoidalHalves, SinusoidalPositions
from t2t_lite.layers.recurrent import GatedUnits, Recurrent
from t2t_lite.layers.self_attention import RelativeSelfAttention, SelfAttention
from t2t_lite.layers.transformer import DecoderLayer, EncoderLayer, Residual

__all__ = [
    "Convolution",
    "DecoderLayer",
    "Dropout",
    "Embedding",
    "EncoderLayer",
    "FeedForward",
    "GatedFeedForward",
    "GatedUnits",
    "LayerNorm",
    "LearnedPositions",
    "LocalSelfAttention",
    "MultiHeadAttention",
    "NoPositions",
    "ParameterAttention",
    "RMSNorm",
    "Recurrent",
    "RelativeSelfAttention",
    "Residual",
    "SelfAttention",
    "SinusoidalHalves",
    "SinusoidalPositions",
]
