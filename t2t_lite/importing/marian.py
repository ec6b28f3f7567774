"""Imports models of Marian, and of Hugging Face's `MarianMTModel`: a run directory with their settings and weights.

Both kinds come as a `MarianModel`, which names the weights as Marian does.
"""

import dataclasses
import functools
import json
import pickle
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import sentencepiece
import yaml

from t2t_lite.config import DecodeHParams, HParams
from t2t_lite.data.problem import SIDES, Problem, get_problem
from t2t_lite.data.vocab import EOS_ID, UNKNOWN_ID
from t2t_lite.data.vocab.sentencepiece import piece_list, renumbered
from t2t_lite.data.vocab.symbols import SYMBOLS
from t2t_lite.errors import UserError
from t2t_lite.files import split_paths
from t2t_lite.importing.options import Imported, ImportOptions
from t2t_lite.importing.run_writing import filled_model, write_run
from t2t_lite.importing.torch_weights import read_weights
from t2t_lite.layers.positions import sinusoids
from t2t_lite.models.transformer import Transformer

# Settings of Marian's models that affect the outputs, with the values that our model supports; those of most are 0,
# False or empty.
_ALLOWED: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "transformer-attention-mask": ("default", ""),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-ffn-activation": ("relu", "swish"),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-postprocess-emb": ("d", ""),
    **dict.fromkeys(("factors-dim-emb", "lemma-dim-emb"), (0,)),
    **dict.fromkeys(("input-types", "transformer-tied-layers"), ([],)),
    "lemma-dependency": ("",),
    **dict.fromkeys(("right-left", "ulr"), (False,)),
    **{
        f"transformer-{name}": (False,)
        for name in (
            *("alibi-shift", "alibi-trainable", "depth-scaling", "disable-position-embeddings", "no-affine", "no-bias"),
            *("no-projection", "pool", "rnn-projection", "train-position-embeddings"),
        )
    },
}
# The same for Hugging Face's; the first value is the default.
_ALLOWED_HUGGINGFACE: dict[str, tuple[Any, ...]] = {
    "model_type": ("marian",),
    "activation_function": ("swish", "silu", "relu"),
    "is_encoder_decoder": (True,),
    "static_position_embeddings": (True,),
    **dict.fromkeys(("add_bias_logits", "add_final_layer_norm", "normalize_before", "normalize_embedding"), (False,)),
}
# Settings of `generate` without an equivalent, with the values that change nothing.
_WITHOUT_EQUIVALENT = {
    **{"do_sample": False, "early_stopping": False, "num_beam_groups": 1, "repetition_penalty": 1.0, "min_length": 0},
    **{"diversity_penalty": 0.0, "encoder_no_repeat_ngram_size": 0, "temperature": 1.0},
    **dict.fromkeys(("forced_bos_token_id", "min_new_tokens", "suppress_tokens", "begin_suppress_tokens"), None),
}
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
# Marian's names of a layer's parts.
_MARIAN_NAMES = {
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
# The norm position by (preprocess, postprocess, postprocess-top). Dropout does not affect outputs.
_NORM_POSITIONS: dict[Any, str] = {
    ("", "dan", ""): "post", ("", "an", ""): "post", ("n", "da", "n"): "pre", ("n", "a", "n"): "pre",
}  # fmt: skip
_SETTINGS = "special:model.yml"
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # the fast one, if PyYAML has libyaml
# The bias of padding's logit, which Marian lacks: its probability is 0 beside that of any token. A larger number would
# dominate the label smoothing of further training.
NEVER = -100.0
# What damaged files and values of wrong types may raise.
_UNREADABLE = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError, RuntimeError, TypeError),
    *(ValueError, pickle.UnpicklingError, safetensors.SafetensorError, yaml.YAMLError, zipfile.BadZipFile),
)
# The ends of the names of files beside a model that are no models of their own.
_OTHER_NPZ = (".orig.npz", ".optimizer.npz")


