"""Reads Transformers of OpenNMT-tf 2: a checkpoint, `model_description.py`, and the configuration (data.yml).

`model_description.py` is code, which is parsed and never run.
"""

import ast
import contextlib
import functools
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from t2t_lite.config import HParams
from t2t_lite.data.problem import SIDES
from t2t_lite.errors import UserError
from t2t_lite.files import split_paths
from t2t_lite.importing.marian import MarianModel, Side, import_run, listed_side
from t2t_lite.importing.options import ImportOptions
from t2t_lite.importing.t2t_model import T2tWeights, checkpoint_in, step_of


class _Known(NamedTuple):
    """A Transformer of OpenNMT-tf's catalog."""

    num_heads: int  # which the shapes of weights do not tell
    hidden_size: int
    is_relative: bool = False
    dropouts: tuple[float, ...] = (0.1, 0.1, 0.1)  # of layers, attention and feed-forward networks
    auto_config: Mapping[str, Mapping[str, Any]] = {}  # what differs from `_AUTO_CONFIG`


# What --auto_config adds to the settings of a configuration.
_AUTO_CONFIG = {
    "data": {},
    "params": {
        **{"beam_width": 4, "learning_rate": 2.0, "decay_type": "NoamDecay", "decay_params": {"warmup_steps": 8000}},
        **{"label_smoothing": 0.1, "optimizer": "LazyAdam", "optimizer_params": {"beta_1": 0.9, "beta_2": 0.998}},
    },
    "train": {"effective_batch_size": 25_000, "batch_type": "tokens", "average_last_checkpoints": 8},
}
_SCALING = {
    "data": {"source_sequence_controls": {"end": True}},
    "params": {
        **{"learning_rate": 0.001, "decay_type": "InvSqrtDecay", "decay_params": {"warmup_steps": 4000}},
        "optimizer_params": {"beta_1": 0.9, "beta_2": 0.98, "epsilon": 1e-8},
    },
    "train": {"effective_batch_size": 458_752, "average_last_checkpoints": 10},
}
_CATALOG = {
    "TransformerTiny": _Known(2, 64),
    **dict.fromkeys(("Transformer", "TransformerBase", "TransformerBaseSharedEmbeddings"), _Known(8, 512)),
    **dict.fromkeys(("TransformerRelative", "TransformerBaseRelative"), _Known(8, 512, True)),
    **dict.fromkeys(("TransformerBig", "TransformerBigSharedEmbeddings"), _Known(16, 1024)),
    "TransformerBigRelative": _Known(16, 1024, True),
    "ScalingNmtEnDe": _Known(16, 1024, dropouts=(0.3, 0.1, 0.0), auto_config=_SCALING),
    "ScalingNmtEnFr": _Known(16, 1024, dropouts=(0.1, 0.0, 0.0), auto_config=_SCALING),
}
_ACTIVATIONS = {"relu": "relu", "swish": "swish", "silu": "swish"}
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_FIRST_TOKENS = ["<blank>", "<s>", "</s>"]
# Marian's names of a layer's parts, and of the weights in them.
_PARTS = {"self_attention": "self", "attention/0": "context", "ffn": "ffn"}
_WEIGHTS = {
    **{f"linear_{name}": name[0] for name in ("queries", "keys", "values", "output")},
    **{"inner": "1", "outer": "2", "kernel": "W", "bias": "b", "gamma": "scale", "beta": "bias"},
}
_LAYER = re.compile(
    r"(?P<stack>encoder|decoder)/layers/(?P<layer>\d+)/(?P<part>self_attention|attention/0|ffn)/(?:"
    r"layer/(?P<weight>linear_\w+|inner|outer)/(?P<kind>kernel|bias)|layer/relative_position_(?P<relative>keys|values)|"
    r"(?:in|out)put_layer_norm/(?P<norm>gamma|beta))"
)
# The settings of a tokenizer that are read on their own, or do not change the pieces of a text.
_NOT_OF_PIECES = ("mode", "model", "sp_model_path", "sp_nbest_size", "sp_alpha", "nbest_size", "alpha")
# Settings of searches and of training without an equivalent.
_WITHOUT_EQUIVALENT = (
    *("coverage_penalty", "decoding_noise", "maximum_decoding_length", "replace_unknown_target"),
    *("contrastive_learning", "decay_step_duration", "guided_alignment_type", "minimum_learning_rate"),
    *("regularization", "start_decay_steps"),
)
_NUMBER = (int, float)


