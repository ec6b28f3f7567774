"""Imports a trained tensor2tensor model: its settings, vocabularies and weights become a run directory."""

import contextlib
import json
import re
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.data.problem import SIDES, get_problem
from t2t_lite.data.vocab import import_vocabulary, open_vocabulary
from t2t_lite.data.vocab.t2t import T2tByteVocabulary, byte_list
from t2t_lite.errors import UserError
from t2t_lite.files import split_paths, without_patterns, written_whole
from t2t_lite.importing.options import Imported, ImportOptions
from t2t_lite.importing.run_writing import filled_model, write_run
from t2t_lite.layers.self_attention import RelativeSelfAttention
from t2t_lite.layers.transformer import Residual
from t2t_lite.models.transformer import Transformer

# Settings that affect the outputs, with the values that our model supports. The first value is the default for files of
# old versions, which lack the setting. Other settings, such as those for training, images or several problems, do not
# affect the outputs.
_ALLOWED: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("bottom", "name", "top"), ({},)),
    "causal_decoder_self_attention": (True,),
    "ffn_layer": ("dense_relu_dense", "conv_hidden_relu"),
    "gumbel_noise_weight": (0.0,),
    **dict.fromkeys(("hard_attention_k", "num_area_layers"), (0,)),
    **dict.fromkeys(("nbr_decoder_problems", "vocab_divisor"), (1,)),
    "norm_type": ("layer",),
    "prepend_mode": ("none",),
    **dict.fromkeys(("proximity_bias", "unidirectional_encoder"), (False,)),
    "self_attention_type": ("dot_product", "dot_product_relative"),
    "weight_dtype": ("float32",),  # weights of other types are stored in encoded form
}
# The norm position by (layer_preprocess_sequence, layer_postprocess_sequence). Dropout does not affect outputs.
_NORM_POSITIONS = {("none", "dan"): "post", ("none", "an"): "post", ("n", "da"): "pre", ("n", "a"): "pre"}
# The position encoding by (self_attention_type, pos).
_POSITIONS = {
    ("dot_product", "timing"): "sinusoidal_halves",
    ("dot_product", "emb"): "learned",
    ("dot_product_relative", None): "relative",
    ("dot_product_relative", "none"): "relative",
}
# Training settings with the same meaning, and our names for them.
_SAME = {
    "layer_prepostprocess_dropout": "residual_dropout",
    "attention_dropout": "attention_dropout",
    "relu_dropout": "relu_dropout",
    "label_smoothing": "label_smoothing",
    "clip_grad_norm": "clip_norm",
    "learning_rate_warmup_steps": "learning_rate_warmup_steps",
    "optimizer_adam_beta1": "adam_beta1",
    "optimizer_adam_beta2": "adam_beta2",
    "optimizer_adam_epsilon": "adam_epsilon",
}
# Training settings without an equivalent, which add a note unless they are 0.
_WITHOUT_EQUIVALENT = ("symbol_dropout", "weight_decay", "weight_noise", "grad_noise_scale", "scheduled_sampling_prob")
# The factors of a learning-rate schedule that is the paper's times a constant.
_PAPERS = {"constant", "linear_warmup", "rsqrt_decay", "rsqrt_hidden_size"}
_PATTERN = "vocab.*"
# The name of the byte vocabulary, which has a token for each byte and no file.
BYTES = "bytes"
_MODALITY = re.compile(r"symbol_modality_(\d+)_\d+(_\d+)?")
_BODY = "transformer/body"
_TARGET_SPACES = f"{_BODY}/target_space_embedding/kernel"
# The scopes of the embedding or softmax matrix for each use, in order of preference.
_SCOPES = {"inputs": ("input_emb", "shared"), "targets": ("target_emb", "shared"), "softmax": ("softmax", "shared")}
_PRE_NORM, _POST_NORM = "layer_prepostprocess/layer_norm", "layer_postprocess/layer_norm"
_Layer: TypeAlias = Any
# The errors that TensorFlow raises for a damaged checkpoint.
_UNREADABLE = (tf.errors.OpError, OSError, IndexError, ValueError, RuntimeError)
MODEL = "transformer"  # tensor2tensor's name for the only model that can be imported