class Side(NamedTuple):
    """The vocabulary of a side."""

    ids: list[int]  # of the model, by our ids; -1: the model has no such token
    content: bytes  # of our file


@dataclasses.dataclass(frozen=True)
class MarianModel:
    """A model before it is converted."""

    path: Path  # of the weights
    hparams: HParams
    weights: dict[str, np.ndarray]  # by Marian's names
    sides: Mapping[str, Side]  # of "inputs" and "targets"
    # Whether the sines and cosines, in halves as Marian's, have the paper's frequencies.
    has_paper_frequencies: bool = False
    decode_hparams: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: Sequence[str] = ()
    languages: str = ""  # such as "en-de", if the model has them
    step: int = 0  # the number of steps for which it was trained, if known


def import_run(
    read: Callable[[Path, ImportOptions], MarianModel],
    source: Path,
    output_dir: Path,
    options: ImportOptions,
    say: Callable[[str], None],
) -> Imported:
    """Converts the model that `read` returns into a run directory, which is written atomically.

    `source` is the folder of the model, or its file; `say` receives a message about each setting without an equivalent.
    """
    problem = get_problem(options.problem or "text_pairs")
    if not re.fullmatch("([a-z]{2,3})?", options.moses_punctuation):
        raise UserError(
            f"`moses_punctuation={options.moses_punctuation}` is no code of a language, such as en", status=2
        )
    try:
        found = read(source, options)
        return _import(found, output_dir, problem, options, say)
    except _UNREADABLE as error:
        what = f"{type(error).__name__}: {str(error).splitlines()[0][:100] if str(error) else ''}"
        raise UserError(f"{source} is damaged, or not a model of this kind ({what}); copy it again") from error


def _import(
    found: MarianModel, output_dir: Path, problem: Problem, options: ImportOptions, say: Callable[[str], None]
) -> Imported:
    with tempfile.TemporaryDirectory() as folder:
        contents = dict.fromkeys(side.content for side in found.sides.values())
        files = {}
        for content, name in zip(contents, ("inputs", "targets")):
            kind = "pieces" if content.startswith(b"{") else "subwords"
            own = f"{name}." if len(contents) > 1 else ""
            files[content] = Path(folder) / f"vocab.{problem.data_name}.imported.{own}{kind}"
            files[content].write_bytes(content)
        inputs, targets = (files[found.sides[side].content] for side in SIDES)
        model = filled_model(found.hparams, targets, inputs, _Weights(found).of, found.path, "settings")
        if found.weights:  # those that nothing has taken
            raise UserError(
                f"{found.path} has {len(found.weights)} weights that our model lacks, such as {min(found.weights)}; it "
                f"cannot be imported"
            )
        languages, search = options.languages or found.languages, found.decode_hparams
        imported = write_run(output_dir, model, found.step, problem, targets, inputs, None, languages, search)
    for note in found.notes:
        say(note)
    return imported


