"""Decodes a split, and sums the losses of its targets with teacher forcing."""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from t2t_lite.checkpoints import storage
from t2t_lite.data.manifest import Manifest, check_data
from t2t_lite.data.pipeline import batches, reading_shards
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.evaluation.request import Request
from t2t_lite.evaluation.training_words import count_words
from t2t_lite.files import sha256_of
from t2t_lite.formatting import one_line
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.parsing.parser import Parser
from t2t_lite.scoring.token_metrics import TokenSums
from t2t_lite.training.options import TrainOptions
from t2t_lite.training.setup import bound_micro_batches, vocab_sizes
from t2t_lite.training.step.eval_step import EvalSums
from t2t_lite.training.step.micro_batching import distribute_batches
from t2t_lite.training.strategy import device_memory


class Decoded(NamedTuple):
    """What the model says of a split."""

    translator: Translator  # with the model
    hypotheses: list[str]  # [] if the problem has no outputs
    only_trees: list[str]  # the trees of a search among trees only; [] if there was none
    sums: TokenSums
    seconds: float  # of the search, compiling included
    members: list[int]  # the steps that the checkpoint is the average of
    training_words: Mapping[str, int] | None  # how often the training targets have each word; None: not counted


def decode(request: Request, inputs: Sequence[str], warn: Callable[[str], None], xla_compile: bool | None) -> Decoded:
    """Decodes the inputs of a split and scores its targets, in float32 unless the search settings say otherwise.

    Args:
      request: what to evaluate.
      inputs: the inputs.
      warn: receives a line about an input or an output that was cut.
      xla_compile: whether to compile the search.

    Raises:
      UserError: if the checkpoint or the data cannot be read, or they do not fit together.
    """
    run_dir = request.run_dir
    manifest = check_data(request.data_dir, run_dir.problem)
    check_vocabularies(request, manifest)
    translator = Translator.from_run_dir(
        run_dir.path, dataclasses.asdict(request.settings), request.selection.path, warn, xla_compile=xla_compile
    )
    sums = token_sums(request, manifest, translator.model)
    hypotheses: list[str] = []
    only_trees: list[str] = []
    start = time.perf_counter()
    if run_dir.problem.has_inputs:
        decoder = Parser(translator) if run_dir.problem.writes_trees else translator
        hypotheses = [one_line(text) for text in decoder.translate(inputs)]
    seconds = time.perf_counter() - start
    if run_dir.problem.writes_trees and not request.settings.only_trees:
        only_trees = Parser(translator).translate(inputs, only_trees=True)
    counts = None
    if run_dir.problem.has_inputs and not run_dir.problem.writes_trees:
        counts = count_words(run_dir, request.data_dir, manifest)
    members = storage.members_of(request.selection.path)
    return Decoded(translator, hypotheses, only_trees, sums, seconds, members, counts)


def check_vocabularies(request: Request, manifest: Manifest) -> None:
    """Raises UserError if the data was made with other vocabularies than the run's."""
    run_dir = request.run_dir
    for entry, path in zip(
        run_dir.problem.in_direction(manifest.vocabularies), (run_dir.inputs_vocabulary, run_dir.vocabulary)
    ):
        if sha256_of(path) != entry["sha256"]:
            raise UserError(
                f"the data in {request.data_dir} was made with another vocabulary than {path}; give the data that "
                f"the run was trained on with `data_dir`"
            )


def token_sums(request: Request, manifest: Manifest, model: Seq2SeqModel) -> TokenSums:
    """Returns the sums over all target tokens of the split."""
    run_dir, strategy = request.run_dir, tf.distribute.get_strategy()
    options = TrainOptions(free_bytes=device_memory())
    inputs_size, targets_size = vocab_sizes(run_dir, manifest)
    limit = bound_micro_batches(run_dir.hparams, manifest, inputs_size, targets_size, strategy, options)
    pairs = batches(run_dir.problem, request.data_dir, request.split, batch_tokens=run_dir.hparams.batch_tokens)
    with reading_shards(run_dir.problem.data_name, request.data_dir):
        distributed = distribute_batches(strategy, pairs, limit)
        return EvalSums(strategy, model, distributed.element_spec)(distributed)
