"""Reports on a training run: throughput, utilisation, progress lines, logs and TensorBoard."""

import contextlib
import json
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import t2t_lite
from t2t_lite.display import Display, format_duration
from t2t_lite.files import none_if_nonfinite
from t2t_lite.metric import figure_label, is_of_outputs
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.training.cluster import workers_of_environment
from t2t_lite.training.devices import has_workers, kinds_of_devices, measured_gflops
from t2t_lite.training.step import StepReport


class _Silent(Display):
    """Shows nothing."""

    def say(self, line: str) -> None: ...


class Progress:
    """Reports the steps after `first_step`, up to the last one. Use it as a context manager.

    Reports go to `display` and an `EventLog`. A worker other than the chief has no `display`; it only writes
    workers/worker-INDEX.jsonl.
    """

    def __init__(
        self, directory: Path, first_step: int, last_step: int, display: Display | None, worker: int = 0
    ) -> None:
        self._first_step, self._last_step = first_step, last_step
        self._is_first = True
        self._display = display or _Silent()
        self._log = EventLog(directory) if display else JsonLog(directory / "workers" / f"worker-{worker}.jsonl")

    def __enter__(self) -> "Progress":
        self._display.start_training(self._first_step, self._last_step)
        return self

    def __exit__(self, *exception: object) -> None:
        self._display.end_training()
        self._log.close()

    def started(self, about: Mapping[str, object]) -> None:
        """Records that the run starts; `about` is the return value of `start_record`."""
        self._log.start(self._first_step, about)

    def after_step(self, step: int) -> None:
        self._display.after_step(step)

    def report(self, step: int, figures: dict[str, float]) -> None:
        """Shows and records the metrics from a `Throughput`, with the epoch (from 1) and the learning rate."""
        # The first step includes building its graph, so the time left is overestimated.
        most = "up to " if self._is_first else ""
        left = f"{most}{format_duration((self._last_step - step) / figures['steps_per_second'])} left"
        self._is_first = False
        utilisation = f"utilisation {figures['utilisation']:.0%}  " if "utilisation" in figures else ""
        slowest = ""
        if "slowest_worker" in figures:
            share = figures["slowest_worker_input_wait_share"]
            slowest = f" (worker {figures['slowest_worker']:.0f}: {share:.1%})"
        line = (
            f"epoch {figures['epoch']:.0f}  {_losses(figures)}  "
            f"gradient norm {_formatted(figures['gradient_norm'], 2)}  "
            f"learning rate {figures['learning_rate']:.2e}  {figures['steps_per_second']:.3g} steps/s  "
            f"{figures['target_tokens_per_second']:,.0f} target tokens/s "
            f"({figures['padded_target_tokens_per_second']:,.0f} padded)  "
            f"{utilisation}input wait {figures['input_wait_share']:.1%}{slowest}  "
            f"{figures['memory_bytes'] / 2**30:.1f} GiB"
        )
        if figures["skipped_steps"]:
            line += f"  {figures['skipped_steps']:.0f} steps skipped"
        self._display.report(step, self._last_step, line, left)
        self._log.record("train", step, figures)

    @contextlib.contextmanager
    def evaluation(self, step: int) -> Iterator[Callable[[float, float, str], None]]:
        """Yields a function of (amount done, total, unit) that shows the progress of an evaluation."""
        start: dict[str, float] = {}  # when each part of the evaluation began

        def show(done: float, total: float, what: str) -> None:
            now = time.monotonic()
            seconds = now - start.setdefault(what, now)
            left = f", {format_duration(seconds * (total / done - 1))} left" if done and seconds else ""
            self._display.evaluating(f"step {step}: evaluation, {done:,.0f} of {total:,.0f} {what}{left}")

        self._display.start_evaluation()
        try:
            yield show
        finally:
            self._display.end_evaluation()

    def after_evaluation(self, step: int, figures: dict[str, float], samples: Sequence = ()) -> None:
        more = "".join(f", dev {figure_label(name)} {figures[name]:.2f}" for name in figures if is_of_outputs(name))
        perplexity = f"{_formatted(figures['perplexity'], 2)} per token"
        self.say(
            f"step {step}: dev {_losses(figures)}, dev perplexity {perplexity}, "
            f"token accuracy {figures['accuracy']:.1%}{more}"
        )
        for sample in samples:
            self._display.text("\n".join(f"  {name:<9}  {text}" for name, text in sample._asdict().items()))
        self._log.record("eval", step, figures, samples)

    def say(self, line: str) -> None:
        self._display.say(line)


