"""Imports models of Marian, and of Hugging Face's `MarianMTModel`: a run directory with their settings and weights.

Both kinds come as a `MarianModel`, which names the weights as Marian does.
"""

import dataclasses
import json
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sentencepiece
import yaml

from t2t_lite.config import HParams
from t2t_lite.data.problem import SIDES, get_problem
from t2t_lite.data.vocab import EOS_ID, UNKNOWN_ID
from t2t_lite.data.vocab.sentencepiece import piece_list, renumbered
from t2t_lite.data.vocab.symbols import SYMBOLS
from t2t_lite.errors import UserError
from t2t_lite.files import split_paths
from t2t_lite.importing.options import ImportOptions
from t2t_lite.importing.run_writing import Imported, check_new, filled_model, write_run
from t2t_lite.models.transformer import Transformer

# Settings of a model that affect the outputs, with the values that our model supports.
_ALLOWED: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "factors-dim-emb": (0,),
    "input-types": ([],),
    "lemma-dependency": ("",),
    "lemma-dim-emb": (0,),
    "right-left": (False,),
    "transformer-alibi-shift": (False,),
    "transformer-alibi-trainable": (False,),
    "transformer-attention-mask": ("default", ""),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-depth-scaling": (False,),
    "transformer-disable-position-embeddings": (False,),
    "transformer-ffn-activation": ("relu", "swish"),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-no-affine": (False,),
    "transformer-no-bias": (False,),
    "transformer-no-projection": (False,),
    "transformer-pool": (False,),
    "transformer-postprocess-emb": ("d", ""),
    "transformer-rnn-projection": (False,),
    "transformer-tied-layers": ([],),
    "transformer-train-position-embeddings": (False,),
    "ulr": (False,),
}
# The norm position by (preprocess, postprocess, postprocess-top). Dropout does not affect outputs.
_NORM_POSITIONS: dict[Any, str] = {
    ("", "dan", ""): "post", ("", "an", ""): "post", ("n", "da", "n"): "pre", ("n", "a", "n"): "pre",
}  # fmt: skip
_SETTINGS = "special:model.yml"
# The bias of padding's logit, which Marian lacks: its probability is 0 beside that of any token. A larger number would
# dominate the label smoothing of further training.
NEVER = -100.0
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


def import_run(
    source: Path,
    output_dir: Path,
    read: Callable[[Path, ImportOptions], MarianModel],
    options: ImportOptions,
    say: Callable[[str], None],
) -> Imported:
    """Converts the model that `read` returns into a run directory, which is written atomically.

    `source` is the folder of the model, or its file; `say` receives a message about each setting without an equivalent.
    """
    check_new(output_dir)
    found = read(source, options)
    problem = get_problem(options.problem or "text_pairs")
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
        imported = write_run(
            output_dir, model, 0, problem, targets, inputs, None, options.languages, found.decode_hparams
        )
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
    config = _decoder_config(source)
    path = _weights_file(source, config)
    try:
        with np.load(path) as file:
            weights = {name: file[name] for name in file.files}
        settings = yaml.safe_load(bytes(weights.pop(_SETTINGS)).rstrip(b"\0").decode("utf-8"))
        if not isinstance(settings, dict):
            raise ValueError(f"{_SETTINGS} has no settings")
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, yaml.YAMLError) as error:
        reason = f"it has no {_SETTINGS}" if isinstance(error, KeyError) else str(error).split("\n")[0]
        raise UserError(f"{path} is not a model of Marian, or it is damaged: {reason}; copy it again") from error
    hparams = _hparams(settings, path)
    sides = _sides(path.parent, config, options)
    for side, size in zip(SIDES, settings["dim-vocabs"]):
        if (found := max(sides[side].ids) + 1) != size:
            raise UserError(
                f"the vocabulary of the {side} has {found:,} pieces, but the model in {path} has {size:,}; pass the "
                f"model's own with `vocab_file`"
            )
    notes, search = [], {}
    if "beam-size" in config:
        alpha = float(config.get("normalize") or 0)
        search = {"beam_size": config["beam-size"], "length_penalty": "power", "alpha": alpha}
        notes = [
            f"{name}={config[name]} in {config['path']} has no equivalent, and is left out"
            for name in ("word-penalty", "max-length-factor", "shortlist")
            if config.get(name)
        ]
    return MarianModel(path, hparams, weights, sides, decode_hparams=search, notes=notes)


