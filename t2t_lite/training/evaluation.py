"""Evaluation on the dev split, during training or in a separate process."""

import collections
import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from t2t_lite.data.manifest import FILENAME, check_data, manifest_of_file
from t2t_lite.data.pipeline import batches, reading_shards
from t2t_lite.data.problem import SIDES, Problem
from t2t_lite.data.text_files import read_lines
from t2t_lite.data.vocab import EOS_ID, open_vocabulary
from t2t_lite.decoding.translator import Translator
from t2t_lite.display import LOG, Display
from t2t_lite.errors import UserError
from t2t_lite.files import one_line
from t2t_lite.metric import compute_score, figure_label, figure_name, make_metric, metrics_of_outputs, options_for
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.models.building import make_model
from t2t_lite.parsing.parser import Parser
from t2t_lite.runs.checkpoint_files import existing, list_checkpoints
from t2t_lite.runs.checkpoints import TrainingState
from t2t_lite.runs.evaluations import add_evaluation, best_steps, read_evaluations
from t2t_lite.runs.run_dir import RunDir
from t2t_lite.scoring.token_metrics import TokenSums, scores_of_tokens
from t2t_lite.training import micro_batching
from t2t_lite.training.devices import all_reduce_sum, device_memory, make_strategy
from t2t_lite.training.loss import evaluation_sums
from t2t_lite.training.micro_batching import ElementSpec, MicroBatches, OnMicroBatches, ReplicaBatch
from t2t_lite.training.options import TrainOptions
from t2t_lite.training.policy import Interruption
from t2t_lite.training.reports import Progress
from t2t_lite.training.step import build_model

_SAMPLES = 3  # number of lines whose outputs are shown
# Called often with (amount done, total, unit: "target tokens" or "lines decoded").
Show: TypeAlias = Callable[[float, float, str], None]


class Sample(NamedTuple):
    source: str
    output: str
    reference: str


class EvalSums:
    """Computes the sums over a split, without dropout: sums(batches from `distribute_batches`) -> `TokenSums`.

    `num_parallel` micro-batches are computed at the same time.
    """

    def __init__(
        self, strategy: tf.distribute.Strategy, model: Seq2SeqModel, element_spec: ElementSpec, num_parallel: int = 1
    ) -> None:
        def on_replica(batch: ReplicaBatch, number: tf.Tensor) -> tf.Tensor:
            return evaluation_sums(model, batch["inputs"][number], batch["targets"][number])

        self._strategy = strategy
        self._micro_batch_sums = OnMicroBatches(strategy, on_replica, element_spec, num_parallel)

    def __call__(
        self, batches: tf.distribute.DistributedDataset, on_done: Callable[[float], None] = lambda tokens: None
    ) -> TokenSums:
        """Returns the sums over all batches and workers. The workers communicate only once, at the end.

        `on_done` is called after each micro-batch with the average number of target tokens per micro-batch of its
        batch, over all devices. An exception from it ends the evaluation.
        """
        totals = np.zeros(4)
        for batch in batches:
            size = micro_batching.num_micro_batches(batch)
            for sums in self._micro_batch_sums(batch):
                totals += sum(part.numpy() for part in self._strategy.experimental_local_results(sums))
                on_done(float(micro_batching.first_replica(batch["tokens"])) / size)
        return TokenSums(*all_reduce_sum(self._strategy, totals).tolist())


class SplitLosses:
    """Sums the losses over all targets in a split, whatever their length, with teacher forcing.

    The model must be built on the devices of `strategy`. `limit` is the micro-batch limit, or the options that
    determine it. The attribute `num_tokens` is the number of target tokens in the split.
    """

    def __init__(
        self,
        run_dir: RunDir,
        data_dir: Path,
        split: str,
        strategy: tf.distribute.Strategy,
        model: Seq2SeqModel,
        limit: MicroBatches | TrainOptions,
    ) -> None:
        problem, hparams = run_dir.problem, run_dir.hparams
        manifest = manifest_of_file(Path(data_dir) / FILENAME.format(problem.data_name))
        if isinstance(limit, TrainOptions):
            sizes = manifest.vocab_sizes(problem)
            limit = micro_batching.bound_micro_batches(hparams, manifest, *sizes, strategy, limit)
        pairs = batches(problem, data_dir, split, batch_tokens=hparams.batch_tokens)
        self._reading = lambda: reading_shards(problem.data_name, data_dir)
        self._batches = micro_batching.distribute_batches(strategy, pairs, limit)
        self._sums = EvalSums(strategy, model, self._batches.element_spec, limit.num_parallel)
        lengths = manifest.splits[split]["lengths"][problem.in_direction(SIDES)[1]]
        self.num_tokens = sum(int(length) * number for length, number in lengths.items())

    def __call__(self, on_done: Callable[[float], None] = lambda tokens: None) -> TokenSums:
        """Returns the sums over the split; for `on_done` see `EvalSums`."""
        with self._reading():
            return self._sums(self._batches, on_done)


