"""Reads Transformers of OpenNMT-tf 2: a checkpoint, `model_description.py`, and the configuration (data.yml).

`model_description.py` is code. It is searched for names and never run.
"""

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from t2t_lite.config import HParams
from t2t_lite.data.problem import SIDES
from t2t_lite.errors import UserError
from t2t_lite.files import split_paths
from t2t_lite.importing.marian import MarianModel, Side, import_run, listed_side
from t2t_lite.importing.options import ImportOptions
from t2t_lite.importing.t2t_model import T2tWeights, checkpoint_in, step_of

# The number of heads of each Transformer in OpenNMT-tf's catalog, which the shapes of weights do not tell.
_HEADS = {
    "TransformerTiny": 2,
    **dict.fromkeys(("Transformer", "TransformerBase", "TransformerBaseSharedEmbeddings"), 8),
    **dict.fromkeys(("TransformerRelative", "TransformerBaseRelative"), 8),
    **dict.fromkeys(("TransformerBig", "TransformerBigSharedEmbeddings", "TransformerBigRelative"), 16),
    "ScalingNmtEnDe": 16,
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
# Tokenizer settings that do not change the pieces of a text, with any value or with this one.
_TOKENIZATION = {"mode": "none", "sp_nbest_size": None, "sp_alpha": None, "nbest_size": None, "alpha": None}
# Settings of searches without an equivalent.
_WITHOUT_EQUIVALENT = ("decoding_noise", "maximum_decoding_length", "replace_unknown_target")


def read_opennmt_tf(source: Path, options: ImportOptions) -> MarianModel:
    """Returns the model in a folder, or in a checkpoint. Raises UserError if it cannot be represented."""
    weights = T2tWeights(checkpoint_in(source))
    folder = weights.path.parent
    names = [name for name in weights.shapes if name.startswith("model/") and name.endswith(_VALUE)]
    shapes = {name[len("model/") : -len(_VALUE)]: weights.shapes[name] for name in names if "/.OPT" not in name}
    if "encoder/layers/0/self_attention/layer/linear_queries/kernel" not in shapes:
        of = "a model that is no Transformer with an encoder" if shapes else "another program"
        raise UserError(f"{weights.path} is a checkpoint of {of}; only Transformers of OpenNMT-tf 2 can be imported")
    config_file = _config_file(folder, options)
    config = _parsed(config_file)
    data, params, train = (_section(config, name, config_file) for name in ("data", "params", "train"))
    # Relative paths are tried from the folder of the model, as OpenNMT-tf does, then from where it was started.
    depth = len(Path(str(config.get("model_dir") or ".")).parts)
    places = [folder, config_file.parent, *folder.resolve().parents[max(0, depth - 1) :][:1]]

    embedded = {
        side: f"examples_inputter/{kind}_inputter/embedding" for side, kind in zip(SIDES, ("features", "labels"))
    }
    is_shared, is_tied = embedded["targets"] not in shapes, "decoder/output_layer/kernel" not in shapes
    sides = {}
    given = [Path(name) for name in split_paths(options.vocab_file)] if options.vocab_file else []
    for number, (side, kind) in enumerate(zip(SIDES, ("source", "target"))):
        setting = f"{kind}_vocabulary"
        model = given[-1 if number else 0] if given else _sentencepiece_model(data, kind, places, config_file)
        sides[side] = _side(_found(data.get(setting), setting, places, config_file), model)
        size = shapes[embedded["inputs" if is_shared else side]][0]
        if (found := max(sides[side].ids) + 1) != size:
            raise UserError(
                f"the {setting} of {config_file} has {found:,} tokens, with <unk>, but the model in "
                f"{weights.path} has {size:,}; pass the model's own configuration with `config`"
            )
    controls = data.get("source_sequence_controls") or {}
    if controls.get("start"):
        raise UserError(f"{config_file}: source_sequence_controls with a start symbol cannot be imported")

    hidden, filter_size = shapes["encoder/layers/0/ffn/layer/inner/kernel"]
    relative = shapes.get("encoder/layers/0/self_attention/layer/relative_position_keys")
    heads, activation = _description(folder, hidden, relative, options.num_heads)
    depths = [len({name.split("/")[2] for name in shapes if name.startswith(f"{stack}/layers/")})
              for stack in ("encoder", "decoder")]  # fmt: skip
    of_training = _of_training(params, train, hidden)
    hparams = HParams(
        num_encoder_layers=depths[0],
        num_decoder_layers=depths[1],
        hidden_size=hidden,
        filter_size=filter_size,
        num_heads=heads,
        feed_forward_type=activation,
        norm_position="pre" if "encoder/layer_norm/gamma" in shapes else "post",
        norm_epsilon=1e-3,  # Keras' default
        position_encoding="relative" if relative else "sinusoidal_halves_from_1",
        max_relative_position=(relative[0] - 1) // 2 if relative else HParams.max_relative_position,
        tied_embeddings=("all" if is_shared else "decoder") if is_tied else "none",
        projection_biases=True,
        source_end_symbol=bool(controls.get("end")),
        **of_training,
    )
    notes = [f"{name}={params[name]} has no equivalent" for name in _WITHOUT_EQUIVALENT if params.get(name)]
    if is_shared and not is_tied:
        notes.append("both sides share an embedding; further training will change them independently")
    flags = ",".join(f"{name}={value}" for name, value in of_training.items())
    notes.append(f"the training settings of {config_file} are now the run's: --hparams={flags}")
    search: dict[str, Any] = {
        "beam_size": params.get("beam_width", 4),
        "alpha": float(params.get("length_penalty", 0)),
        "coverage_penalty": float(params.get("coverage_penalty", 0)),
        "min_length": params.get("minimum_decoding_length", 0),
    }
    if (top := params.get("sampling_topk", 1)) != 1:
        search |= {"sampling_method": "random", "sampling_keep_top_k": max(0, top)}
        search["sampling_temp"] = float(params.get("sampling_temperature") or 1)
    renamed = _marian_names(weights, list(shapes), hparams, is_shared)
    step = step_of(weights.path, weights)
    return MarianModel(weights.path, hparams, renamed, sides, decode_hparams=search, notes=notes, step=step)


def _config_file(folder: Path, options: ImportOptions) -> Path:
    if options.config:
        return Path(options.config)
    found = [path for path in sorted(folder.glob("*.yml")) if "vocabulary" in str(_parsed(path).get("data"))]
    if len(found) != 1:
        has = ", ".join(path.name for path in found) or "none"
        raise UserError(f"{folder} must have one configuration such as data.yml, but has {has}; pass it with `config`")
    return found[0]


def _parsed(path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"there is no {path}; pass the model's configuration with `config`") from error
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"{path} is damaged, or not YAML; copy it again") from error
    return found if isinstance(found, dict) else {}


