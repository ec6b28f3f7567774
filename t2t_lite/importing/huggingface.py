"""Reads a folder of Hugging Face's `MarianMTModel`, as OPUS-MT's models are found on the hub, without torch."""

import collections
import json
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy

from t2t_lite.config import DecodeHParams, HParams
from t2t_lite.data.problem import SIDES
from t2t_lite.errors import UserError
from t2t_lite.importing.marian import NEVER, MarianModel, side_of
from t2t_lite.importing.options import ImportOptions
from t2t_lite.layers.positions import sinusoids

# Settings of a model that affect the outputs, with the values that our model supports; the first is the default.
_ALLOWED: dict[str, tuple[Any, ...]] = {
    "model_type": ("marian",),
    "activation_function": ("swish", "silu", "relu"),
    "add_bias_logits": (False,),
    "add_final_layer_norm": (False,),
    "is_encoder_decoder": (True,),
    "normalize_before": (False,),
    "normalize_embedding": (False,),
    "static_position_embeddings": (True,),
}
# Settings of `generate` without an equivalent, with the values that change nothing.
_OF_SEARCH = {"do_sample": False, "early_stopping": False, "num_beam_groups": 1, "repetition_penalty": 1.0}
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
# Marian's names of a layer's parts.
_NAMES = {
    **{f"self_attn.{name}_proj": f"self_{{}}{name}" for name in "qkv"},
    **{f"encoder_attn.{name}_proj": f"context_{{}}{name}" for name in "qkv"},
    "self_attn.out_proj": "self_{}o",
    "encoder_attn.out_proj": "context_{}o",
    "self_attn_layer_norm": "self_Wo_ln_{}",
    "encoder_attn_layer_norm": "context_Wo_ln_{}",
    "fc1": "ffn_{}1",
    "fc2": "ffn_{}2",
    "final_layer_norm": "ffn_ffn_ln_{}",
}
# The number with which torch's files before version 1.6 begin; and the types of its storages.
_MAGIC = 0x1950A86A20F9469CFC6C
_TYPES = {
    **{"FloatStorage": "<f4", "DoubleStorage": "<f8", "HalfStorage": "<f2", "LongStorage": "<i8", "IntStorage": "<i4"},
    **{"ShortStorage": "<i2", "CharStorage": "i1", "ByteStorage": "u1", "BoolStorage": "?", "BFloat16Storage": "<u2"},
}