def make_decoder(problem: Problem, translator: Translator) -> Translator | Parser:
    """Returns the decoder for a problem: the translator itself or, if outputs are trees, a parser that uses it."""
    return Parser(translator) if problem.writes_trees else translator


def decode_lines(decoder: Translator | Parser, lines: Sequence[str], **options: Any) -> list[str]:
    """Returns the output for each line, as one line of text. `options` are those of `Translator.translate`."""
    return [one_line(text) for text in decoder.translate(lines, **options)]


class Evaluator:
    """Evaluates a model, built on the devices of `strategy`, on all pairs in dev, whatever their length.

    `samples` are some `Sample`s from the last evaluation, if it decoded.

    Args:
      options: with eval_decode, one device of the chief also translates or parses the split, controlled by
        decode_hparams and eval_lines; eval_metric is computed in addition to the problem's metric.
      limit: the limit on the size of micro-batches, as in training; None: derived from the options.
    """

    def __init__(
        self,
        run_dir: RunDir,
        data_dir: Path,
        strategy: tf.distribute.Strategy,
        model: Seq2SeqModel,
        options: TrainOptions,
        limit: MicroBatches | None = None,
        interruption: Interruption | None = None,
        is_chief: bool = True,
    ) -> None:
        self.samples: list[Sample] = []
        self._model = model
        self._losses = SplitLosses(run_dir, data_dir, "dev", strategy, model, limit or options)
        self._interruption = interruption or Interruption(strategy, None)
        self._decodes, self._translation = options.eval_decode, None
        if options.eval_decode and is_chief:
            self._translation = _Translation(run_dir, data_dir, options)

    def __call__(self, show: Show = lambda done, total, what: None) -> dict[str, float]:
        """Returns the scores by name: all registered token metrics and, on the chief with eval_decode, output metrics.

        Raises Interrupted on all workers if a signal has reached any of them.
        """
        done = 0.0

        def on_done(tokens: float) -> None:
            nonlocal done
            done += tokens
            show(done, self._losses.num_tokens, "target tokens")
            self._interruption.check()

        self._interruption.check()
        figures = {figure_name(name): score for name, score in scores_of_tokens(self._losses(on_done)).items()}
        if self._translation:
            check = self._interruption.check_while_others_wait
            decoded, self.samples = self._translation.figures(self._model, show, check)
            self._interruption.end_waiting()
            figures |= decoded
        elif self._decodes:
            self._interruption.wait()
        return figures