def _section(config: Mapping[str, Any], name: str, path: Path) -> dict[str, Any]:
    found = config.get(name) or {}
    if not isinstance(found, dict):
        raise UserError(f"{path}: `{name}` has no settings")
    return found


def _found(name: object, setting: str, places: Sequence[Path], config_file: Path) -> Path:
    if not name:
        raise UserError(f"{config_file} has no {setting}; pass the model's configuration with `config`")
    path = Path(str(name))
    tried = [place / each for each in dict.fromkeys((path, Path(path.name))) for place in places]
    if not (found := [each for each in tried if each.is_file()]):
        raise UserError(f"there is no {path}, the {setting} of {config_file}, in {' or '.join(map(str, places))}")
    return found[0]


def _sentencepiece_model(data: Mapping[str, Any], kind: str, places: Sequence[Path], config_file: Path) -> Path:
    """Returns the SentencePiece model of a side, "source" or "target"."""
    setting = f"{kind}_tokenization"
    chosen = data.get(setting)
    if isinstance(chosen, str):
        chosen = _parsed(_found(chosen, setting, places, config_file))
    if not chosen:
        raise UserError(
            f"{config_file} has no {setting}; if the texts were split by SentencePiece before, pass its models with "
            f"`vocab_file=INPUTS,TARGETS`"
        )
    type, params = chosen.get("type", "OpenNMTTokenizer"), chosen.get("params") or {}
    params = dict(params if "type" in chosen else chosen)
    model = params.pop("model" if type == "SentencePieceTokenizer" else "sp_model_path", None)
    if type == "OpenNMTTokenizer":
        params.setdefault("mode", "conservative")
    others = [
        f"{name}={value}"
        for name, value in params.items()
        if value and _TOKENIZATION.get(name, "") not in (None, value)
    ]
    if type not in ("OpenNMTTokenizer", "SentencePieceTokenizer") or others or not model:
        what = f"{type} with {others[0]}" if others else type if model else f"{type} without a SentencePiece model"
        raise UserError(
            f"{setting} of {config_file}: {what} cannot be imported, only SentencePiece with mode=none; convert the "
            f"model with ct2-opennmt-tf-converter, and translate tokens with CTranslate2"
        )
    return _found(model, setting, places, config_file)


