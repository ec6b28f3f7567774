"""Evaluates a split: loss and perplexity with teacher forcing, BLEU or F1 with beam search."""

import math
from collections.abc import Mapping
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
from t2t_lite.run_dir import RunDir
from t2t_lite.scoring.bleu import corpus_bleu
from t2t_lite.scoring.parseval import score_trees
from t2t_lite.settings import SettingValue
from t2t_lite.training.evaluation.model_selection import figure_of
from t2t_lite.training.step.eval_step import EvalSums
from t2t_lite.training.step.micro_batching import MicroBatches, distribute_batches

# Caps the perplexity of a diverged training at what a float32 holds, for TensorBoard.
_MAX_NATS = 88.0
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
      decode: whether to translate or parse the split as well, on one device of the chief.
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
        decode: bool,
        decode_hparams: str | Mapping[str, SettingValue] = "",
        split: str = "dev",
    ) -> None:
        self.samples: list[Sample] = []
        self._model = model
        self._batch_tokens = run_dir.hparams.batch_tokens
        pairs = batches(run_dir.problem, data_dir, split, batch_tokens=self._batch_tokens)
        self._batches = distribute_batches(strategy, pairs, micro_batches)
        self._sums = EvalSums(strategy, model, self._batches.element_spec)
        self._translation = _Translation(run_dir, data_dir, decode_hparams, split) if decode else None

    def __call__(self) -> dict[str, float]:
        """Returns the figures per real target token, end symbols included.

        They are loss (nats, with label smoothing, as in training), nll_loss (without label smoothing), perplexity
        (exp of nll_loss), accuracy (0 to 1) and, with `decode`, bleu or f1 (0 to 100).
        """
        totals = self._sums(self._batches)
        figures = {
            "loss": totals.smoothed / totals.tokens,
            "nll_loss": totals.plain / totals.tokens,
            "perplexity": math.exp(min(totals.plain / totals.tokens, _MAX_NATS)),
            "accuracy": totals.correct / totals.tokens,
        }
        if self._translation:
            decoded, self.samples = self._translation.figures(self._model)
            figures |= decoded
        return figures


class _Translation:
    """Translates or parses a split as the decoder does: in float32, with the problem's search settings."""

    def __init__(
        self, run_dir: RunDir, data_dir: Path, decode_hparams: str | Mapping[str, SettingValue], split: str
    ) -> None:
        sides = run_dir.problem.in_direction(("inputs", "targets"))
        self._sources, self._references = (
            list(read_lines(Path(data_dir) / run_dir.problem.text_filename(split, side))) for side in sides
        )
        targets, inputs = open_vocabulary(run_dir.vocabulary), open_vocabulary(run_dir.inputs_vocabulary)
        self._model = make_model(run_dir.hparams.replace(precision="float32"), targets.size, inputs.size)
        settings = run_dir.problem.decode_hparams.changed(decode_hparams)
        self._translator = Translator(self._model, targets, settings, warn=lambda line: None, inputs_vocabulary=inputs)
        self._figure = figure_of(run_dir.problem)

    def figures(self, model: Seq2SeqModel) -> tuple[dict[str, float], list[Sample]]:
        """Decodes with the weights of `model`. Returns (bleu or f1, some samples)."""
        for mine, theirs in zip(self._model.variables, model.variables):
            mine.assign(theirs.value.read_value())
        if self._figure == "f1":
            outputs = Parser(self._translator).translate(self._sources)
            score = score_trees(self._references, outputs).all.f1
        else:
            outputs = self._translator.translate(self._sources)
            score = corpus_bleu(outputs, self._references)
        # Spread over the split, and the same lines at every evaluation.
        chosen = range(len(outputs) // (2 * _SAMPLES), len(outputs), max(1, len(outputs) // _SAMPLES))[:_SAMPLES]
        samples = [Sample(self._sources[line], outputs[line], self._references[line]) for line in chosen]
        return {self._figure: score}, samples