def read_opennmt_tf(source: Path, options: ImportOptions) -> MarianModel:
    """Returns the model in a folder, or in a checkpoint. Raises UserError if it cannot be represented."""
    weights = T2tWeights(checkpoint_in(source))
    folder = weights.path.parent
    names = [name for name in weights.shapes if name.startswith("model/") and name.endswith(_VALUE)]
    shapes = {name[len("model/") : -len(_VALUE)]: weights.shapes[name] for name in names if "/.OPT" not in name}
    source_embedding, target_embedding = (
        f"examples_inputter/{side}_inputter/embedding" for side in ("features", "labels")
    )
    if not {"encoder/layers/0/self_attention/layer/linear_queries/kernel", source_embedding} <= shapes.keys():
        of = "a model that is no Transformer with a word embedding on each side" if shapes else "another program"
        raise UserError(f"{weights.path} is a checkpoint of {of}; only Transformers of OpenNMT-tf 2 can be imported")
    hidden, filter_size = shapes["encoder/layers/0/ffn/layer/inner/kernel"]
    relative = shapes.get("encoder/layers/0/self_attention/layer/relative_position_keys")
    known, activation = _described(folder, hidden, relative, options.num_heads)
    config = _Configuration(folder, options.config, known.auto_config)

    is_shared, is_tied = target_embedding not in shapes, "decoder/output_layer/kernel" not in shapes
    sides = {}
    for number, side in enumerate(SIDES):
        vocabulary, model = config.vocabulary(("source", "target")[number], options.vocab_file)
        sides[side] = _side(vocabulary, model)
        size = shapes[source_embedding if is_shared or side == "inputs" else target_embedding][0]
        if (found := max(sides[side].ids) + 1) != size:
            raise UserError(
                f"{vocabulary} has {found:,} tokens, with <unk>, but the model in {weights.path} has {size:,}; pass "
                f"the model's own configuration with `config`"
            )
    controls = {side: config.get("data", f"{side}_sequence_controls", dict, {}) for side in ("source", "target")}
    if controls["source"].get("start") or not all(controls["target"].get(name, True) for name in ("start", "end")):
        raise UserError(
            f"{config.file}: sequence_controls with a start symbol in sources, or without symbols in targets, cannot "
            f"be imported"
        )
    of_training, notes = _of_training(config, hidden, known.dropouts)
    stacks = ("encoder", "decoder")
    layers = [{name.split("/")[2] for name in shapes if name.startswith(f"{each}/layers/")} for each in stacks]
    hparams = HParams(
        num_encoder_layers=len(layers[0]),
        num_decoder_layers=len(layers[1]),
        hidden_size=hidden,
        filter_size=filter_size,
        num_heads=known.num_heads,
        feed_forward_type=activation,
        norm_position="pre" if "encoder/layer_norm/gamma" in shapes else "post",
        norm_epsilon=1e-3,  # Keras' default
        position_encoding="relative" if relative else "sinusoidal_halves_from_1",
        max_relative_position=(relative[0] - 1) // 2 if relative else HParams.max_relative_position,
        tied_embeddings=("all" if is_shared else "decoder") if is_tied else "none",
        projection_biases=True,
        source_end_symbol=bool(controls["source"].get("end")),
        **of_training,
    )
    flags = ",".join(f"{name}={value}" for name, value in of_training.items())
    notes.append(f"training settings of {config.file}, with the defaults of --auto_config: --hparams={flags}")
    if is_shared and not is_tied:
        notes.append("both sides share an embedding; further training will change them independently")
    search: dict[str, Any] = {
        "beam_size": config.get("params", "beam_width", int, 4),
        "alpha": float(config.get("params", "length_penalty", _NUMBER, 0)),
    }
    if shortest := config.get("params", "minimum_decoding_length", int, 0):
        search["min_length"] = shortest
    if (top := config.get("params", "sampling_topk", int, 1)) != 1:
        search |= {"sampling_method": "random", "sampling_keep_top_k": max(0, top)}
        search["sampling_temp"] = float(config.get("params", "sampling_temperature", _NUMBER, 1) or 1)
    renamed = _marian_names(weights, list(shapes), hparams, is_shared)
    step = step_of(weights.path, weights)
    return MarianModel(weights.path, hparams, renamed, sides, decode_hparams=search, notes=notes, step=step)


