"""What is watched in a training, summed up from step to step."""

import resource
import sys
import time
from collections.abc import Callable

import tensorflow as tf


class Throughput:
    """Turns the reports of steps into figures.

    Args:
      replicas: how many devices share a batch.
      flops_per_token: operations of training for one real target token, its source token included.
      peak: operations a second of all devices together, if that is known; without it there is no utilisation.
      measure: measures them, if they are not given.
    """

    def __init__(
        self,
        replicas: int,
        flops_per_token: float,
        peak: float | None = None,
        measure: Callable[[], float] | None = None,
    ):
        self._replicas = replicas
        self._flops_per_token = flops_per_token
        self.peak = peak
        self._measure = measure
        self.skipped = 0  # steps in all
        self.skipped_in_row = 0
        self.restart()

    def restart(self) -> None:
        """Begins anew: what has happened since the last figures does not count."""
        self._since, self._steps, self._learning = time.monotonic(), 0, 0
        self._smoothed = self._plain = self._learned_tokens = self._tokens = self._positions = self._waited = (
            self._norm
        ) = 0.0

    def measure_peak(self) -> None:
        """Takes the best of this and earlier measurements, as others on a machine only ever take away from it."""
        if self._measure:
            self.peak = max(self._measure(), self.peak or 0.0)
        self.restart()

    def add(self, report, waited: float) -> None:
        """Counts one step.

        Args:
          report: its `StepReport`.
          waited: seconds spent waiting for its batch.
        """
        self._steps += 1
        self._waited += waited
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
        """Returns the figures since the last ones and begins anew. Skipped steps have neither loss nor norm."""
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
        if self.peak:
            figures["utilisation"] = self._utilisation(figures["target_tokens_per_second"] * self._flops_per_token)
        self.restart()
        return figures

    def _utilisation(self, flops: float) -> float:
        """Returns the share of the peak. More than all of a measured one cannot be: then it is measured once more."""
        if self._measure and flops > self.peak:
            self.measure_peak()
            return min(1.0, flops / self.peak)
        return flops / self.peak


def memory_in_use() -> int:
    """Returns the most bytes in use so far: of the GPU that has used most, or of this process where there is none."""
    gpus = tf.config.list_logical_devices("GPU")
    if gpus:
        names = [gpu.name.removeprefix("/device:") for gpu in gpus]
        return max(tf.config.experimental.get_memory_info(name)["peak"] for name in names)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
