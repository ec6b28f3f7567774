"""Loss and perplexity on a split, with teacher forcing. Nothing computed here is called BLEU."""

import math
from typing import NamedTuple

from t2t_lite.training.loss import LossSums


class Evaluation(NamedTuple):
    """Figures per real target piece, end symbols included."""

    loss: float  # nats, with label smoothing, as in training
    perplexity: float  # exp of the negative log-likelihood without label smoothing
    tokens: int


def evaluate(eval_step, dataset) -> Evaluation:
    """Runs `eval_step` over the batches of `share_out` and sums up."""
    totals = LossSums(0.0, 0.0, 0.0)
    for batch in dataset:
        totals = LossSums(*(total + float(part) for total, part in zip(totals, eval_step(batch))))
    return Evaluation(
        loss=totals.smoothed / totals.tokens,
        perplexity=math.exp(min(totals.plain / totals.tokens, 700.0)),
        tokens=int(totals.tokens),
    )