def read_huggingface(source: Path, options: ImportOptions) -> MarianModel:
    """Returns the model in a folder. Raises UserError if it cannot be represented."""
    config = _json(source / "config.json")
    search = config | _json(source / "generation_config.json", optional=True)
    path = next((source / name for name in _WEIGHTS if (source / name).is_file()), None)
    if path is None:
        raise UserError(f"{source} has neither {' nor '.join(_WEIGHTS)}; copy the whole folder of the model")

    def check(name: str, values: Mapping[str, Any], *allowed: object) -> None:
        if (value := values.get(name, allowed[0])) not in allowed:
            names = " or ".join(map(str, allowed))
            raise UserError(f"{source}: a model with {name}={value} cannot be imported; only {names} is supported")

    for name, allowed in _ALLOWED.items():
        check(name, config, *allowed)
    has_two = not config.get("share_encoder_decoder_embeddings", True)
    names = "vocab.json", "target_vocab.json" if has_two else "vocab.json"
    sides = {
        side: side_of(source / name, source, side, language, padding="<pad>")
        for side, name, language in zip(SIDES, names, (options.moses_punctuation, ""))
    }
    padding, end = sides["targets"].ids[:2]
    for name in ("pad_token_id", "decoder_start_token_id"):
        check(name, config, padding)
    check("eos_token_id", config, end)
    check("forced_eos_token_id", search, end, None)
    check("bad_words_ids", search, [[padding]], None)
    state = read_weights(path)
    try:
        for name in ("ffn_dim", "attention_heads"):
            check(f"decoder_{name}", config, config[f"encoder_{name}"])
        hparams = HParams(
            num_encoder_layers=config["encoder_layers"],
            num_decoder_layers=config["decoder_layers"],
            hidden_size=config["d_model"],
            filter_size=config["encoder_ffn_dim"],
            num_heads=config["encoder_attention_heads"],
            feed_forward_type="relu" if config["activation_function"] == "relu" else "swish",
            position_encoding="sinusoidal",
            tied_embeddings=("decoder" if has_two else "all") if config.get("tie_word_embeddings", True) else "none",
            scaled_embeddings=config.get("scale_embedding", False),
            zero_padding_embedding=not _embedding(state, "decoder", path)[padding].any(),
            projection_biases=True,
            residual_dropout=config.get("dropout", 0.1),
            attention_dropout=config.get("attention_dropout", 0.0),
            relu_dropout=config.get("activation_dropout", 0.0),
        )
    except (KeyError, TypeError, IndexError) as error:
        raise UserError(f"{source / 'config.json'} has no usable value for {error}; copy it again") from error
    weights = _marian_names(state, hparams, path)
    if search.get("renormalize_logits"):  # without padding, which is never chosen
        weights["decoder_ff_logit_out_b"] = weights["decoder_ff_logit_out_b"].copy()
        weights["decoder_ff_logit_out_b"].ravel()[padding] = NEVER
    given = {name: value for name, value in search.items() if value is not None}
    settings = {
        "beam_size": given.get("num_beams", 1),
        "length_penalty": "power",
        "alpha": float(given.get("length_penalty", 1.0)),
        **({"no_repeat_ngram_size": size} if (size := given.get("no_repeat_ngram_size")) else {}),
        "extra_length": given.get("max_new_tokens", given.get("max_length", DecodeHParams.extra_length)),
        "max_input_length": config.get("max_position_embeddings", DecodeHParams.max_input_length),
    }
    notes = [
        f"{name}={given[name]} in {source} has no equivalent, and is left out"
        for name, usual in _OF_SEARCH.items()
        if given.get(name, usual) != usual
    ]
    return MarianModel(path, hparams, weights, sides, True, settings, notes)


def _json(path: Path, optional: bool = False) -> dict[str, Any]:
    if optional and not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"there is no {path}; pass the folder of a model of Hugging Face") from error
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged; copy it again") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} has no settings; copy it again")
    return content


def _embedding(state: Mapping[str, np.ndarray], stack: str, path: Path) -> np.ndarray:
    for name in (f"model.{stack}.embed_tokens.weight", "model.shared.weight"):
        if name in state:
            return state[name]
    raise UserError(f"{path} has no embeddings (model.shared.weight); copy it again")


def _marian_names(state: dict[str, np.ndarray], hparams: HParams, path: Path) -> dict[str, np.ndarray]:
    """Returns the weights by Marian's names. Those that a MarianMTModel lacks keep theirs."""
    state = {name: array for name, array in state.items() if name != "model.shared.weight"} | {
        "Wemb" if hparams.tied_embeddings == "all" else f"{stack}_Wemb": _embedding(state, stack, path)
        for stack in ("encoder", "decoder")
    }
    renamed = {"decoder_ff_logit_out_b": state.pop("final_logits_bias", np.zeros((1, 0)))}
    if not renamed["decoder_ff_logit_out_b"].size:
        raise UserError(f"{path} has no final_logits_bias; copy it again")
    logits = state.pop("lm_head.weight", None)
    if hparams.tied_embeddings == "none":
        if logits is None:
            raise UserError(f"{path} has no lm_head.weight; copy it again")
        renamed["decoder_ff_logit_out_Wt"] = logits
    for name, array in state.items():
        parts = name.split(".")
        if name.endswith("embed_positions.weight"):
            expected = np.asarray(sinusoids(np.arange(len(array)), hparams.hidden_size))
            halves = np.concatenate([expected[:, 0::2], expected[:, 1::2]], axis=1)
            if array.shape != halves.shape or np.abs(array - halves).max() > 1e-3:
                raise UserError(f"{path}: {name} are not sinusoids; such a model cannot be imported")
        elif name.endswith("embed_tokens.weight"):
            pass
        elif parts[:1] == ["model"] and parts[2:3] == ["layers"] and (theirs := _NAMES.get(".".join(parts[4:-1]))):
            is_norm, is_weight = "_ln_" in theirs, parts[-1] == "weight"
            kind = ("scale" if is_weight else "bias") if is_norm else ("W" if is_weight else "b")
            renamed[f"{parts[1]}_l{int(parts[3]) + 1}_{theirs.format(kind)}"] = array.T if array.ndim == 2 else array
        else:
            renamed[name] = array
    return renamed


