"""Evaluates a split: metrics of tokens with teacher forcing, metrics of outputs with beam search."""

import itertools
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

import tensorflow as tf

from t2t_lite.data.manifest import FILENAME, manifest_of_file
from t2t_lite.data.pipeline import batches
from t2t_lite.data.problem import SIDES
from t2t_lite.data.text_files import read_lines
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.decoding.translator import Translator
from t2t_lite.formatting import one_line
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.models.building import make_model
from t2t_lite.parsing.parser import Parser
from t2t_lite.registry import METRICS
from t2t_lite.run_dir import RunDir
from t2t_lite.scoring.metric import TOKENS, figure_of, make_metric, options_for, score_of
from t2t_lite.settings import SettingValue
from t2t_lite.training.evaluation.interruption import Interruption
from t2t_lite.training.step.eval_step import EvalSums
from t2t_lite.training.step.micro_batching import MicroBatches, distribute_batches

_SAMPLES = 3  # number of lines whose outputs are shown, the same at every evaluation
# Called often with (how much is done, of how much, of what: "target tokens" or "lines decoded").
Show: TypeAlias = Callable[[float, float, str], None]


class Sample(NamedTuple):
    """One line of the split with its translation or parse."""

    source: str
    output: str
    reference: str


class Evaluator:
    """Evaluates a model on all pairs of a split, of any length.

    Args:
      run_dir: the run, with its problem, settings and vocabularies.
      data_dir: where the data is.
      strategy: the devices.
      model: a built model on these devices.
      micro_batches: the limit on the size of micro-batches, the same as in training.
      metrics: the metrics of outputs, for which the split is translated or parsed as well, on one device of the chief;
        none: it is not.
      decode_hparams: changes to the problem's search settings, as a dict or "name=value,...".
      split: "dev", or another one.
      eval_lines: how many lines to translate or parse, the first ones; None: all.
      interruption: ends evaluations when a signal asks for it; None: nothing does.
      is_chief: whether this worker is the chief.

    Attributes:
      samples: some `Sample`s of the last evaluation, if it decoded.
    """

    def __init__(
        self,
        run_dir: RunDir,
        data_dir: Path,
        strategy: tf.distribute.Strategy,
        model: Seq2SeqModel,
        micro_batches: MicroBatches,
        metrics: Collection[str],
        decode_hparams: str | Mapping[str, SettingValue] = "",
        split: str = "dev",
        eval_lines: int | None = None,
        interruption: Interruption | None = None,
        is_chief: bool = True,
    ) -> None:
        self.samples: list[Sample] = []
        self._model = model
        self._batch_tokens = run_dir.hparams.batch_tokens
        pairs = batches(run_dir.problem, data_dir, split, batch_tokens=self._batch_tokens)
        self._batches = distribute_batches(strategy, pairs, micro_batches)
        self._num_tokens = _target_tokens(run_dir, data_dir, split)
        self._sums = EvalSums(strategy, model, self._batches.element_spec)
        self._interruption = interruption or Interruption(strategy, None)
        self._decodes, self._translation = bool(metrics), None
        if metrics and is_chief:
            self._translation = _Translation(run_dir, data_dir, metrics, decode_hparams, split, eval_lines)

    def __call__(self, show: Show = lambda done, total, what: None) -> dict[str, float]:
        """Returns the figures by name: of all registered metrics of tokens and, on the chief, of `metrics`.

        Args:
          show: see `Show`.

        Raises:
          Interrupted: if a signal has reached any worker; all raise it.
        """
        done = 0.0

        def on_done(tokens: float) -> None:
            nonlocal done
            done += tokens
            show(done, self._num_tokens, "target tokens")
            self._interruption.check()

        self._interruption.check()
        sums = self._sums(self._batches, on_done)
        figures = {figure_of(name): float(METRICS[name]().score(sums)) for name in METRICS.having("needs", TOKENS)}
        if self._translation:
            check = self._interruption.check_while_others_wait
            decoded, self.samples = self._translation.figures(self._model, show, check)
            self._interruption.end_waiting()
            figures |= decoded
        elif self._decodes:
            self._interruption.wait()
        return figures


def _target_tokens(run_dir: RunDir, data_dir: Path, split: str) -> int:
    """Returns the number of target tokens of a split."""
    manifest = manifest_of_file(Path(data_dir) / FILENAME.format(run_dir.problem.data_name))
    lengths = manifest.splits[split]["lengths"]
    _, side = run_dir.problem.in_direction(SIDES)
    return sum(int(length) * number for length, number in lengths[side].items())


class _Translation:
    """Translates or parses a split as the decoder does: in float32, with the problem's search settings."""

    def __init__(
        self,
        run_dir: RunDir,
        data_dir: Path,
        metrics: Collection[str],
        decode_hparams: str | Mapping[str, SettingValue],
        split: str,
        eval_lines: int | None,
    ) -> None:
        self._metrics = {name: make_metric(name, **options_for(name, run_dir.problem)) for name in metrics}
        sides = run_dir.problem.in_direction(("inputs", "targets"))
        self._sources, self._references = (
            list(itertools.islice(read_lines(Path(data_dir) / run_dir.problem.text_filename(split, side)), eval_lines))
            for side in sides
        )
        targets, inputs = open_vocabulary(run_dir.vocabulary), open_vocabulary(run_dir.inputs_vocabulary)
        self._model = make_model(run_dir.hparams.replace(precision="float32"), targets.size, inputs.size)
        settings = run_dir.problem.decode_hparams.changed(decode_hparams)
        # Searches that are compiled at some time give other roundings from then on: a resumed run would find others.
        xla_compile = None if tf.config.list_physical_devices("GPU") else False
        translator = Translator(
            self._model, targets, settings, lambda line: None, inputs_vocabulary=inputs, xla_compile=xla_compile
        )
        self._translator = Parser(translator) if run_dir.problem.writes_trees else translator

    def figures(
        self, model: Seq2SeqModel, show: Show, check: Callable[[], None]
    ) -> tuple[dict[str, float], list[Sample]]:
        """Decodes with the weights of `model`. Returns (the figures, some samples).

        Args:
          model: a model of the same settings.
          show: see `Show`.
          check: called several times a second, in any thread; what it raises ends the evaluation.
        """
        done: list[int] = []  # of each batch; several threads append to it

        def on_done(lines: int) -> None:
            done.append(lines)
            show(sum(done), len(self._sources), "lines decoded")

        def check_and_show() -> None:
            check()
            show(sum(done), len(self._sources), "lines decoded")

        for mine, theirs in zip(self._model.variables, model.variables):
            mine.assign(theirs.value.read_value())
        found = self._translator.translate(self._sources, on_done=on_done, check=check_and_show)
        outputs = [one_line(text) for text in found]
        figures = {}
        for name, metric in self._metrics.items():
            check()
            figures[figure_of(name)] = score_of(name, metric, outputs, self._references)
        # Spread over the split, and the same lines at every evaluation.
        chosen = range(len(outputs) // (2 * _SAMPLES), len(outputs), max(1, len(outputs) // _SAMPLES))[:_SAMPLES]
        samples = [Sample(self._sources[line], outputs[line], self._references[line]) for line in chosen]
        return figures, samples