class _Weights:
    """Takes the weights out of a `MarianModel` for the variables of our model."""

    def __init__(self, found: MarianModel) -> None:
        self._found = found
        self._hidden: Any = slice(None)
        if found.has_paper_frequencies:
            # Our encoding alternates sines and cosines, so the channels are put into that order in all weights.
            self._hidden = np.arange(found.hparams.hidden_size).reshape(2, -1).T.ravel()

    def of(self, model: Transformer) -> Iterator[tuple[Any, np.ndarray]]:
        """Yields (a variable of the model, its value)."""
        for stack, layers in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers)):
            for number, layer in enumerate(layers, start=1):
                yield from self._of_layer(layer, f"{stack}_l{number}")
            if model.final_norms:
                yield from self._of_norm(model.final_norms[stack], f"{stack}_top")
        yield from self._of_embeddings(model)

    def _of_layer(self, layer: Any, scope: str) -> Iterator[tuple[Any, np.ndarray]]:  # noqa: ANN401
        parts = {"self": (layer.self_attention, layer.self_attention_residual)}
        if hasattr(layer, "cross_attention"):
            parts["context"] = (layer.cross_attention, layer.cross_attention_residual)
        suffix = "_pre" if self._found.hparams.norm_position == "pre" else ""
        for name, (attention, residual) in parts.items():
            for ours, theirs in (("query", "q"), ("key", "k"), ("value", "v")):
                yield getattr(attention, ours), self._taken(f"{scope}_{name}_W{theirs}")[self._hidden]
                yield attention.biases[ours], self._taken(f"{scope}_{name}_b{theirs}")
            if hasattr(attention, "relative_keys"):
                yield attention.relative_keys, self._taken(f"{scope}_{name}_relative_keys")
                yield attention.relative_values, self._taken(f"{scope}_{name}_relative_values")
            yield attention.output_projection, self._taken(f"{scope}_{name}_Wo")[:, self._hidden]
            yield attention.biases["output"], self._taken(f"{scope}_{name}_bo")[self._hidden]
            yield from self._of_norm(residual.norm, f"{scope}_{name}_Wo", suffix)
        expand, project = layer.feed_forward.expand, layer.feed_forward.project
        yield expand.kernel, self._taken(f"{scope}_ffn_W1")[self._hidden]
        yield expand.bias, self._taken(f"{scope}_ffn_b1")
        yield project.kernel, self._taken(f"{scope}_ffn_W2")[:, self._hidden]
        yield project.bias, self._taken(f"{scope}_ffn_b2")[self._hidden]
        yield from self._of_norm(layer.feed_forward_residual.norm, f"{scope}_ffn_ffn", suffix)

    def _of_norm(self, norm: Any, scope: str, suffix: str = "") -> Iterator[tuple[Any, np.ndarray]]:  # noqa: ANN401
        yield norm.gamma, self._taken(f"{scope}_ln_scale{suffix}")[self._hidden]
        yield norm.beta, self._taken(f"{scope}_ln_bias{suffix}")[self._hidden]

    def _of_embeddings(self, model: Transformer) -> Iterator[tuple[Any, np.ndarray]]:
        weights = self._found.weights
        bias = weights.pop("decoder_ff_logit_out_b", np.zeros(1 + max(self._found.sides["targets"].ids), np.float32))
        yield model.projection.bias, self._by_id(bias.ravel(), "targets", NEVER)
        shared = weights.get("Wemb")
        yield model.embedding.weight, self._by_id(self._taken("decoder_Wemb", "Wemb"), "targets")[:, self._hidden]
        if model.inputs_embedding is not model.embedding:
            of_inputs = self._taken("encoder_Wemb") if shared is None else shared
            yield model.inputs_embedding.weight, self._by_id(of_inputs, "inputs")[:, self._hidden]
        if model.projection is not model.embedding:
            is_transposed = "decoder_ff_logit_out_Wt" in weights
            of_logits = self._taken("decoder_ff_logit_out_Wt" if is_transposed else "decoder_ff_logit_out_W")
            of_logits = of_logits if is_transposed else of_logits.T
            yield model.projection.weight, self._by_id(of_logits, "targets")[:, self._hidden]

    def _taken(self, *names: str) -> np.ndarray:
        for name in names:
            if name in self._found.weights:
                array = self._found.weights.pop(name).astype(np.float32)
                return array.ravel() if len(array) == 1 else array
        raise UserError(f"{self._found.path} lacks the weights {names[0]}; copy it again")

    def _by_id(self, array: np.ndarray, side: str, missing: float = 0.0) -> np.ndarray:
        """Returns the rows of a matrix, or the numbers of a bias, by our ids."""
        ids = self._found.sides[side].ids
        if max(ids) >= len(array):
            raise UserError(
                f"{self._found.path} has {len(array):,} {side}, but the vocabulary {max(ids) + 1:,}; pass the model's "
                f"own with `vocab_file`"
            )
        rows = array[ids]
        rows[np.array(ids) < 0] = missing
        return rows


