"""Metrics of evaluations with teacher forcing: functions of sums over the target tokens of a split, without padding."""

import math
from typing import NamedTuple

from t2t_lite.metric import TOKENS
from t2t_lite.registry import METRICS

# Caps the perplexity of a diverged run at what float32 can represent, for TensorBoard.
_MAX_NATS = 88.0


class TokenSums(NamedTuple):
    """Sums over the target tokens of a split, with end symbols but without padding; all are floats."""

    smoothed: float  # the loss in nats with label smoothing, as in training
    plain: float  # the loss in nats without label smoothing
    tokens: float  # number of tokens
    correct: float  # number of tokens that the model ranks first, given the previous ones


def scores_of_tokens(sums: TokenSums) -> dict[str, float]:
    return {name: float(METRICS[name]().score(sums)) for name in METRICS.having("needs", TOKENS)}


class Loss:
    """Nats per token with label smoothing, as in training."""

    def score(self, sums: TokenSums) -> float:
        return sums.smoothed / sums.tokens


class NllLoss:
    """Nats per token without label smoothing."""

    def score(self, sums: TokenSums) -> float:
        return sums.plain / sums.tokens


class Perplexity:
    """exp of the loss without label smoothing."""

    def score(self, sums: TokenSums) -> float:
        return math.exp(min(sums.plain / sums.tokens, _MAX_NATS))


class Accuracy:
    """The share of tokens that the model ranks first, given the previous ones; 0 to 1."""

    def score(self, sums: TokenSums) -> float:
        return sums.correct / sums.tokens
