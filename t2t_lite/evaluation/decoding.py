"""Runs the model on a split, to get the outputs and the losses on the targets."""

import time
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from t2t_lite.data.manifest import Manifest, check_data
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.evaluation.request import EvalRequest
from t2t_lite.files import file_sha256
from t2t_lite.runs import checkpoints
from t2t_lite.scoring.token_metrics import TokenSums
from t2t_lite.training.devices import device_memory
from t2t_lite.training.evaluation import SplitLosses, decode_lines, make_decoder
from t2t_lite.training.options import TrainOptions


class Decoded(NamedTuple):
    translator: Translator  # holds the model
    hypotheses: list[str]  # [] if the problem has no outputs
    only_trees: list[str]  # the outputs of a search among well-formed trees only; [] if there was none
    sums: TokenSums
    seconds: float  # time of the search, including compilation
    members: list[int]  # the steps of the averaged checkpoints


def decode(request: EvalRequest, inputs: Sequence[str]) -> Decoded:
    """Decodes a split and scores its targets, in float32 unless the search settings say otherwise."""
    run_dir, problem = request.source.run_dir, request.source.run_dir.problem
    manifest = check_data(request.data_dir, problem, request.split)
    _check_vocabularies(request, manifest)
    translator = Translator.of(request.source, request.options)
    strategy, options = tf.distribute.get_strategy(), TrainOptions(free_bytes=device_memory())
    sums = SplitLosses(run_dir, request.data_dir, request.split, strategy, translator.model, options)()
    decoder = make_decoder(problem, translator)
    start = time.perf_counter()
    hypotheses = decode_lines(decoder, inputs) if problem.has_inputs else []
    seconds = time.perf_counter() - start
    only_trees = []
    if problem.writes_trees and not request.source.settings.only_trees:
        only_trees = decode_lines(decoder, inputs, only_trees=True)
    return Decoded(
        translator, hypotheses, only_trees, sums, seconds, checkpoints.average_members(request.source.selection.path)
    )


def _check_vocabularies(request: EvalRequest, manifest: Manifest) -> None:
    run_dir = request.source.run_dir
    for entry, path in zip(
        run_dir.problem.in_direction(manifest.vocabularies), (run_dir.inputs_vocabulary, run_dir.vocabulary)
    ):
        if file_sha256(path) != entry["sha256"]:
            raise UserError(
                f"the data in {request.data_dir} was made with a vocabulary other than {path}; pass the "
                f"folder with the run's training data as `data_dir`"
            )