def read_marian(source: Path, options: ImportOptions) -> MarianModel:
    """Returns the model in a file, or in a folder with one. Raises UserError if it cannot be represented."""
    folder = source.parent if source.is_file() else source
    beside = folder.glob(f"{source.name}.decoder.yml" if source.is_file() else "*.npz.decoder.yml")
    configs = [path for path in (folder / "decoder.yml", *beside) if path.exists()]
    # Of Marian's decoder, unless it may be that of another model.
    config = _parsed(configs[-1]) if configs and (source.is_file() or len(configs) == 1) else {}
    path = _weights_file(source, config)
    try:
        with np.load(path) as file:
            weights = {name: file[name] for name in file.files}
        settings = dict(yaml.safe_load(bytes(weights.pop(_SETTINGS)).rstrip(b"\0").decode("utf-8")))
    except _UNREADABLE as error:
        raise UserError(f"{path} is not a model of Marian, or it is damaged; copy it again") from error
    hparams = _hparams(settings, path)
    sides = _sides(path.parent, config, options)
    for side, size in zip(SIDES, settings["dim-vocabs"], strict=True):
        if (found := max(sides[side].ids) + 1) != size:
            raise UserError(
                f"the vocabulary of the {side} has {found:,} pieces, but the model in {path} has {size:,}; pass the "
                f"model's own with `vocab_file`"
            )
    notes, search = [], {}
    if "beam-size" in config:
        alpha = float(config.get("normalize") or 0)
        search = {"beam_size": int(config["beam-size"]), "length_penalty": "power", "alpha": alpha}
        notes = [
            f"{name}={value} in {configs[-1]} has no equivalent, and is left out"
            for name in ("word-penalty", "max-length-factor", "shortlist")
            if (value := config.get(name, "0")) not in ("0", "0.0", "false")
        ]
    return MarianModel(path, hparams, weights, sides, decode_hparams=search, notes=notes)


def _parsed(path: Path) -> dict[str, Any]:
    """Returns what a file of YAML or JSON has."""
    try:
        # YAML without types, in which "no" and "1" are texts.
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if path.suffix == ".json" else yaml.load(text, Loader=_LOADER)
        return dict(found)
    except FileNotFoundError as error:
        raise UserError(f"there is no {path}; copy the whole folder of the model") from error
    except _UNREADABLE as error:
        raise UserError(f"{path} is damaged; copy it again") from error


def _weights_file(source: Path, config: Mapping[str, Any]) -> Path:
    if source.is_file():
        return source
    if not source.is_dir():
        raise UserError(f"{source} does not exist; pass the folder of a model, or its file")
    found = [path for path in sorted(source.glob("*.npz")) if not path.name.endswith(_OTHER_NPZ)]
    named = [path for path in found if path.name in {Path(name).name for name in config.get("models") or ()}]
    if len(chosen := named or found) != 1:
        has = f"several: {', '.join(path.name for path in chosen)}; pass one of them" if chosen else "none"
        raise UserError(f"{source} must have one model of Marian, a file .npz, but has {has}")
    return chosen[0]


def _check(where: Path, name: str, values: Mapping[str, Any], *allowed: object) -> None:
    if (value := values.get(name, allowed[0])) not in allowed:
        names = " or ".join(str(each) or "none" for each in allowed)
        raise UserError(f"{where}: a model with {name}={value} cannot be imported; only {names} is supported")