class T2tSettings(NamedTuple):
    hparams: HParams  # our settings, except `tied_embeddings`
    data_dir: Path | None  # the folder of the training data
    notes: list[str]  # a message about each training setting without an equivalent


def read_settings(path: Path, flags: dict[str, str]) -> T2tSettings:
    """Returns the settings in an hparams.json file. `flags` are the training flags from flags_t2t.txt."""
    try:
        theirs = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(theirs, dict) or "hidden_size" not in theirs:
            raise ValueError("no settings of a model")
    except (ValueError, OSError) as error:
        reason = "it is not JSON, or has no settings of a model" if isinstance(error, ValueError) else error.strerror
        raise UserError(f"{path} is not a tensor2tensor hparams file: {reason}") from error
    try:
        return _settings(theirs, flags)
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} has no usable value for {error.args[0] if error.args else error}") from error


def _settings(theirs: dict[str, Any], flags: dict[str, str]) -> T2tSettings:
    for name, allowed in _ALLOWED.items():
        if (value := theirs.get(name, allowed[0])) not in allowed:
            raise _refused(name, value, " or ".join(map(str, allowed)))
    notes: list[str] = []
    sequences = theirs["layer_preprocess_sequence"], theirs["layer_postprocess_sequence"]
    if sequences not in _NORM_POSITIONS:
        raise _refused("layer_preprocess_sequence", "{} with layer_postprocess_sequence={}".format(*sequences),
                       "none with dan, or n with da")  # fmt: skip
    if "d" not in sequences[1]:
        notes.append(
            f"layer_postprocess_sequence={sequences[1]} has no dropout; further training will use residual_dropout"
        )
    positions = theirs.get("self_attention_type", "dot_product"), theirs.get("pos", "timing")
    if positions not in _POSITIONS:
        raise _refused("pos", "{1} with self_attention_type={0}".format(*positions),
                       "timing or emb with dot_product, or None with dot_product_relative")  # fmt: skip
    if theirs.get("shared_embedding") and not theirs["shared_embedding_and_softmax_weights"]:
        notes.append("shared_embedding=True: further training will change the embeddings of both sides independently")
    layers, num_heads = theirs["num_hidden_layers"], theirs["num_heads"]
    if not isinstance(num_heads, int) or num_heads < 1:
        raise _refused("num_heads", num_heads, "a whole number above 0")
    changes: dict[str, Any] = {
        "num_encoder_layers": theirs.get("num_encoder_layers") or layers,
        "num_decoder_layers": theirs.get("num_decoder_layers") or layers,
        "hidden_size": theirs["hidden_size"],
        "filter_size": theirs["filter_size"],
        "num_heads": num_heads,
        "attention_key_size": (theirs.get("attention_key_channels") or 0) // num_heads,
        "attention_value_size": (theirs.get("attention_value_channels") or 0) // num_heads,
        "norm_position": _NORM_POSITIONS[sequences],
        "norm_epsilon": theirs.get("norm_epsilon", HParams.norm_epsilon),
        "position_encoding": _POSITIONS[positions],
        "zero_padding_embedding": True,
        "scaled_embeddings": theirs.get("multiply_embedding_mode", "sqrt_depth") == "sqrt_depth",
        "max_length": theirs.get("max_length") or HParams.max_length,
    }
    if changes["position_encoding"] == "relative":
        changes["max_relative_position"] = theirs["max_relative_position"]
    changes |= _of_training(theirs, flags, notes)
    data_dir = theirs.get("data_dir")
    return T2tSettings(HParams(**changes), Path(data_dir) if data_dir else None, notes)


