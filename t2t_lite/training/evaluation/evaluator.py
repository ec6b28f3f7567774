"""Evaluates a split: metrics of tokens with teacher forcing, metrics of outputs with beam search."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf

from t2t_lite.data.pipeline import batches
from t2t_lite.data.text_files import read_lines
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.decoding.translator import Translator
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.models.building import make_model
from t2t_lite.parsing.parser import Parser
from t2t_lite.registry import METRICS
from t2t_lite.run_dir import RunDir
from t2t_lite.scoring.metric import TOKENS, figure_of, make_metric, options_for, score_of
from t2t_lite.settings import SettingValue
from t2t_lite.training.step.eval_step import EvalSums
from t2t_lite.training.step.micro_batching import MicroBatches, distribute_batches

_SAMPLES = 3  # number of lines whose outputs are shown, the same at every evaluation


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
    ) -> None:
        self.samples: list[Sample] = []
        self._model = model
        self._batch_tokens = run_dir.hparams.batch_tokens
        pairs = batches(run_dir.problem, data_dir, split, batch_tokens=self._batch_tokens)
        self._batches = distribute_batches(strategy, pairs, micro_batches)
        self._sums = EvalSums(strategy, model, self._batches.element_spec)
        self._translation = _Translation(run_dir, data_dir, metrics, decode_hparams, split) if metrics else None

    def __call__(self) -> dict[str, float]:
        """Returns the figures by name: of all registered metrics of tokens, and of `metrics`."""
        sums = self._sums(self._batches)
        figures = {figure_of(name): float(METRICS[name]().score(sums)) for name in METRICS.having("needs", TOKENS)}
        if self._translation:
            decoded, self.samples = self._translation.figures(self._model)
            figures |= decoded
        return figures


class _Translation:
    """Translates or parses a split as the decoder does: in float32, with the problem's search settings."""

    def __init__(
        self,
        run_dir: RunDir,
        data_dir: Path,
        metrics: Collection[str],
        decode_hparams: str | Mapping[str, SettingValue],
        split: str,
    ) -> None:
        self._metrics = {name: make_metric(name, **options_for(name, run_dir.problem)) for name in metrics}
        sides = run_dir.problem.in_direction(("inputs", "targets"))
        self._sources, self._references = (
            list(read_lines(Path(data_dir) / run_dir.problem.text_filename(split, side))) for side in sides
        )
        targets, inputs = open_vocabulary(run_dir.vocabulary), open_vocabulary(run_dir.inputs_vocabulary)
        self._model = make_model(run_dir.hparams.replace(precision="float32"), targets.size, inputs.size)
        settings = run_dir.problem.decode_hparams.changed(decode_hparams)
        translator = Translator(self._model, targets, settings, warn=lambda line: None, inputs_vocabulary=inputs)
        self._translator = Parser(translator) if run_dir.problem.writes_trees else translator

    def figures(self, model: Seq2SeqModel) -> tuple[dict[str, float], list[Sample]]:
        """Decodes with the weights of `model`. Returns (the figures, some samples)."""
        for mine, theirs in zip(self._model.variables, model.variables):
            mine.assign(theirs.value.read_value())
        outputs = self._translator.translate(self._sources)
        figures = {
            figure_of(name): score_of(name, metric, outputs, self._references) for name, metric in self._metrics.items()
        }
        # Spread over the split, and the same lines at every evaluation.
        chosen = range(len(outputs) // (2 * _SAMPLES), len(outputs), max(1, len(outputs) // _SAMPLES))[:_SAMPLES]
        samples = [Sample(self._sources[line], outputs[line], self._references[line]) for line in chosen]
        return figures, samples
