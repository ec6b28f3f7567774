"""One optimizer step on a global batch: all devices and micro-batches."""

import tensorflow as tf

from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.training.optimizers.base import Optimizer
from t2t_lite.training.step.micro_batching import DistributedBatch, ElementSpec
from t2t_lite.training.step.one_graph import OneGraph
from t2t_lite.training.step.report import StepReport, step_report
from t2t_lite.training.step.separate_graphs import SeparateGraphs
from t2t_lite.training.strategy import is_one_cpu


class TrainStep:
    """Makes optimizer steps: step(global batch from `distribute_batches`) -> `StepReport`.

    `random_seed` seeds dropout, see `DropoutSeeds`. With `xla_compile`, XLA compiles a micro-batch's loss and gradients
    once for each shape. One CPU computes `num_parallel` micro-batches at the same time. Several devices exchange
    gradients in `allreduce_precision`. With `in_graph`, `start` can be part of a graph, see `StepCalls`.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: Seq2SeqModel,
        optimizer: Optimizer,
        element_spec: ElementSpec,
        random_seed: int,
        xla_compile: bool = False,
        num_parallel: int = 1,
        allreduce_precision: str = "float32",
        in_graph: bool = False,
    ) -> None:
        self._strategy = strategy
        about = (strategy, model, optimizer, element_spec, random_seed, xla_compile)
        if is_one_cpu(strategy) and not in_graph:
            self._graphs = SeparateGraphs(*about, num_parallel)
        else:
            self._graphs = OneGraph(*about, allreduce_precision)

    def __call__(self, batch: DistributedBatch) -> StepReport:
        return step_report(self.start(batch, tf.zeros([0])).numpy())

    def start(self, batch: DistributedBatch, requests: tf.Tensor) -> tf.Tensor:
        """Starts one step on the devices and returns its `step_figures`, which GPUs may still be computing.

        `requests` are numbers that each replica sends, such as 1.0 for "stop", float32 [requests]; the report has their
        sums over all replicas.
        """
        return self._graphs(batch, requests)

    def check_memory(self, batch: DistributedBatch) -> None:
        for figures, *_ in self._graphs.gradients(batch):
            for figure in self._strategy.experimental_local_results(figures):
                figure.numpy()
