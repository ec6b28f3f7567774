"""Imports a trained tensor2tensor model: its settings, vocabularies and weights become a run directory."""

import contextlib
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.data.problem import Problem, get_problem
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.errors import UserError
from t2t_lite.importing.options import ImportOptions
from t2t_lite.importing.run_writing import Imported, check_new, write_run
from t2t_lite.importing.t2t_settings import read_settings
from t2t_lite.importing.t2t_vocabulary import find_vocabularies
from t2t_lite.importing.t2t_weights import T2tWeights, weights_of_embeddings, weights_of_layers
from t2t_lite.models.building import make_model, symbolic_model
from t2t_lite.models.transformer import Transformer

MODEL = "transformer"  # tensor2tensor's name for the only model that can be imported
_OWN_TEXT = "text_pairs"


def import_run(
    source: Path, output_dir: Path, options: ImportOptions, say: Callable[[str], None] = lambda line: None
) -> Imported:
    """Converts a tensor2tensor model into a run directory, which is written atomically.

    `source` is the folder of the model (tensor2tensor's output_dir), whose last checkpoint is imported; or a checkpoint
    in it, without suffix or with ".index". `say` receives a message about each training setting that has no equivalent.
    """
    check_new(output_dir)
    checkpoint = _checkpoint(source)
    folder = checkpoint.parent
    flags: dict[str, str] = {}
    with contextlib.suppress(UserError):  # there may be no such file
        lines = _beside(folder, "flags_t2t.txt").read_text(encoding="utf-8", errors="replace").splitlines()
        matches = (re.fullmatch(r"--(\w+)=(.*)", line.strip()) for line in lines)
        flags = {match[1]: match[2] for match in matches if match and match[2]}
    weights = T2tWeights(checkpoint)
    name = flags.get("model", weights.model)
    if name != MODEL or weights.model != MODEL:
        other = name if name != MODEL else weights.model or "another model"
        raise UserError(f"{weights.path} is a checkpoint of {other}; only tensor2tensor's {MODEL} can be imported")
    if not weights.vocab_sizes:
        raise UserError(f"{weights.path} has no vocabulary embedding; only text-to-text models can be imported")
    if not any(shape.startswith(f"{MODEL}/body/encoder/") for shape in weights.shapes):
        raise UserError(
            f"{weights.path} has no encoder; models without one, such as language models, cannot be imported"
        )
    settings = read_settings(_beside(folder, "hparams.json"), flags)
    problem = _problem(options.problem, flags.get("problem", ""))
    with tempfile.TemporaryDirectory() as work:
        places = [options.data_dir, settings.data_dir, folder]
        inputs, targets = find_vocabularies(
            weights.vocab_sizes, options.vocab_file, [Path(place) for place in places if place], flags, Path(work)
        )
        tied = "none" if weights.has_own_softmax else "all"
        if tied == "all" and (weights.has_target_space or inputs != targets):
            tied = "decoder"  # the source embedding has its own vocabulary, or includes the target-space vector
        hparams = settings.hparams.replace(tied_embeddings=tied)
        model = _model(hparams, weights, inputs, targets, options.target_space_id)
        imported = write_run(output_dir, model, _step(checkpoint, weights), problem, targets, inputs)
    for note in settings.notes:
        say(note)
    return imported


def _checkpoint(source: Path) -> Path:
    if source.is_dir():
        try:
            latest = tf.train.latest_checkpoint(str(source))  # None: there is no such file or checkpoint
        except (ValueError, tf.errors.OpError) as error:
            raise UserError(
                f"{source / 'checkpoint'} is damaged: it does not name the last checkpoint; copy it again, or pass a "
                f"checkpoint, such as {source / 'model.ckpt-250000'}"
            ) from error
        checkpoints = sorted(source.glob("*.ckpt-*.index"), key=lambda path: int(re.sub(r"\D", "", path.stem) or 0))
        path = Path(latest) if latest else checkpoints[-1].with_suffix("") if checkpoints else None
        if path is None:
            raise UserError(
                f"{source} has no tensor2tensor checkpoint, such as model.ckpt-250000.index; pass another folder"
            )
        return path
    path = source.with_suffix("") if source.suffix == ".index" else source
    if not path.with_name(f"{path.name}.index").is_file():
        raise UserError(f"{source} is neither a folder nor a checkpoint: there is no {path.name}.index; check the path")
    return path


def _beside(folder: Path, name: str) -> Path:
    for place in (folder, folder.resolve().parent):
        if (place / name).is_file():
            return place / name
    raise UserError(f"{folder} has no {name}, which tensor2tensor writes next to its checkpoints; copy it there")


def _problem(name: str, theirs: str) -> Problem:
    if name:
        return get_problem(name)
    try:
        return get_problem(theirs)
    except UserError:
        return get_problem(_OWN_TEXT)


def _model(hparams: HParams, weights: T2tWeights, inputs: Path, targets: Path, target_space_id: int) -> Transformer:
    """Returns the model with its weights, which must be exactly those of a model with these settings."""
    sizes = [open_vocabulary(path).size for path in (targets, inputs)]
    expected = symbolic_model(hparams, *sizes)  # a model of the wrong size may not fit in memory
    assert isinstance(expected, Transformer)
    values: dict[str, np.ndarray] = {}
    for variable, value in (
        *weights_of_layers(weights, expected),
        *weights_of_embeddings(weights, expected, target_space_id),
    ):
        if value.shape != tuple(variable.shape):
            raise UserError(
                f"{weights.path} does not match its hparams.json: {variable.path} has the shape "
                f"{tuple(variable.shape)} there but {value.shape} in the checkpoint; copy both files again"
            )
        values[variable.path] = value
    if unread := weights.unread():
        raise UserError(
            f"{weights.path} does not match its hparams.json: the model there lacks {len(unread)} of the "
            f"checkpoint's weights, such as {unread[0]}; copy both files again"
        )
    model = make_model(hparams, *sizes)
    assert isinstance(model, Transformer)
    for variable, of_expected in zip(model.variables, expected.variables, strict=True):
        variable.assign(values[of_expected.path])
    return model


def _step(checkpoint: Path, weights: T2tWeights) -> int:
    match = re.search(r"-(\d+)$", checkpoint.name)
    if match is None and "global_step" in weights.shapes:
        return int(weights.array("global_step"))
    return int(match[1]) if match else 0
