"""Warm start: initializes a model with the weights of another run; embedding rows are matched by token."""

import dataclasses
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np

from t2t_lite.data.vocab import EOS_ID, PAD_ID, Vocabulary, open_vocabulary
from t2t_lite.errors import UserError
from t2t_lite.layers.positions import LearnedPositions
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.models.building import symbolic_model
from t2t_lite.runs import checkpoints
from t2t_lite.runs.checkpoint_files import existing, list_checkpoints
from t2t_lite.runs.run_dir import RunDir, folder_to_start_from, open_run_dir
from t2t_lite.runs.selection import LAST, select

# The parts of a model whose weight has one row per token, and the side of these tokens. Tied parts are the same object.
_TOKEN_TABLES = {"embedding": "targets", "inputs_embedding": "inputs", "projection": "targets"}

# Maximum number of report lines per kind of difference.
_MAX_LINES = 8


def resolve(path: Path) -> tuple[RunDir, Path]:
    """Returns (the opened run directory, the path without suffix) of the checkpoint to start from.

    `path` is a run directory, which stands for its last checkpoint, or a checkpoint in a run directory, with or without
    the suffix ".index". An average is refused, because no training step produced its weights.
    """
    path = Path(path)
    checkpoint = path.with_suffix("") if path.suffix == ".index" else path
    checkpoint = existing(checkpoint) or checkpoint
    directory = folder_to_start_from(path)
    run_dir = open_run_dir(directory)
    if path == directory:
        return run_dir, _trained(select(directory, LAST).path, path)
    checkpoints = [known for kind in ("ckpt", "average") for _, known in list_checkpoints(directory, kind)]
    if checkpoint not in checkpoints:
        last = ", ".join(known.name for known in checkpoints[-5:])
        raise UserError(f"`warm_start_from={path}`: no such checkpoint; use one in {directory}, such as {last}")
    return run_dir, _trained(checkpoint, path)


def _trained(checkpoint: Path, path: Path) -> Path:
    try:
        checkpoints.refuse_average(checkpoint)
    except UserError as error:
        raise UserError(f"`warm_start_from={path}`: {error}") from error
    return checkpoint


def warm_start(model: Seq2SeqModel, path: Path, vocabulary: Path, inputs_vocabulary: Path) -> list[str]:
    """Loads weights of another run into a built model, where they fit. The optimizer and the step stay unchanged.

    A weight is loaded if its name and shape match. Embedding and output matrices are loaded row by row, for the tokens
    in both vocabularies; the symbols for padding, end and unknown match in all vocabularies that have them. Learned
    positions are loaded up to the shorter length. All other weights keep their initial values. Variables mirrored on
    several devices change on all of them. `vocabulary` and `inputs_vocabulary` are the files of the model's target and
    source vocabularies; they are the same file if both sides share one. Returns a few dozen report lines at most. After
    an error, the model stays unchanged.
    """
    run_dir, checkpoint = resolve(path)
    arrays = checkpoints.read(checkpoint, "model")
    variables = checkpoints.by_name(model.variables)
    arrays = checkpoints.with_current_names(arrays, variables)
    fit = _fit(arrays, variables, _rows_to_take(model, run_dir, vocabulary, inputs_vocabulary))
    settings = "; ".join(run_dir.hparams.difference(model.hparams))
    # Biases and norms are useless without the matrices they were trained with.
    if all(value.ndim < 2 for value in fit.values.values()):
        raise UserError(
            f"`warm_start_from={path}`: no matrix in {checkpoint} matches a matrix of this model in name and shape "
            f"(settings of that run: {settings or 'the same'}); use a run with the same sizes, or omit "
            f"`warm_start_from`"
        )
    for name, value in fit.values.items():
        variables[name].assign(value)
    lines = fit.lines(checkpoint, len(variables))
    if settings:  # a weight may fit and yet have another meaning, for example with a different number of heads
        lines.append(f"  settings of that run: {settings}")
    return lines


class _Rows(NamedTuple):
    other_name: str  # the weight's name in the other run
    here: list[int]  # row numbers in this model
    there: list[int]  # the corresponding row numbers in the other run
    unit: str  # what the rows represent, for reports: "tokens"


@dataclasses.dataclass
class _Fit:
    """The weights of a checkpoint that fit a model, and notes on the others."""

    values: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)  # by the name of the model's weight
    in_part: list[str] = dataclasses.field(default_factory=list)
    other_shape: list[str] = dataclasses.field(default_factory=list)
    missing: list[str] = dataclasses.field(default_factory=list)  # names of the model's weights
    unused: list[str] = dataclasses.field(default_factory=list)  # names of the checkpoint's weights

    def lines(self, checkpoint: Path, num_weights: int) -> list[str]:
        loaded = f"{len(self.values) - len(self.in_part)} of {num_weights} weights loaded"
        others = {"in part": len(self.in_part), "not loaded": num_weights - len(self.values)}
        others["in the checkpoint unused"] = len(self.unused)
        return [
            f"warm start from {checkpoint}: {', '.join([loaded, *(f'{n} {what}' for what, n in others.items() if n)])}",
            *_bounded("in part", self.in_part),
            *_bounded("not loaded", self.other_shape),
            *_bounded("not loaded", _by_layer(self.missing, "not in the checkpoint")),
            *_bounded("unused", _by_layer(self.unused, "not in this model")),
        ]