def _side(vocabulary: Path, model: Path) -> Side:
    try:
        text = vocabulary.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UserError(f"{vocabulary} is not a text in UTF-8; copy it again") from error
    tokens = [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]
    if tokens[:3] != _FIRST_TOKENS or len({*tokens}) < len(tokens):
        raise UserError(
            f"{vocabulary} is no vocabulary of OpenNMT-tf: its first tokens must be {', '.join(_FIRST_TOKENS)}, and "
            f"each must occur once"
        )
    # The last id, which has no line, stands for all other tokens. The decoder starts from <s>, ours from padding.
    ids = {(f"{token} (2)" if token == "<unk>" else token): id for id, token in enumerate(tokens)}
    return listed_side(ids | {"<unk>": len(tokens)}, model.read_bytes(), vocabulary, padding="<s>")


def _description(folder: Path, hidden_size: int, relative: Sequence[int] | None, given: int) -> tuple[int, str]:
    """Returns the number of heads and the activation of feed-forward networks."""
    file = next((path for place in (folder, folder.resolve().parent)
                 if (path := place / "model_description.py").is_file()), None)  # fmt: skip
    text = re.sub("#.*", "", file.read_text(encoding="utf-8", errors="replace")) if file else ""
    if name := re.search(r"""get_model_from_catalog\(\s*["'](\w+)["']""", text):
        if name[1] not in _HEADS:
            raise UserError(f"{file}: the model {name[1]} cannot be imported, only {', '.join(_HEADS)}")
        return given or _HEADS[name[1]], "relu"
    activation = re.search(r"ffn_activation\s*=\s*[\w.]*?(\w+)\b(?!\.)", text)
    if activation and activation[1] not in _ACTIVATIONS:
        raise UserError(f"{file}: ffn_activation={activation[1]} cannot be imported, only {', '.join(_ACTIVATIONS)}")
    has_positions = not re.search(r"position_encoder_class\s*=\s*None", text)
    if text and has_positions == bool(relative):
        what = "both position encodings and relative positions" if relative else "no position encoding"
        raise UserError(f"{file}: a model with {what} cannot be imported")
    listed = {*re.findall(r"num_heads\s*=\s*(\d+)", text)}
    heads = given or (hidden_size // relative[1] if relative else int(listed.pop()) if len(listed) == 1 else 0)
    if not heads:
        what = f"{file} names no model of the catalog" if file else f"{folder} has no model_description.py"
        raise UserError(f"{what}, and a checkpoint does not tell the number of heads; pass `num_heads`")
    return heads, _ACTIVATIONS[activation[1]] if activation else "relu"


def _of_training(params: Mapping[str, Any], train: Mapping[str, Any], hidden_size: int) -> dict[str, Any]:
    """Returns our training settings for those of the configuration that have an equivalent."""
    decay, of_adam = params.get("decay_params") or {}, params.get("optimizer_params") or {}
    found: dict[str, Any] = {"label_smoothing": params.get("label_smoothing")}
    found |= dict.fromkeys(("residual_dropout", "attention_dropout", "relu_dropout"), params.get("dropout", 0.1))
    rate, schedule = params.get("learning_rate"), params.get("decay_type", "NoamDecay" if "model_dim" in decay else "")
    if rate and schedule == "NoamDecay":
        found["learning_rate_constant"] = rate * (hidden_size / decay.get("model_dim", hidden_size)) ** 0.5
    elif rate and schedule in ("InvSqrtDecay", ""):
        found |= {"learning_rate": rate} | ({} if schedule else {"learning_rate_schedule": "constant"})
    found |= {
        "learning_rate_warmup_steps": decay.get("warmup_steps"),
        "adam_beta1": of_adam.get("beta_1"),
        "adam_beta2": of_adam.get("beta_2"),
        "average_checkpoints": train.get("average_last_checkpoints"),
    }
    if train.get("batch_type") == "tokens":
        found["batch_tokens"] = train.get("effective_batch_size") or train.get("batch_size")
    return {name: value for name, value in found.items() if value is not None}


def _marian_names(
    weights: T2tWeights, names: Sequence[str], hparams: HParams, is_shared: bool
) -> dict[str, np.ndarray]:
    """Returns the weights by Marian's names. Those that a Transformer lacks keep theirs."""
    names_of_others = {
        "examples_inputter/features_inputter/embedding": "Wemb" if hparams.tied_embeddings == "all" else "encoder_Wemb",
        "examples_inputter/labels_inputter/embedding": "decoder_Wemb",
        "decoder/output_layer/kernel": "decoder_ff_logit_out_W",
        "decoder/output_layer/bias": "decoder_ff_logit_out_b",
        **{
            f"{stack}/layer_norm/{ours}": f"{stack}_top_ln_{theirs}"
            for stack in ("encoder", "decoder")
            for ours, theirs in (("gamma", "scale"), ("beta", "bias"))
        },
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