def _losses(figures: dict[str, float]) -> str:
    loss, nll_loss = (_formatted(figures[name], 3) for name in ("loss", "nll_loss"))
    return f"loss {loss}" + (f" (without label smoothing {nll_loss})" if loss != nll_loss else "")


def _formatted(value: float, digits: int) -> str:
    """Formats a number; abbreviates the huge numbers that occur when training diverges."""
    return f"{value:.{digits}f}" if abs(value) < 1e6 or value != value else f"{value:.3g}"


class JsonLog:
    """Writes reports to a file, one JSON object per line."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_torn = path.exists() and path.read_bytes()[-1:] not in (b"", b"\n")  # a killed process may leave half a line
        self._log = open(path, "a", encoding="utf-8")  # noqa: SIM115
        if is_torn:
            self._log.write("\n")

    def start(self, step: int, about: Mapping[str, object]) -> None:
        """Writes a line when a run starts: the steps already made, and the output of `start_record`."""
        self._write({"part": "start", "step": step, **about})

    def record(self, part: str, step: int, figures: dict[str, float], samples: Sequence = ()) -> None:
        values: dict[str, object] = dict(figures)
        if samples:
            values["samples"] = [sample._asdict() for sample in samples]
        self._write({"part": part, "step": step} | values)

    def _write(self, line: Mapping[str, object]) -> None:
        self._log.write(json.dumps(none_if_nonfinite({"time": round(time.time(), 3), **line})) + "\n")
        self._log.flush()

    def close(self) -> None:
        self._log.close()


class EventLog(JsonLog):
    """Writes reports to log.jsonl in the run directory, and to event files in its subdirectories `train` and `eval`."""

    def __init__(self, directory: Path) -> None:
        self._writers = {part: tf.summary.create_file_writer(str(directory / part)) for part in ("train", "eval")}
        super().__init__(directory / "log.jsonl")

    def record(self, part: str, step: int, figures: dict[str, float], samples: Sequence = ()) -> None:
        with self._writers[part].as_default():
            for name, value in figures.items():
                tf.summary.scalar(name, value, step=step)
            for number, sample in enumerate(samples, start=1):
                # Indented by four, so that Markdown shows the text verbatim.
                text = "\n".join(f"    {name:<9}  {value}" for name, value in sample._asdict().items())
                tf.summary.text(f"sample {number}", text, step=step)
        self._writers[part].flush()
        super().record(part, step, figures, samples)

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        super().close()


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
        self._replicas, self._flops_per_token, self.peak, self._measure = replicas, flops_per_token, peak, measure
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
            flops = figures["target_tokens_per_second"] * self._flops_per_token
            if self._measure and flops > self.peak:  # measure the peak again; no share of it exceeds 1
                self.peak = max(self._measure(), self.peak)
                flops = min(flops, self.peak)
            figures["utilisation"] = flops / self.peak
        self.restart()
        return figures


def memory_in_use() -> int:
    """Returns the peak memory use so far, in bytes: the maximum over all GPUs, or of this process without a GPU."""
    if gpus := tf.config.list_logical_devices("GPU"):
        names = [gpu.name.removeprefix("/device:") for gpu in gpus]
        return max(tf.config.experimental.get_memory_info(name)["peak"] for name in names)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


# The steps to trace, counted from where the run started or resumed.
PROFILED = range(5, 10)


class Profiler:
    """Traces the steps in `PROFILED` into a folder; None: no trace. The trace starts and stops only between calls."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._steps, self._stop = 0, None

    def after_steps(self, number: int) -> None:
        self._steps += number
        if self._directory is None:
            return
        if self._stop is None and self._steps >= PROFILED.start:
            self._stop = self._steps + len(PROFILED)
            tf.profiler.experimental.start(str(self._directory))
        elif self._stop is not None and self._steps >= self._stop:
            self._directory = None
            tf.profiler.experimental.stop()


FORMAT = 1


def start_record(model: Seq2SeqModel, strategy: tf.distribute.Strategy) -> dict[str, object]:
    """Returns what the log records when a run starts.

    `replicas` counts the devices of all workers, `devices` names the kinds of devices on this worker, and `cores`
    counts the logical processors of this machine. `matmul_gflops` has the measured speeds of matrix products by
    precision; it is empty if no measurement was needed.
    """
    return {
        "format": FORMAT,
        "t2t_lite": t2t_lite.__version__,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "python": platform.python_version(),
        "devices": kinds_of_devices(strategy),
        "replicas": strategy.num_replicas_in_sync,
        "workers": len(workers_of_environment()[0]) if has_workers(strategy) else 1,
        "cores": os.cpu_count(),
        "parameters": model.count_params(),
        "matmul_gflops": measured_gflops(),
    }