class _Storage(NamedTuple):
    type: str
    key: str
    size: int  # in numbers


class _Tensor(NamedTuple):
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def of(self, content: bytes) -> np.ndarray:
        """Returns the array, given the content of its storage. Raises ValueError if it does not lie in it."""
        numbers = (self.offset, *self.shape, *self.strides)
        last = self.offset + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        flat = np.frombuffer(content, _TYPES[self.storage.type])
        if not all(type(number) is int and number >= 0 for number in numbers) or last >= len(flat):
            raise ValueError("a tensor is not in its storage")
        if self.storage.type == "BFloat16Storage":
            flat = (flat.astype(np.uint32) << 16).view(np.float32)
        strides = [stride * flat.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(flat[self.offset :], self.shape, strides).copy()


class _Unpickler(pickle.Unpickler):
    """Reads tensors, and refuses whatever else a pickle may name, before anything of it runs."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        super().__init__(file, encoding="utf-8")
        self._path = path

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, shape, strides, *_: _Tensor(storage, offset, tuple(shape), tuple(strides))
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *_: tensor
        if module == "torch" and name in _TYPES:
            return name
        raise UserError(f"{self._path} names {module}.{name} beside tensors, so it is not read; nothing of it was run")

    def persistent_load(self, pid: Any) -> _Storage:  # noqa: ANN401
        kind, storage, key, _, size, *_ = pid
        if kind != "storage" or storage not in _TYPES:
            raise pickle.UnpicklingError(f"an unknown storage {kind}")
        return _Storage(storage, str(key), int(size))


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """Returns the tensors in a file by name: safetensors, or torch's zip format, or the one before version 1.6.

    Raises UserError if the file is damaged or has anything but tensors.
    """
    try:
        if path.suffix == ".safetensors":
            return safetensors.numpy.load_file(path)
        storages: dict[str, bytes] = {}
        with path.open("rb") as file:
            if zipfile.is_zipfile(path):
                with zipfile.ZipFile(file) as archive:
                    (name,) = [each for each in archive.namelist() if each.endswith("/data.pkl")]
                    with archive.open(name) as content:
                        tensors = _Unpickler(content, path).load()
                    folder = name.removesuffix("data.pkl") + "data/"
                    storages = {each.storage.key: archive.read(folder + each.storage.key) for each in tensors.values()}
            else:
                magic, _, _ = (_Unpickler(file, path).load() for _ in range(3))
                if magic != _MAGIC:
                    raise ValueError("not a file of torch")
                tensors = _Unpickler(file, path).load()
                sizes = {each.storage.key: each.storage for each in tensors.values()}
                for key in _Unpickler(file, path).load():
                    size, storage = int.from_bytes(file.read(8), "little"), sizes[str(key)]
                    storages[storage.key] = file.read(size * np.dtype(_TYPES[storage.type]).itemsize)
        return {name: each.of(storages[each.storage.key]) for name, each in tensors.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, EOFError, RecursionError) as error:
        raise UserError(f"{path} is damaged ({str(error)[:100]}); copy it again") from error
    except (pickle.UnpicklingError, zipfile.BadZipFile, safetensors.SafetensorError) as error:
        raise UserError(f"{path} is damaged ({str(error)[:100]}); copy it again") from error
