"""Sums the loss and the number of correct tokens over a split, without dropout."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.scoring.token_metrics import TokenSums
from t2t_lite.training.step.loss import evaluation_sums
from t2t_lite.training.step.micro_batching import (
    ElementSpec,
    OnMicroBatches,
    ReplicaBatch,
    first_replica,
    num_micro_batches,
)
from t2t_lite.training.strategy import all_reduce_sum


class EvalSums:
    """Computes the sums over a split, without dropout: sums(batches from `distribute_batches`) -> `TokenSums`.

    `num_parallel` micro-batches are computed at the same time.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: Seq2SeqModel,
        element_spec: ElementSpec,
        num_parallel: int = 1,
    ) -> None:
        def on_replica(batch: ReplicaBatch, number: tf.Tensor) -> tf.Tensor:
            return evaluation_sums(model, batch["inputs"][number], batch["targets"][number])

        self._strategy = strategy
        self._micro_batch_sums = OnMicroBatches(strategy, on_replica, element_spec, num_parallel)

    def __call__(
        self,
        batches: tf.distribute.DistributedDataset,
        on_done: Callable[[float], None] = lambda tokens: None,
    ) -> TokenSums:
        """Returns the sums over all batches and workers. The workers communicate only once, at the end.

        `on_done` is called after each micro-batch with the average number of target tokens per micro-batch of its
        batch, over all devices. An exception from it ends the evaluation.
        """
        totals = np.zeros(4)
        for batch in batches:
            size = num_micro_batches(batch)
            for sums in self._micro_batch_sums(batch):
                totals += sum(part.numpy() for part in self._strategy.experimental_local_results(sums))
                on_done(float(first_replica(batch["tokens"])) / size)
        return TokenSums(*all_reduce_sum(self._strategy, totals).tolist())