class _Translation:
    """Translates or parses dev as t2t-lite-decoder does: in float32, with the problem's search settings."""

    def __init__(self, run_dir: RunDir, data_dir: Path, options: TrainOptions) -> None:
        problem = run_dir.problem
        names = metrics_of_outputs(problem, options.eval_metric)
        self._metrics = {name: make_metric(name, **options_for(name, problem)) for name in names}
        self._sources, self._references = (
            list(itertools.islice(read_lines(Path(data_dir) / problem.text_filename("dev", side)), options.eval_lines))
            for side in problem.in_direction(SIDES)
        )
        for name, metric in self._metrics.items():
            # There are no outputs yet, but the references alone tell what a tokenizer makes of the text.
            for remark in metric.remarks([""] * len(self._references), self._references):
                LOG.warning(f"{figure_label(figure_name(name))}: {remark}")
        targets, inputs = open_vocabulary(run_dir.vocabulary), open_vocabulary(run_dir.inputs_vocabulary)
        self._model = make_model(run_dir.hparams.replace(precision="float32"), targets.size, inputs.size)
        settings = problem.decode_hparams.changed(options.decode_hparams)
        # By default, a search is compiled after some use and then rounds differently, so a resumed run would get other
        # scores.
        xla_compile = None if tf.config.list_physical_devices("GPU") else False
        translator = Translator(
            self._model, targets, settings, lambda line: None, inputs_vocabulary=inputs, xla_compile=xla_compile
        )
        self._decoder = make_decoder(problem, translator)

    def figures(
        self, model: Seq2SeqModel, show: Show, check: Callable[[], None]
    ) -> tuple[dict[str, float], list[Sample]]:
        """Decodes with the weights of a model that has the same settings. Returns (the scores by name, some samples).

        `check` is called several times a second, in any thread; an exception from it ends the evaluation.
        """
        done: list[int] = []  # one item per batch; several threads append to it

        def on_done(lines: int) -> None:
            done.append(lines)
            show(sum(done), len(self._sources), "lines decoded")

        def check_and_show() -> None:
            check()
            show(sum(done), len(self._sources), "lines decoded")

        for mine, theirs in zip(self._model.variables, model.variables):
            mine.assign(theirs.value.read_value())
        outputs = decode_lines(self._decoder, self._sources, on_done=on_done, check=check_and_show)
        figures = {}
        for name, metric in self._metrics.items():
            check()
            figures[figure_name(name)] = compute_score(name, metric, outputs, self._references)
        # The samples are spread over the split, and are the same lines at every evaluation.
        chosen = range(len(outputs) // (2 * _SAMPLES), len(outputs), max(1, len(outputs) // _SAMPLES))[:_SAMPLES]
        return figures, [Sample(self._sources[line], outputs[line], self._references[line]) for line in chosen]


def split_losses(run_dir: RunDir, data_dir: Path, split: str, model: Seq2SeqModel) -> TokenSums:
    """Returns the losses of a model on a split, computed on one device with as much of its memory as is free."""
    options = TrainOptions(free_bytes=device_memory())
    return SplitLosses(run_dir, data_dir, split, tf.distribute.get_strategy(), model, options)()


# Seconds between two scans of the run directory.
POLL_SECS = 5.0


def evaluate_continuously(
    run_dir: RunDir, data_dir: Path, options: TrainOptions, display: Display | None = None
) -> None:
    """Evaluates all checkpoints of a run that have not been evaluated yet, and then new checkpoints as they appear.

    Ends after the checkpoint of the run's last step, or after `options.eval_wait_secs` without a new checkpoint.
    Without a `display`, the logger shows the results.
    """
    hparams = run_dir.hparams
    options = dataclasses.replace(options, free_bytes=device_memory(options.virtual_devices))
    strategy = make_strategy(options.strategy, options.num_gpus, options.virtual_devices, options.xla_compile)
    inputs_size, targets_size = check_data(data_dir, run_dir.problem).vocab_sizes(run_dir.problem)
    model, optimizer = build_model(hparams, targets_size, strategy, options.random_seed, inputs_size)
    evaluator = Evaluator(run_dir, data_dir, strategy, model, options)
    state = TrainingState(model, optimizer)
    seen: set[int] = set()
    since = time.monotonic()
    with Progress(run_dir.path, 0, hparams.train_steps, display or Display()) as progress:
        while True:
            seen.update(read_evaluations(run_dir.path))
            for step, path in list_checkpoints(run_dir.path):
                if step in seen:
                    continue
                seen.add(step)
                try:
                    state.restore_from(existing(path) or path)  # the trainer may have replaced it with a new version
                except UserError as error:
                    if existing(path):
                        raise
                    progress.say(f"{path} was removed before it was evaluated ({error})")
                    continue
                with progress.evaluation(step) as show, optimizer.averages_in_place():
                    figures = evaluator(show)
                add_evaluation(run_dir.path, step, figures)
                progress.after_evaluation(step, figures, evaluator.samples)
                best = best_steps(read_evaluations(run_dir.path), options.eval_metric, 1)
                progress.say(f"best by {options.eval_metric}: ckpt-{best[0]}")
                since = time.monotonic()
            if hparams.train_steps in seen or time.monotonic() - since >= options.eval_wait_secs:
                return
            time.sleep(min(POLL_SECS, max(options.eval_wait_secs, 0.1)))


_ALIGNED_TOKENS, _ALIGNED_BATCHES = 2000, 3  # target tokens per batch, and batches, to choose the layer by


def best_alignment_layer(run_dir: RunDir, data_dir: Path, model: Seq2SeqModel) -> int | None:
    """Returns the decoder layer whose cross-attention aligns words best, measured on some dev pairs.

    In this layer, the source token to which an output token attends most tells most about it, see `association`. None
    if there is nothing to choose from, because fewer than two layers have cross-attention weights or dev is empty.
    """
    if (num_layers := model.attention_layers().get("cross", 0)) < 2:
        return None
    pairs = batches(
        run_dir.problem, data_dir, "dev", batch_tokens=_ALIGNED_TOKENS, max_length=run_dir.hparams.max_length, seed=1
    )
    links: list[list[tuple[int, int]]] = [[] for _ in range(num_layers)]
    for batch in pairs.take(_ALIGNED_BATCHES):
        sources, outputs = (batch[side].numpy() for side in SIDES)
        row, place = np.nonzero(outputs > EOS_ID)
        for layer in range(num_layers):
            weights = tf.reduce_mean(model.attention(batch["inputs"], batch["targets"], "cross", layer), 1).numpy()
            attended = np.where(sources[:, np.newaxis] > EOS_ID, weights, -1).argmax(2)
            links[layer] += zip(sources[row, attended[row, place]].tolist(), outputs[row, place].tolist())
    usual = model.alignment_layer
    if not links[usual]:
        return None
    return max(range(num_layers), key=lambda layer: (association(links[layer]), layer == usual))


def association(links: Sequence[tuple[int, int]]) -> float:
    """Returns how much source tokens tell about the output tokens that they are linked with, in nats.

    This is the mean pointwise mutual information over all links (source token, output token). A link itself does not
    count, so that rare tokens which are linked at random do not look related.
    """
    pairs, sources = collections.Counter(links), collections.Counter(source for source, _ in links)
    outputs = collections.Counter(output for _, output in links)
    information = 0.0
    for source, output in links:
        share = outputs[output] / len(links)
        information += math.log((pairs[source, output] - 1 + share) / sources[source] / share)
    return information / max(1, len(links))