def _fit(arrays: dict[str, np.ndarray], variables: dict, rows_to_take: dict[str, _Rows]) -> _Fit:
    fit, used = _Fit(), set()
    for name, variable in variables.items():
        rows = rows_to_take.get(name, _Rows(name, [], [], ""))
        array, shape = arrays.get(rows.other_name), tuple(variable.shape)
        used.add(rows.other_name)
        if array is None:
            fit.missing.append(name)
        elif rows.here and array.shape[1:] == shape[1:]:
            fit.values[name] = variable.numpy()
            fit.values[name][rows.here] = array[rows.there]
            if len(rows.here) < shape[0]:
                fit.in_part.append(f"{name}: {len(rows.here):,} of {shape[0]:,} {rows.unit}")
        elif array.shape == shape:
            fit.values[name] = array
        else:
            fit.other_shape.append(f"{name}: {array.shape} in the checkpoint, {shape} in this model")
    fit.unused += sorted(arrays.keys() - used)
    return fit


def _rows_to_take(model: Seq2SeqModel, run_dir: RunDir, vocabulary: Path, inputs_vocabulary: Path) -> dict[str, _Rows]:
    """Returns the rows to load by weight name, for weights whose rows represent tokens or positions."""
    here = _vocabularies(vocabulary, inputs_vocabulary)
    there = _vocabularies(run_dir.vocabulary, run_dir.inputs_vocabulary)
    # The checkpoint does not tell which parts of the other model share a matrix, but the settings of its run do.
    other = symbolic_model(run_dir.hparams, there["targets"].size, there["inputs"].size)
    rows: dict[str, _Rows] = {}
    for part, side in _TOKEN_TABLES.items():
        mine, theirs = getattr(model, part, None), getattr(other, part, None)
        if mine is not None and theirs is not None:
            shared = _shared_tokens(here[side], there[side])
            rows.setdefault(_name(mine.weight), _Rows(_name(theirs.weight), *shared, "tokens"))
    positions = getattr(other, "position_encodings", {})
    for side, mine in getattr(model, "position_encodings", {}).items():
        theirs = positions.get(side)
        if isinstance(mine, LearnedPositions) and isinstance(theirs, LearnedPositions):
            common = list(range(min(mine.max_length, theirs.max_length)))
            rows[_name(mine.weight)] = _Rows(_name(theirs.weight), common, common, "positions")
    return rows


def _vocabularies(vocabulary: Path, inputs_vocabulary: Path) -> dict[str, Vocabulary]:
    targets = open_vocabulary(vocabulary)
    inputs = targets if inputs_vocabulary == vocabulary else open_vocabulary(inputs_vocabulary)
    return {"inputs": inputs, "targets": targets}


def _shared_tokens(here: Vocabulary, there: Vocabulary) -> tuple[list[int], list[int]]:
    """Returns the ids of tokens in both vocabularies: (ids here, ids of the same tokens there)."""
    # These symbols have the same meaning in every vocabulary, even if their texts differ.
    shared = {PAD_ID: PAD_ID, EOS_ID: EOS_ID}
    if here.unknown_id is not None and there.unknown_id is not None:
        shared[here.unknown_id] = there.unknown_id
    ids_there = {token: number for number, token in enumerate(there.tokens()) if number not in _symbols(there)}
    for number, token in enumerate(here.tokens()):
        if number not in _symbols(here) and token in ids_there:
            shared[number] = ids_there[token]
    return [*shared], [*shared.values()]


def _symbols(vocabulary: Vocabulary) -> tuple[int | None, ...]:
    return PAD_ID, EOS_ID, vocabulary.unknown_id


def _name(variable: keras.Variable) -> str:
    """Returns the name that `checkpoints.by_name` gives a Keras variable; the variable needs no value."""
    return variable.path.replace("/", ".")


def _by_layer(names: list[str], why: str) -> list[str]:
    """Returns one note per layer, because all weights of a layer are usually missing together."""
    layers: dict[str, list[str]] = {}
    for name in names:
        layers.setdefault(".".join(name.split(".")[:2]), []).append(name)
    return [
        f"{members[0]}: {why}" if len(members) == 1 else f"{layer} ({len(members)} weights): {why}"
        for layer, members in layers.items()
    ]


def _bounded(kind: str, notes: list[str]) -> list[str]:
    """Returns one line per note, up to `_MAX_LINES`, and one line that counts the others, if any."""
    more = [f"and {len(notes) - _MAX_LINES} more"] if len(notes) > _MAX_LINES else []
    return [f"  {kind}: {note}" for note in [*notes[:_MAX_LINES], *more]]
