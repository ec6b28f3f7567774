"""Converts the hparams of tensor2tensor's `transformer` to ours.

Rejects hparams that affect outputs and have no equivalent. The meanings of the hparams are from the source code of
tensor2tensor 1.15.7: layers/transformer_layers.py, layers/common_attention.py, layers/common_layers.py,
layers/modalities.py, models/transformer.py and utils/learning_rate.py.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from t2t_lite.config import HParams
from t2t_lite.errors import UserError

# Settings that affect the outputs, with the values that our model supports. The first value is the default for files of
# old versions, which lack the setting. Other settings, such as those for training, images or several problems, do not
# affect the outputs.
_ALLOWED: dict[str, tuple[Any, ...]] = {
    "bottom": ({},),
    "causal_decoder_self_attention": (True,),
    "ffn_layer": ("dense_relu_dense", "conv_hidden_relu"),
    "gumbel_noise_weight": (0.0,),
    "hard_attention_k": (0,),
    "name": ({},),
    "nbr_decoder_problems": (1,),
    "norm_epsilon": (1e-6,),
    "norm_type": ("layer",),
    "num_area_layers": (0,),
    "prepend_mode": ("none",),
    "proximity_bias": (False,),
    "self_attention_type": ("dot_product", "dot_product_relative"),
    "top": ({},),
    "unidirectional_encoder": (False,),
    "vocab_divisor": (1,),
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
        "position_encoding": _POSITIONS[positions],
        "zero_padding_embedding": True,
        "scaled_embeddings": theirs.get("multiply_embedding_mode", "sqrt_depth") == "sqrt_depth",
        "max_length": theirs.get("max_length") or HParams.max_length,
    }
    if changes["position_encoding"] == "relative":
        changes["max_relative_position"] = theirs["max_relative_position"]
    changes |= _of_training(theirs, flags, notes)
    data_dir = theirs.get("data_dir")
    return T2tSettings(
        HParams(**changes),
        Path(data_dir) if data_dir else None,
        notes,
    )


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