def _of_training(theirs: dict[str, Any], flags: dict[str, str], notes: list[str]) -> dict[str, Any]:
    """Returns our training settings. Adds a note for each that has no equivalent and keeps its default."""
    changes = {name: theirs[other] for other, name in _SAME.items() if other in theirs}
    schedule, scheme = theirs.get("learning_rate_schedule", "legacy"), theirs.get("learning_rate_decay_scheme")
    if schedule == "legacy" and scheme == "noam":
        # tensor2tensor multiplies the paper's rate by 5000 and, with Adam, by 0.002.
        changes["learning_rate_constant"] = 10 * theirs["learning_rate"]
    elif {*str(schedule).split("*")} == _PAPERS:
        changes["learning_rate_constant"] = theirs["learning_rate_constant"]
    else:
        notes.append(
            f"learning_rate_schedule={schedule} has no equivalent; further training will use the paper's schedule"
        )
    if "adam" not in (optimizer := str(theirs.get("optimizer", "adam")).lower()) or "adamw" in optimizer:
        notes.append(f"optimizer={optimizer} is not imported; further training will use adam")
    notes += [
        f"{name}={value} has no equivalent; further training will not use it"
        for name in _WITHOUT_EQUIVALENT
        if (value := theirs.get(name))
    ]
    if isinstance(batch_size := theirs.get("batch_size"), int):
        devices = flags.get("worker_gpu", "1")
        steps = (theirs.get("optimizer_multistep_accumulate_steps") or 1) if "multistep" in optimizer else 1
        changes["batch_tokens"] = max(1, batch_size * steps * (int(devices) if devices.isdecimal() else 1))
    return changes


def _refused(name: str, value: object, instead: str) -> UserError:
    return UserError(f"a tensor2tensor model with {name}={value} cannot be imported; only {instead} is supported")


def import_t2t_vocabulary(source: str, path: Path) -> None:
    if source != BYTES or Path(source).is_file():
        return import_vocabulary(Path(source), path)
    with written_whole(path) as partial:
        partial.write_bytes(byte_list())


def find_vocabularies(
    sizes: Sequence[int], vocab_file: str, places: Sequence[Path], flags: dict[str, str], folder: Path
) -> tuple[Path, Path]:
    """Imports the vocabularies of inputs and targets into a folder. Returns their paths, which may be the same.

    Args:
      sizes: the sizes of the model's vocabularies, in tokens.
      vocab_file: the path of the vocabulary file, or "bytes"; or those of inputs and targets, separated by a comma; "":
        searches `places`.
      places: the folders to search; the first with a matching file is used.
    """
    if vocab_file:
        return _import_given(split_paths(vocab_file), sizes, folder)
    if len(sizes) != 1:
        raise UserError(
            f"the model has {len(sizes)} vocabularies ({_listed(sizes)} tokens); pass both with "
            f"`vocab_file=INPUTS,TARGETS`"
        )
    name = flags.get("problem", "").removesuffix("_rev")
    for place in places:
        fitting = [path for path in sorted(place.glob(_PATTERN)) if _fits(path, sizes[0], folder)]
        named = [path for path in fitting if name and name in path.name]
        if len(chosen := named or fitting) > 1:
            listed = ", ".join(path.name for path in chosen)
            raise UserError(
                f"several vocabularies in {place} have {sizes[0]:,} tokens: {listed}; pass the model's "
                f"vocabulary with `vocab_file`, or `vocab_file=INPUTS,TARGETS` if each side has its own"
            )
        if chosen:
            path = _import(str(chosen[0]), folder)
            return path, path
    if sizes[0] == T2tByteVocabulary.size:
        path = _import(BYTES, folder)
        return path, path
    where = " or ".join(dict.fromkeys(map(str, places)))
    raise UserError(
        f"there is no vocabulary with {sizes[0]:,} tokens ({_PATTERN}) in {where}; pass its folder with `data_dir`, or "
        f"the file with `vocab_file`"
    )


def _import_given(given: Sequence[str], sizes: Sequence[int], folder: Path) -> tuple[Path, Path]:
    if len(given) > 2:
        raise UserError(f"`vocab_file` names {len(given)} files; pass one, or INPUTS,TARGETS", status=2)
    made = []
    for side, name in zip(SIDES, given):
        is_one_name = len({Path(each).name for each in given}) < len(given)
        made.append(_import(name, folder, side if is_one_name else ""))
        if (size := open_vocabulary(made[-1]).size) not in sizes:
            raise UserError(
                f"`vocab_file`: {name} has {size:,} tokens, but the model's vocabulary has {_listed(sizes)}"
            )
    if len(used := {open_vocabulary(path).size for path in made}) < len(sizes):
        raise UserError(
            f"the model has {len(sizes)} vocabularies ({_listed(sizes)} tokens), but `vocab_file` names only the "
            f"one with {_listed(sorted(used))}; pass `vocab_file=INPUTS,TARGETS`"
        )
    return made[0], made[-1]