def _hparams(theirs: Mapping[str, Any], path: Path) -> HParams:
    for name, allowed in _ALLOWED.items():
        _check(path, name, theirs, *allowed)
    steps = tuple(theirs.get(f"transformer-{name}") or "" for name in ("preprocess", "postprocess", "postprocess-top"))
    if steps not in _NORM_POSITIONS:
        listed = ", ".join(step or "none" for step in steps)
        raise UserError(
            f"{path}: a model with transformer-preprocess, -postprocess and -postprocess-top={listed} cannot be "
            f"imported; only none, dan, none and n, da, n are supported"
        )
    try:
        filter_size = theirs["transformer-dim-ffn"]
        _check(path, "transformer-decoder-dim-ffn", theirs, 0, filter_size)
        tied = "decoder" if theirs["tied-embeddings"] else "none"
        if theirs["tied-embeddings-all"] or (theirs["tied-embeddings"] and theirs["tied-embeddings-src"]):
            tied = "all"
        return HParams(
            num_encoder_layers=theirs["enc-depth"],
            num_decoder_layers=theirs["dec-depth"],
            hidden_size=theirs["dim-emb"],
            filter_size=filter_size,
            num_heads=theirs["transformer-heads"],
            feed_forward_type=theirs["transformer-ffn-activation"],
            norm_position=_NORM_POSITIONS[steps],
            position_encoding="sinusoidal_halves",
            tied_embeddings=tied,
            zero_padding_embedding=True,
            projection_biases=True,
        )
    except (KeyError, TypeError) as error:
        raise UserError(f"{path} has no usable value for {error.args[0] if error.args else error}") from error


def _sides(folder: Path, config: Mapping[str, Any], options: ImportOptions) -> dict[str, Side]:
    if options.vocab_file:
        given = [Path(name) for name in split_paths(options.vocab_file)]
    elif not (given := [folder / Path(name).name for name in config.get("vocabs") or ()]):
        given = sorted(path for path in folder.glob("*vocab*") if path.suffix in (".spm", ".yml"))
    if not 1 <= len(given) <= 2:
        listed = ", ".join(path.name for path in given) or "none"
        raise UserError(
            f"{folder} must have a vocabulary, or one for each side, but has {listed}; pass `vocab_file=INPUTS,TARGETS`"
        )
    return {
        side: side_of(path, folder, side, options.moses_punctuation if side == "inputs" else "")
        for side, path in zip(SIDES, (given[0], given[-1]))
    }


def side_of(path: Path, folder: Path, side: str, punctuation: str = "", padding: str = "") -> Side:
    """Returns a side with the vocabulary in a file: a SentencePiece model, or YAML or JSON with an id for each piece.

    Beside a list of pieces there is a SentencePiece model, source.spm or target.spm. See `listed_side`.
    """
    if path.suffix != ".spm":
        beside = folder / {"inputs": "source.spm", "targets": "target.spm"}[side]
        if beside.is_file():
            return listed_side(_parsed(path), beside.read_bytes(), path, padding, punctuation)
        if (bpe := beside.with_suffix(".bpe")).is_file():
            raise UserError(f"the text of {path} is split by subword-nmt ({bpe.name}), which cannot be imported")
        raise UserError(f"there is no {beside.name} beside {path}; only models with SentencePiece can be imported")
    try:
        model = path.read_bytes()
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        ours = sentencepiece.SentencePieceProcessor(model_proto=renumbered(model))
    except (OSError, RuntimeError, UserError) as error:
        raise UserError(f"{path} is missing or not a SentencePiece model; copy it again") from error
    pieces = ours.id_to_piece(list(range(ours.get_piece_size())))
    ids = [-1, processor.eos_id(), processor.unk_id(), *processor.piece_to_id(pieces[3:])]
    return Side(ids, piece_list(pieces, model, punctuation) if punctuation else renumbered(model))


