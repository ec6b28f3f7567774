"""Runs the model on a split, to get the outputs and the losses on the targets."""

import collections
import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf

from t2t_lite.checkpoints import storage
from t2t_lite.data.manifest import Manifest, check_data
from t2t_lite.data.pipeline import reading_shards
from t2t_lite.data.problem import SIDES
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.evaluation.request import Request
from t2t_lite.files import file_sha256
from t2t_lite.run_dir import RunDir
from t2t_lite.scoring.sacrebleu_metrics import words_of
from t2t_lite.scoring.token_metrics import TokenSums
from t2t_lite.training.evaluation.evaluator import SplitLosses, decode_lines, make_decoder
from t2t_lite.training.options import TrainOptions
from t2t_lite.training.strategy import device_memory

_MOST_PAIRS = 1_000_000  # maximum number of training pairs whose words are counted


class Decoded(NamedTuple):
    """The model's results on a split."""

    translator: Translator  # holds the model
    hypotheses: list[str]  # [] if the problem has no outputs
    only_trees: list[str]  # the outputs of a search among well-formed trees only; [] if there was none
    sums: TokenSums
    seconds: float  # time of the search, including compilation
    members: list[int]  # the steps of the averaged checkpoints
    training_words: Mapping[str, int] | None  # how often each word occurs in the training targets; None: not counted


def decode(request: Request, inputs: Sequence[str]) -> Decoded:
    """Decodes the inputs of a split and scores its targets, in float32 unless the search settings say otherwise.

    Raises a UserError if the checkpoint or the data cannot be read, or they do not match.
    """
    run_dir, problem = request.run_dir, request.run_dir.problem
    manifest = check_data(request.data_dir, problem, request.split)
    _check_vocabularies(request, manifest)
    settings = dataclasses.asdict(request.settings)
    translator = Translator.from_run_dir(
        run_dir.path, settings, request.selection.path, request.warn, xla_compile=request.xla_compile
    )
    strategy, options = tf.distribute.get_strategy(), TrainOptions(free_bytes=device_memory())
    sums = SplitLosses(run_dir, request.data_dir, request.split, strategy, translator.model, options)()
    decoder = make_decoder(problem, translator)
    start = time.perf_counter()
    hypotheses = decode_lines(decoder, inputs) if problem.has_inputs else []
    seconds = time.perf_counter() - start
    only_trees, counts = [], None
    if problem.writes_trees and not request.settings.only_trees:
        only_trees = decode_lines(decoder, inputs, only_trees=True)
    if problem.has_inputs and not problem.writes_trees:
        counts = _count_words(run_dir, request.data_dir, manifest)
    return Decoded(
        translator, hypotheses, only_trees, sums, seconds, storage.average_members(request.selection.path), counts
    )


def _check_vocabularies(request: Request, manifest: Manifest) -> None:
    """Raises UserError if the data's vocabularies differ from the run's."""
    run_dir = request.run_dir
    for entry, path in zip(
        run_dir.problem.in_direction(manifest.vocabularies), (run_dir.inputs_vocabulary, run_dir.vocabulary)
    ):
        if file_sha256(path) != entry["sha256"]:
            raise UserError(
                f"the data in {request.data_dir} was made with a vocabulary other than {path}; pass the "
                f"folder with the run's training data as `data_dir`"
            )


def _count_words(run_dir: RunDir, data_dir: Path, manifest: Manifest) -> collections.Counter[str]:
    """Counts how often each word occurs in a run's training targets, whose ids are first decoded to text."""
    split = words_of(run_dir.problem.output_language)
    vocabulary, side = open_vocabulary(run_dir.vocabulary), run_dir.problem.in_direction(SIDES)[1]
    shards = [str(data_dir / name) for name in sorted(manifest.splits["train"]["shards"])]
    counts: collections.Counter[str] = collections.Counter()
    with reading_shards(run_dir.problem.data_name, data_dir):
        for records in tf.data.TFRecordDataset(shards).take(_MOST_PAIRS).batch(4096):
            ids = tf.io.parse_example(records, {side: tf.io.RaggedFeature(tf.int64)})[side]
            for text in vocabulary.decode(ids.to_tensor().numpy()):
                counts.update(split(text))
    return counts