class _Configuration:
    """The settings of one or several files, of which later ones count, and of --auto_config."""

    def __init__(self, folder: Path, given: str | PathLike | None, auto: Mapping[str, Mapping[str, Any]]) -> None:
        files = [Path(name) for name in split_paths(str(given))] if given else [_config_file(folder)]
        self.file = files[0]
        self._sections = {name: {**usual, **auto.get(name, {})} for name, usual in _AUTO_CONFIG.items()}
        model_dir = "."
        for file in files:
            content = _parsed(file)
            model_dir = str(content.get("model_dir") or model_dir)
            for name, section in self._sections.items():
                if not isinstance(more := content.get(name) or {}, dict):
                    raise UserError(f"{file}: `{name}` has no settings")
                section |= more
        # Relative paths are tried from the folder of the model, as OpenNMT-tf does, then from where it was started.
        depth = len(Path(model_dir).parts)
        up = folder.resolve().parents
        self._places = dict.fromkeys([folder, self.file.parent, *up[max(0, depth - 1) :][:1], *up[:1]])

    def get(self, section: str, name: str, kind: type | tuple[type, ...], usual: Any) -> Any:  # noqa: ANN401
        """Returns a setting, or `usual` if it is not there. Raises UserError if it has another type."""
        if (value := self._sections[section].get(name)) is None:
            return usual
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not object):
            what = "settings" if kind is dict else "a text" if kind is str else "a number"
            raise UserError(f"{self.file}: {section}.{name} takes {what}, not {str(value)[:60]!r}")
        return value

    def vocabulary(self, side: str, given: str) -> tuple[Path, Path]:
        """Returns the vocabulary of a side, "source" or "target", and its SentencePiece model."""
        setting = f"{side}_tokenization"
        chosen = self._sections["data"].get(setting)
        if isinstance(chosen, str):
            chosen = _parsed(self._found(chosen, setting))
        if not chosen:
            models = [Path(name) for name in split_paths(given)] if given else []
            if not 1 <= len(models) <= 2:
                raise UserError(
                    f"{self.file} has no {setting}; if the texts were split by SentencePiece before, pass its models "
                    f"with `vocab_file=INPUTS,TARGETS`"
                )
            return self._vocabulary(side), models[-1 if side == "target" else 0]
        if given:
            raise UserError(f"{self.file} has a {setting}, so `vocab_file` does not apply; remove it", status=2)
        params = chosen.get("params", {}) if isinstance(chosen, dict) and "type" in chosen else chosen
        if not isinstance(params, dict):
            raise UserError(f"{self.file}: data.{setting} takes settings, not {str(params)[:60]!r}")
        kind = str(chosen.get("type", "OpenNMTTokenizer"))
        model = params.get("model" if kind == "SentencePieceTokenizer" else "sp_model_path")
        mode = "none" if kind == "SentencePieceTokenizer" else params.get("mode") or "conservative"
        others = {"mode": mode} | {name: each for name, each in params.items() if each and name not in _NOT_OF_PIECES}
        if kind not in ("OpenNMTTokenizer", "SentencePieceTokenizer") or others != {"mode": "none"} or not model:
            what = ", ".join(f"{name}={value}" for name, value in others.items())
            raise UserError(
                f"{setting} of {self.file}: {kind} with {what} {'' if model else 'and no SentencePiece model '}cannot "
                f"be imported, only SentencePiece with mode=none; convert the model with ct2-opennmt-tf-converter, and "
                f"translate tokens with CTranslate2"
            )
        return self._vocabulary(side), self._found(model, setting)

    def _vocabulary(self, side: str) -> Path:
        setting = f"{side}_vocabulary"
        if not (name := self.get("data", setting, str, "")):
            raise UserError(f"{self.file} has no {setting}; pass the model's configuration with `config`")
        return self._found(name, setting)

    def _found(self, name: object, setting: str) -> Path:
        path = Path(str(name))
        for each in (path, Path(path.name)):
            for place in self._places:
                if (place / each).is_file():
                    return place / each
        raise UserError(f"there is no {path}, the {setting} of {self.file}, in {' or '.join(map(str, self._places))}")


def _config_file(folder: Path) -> Path:
    found = []
    for path in sorted(folder.glob("*.yml")):
        with contextlib.suppress(UserError):
            found += [path] if "vocabulary" in str(_parsed(path).get("data")) else []
    if len(found) != 1:
        has = ", ".join(path.name for path in found) or "none"
        raise UserError(f"{folder} must have one configuration such as data.yml, but has {has}; pass it with `config`")
    return found[0]