def listed_side(ids: Mapping[str, Any], model: bytes, path: Path, padding: str, punctuation: str = "") -> Side:
    """Returns a side with the vocabulary in the file `path`: an id for each piece, and a SentencePiece model.

    `padding` is the name of padding, from which decoders start; "": the vocabulary has none. With `punctuation`, a
    language, texts are normalized as by Moses.
    """
    try:
        of_pieces = {piece: int(id) for piece, id in ids.items()}
        if sorted(of_pieces.values()) != list(range(len(of_pieces))):
            raise ValueError("the ids are not 0, 1, 2, ...")
    except (ValueError, TypeError) as error:
        raise UserError(f"{path} has no id for each piece ({str(error)[:100]}); copy it again") from error
    symbols = [padding, *SYMBOLS[EOS_ID : UNKNOWN_ID + 1]]
    if missing := [symbol for symbol in symbols if symbol and symbol not in of_pieces]:
        raise UserError(f"{path} has no {missing[0]}, which vocabularies of Marian have; copy it again")
    others = [piece for piece in sorted(of_pieces, key=of_pieces.__getitem__) if piece not in symbols]
    try:
        content = piece_list([*SYMBOLS, *others], model, punctuation)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    return Side([of_pieces.get(piece, -1) for piece in (*symbols, *others)], content)


def read_huggingface(source: Path, options: ImportOptions) -> MarianModel:
    """Returns the model in a folder. Raises UserError if it cannot be represented."""
    if source.is_file():
        raise UserError(f"{source} is a file; pass its folder")
    config, of_search = _parsed(source / "config.json"), source / "generation_config.json"
    search = config | (_parsed(of_search) if of_search.exists() else {})
    path = next((source / name for name in _WEIGHTS if (source / name).is_file()), None)
    if path is None:
        raise UserError(f"{source} has neither {' nor '.join(_WEIGHTS)}; copy the whole folder of the model")

    check = functools.partial(_check, source)
    for name, allowed in _ALLOWED_HUGGINGFACE.items():
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
            norm_epsilon=1e-5,
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
        # Not max_length, 512 in most models: it only lengthens outputs that never end.
        "extra_length": given.get("max_new_tokens", DecodeHParams.extra_length),
        "max_input_length": config.get("max_position_embeddings") or DecodeHParams.max_input_length,
    }
    notes = [
        f"{name}={given[name]} in {source} has no equivalent, and is left out"
        for name, usual in _WITHOUT_EQUIVALENT.items()
        if given.get(name, usual) != usual
    ]
    of_tokenizer = source / "tokenizer_config.json"
    named = _parsed(of_tokenizer) if of_tokenizer.exists() else {}
    pair = [str(named.get(name, "")) for name in ("source_lang", "target_lang")]
    languages = "-".join(pair) if all(re.fullmatch("[a-z]{2,3}", code) for code in pair) else ""
    return MarianModel(path, hparams, weights, sides, True, settings, notes, languages)


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
    if "final_logits_bias" not in state:
        raise UserError(f"{path} has no final_logits_bias; copy it again")
    renamed = {"decoder_ff_logit_out_b": state.pop("final_logits_bias")}
    if (logits := state.pop("lm_head.weight", None)) is not None and hparams.tied_embeddings == "none":
        renamed["decoder_ff_logit_out_Wt"] = logits
    for name, array in state.items():
        parts = name.split(".")
        if name.endswith("embed_positions.weight"):
            expected = np.asarray(sinusoids(np.arange(len(array)), hparams.hidden_size))
            halves = np.concatenate([expected[:, 0::2], expected[:, 1::2]], axis=1)
            if array.shape != halves.shape or np.abs(array - halves).max() > 1e-3:
                raise UserError(f"{path}: {name} are not sinusoids; such a model cannot be imported")
        elif (
            parts[:1] == ["model"] and parts[2:3] == ["layers"] and (theirs := _MARIAN_NAMES.get(".".join(parts[4:-1])))
        ):
            is_norm, is_weight = "_ln_" in theirs, parts[-1] == "weight"
            kind = ("scale" if is_weight else "bias") if is_norm else ("W" if is_weight else "b")
            renamed[f"{parts[1]}_l{int(parts[3]) + 1}_{theirs.format(kind)}"] = array.T if array.ndim == 2 else array
        elif not name.endswith("embed_tokens.weight"):
            renamed[name] = array
    return renamed


import_marian = functools.partial(import_run, read_marian)
import_huggingface = functools.partial(import_run, read_huggingface)