def _listed(sizes: Sequence[int]) -> str:
    return " and ".join(f"{size:,}" for size in sizes)


def _fits(source: Path, size: int, folder: Path) -> bool:
    try:
        return open_vocabulary(_import(str(source), folder)).size == size
    except UserError:
        return False


def _import(source: str, folder: Path, side: str = "") -> Path:
    """Imports a file and returns the new path. `side` distinguishes two files with the same name."""
    path = folder / ".".join(["vocab", *([side] if side else []), Path(source).name.removeprefix("vocab.")])
    import_t2t_vocabulary(source, path)
    return path


class T2tWeights:
    """The weights in a tensor2tensor checkpoint, whose path has no suffix."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # The reader opens the file of the values only when it needs them.
            opened = contextlib.ExitStack()
            self._reader = tf.train.load_checkpoint(opened.enter_context(without_patterns(path)))
            weakref.finalize(self, opened.close)
            self.shapes: dict[str, list[int]] = self._reader.get_variable_to_shape_map()
            self._read: set[str] = set()
        except _UNREADABLE as error:
            raise self._damaged(error) from error

    @property
    def model(self) -> str:
        """The name of the model in tensor2tensor; "" if unknown."""
        matches = (re.match(r"(\w+)/body/", name) for name in sorted(self.shapes))
        return next((match[1] for match in matches if match), "")

    @property
    def vocab_sizes(self) -> list[int]:
        """The distinct sizes of the vocabularies, in tokens: one or two."""
        matches = (_MODALITY.search(name) for name in self.shapes)
        return sorted({int(match[1]) for match in matches if match})

    @property
    def has_own_softmax(self) -> bool:
        """Whether the projection to logits has its own matrix. It always does if two vocabularies differ in size."""
        return any("/softmax/weights_" in name for name in self.shapes)

    def array(self, name: str) -> np.ndarray:
        """Returns a variable as float32. Raises a UserError if it does not exist or cannot be read."""
        if name not in self.shapes:
            raise UserError(f"{self.path} has no variable {name}; copy the checkpoint and its hparams.json again")
        self._read.add(name)
        try:
            return np.asarray(self._reader.get_tensor(name)).astype(np.float32)
        except _UNREADABLE as error:
            raise self._damaged(error) from error

    def matrix(self, use: str, vocab_size: int) -> np.ndarray:
        """Returns the matrix of "inputs", "targets" or "softmax", float32 [vocab, hidden], joined from its shards."""
        pattern = re.compile(rf"transformer/{_MODALITY.pattern}/(\w+)/weights_(\d+)")
        matches = [match for name in self.shapes if (match := pattern.fullmatch(name)) and int(match[1]) == vocab_size]
        for scope in _SCOPES[use]:
            if names := sorted((int(match[4]), match[0]) for match in matches if match[3] == scope):
                return np.concatenate([self.array(name) for _, name in names])
        raise UserError(f"{self.path} has no {use} matrix for {vocab_size:,} tokens; check `vocab_file`")

    def unread(self) -> list[str]:
        """Returns the names of the model's weights that nothing has read, sorted.

        Excludes what belongs to the training: the variables of its own scopes, and those that an optimizer keeps below
        the name of a weight.
        """
        left = (name for name in self.shapes if name.startswith(f"{self.model}/") and name not in self._read)
        return sorted(name for name in left if not self.shapes.keys() & {*map(str, PurePosixPath(name).parents)})

    def _damaged(self, error: Exception) -> UserError:
        reason = (getattr(error, "message", "") or str(error)).split("\n")[0]
        return UserError(f"the checkpoint {self.path} cannot be read ({reason}); copy it again")


def weights_of_layers(weights: T2tWeights, model: Transformer) -> Iterator[tuple[Any, np.ndarray]]:
    """Yields (a variable of the model, its value) for everything except embeddings and the projection to logits."""
    for side, layers in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers)):
        for number, layer in enumerate(layers):
            scope = f"{_BODY}/{side}/layer_{number}"
            sublayers = {"self_attention": (layer.self_attention, layer.self_attention_residual)}
            if hasattr(layer, "cross_attention"):
                sublayers["encdec_attention"] = (layer.cross_attention, layer.cross_attention_residual)
            for name, (attention, residual) in sublayers.items():
                yield from _of_attention(weights, attention, f"{scope}/{name}/multihead_attention")
                yield from _of_residual(weights, residual, f"{scope}/{name}")
            for name, dense in (("conv1", layer.feed_forward.expand), ("conv2", layer.feed_forward.project)):
                yield dense.kernel, weights.array(f"{scope}/ffn/{name}/kernel")
                yield dense.bias, weights.array(f"{scope}/ffn/{name}/bias")
            yield from _of_residual(weights, layer.feed_forward_residual, f"{scope}/ffn")
        if model.final_norms:
            yield from _of_norm(weights, model.final_norms[side], f"{_BODY}/{side}/{_PRE_NORM}")
    if model.hparams.position_encoding == "learned":
        for side, positions in model.position_encodings.items():
            yield positions.weight, weights.array(f"{_BODY}/{side}_positional_embedding")


def _of_attention(weights: T2tWeights, layer: _Layer, scope: str) -> Iterator[tuple[Any, np.ndarray]]:
    names = {"q": layer.query, "k": layer.key, "v": layer.value, "output_transform": layer.output_projection}
    is_3d = f"{scope}/q" in weights.shapes  # attention_variables_3d: with a dimension for heads; queries are not scaled
    for name, variable in names.items():
        if is_3d:
            array = weights.array(f"{scope}/{name[0]}")
            # [hidden, heads, size], or for the outputs [heads, size, hidden]
            array = array.reshape((-1, array.shape[-1]) if name == "output_transform" else (array.shape[0], -1))
            yield variable, array * np.float32(layer.key_size**0.5) if name == "q" else array
        else:
            yield variable, weights.array(f"{scope}/{name}/kernel")
    if isinstance(layer, RelativeSelfAttention):
        inside = f"{scope}/dot_product_attention_relative/relative_positions"
        yield layer.relative_keys, weights.array(f"{inside}_keys/embeddings")
        yield layer.relative_values, weights.array(f"{inside}_values/embeddings")


def _of_residual(weights: T2tWeights, residual: Residual, scope: str) -> Iterator[tuple[Any, np.ndarray]]:
    of_norm = _PRE_NORM if residual.norm_position == "pre" else _POST_NORM
    yield from _of_norm(weights, residual.norm, f"{scope}/{of_norm}")


def _of_norm(weights: T2tWeights, norm: _Layer, scope: str) -> Iterator[tuple[Any, np.ndarray]]:
    yield norm.gamma, weights.array(f"{scope}/layer_norm_scale")
    yield norm.beta, weights.array(f"{scope}/layer_norm_bias")


def weights_of_embeddings(
    weights: T2tWeights, model: Transformer, target_space_id: int
) -> Iterator[tuple[Any, np.ndarray]]:
    """Yields (a variable of the model, its value) for the embeddings and the projection to logits.

    tensor2tensor adds the vector of the target space `target_space_id` to each input position. Our model has no such
    vectors, so the vector is added to the rows of the source embedding.
    """
    yield model.embedding.weight, weights.matrix("targets", model.vocab_size)
    if model.inputs_embedding is not model.embedding:
        inputs = weights.matrix("inputs", model.inputs_vocab_size)
        if _TARGET_SPACES in weights.shapes:
            vector = weights.array(_TARGET_SPACES)[target_space_id]
            inputs += vector / np.float32(model.inputs_embedding.scale)
        yield model.inputs_embedding.weight, inputs
    if model.projection is not model.embedding:
        yield model.projection.weight, weights.matrix("softmax", model.vocab_size)


def import_t2t(
    source: Path, output_dir: Path, options: ImportOptions, say: Callable[[str], None] = lambda line: None
) -> Imported:
    """Converts a tensor2tensor model into a run directory, which is written atomically.

    `source` is the folder of the model (tensor2tensor's output_dir), whose last checkpoint is imported; or a checkpoint
    in it, without suffix or with ".index". `say` receives a message about each training setting that has no equivalent.
    """
    checkpoint = checkpoint_in(source)
    folder = checkpoint.parent
    flags: dict[str, str] = {}
    with contextlib.suppress(UserError):  # there may be no such file
        lines = _beside(folder, "flags_t2t.txt").read_text(encoding="utf-8", errors="replace").splitlines()
        matches = (re.fullmatch(r"--(\w+)=(.*)", line.strip()) for line in lines)
        flags = {match[1]: match[2] for match in matches if match and match[2]}
    weights = T2tWeights(checkpoint)
    name = flags.get("model", weights.model)
    if name != MODEL or weights.model != MODEL:
        other = (name if name != MODEL else weights.model) or "another program"
        raise UserError(f"{weights.path} is a checkpoint of {other}; only tensor2tensor's {MODEL} can be imported")
    if not weights.vocab_sizes:
        raise UserError(f"{weights.path} has no vocabulary embedding; only text-to-text models can be imported")
    if not any(shape.startswith(f"{MODEL}/body/encoder/") for shape in weights.shapes):
        raise UserError(
            f"{weights.path} has no encoder; models without one, such as language models, cannot be imported"
        )
    settings = read_settings(_beside(folder, "hparams.json"), flags)
    problem = get_problem(options.problem or "text_pairs")
    with contextlib.suppress(UserError):  # no problem of ours may have that name
        problem = get_problem(options.problem or flags.get("problem", ""))
    with tempfile.TemporaryDirectory() as work:
        places = [options.data_dir, settings.data_dir, folder]
        inputs, targets = find_vocabularies(
            weights.vocab_sizes, options.vocab_file, [Path(place) for place in places if place], flags, Path(work)
        )
        tied = "none" if weights.has_own_softmax else "all"
        if tied == "all" and (_TARGET_SPACES in weights.shapes or inputs != targets):
            tied = "decoder"  # the source embedding has its own vocabulary, or includes the target-space vector
        hparams = settings.hparams.replace(tied_embeddings=tied)
        model = _model(hparams, weights, inputs, targets, options.target_space_id)
        step = step_of(checkpoint, weights)
        imported = write_run(output_dir, model, step, problem, targets, inputs, languages=options.languages)
    for note in settings.notes:
        say(note)
    return imported


def checkpoint_in(source: Path) -> Path:
    if source.is_dir():
        try:
            latest = tf.train.latest_checkpoint(str(source))  # None: there is no such file or checkpoint
        except (ValueError, tf.errors.OpError) as error:
            raise UserError(
                f"{source / 'checkpoint'} is damaged: it does not name the last checkpoint; copy it again, or pass a "
                f"checkpoint, such as {source / 'model.ckpt-250000'}"
            ) from error
        checkpoints = sorted(source.glob("*ckpt-*.index"), key=lambda path: int(re.sub(r"\D", "", path.stem) or 0))
        if not latest and not checkpoints:
            raise UserError(f"{source} has no checkpoint (*ckpt-*.index); pass another folder")
        return Path(latest) if latest else checkpoints[-1].with_suffix("")
    path = source.with_suffix("") if source.suffix == ".index" else source
    if not path.with_name(f"{path.name}.index").is_file():
        raise UserError(f"{source} is neither a folder nor a checkpoint: there is no {path.name}.index; check the path")
    return path


def _beside(folder: Path, name: str) -> Path:
    for place in (folder, folder.resolve().parent):
        if (place / name).is_file():
            return place / name
    raise UserError(f"{folder} has no {name}, which tensor2tensor writes next to its checkpoints; copy it there")


def _model(hparams: HParams, weights: T2tWeights, inputs: Path, targets: Path, target_space_id: int) -> Transformer:
    """Returns the model with its weights, which must be exactly those of a model with these settings."""

    def values_of(model: Transformer) -> Iterator[tuple[Any, np.ndarray]]:
        yield from weights_of_layers(weights, model)
        yield from weights_of_embeddings(weights, model, target_space_id)

    model = filled_model(hparams, targets, inputs, values_of, weights.path, "hparams.json")
    if unread := weights.unread():
        raise UserError(
            f"{weights.path} does not match its hparams.json: the model there lacks {len(unread)} of the "
            f"checkpoint's weights, such as {unread[0]}; copy both files again"
        )
    return model


def step_of(checkpoint: Path, weights: T2tWeights) -> int:
    if match := re.search(r"-(\d+)$", checkpoint.name):
        return int(match[1])
    return int(weights.array("global_step")) if "global_step" in weights.shapes else 0