def _parsed(path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"there is no {path}; pass the model's configuration with `config`") from error
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise UserError(f"{path} is damaged, or not YAML; copy it again") from error
    return found if isinstance(found, dict) else {}


def _side(vocabulary: Path, model: Path) -> Side:
    try:
        text = vocabulary.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UserError(f"{vocabulary} is not a text in UTF-8; copy it again") from error
    tokens = text.removesuffix("\n").split("\n")
    if tokens[:3] != _FIRST_TOKENS or len({*tokens}) < len(tokens):
        raise UserError(
            f"{vocabulary} is no vocabulary of OpenNMT-tf: its first tokens must be {', '.join(_FIRST_TOKENS)}, and "
            f"each must occur once"
        )
    # The last id, which has no line, stands for all other tokens. The decoder starts from <s>, ours from padding.
    ids = {(f"{token} (2)" if token == "<unk>" else token): id for id, token in enumerate(tokens)}
    try:
        return listed_side(ids | {"<unk>": len(tokens)}, model.read_bytes(), vocabulary, padding="<s>")
    except OSError as error:
        raise UserError(f"{model} cannot be read ({error.strerror}); pass a SentencePiece model") from error


def _described(folder: Path, hidden_size: int, relative: Sequence[int] | None, given: int) -> tuple[_Known, str]:
    """Returns what model_description.py says, with the number of heads, and the activation of feed-forward networks.

    The file is parsed, but never run. What a definition of the user's own says in another way is not understood.
    """
    places = [place / "model_description.py" for place in (folder, folder.resolve().parent)]
    file = next((path for path in places if path.is_file()), None)
    try:
        nodes = list(ast.walk(ast.parse(file.read_bytes() if file else b"")))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise UserError(f"{file} is not Python; copy it again, or remove it and pass `num_heads`") from error
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    asked = [
        ast.literal_eval(value)
        for call in calls
        if ast.unparse(call.func).endswith("get_model_from_catalog")
        for value in [*call.args, *(each.value for each in call.keywords)][:1]
        if isinstance(value, ast.Constant)
    ]
    if asked and asked[0] not in _CATALOG:
        raise UserError(f"{file}: the model {asked[0]} cannot be imported, only Transformers of the catalog")
    ends = {ast.unparse(node).rpartition(".")[2] for node in nodes if isinstance(node, ast.Attribute | ast.Name)}
    named = asked or [name for name in _CATALOG if name in ends and name != "Transformer"]
    known = _CATALOG[named[0]] if named else _Known(0, hidden_size, bool(relative))
    if not given and (known.hidden_size, known.is_relative) != (hidden_size, bool(relative)):
        raise UserError(
            f"{file} names {named[0]}, but the checkpoint has another model, of the size {hidden_size}; pass "
            f"`num_heads`, if it is one of your own"
        )
    said = {each.arg or "**": ast.unparse(each.value) for call in calls for each in call.keywords}
    if "**" in said or any(len(call.args) > 4 for call in calls):
        raise UserError(f"{file}: arguments without their names are not understood; write NAME=VALUE")
    positions = said.get("position_encoder_class", "SinusoidalPositionEncoder")
    if positions != "None" and positions.rpartition(".")[2] != "SinusoidalPositionEncoder":
        raise UserError(f"{file}: position_encoder_class={positions} cannot be imported")
    if file and not named and bool(relative) != (positions == "None"):
        what = "both position encodings and relative positions" if relative else "no position encoding"
        raise UserError(f"{file}: a model with {what} cannot be imported")
    activation = said.get("ffn_activation", "relu").rpartition(".")[2]
    if activation not in _ACTIVATIONS:
        raise UserError(f"{file}: ffn_activation={activation} cannot be imported, only {', '.join(_ACTIVATIONS)}")
    own = said.get("num_heads", "")
    literal = int(own) if own.isdecimal() else 0
    heads = hidden_size // relative[1] if relative else given or known.num_heads or literal
    if not heads:
        what = f"{file} names no model of the catalog" if file else f"{folder} has no model_description.py"
        raise UserError(f"{what}, and a checkpoint does not tell the number of heads; pass `num_heads`")
    return known._replace(num_heads=heads), _ACTIVATIONS[activation]