def _decoder_config(source: Path) -> dict[str, Any]:
    """Returns what Marian's decoder reads by default, with the file's "path"; {} if there is no such file."""
    patterns = [f"{source.name}.decoder.yml"] if source.is_file() else ["decoder.yml", "*.npz.decoder.yml"]
    folder = source.parent if source.is_file() else source
    for path in (path for pattern in patterns for path in sorted(folder.glob(pattern))):
        try:
            return {**yaml.safe_load(path.read_text(encoding="utf-8")), "path": path}
        except (OSError, ValueError, TypeError, yaml.YAMLError) as error:
            raise UserError(f"{path} is damaged; copy it again, or remove it") from error
    return {}


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


def _hparams(theirs: Mapping[str, Any], path: Path) -> HParams:
    def refused(name: str, value: object, instead: object) -> UserError:
        return UserError(f"{path}: a model with {name}={value} cannot be imported; only {instead} is supported")

    for name, allowed in _ALLOWED.items():
        if (value := theirs.get(name, allowed[0])) not in allowed:
            raise refused(name, value, " or ".join(str(each) or "none" for each in allowed))
    steps = tuple(theirs.get(f"transformer-{name}") or "" for name in ("preprocess", "postprocess", "postprocess-top"))
    if steps not in _NORM_POSITIONS:
        steps = "{}, postprocess={}, postprocess-top={}".format(*(step or "none" for step in steps))
        raise refused("transformer-preprocess", steps, "none, dan and none, or n, da and n")
    try:
        filter_size = theirs["transformer-dim-ffn"]
        if (own := theirs.get("transformer-decoder-dim-ffn") or filter_size) != filter_size:
            raise refused("transformer-decoder-dim-ffn", own, f"transformer-dim-ffn={filter_size}")
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

    Beside a list of pieces there is a SentencePiece model, source.spm or target.spm. `padding` is the name of padding
    in the vocabulary; "": it has none. With `punctuation`, a language, texts are normalized as by Moses.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"there is no vocabulary {path}; pass `vocab_file`") from error
    if path.suffix == ".spm":
        model = content
        try:
            processor = sentencepiece.SentencePieceProcessor(model_proto=model)
            ours = sentencepiece.SentencePieceProcessor(model_proto=renumbered(model))
        except (RuntimeError, UserError) as error:
            raise UserError(f"{path} is not a SentencePiece model; copy it again") from error
        pieces = ours.id_to_piece(list(range(ours.get_piece_size())))
        ids = [-1, processor.eos_id(), processor.unk_id(), *processor.piece_to_id(pieces[3:])]
        if not punctuation:
            return Side(ids, renumbered(model))
    else:
        model = _model_beside(folder / {"inputs": "source.spm", "targets": "target.spm"}[side], path)
        try:
            # YAML without types, in which "no" and "1" are texts.
            found = json.loads(content) if path.suffix == ".json" else yaml.load(content, Loader=yaml.CBaseLoader)
            of_pieces = {piece: int(id) for piece, id in found.items()}
            if sorted(of_pieces.values()) != list(range(len(of_pieces))):
                raise ValueError("the ids are not 0, 1, 2, ...")
        except (ValueError, TypeError, AttributeError, yaml.YAMLError) as error:
            raise UserError(f"{path} has no id for each piece ({str(error)[:100]}); copy it again") from error
        symbols = [padding, *SYMBOLS[EOS_ID : UNKNOWN_ID + 1]]
        if missing := [symbol for symbol in symbols if symbol and symbol not in of_pieces]:
            raise UserError(f"{path} has no {missing[0]}, which vocabularies of Marian have; copy it again")
        others = [piece for piece in sorted(of_pieces, key=of_pieces.__getitem__) if piece not in symbols]
        pieces = [*SYMBOLS, *others]
        ids = [of_pieces.get(piece, -1) for piece in (*symbols, *others)]
    try:
        sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError as error:
        raise UserError(f"the SentencePiece model beside {path} is damaged; copy it again") from error
    return Side(ids, piece_list(pieces, model, punctuation))


def _model_beside(path: Path, vocabulary: Path) -> bytes:
    if path.is_file():
        return path.read_bytes()
    if (bpe := path.with_suffix(".bpe")).is_file():
        raise UserError(f"the text of {vocabulary} is split by subword-nmt ({bpe.name}), which cannot be imported")
    raise UserError(f"there is no {path.name} beside {vocabulary}; only models with SentencePiece can be imported")
