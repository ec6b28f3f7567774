"""Imports models that other converters wrote for CTranslate2, such as those of Argos Translate: as an export."""

import datetime
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import t2t_lite
from t2t_lite.config import DecodeHParams
from t2t_lite.data.problem import get_problem, language_pair
from t2t_lite.data.vocab.sentencepiece import piece_list
from t2t_lite.data.vocab.symbols import SYMBOLS
from t2t_lite.decoding.ctranslate2_engine import imported
from t2t_lite.decoding.export_dir import write_export
from t2t_lite.errors import UserError
from t2t_lite.files import file_sha256, split_paths
from t2t_lite.importing.options import Imported, ImportOptions

_POSITIONS = 2048  # longer inputs are truncated


def import_ctranslate2(
    source: Path, output_dir: Path, options: ImportOptions, say: Callable[[str], None] = lambda line: None
) -> Imported:
    """Copies a folder with model.bin to an export directory, which is written atomically.

    Its texts are split by the SentencePiece models of `options.vocab_file`.
    """
    given = [Path(name) for name in split_paths(options.vocab_file)] if options.vocab_file else []
    if not (source / "model.bin").is_file():
        raise UserError(f"{source} has no model.bin; pass the folder of a CTranslate2 model")
    if not 1 <= len(given) <= 2:
        raise UserError("pass the SentencePiece model of the texts with `vocab_file`, or `vocab_file=INPUTS,TARGETS`")
    problem = get_problem(options.problem or "text_pairs")
    try:
        config = source / "config.json"  # old models have none
        settings = json.loads(config.read_text(encoding="utf-8") if config.exists() else "{}")
        start = settings.get("decoder_start_token", "<s>")
        _ = imported().Translator(str(source), device="cpu")  # a check
        if start not in _tokens(source, "target"):
            raise ValueError(f"the decoder starts from {start}, which is no token")
    except (OSError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        reason = str(error).split("\n", maxsplit=1)[0]
        raise UserError(f"CTranslate2 cannot load {source} ({reason}); convert the model again") from error
    source_language, output_language = language_pair(options.languages) if options.languages else (None, None)

    def write(folder: Path) -> dict[str, Any]:
        for file in sorted(source.iterdir()):
            if file.is_file() and (file.name in ("model.bin", "config.json") or "vocabulary" in file.name):
                shutil.copyfile(file, folder / file.name)
        names = {}
        for side, of_side, model in (("source", "inputs", given[0]), ("target", "targets", given[-1])):
            tokens = _tokens(source, side)
            names[of_side] = f"vocab.{of_side}.pieces"
            try:
                content = piece_list([*SYMBOLS, *(each for each in tokens if each not in SYMBOLS)], model.read_bytes())
            except OSError as error:
                raise UserError(f"`vocab_file`: {model} cannot be read ({error.strerror})") from error
            (folder / names[of_side]).write_bytes(content)
        digest = file_sha256(source / "model.bin")
        return {
            "run": source.resolve().name,
            "problem": problem.name,
            "has_inputs": True,
            "writes_trees": False,
            "source_language": source_language,
            "output_language": output_language,
            "checkpoint": {"name": "model.bin", "step": 0, "members": [], "sha256": digest},
            # CTranslate2 adds the end symbol if its config.json says so.
            "hparams": {"source_end_symbol": False},
            "decode_hparams": vars(DecodeHParams(length_penalty="power", alpha=1.0)),  # as CTranslate2's own
            "vocabulary": names["targets"],
            "inputs_vocabulary": names["inputs"],
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
            "format": "ctranslate2",
            "quantization": None,
            "max_positions": _POSITIONS,
            "alignment_layer": -1,
            "versions": {"t2t-lite": t2t_lite.__version__},
        }

    export = write_export(output_dir, write)
    return Imported(export.path, export.path / "model.bin", 0, problem.name)


def _tokens(source: Path, side: str) -> list[str]:
    """Returns the tokens of a side, "source" or "target"."""
    for name in (f"{side}_vocabulary", "shared_vocabulary"):
        for file in (source / f"{name}.json", source / f"{name}.txt"):
            if file.is_file():
                try:
                    text = file.read_text(encoding="utf-8")
                    tokens = json.loads(text) if file.suffix == ".json" else text.removesuffix("\n").split("\n")
                    if not isinstance(tokens, list) or not {*SYMBOLS[1:]} <= {*map(str, tokens)}:
                        raise ValueError("no tokens </s> and <unk>")
                except (ValueError, RecursionError) as error:
                    raise UserError(f"{file} is no list of tokens ({error}); convert the model again") from error
                return [*map(str, tokens)]
    raise UserError(f"{source} has no {side}_vocabulary.json; pass the folder of a CTranslate2 model")