def _of_training(
    config: _Configuration, hidden_size: int, dropouts: Sequence[float]
) -> tuple[dict[str, Any], list[str]]:
    """Returns our training settings for those of the configuration, and a note for each without an equivalent."""

    def of(section: str, name: str) -> Any:  # noqa: ANN401  a number, or None
        return config.get(section, name, _NUMBER, None)

    decay, of_adam = (config.get("params", name, dict, {}) for name in ("decay_params", "optimizer_params"))
    numbers = {name: value for name, value in (decay | of_adam).items() if isinstance(value, _NUMBER)}
    rate, schedule = of("params", "learning_rate"), config.get("params", "decay_type", str, "")
    names = ("residual_dropout", "attention_dropout", "relu_dropout")
    dropout = of("params", "dropout")
    found: dict[str, Any] = dict(zip(names, dropouts if dropout is None else [dropout] * 3))
    notes = [
        f"{name}={value} has no equivalent"
        for name in _WITHOUT_EQUIVALENT
        if (value := config.get("params", name, object, None))
    ]
    if schedule == "NoamDecay":
        scale = numbers.get("scale", rate)
        found["learning_rate_constant"] = scale * (hidden_size / numbers.get("model_dim", hidden_size)) ** 0.5
    elif schedule == "InvSqrtDecay":
        found["learning_rate"] = rate
    else:
        notes.append(f"decay_type={schedule} has no equivalent; further training will use the paper's schedule")
    if "adam" not in (optimizer := config.get("params", "optimizer", str, "")).lower():
        notes.append(f"optimizer={optimizer} is not imported; further training will use adam")
    notes += [f"{name}={of_adam[name]} has no equivalent" for name in ("clipnorm", "weight_decay") if of_adam.get(name)]
    found |= {
        "learning_rate_warmup_steps": numbers.get("warmup_steps"),
        **{f"adam_{name.replace('_', '')}": numbers.get(name) for name in ("beta_1", "beta_2", "epsilon")},
        "label_smoothing": of("params", "label_smoothing"),
        "ema_decay": of("params", "moving_average_decay"),
        "average_checkpoints": of("train", "average_last_checkpoints") or None,
    }
    if config.get("train", "batch_type", str, "") == "tokens":
        found["batch_tokens"] = of("train", "effective_batch_size") or of("train", "batch_size") or None
    return {name: value for name, value in found.items() if value is not None}, notes


def _marian_names(
    weights: T2tWeights, names: Sequence[str], hparams: HParams, is_shared: bool
) -> dict[str, np.ndarray]:
    """Returns the weights by Marian's names. Those that a Transformer lacks keep theirs."""
    names_of_others = {
        "examples_inputter/features_inputter/embedding": "Wemb" if hparams.tied_embeddings == "all" else "encoder_Wemb",
        "examples_inputter/labels_inputter/embedding": "decoder_Wemb",
        "decoder/output_layer/kernel": "decoder_ff_logit_out_W",
        "decoder/output_layer/bias": "decoder_ff_logit_out_b",
        "encoder/layer_norm/gamma": "encoder_top_ln_scale",
        "encoder/layer_norm/beta": "encoder_top_ln_bias",
        "decoder/layer_norm/gamma": "decoder_top_ln_scale",
        "decoder/layer_norm/beta": "decoder_top_ln_bias",
    }
    suffix = "_pre" if hparams.norm_position == "pre" else ""
    renamed = {}
    for name in names:
        array, place = weights.array(f"model/{name}{_VALUE}"), _LAYER.fullmatch(name)
        if place:
            scope = f"{place['stack']}_l{int(place['layer']) + 1}_{_PARTS[place['part']]}"
            if place["norm"]:
                end = f"{'ffn' if place['part'] == 'ffn' else 'Wo'}_ln_{_WEIGHTS[place['norm']]}{suffix}"
            elif place["relative"]:
                end = f"relative_{place['relative']}"
            else:
                end = f"{_WEIGHTS[place['kind']]}{_WEIGHTS[place['weight']]}"
            renamed[f"{scope}_{end}"] = array
        else:
            renamed[names_of_others.get(name, name)] = array
    for name in [name for name in renamed if re.search("_W[qkvo12]$", name)]:  # models without biases in attention
        bias = re.sub("_W(.)$", r"_b\1", name)
        renamed.setdefault(bias, np.zeros(renamed[name].shape[-1], np.float32))
    if is_shared and hparams.tied_embeddings == "none":
        renamed["decoder_Wemb"] = renamed["encoder_Wemb"]
    return renamed


import_opennmt_tf = functools.partial(import_run, read_opennmt_tf)
