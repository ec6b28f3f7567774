"""Throughput, loss and other metrics of training, accumulated between reports."""

import resource
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from t2t_lite.training.step.report import StepReport


class Throughput:
    """Turns the reports of single steps into metrics.

    `replicas` devices share a batch. `flops_per_token` is the number of training FLOPs per real target token, including
    its share of the source. `peak` is the combined peak rate of all devices in FLOP/s; if it is None, `measure_peak`
    measures it with `measure`. Without both, no utilisation is reported.
    """

    def __init__(
        self,
        replicas: int,
        flops_per_token: float,
        peak: float | None = None,
        measure: Callable[[], float] | None = None,
    ) -> None:
        self._replicas = replicas
        self._flops_per_token = flops_per_token
        self.peak = peak
        self._measure = measure
        self.skipped = 0  # number of skipped steps in total
        self.skipped_in_row = 0
        self.restart()

    def restart(self) -> None:
        self._since, self._steps, self._learning = time.monotonic(), 0, 0
        self._smoothed = self._plain = self._learned_tokens = self._tokens = self._positions = self._norm = 0.0
        self._waited, self._waited_by_worker = 0.0, np.zeros(0)

    def measure_peak(self) -> None:
        """Measures the peak rate, keeps the highest result so far, and restarts.

        The highest is the most accurate, because other processes can only slow a measurement.
        """
        if self._measure:
            self.peak = max(self._measure(), self.peak or 0.0)
        self.restart()

    def add(self, report: StepReport, waited: float, waited_by_worker: Sequence[float] | np.ndarray = ()) -> None:
        """Counts one step. `waited` is how long this process waited for the batch, in seconds.

        `waited_by_worker` is the same for each worker, in an earlier step; [] without other workers.
        """
        self._steps += 1
        self._waited += waited
        self._waited_by_worker = np.asarray(waited_by_worker) + (self._waited_by_worker if self._steps > 1 else 0.0)
        self._tokens += report.sums.tokens
        self._positions += report.positions
        if report.finite:
            self._learning += 1
            self._smoothed += report.sums.smoothed
            self._plain += report.sums.plain
            self._learned_tokens += report.sums.tokens
            self._norm += report.gradient_norm
            self.skipped_in_row = 0
        else:
            self.skipped += 1
            self.skipped_in_row += 1

    def figures(self) -> dict[str, float]:
        """Returns the metrics since the last restart, and restarts. Loss and norm exclude skipped steps."""
        seconds = time.monotonic() - self._since
        nothing = float("nan")
        figures = {
            "loss": self._smoothed / (self._learned_tokens or nothing),
            "nll_loss": self._plain / (self._learned_tokens or nothing),
            "gradient_norm": self._norm / (self._learning or nothing),
            "target_tokens_per_second": self._tokens / seconds,
            "padded_target_tokens_per_second": self._positions / seconds,
            "target_tokens_per_second_per_device": self._tokens / seconds / self._replicas,
            "steps_per_second": self._steps / seconds,
            "input_wait_share": self._waited / seconds,
            "memory_bytes": float(memory_in_use()),
            "skipped_steps": float(self.skipped),
        }
        if self._waited_by_worker.size:
            figures["slowest_worker"] = float(self._waited_by_worker.argmax())
            figures["slowest_worker_input_wait_share"] = self._waited_by_worker.max() / seconds
        if self.peak:
            figures["utilisation"] = self._utilisation(
                figures["target_tokens_per_second"] * self._flops_per_token, self.peak
            )
        self.restart()
        return figures

    def _utilisation(self, flops: float, peak: float) -> float:
        """Returns the used share of the peak rate. If it exceeds 1, measures the peak again and limits it to 1."""
        if self._measure and flops > peak:
            self.peak = max(self._measure(), peak)
            return min(1.0, flops / self.peak)
        return flops / peak


def memory_in_use() -> int:
    """Returns the peak memory use so far, in bytes: the maximum over all GPUs, or of this process without a GPU."""
    gpus = tf.config.list_logical_devices("GPU")
    if gpus:
        names = [gpu.name.removeprefix("/device:") for gpu in gpus]
        return max(tf.config.experimental.get_memory_info(name)["peak"] for name in names)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
