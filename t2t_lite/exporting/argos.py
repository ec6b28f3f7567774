"""Packages for Argos Translate and LibreTranslate: a zip with a CTranslate2 model and its SentencePiece model.

These programs split a text into sentences, cut each into pieces, and translate them with CTranslate2, a beam of 4 and a
length penalty of 0.2. Then they join the pieces of all sentences.
"""

import contextlib
import json
import re
import shutil
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import sentencepiece

from t2t_lite.data.problem import SIDES
from t2t_lite.data.text_files import read_lines
from t2t_lite.data.vocab import UNKNOWN_ID, Vocabulary
from t2t_lite.data.vocab.sentencepiece import SentencePieceVocabulary
from t2t_lite.decoding.loading import ModelSource
from t2t_lite.errors import UserError
from t2t_lite.evaluation.stored import SplitScores
from t2t_lite.exporting import ctranslate2_model
from t2t_lite.exporting.options import ExportOptions
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.runs.run_dir import RunDir
from t2t_lite.scoring.text_metrics import Bleu
from t2t_lite.system.installed import check_installed

# Codes of languages that are not their first part.
CODES = {"pt-BR": "pb", "zh-Hans": "zh", "zh-Hant": "zt", "zh-CN": "zh", "zh-TW": "zt"}
SEARCH: dict[str, Any] = {"beam_size": 4, "length_penalty": 0.2, "replace_unknowns": True}
_ARGOS_VERSION = "1.9.0"  # of Argos Translate; packages of this version are usual
_FEW = 0.05  # share of lines whose pieces may differ, for example because their punctuation is normalized first
_ADVICE = "train with --vocab_kind=bpe, and without --normalize_whitespace=False"


def write(
    folder: Path,
    model: Seq2SeqModel,
    source: ModelSource,
    options: ExportOptions,
    scores: Sequence[SplitScores],
    warn: Callable[[str], None],
) -> dict[str, Any]:
    """Writes the files of a package into a new folder inside of `folder`, but not its README.md.

    Args:
      folder: where the package's own folder is made, whose name says the languages and the version.
      model: the built model of `source`, with its weights.
      options: have the version of the package, and the type of the weights; by default int8.
      scores: the stored evaluations of the model; the first one is repeated under the settings of Argos Translate.

    Returns:
      the content of metadata.json, with "package", the package's name, and "scores", a sentence.

    Raises:
      UserError: if the languages are unknown, or SentencePiece alone cuts or joins texts otherwise.
    """
    check_installed("an Argos package", {"babel": "Babel"}, "argos")
    import babel

    if not source.source_language or not source.target_language:
        raise UserError("Argos packages need the languages of the model; pass `languages` to t2t-lite-datagen")
    about = {"package_version": options.package_version, "argos_version": _ARGOS_VERSION}
    for side, language in (("from", source.source_language), ("to", source.target_language)):
        about[f"{side}_name"] = language
        about[f"{side}_code"] = CODES.get(language, language.partition("-")[0].lower())
        with contextlib.suppress(ValueError, babel.UnknownLocaleError):
            about[f"{side}_name"] = babel.Locale.parse(language, sep="-").get_display_name("en") or language
    targets, inputs = source.vocabularies
    pieces = _checked_pieces(inputs, targets, source.run_dir, warn)
    name = f"translate-{about['from_code']}_{about['to_code']}-{re.sub('[^0-9A-Za-z]', '_', options.package_version)}"
    package = folder / name
    (package / "model").mkdir(parents=True)
    (package / "metadata.json").write_text(json.dumps(about, indent=2, ensure_ascii=False), encoding="utf-8")
    (package / "sentencepiece.model").write_bytes(pieces)
    tokens = targets.tokens(), inputs.tokens()
    given = options.quantization or "int8", targets.unknown_id, model.hparams.source_end_symbol
    ctranslate2_model.write(model, *tokens, package / "model", *given)
    found = ""
    if scores and (ours := scores[0].bleu) is not None:
        bleu = _score(package, scores[0], source.target_language)
        found = f"With these settings, the BLEU on {scores[0].split} is {bleu:.2f}; with those of t2t-lite, {ours:.2f}."
    return about | {"package": f"{name}.argosmodel", "scores": found}


def _checked_pieces(inputs: Vocabulary, targets: Vocabulary, run_dir: RunDir, warn: Callable[[str], None]) -> bytes:
    """Returns the SentencePiece model for a package, and checks it on the dev texts, if these are there.

    It must cut the sources into the same pieces as the vocabulary, and make the same text of pieces of the targets.
    Raises UserError if it does not; `warn` receives a line if this holds except for a few lines.
    """
    if not isinstance(inputs, SentencePieceVocabulary) or not isinstance(targets, SentencePieceVocabulary):
        raise UserError(f"Argos packages need tokens by SentencePiece; {_ADVICE}")
    processor = sentencepiece.SentencePieceProcessor(model_proto=inputs.model)
    if processor.decode_pieces(processor.encode("a b", out_type=str)[:1] * 2).count(" ") != 1:
        raise UserError(f"Argos packages need tokens of which the first of a sentence begins with a blank; {_ADVICE}")
    names = inputs.tokens(), targets.tokens()
    known, unknown = {*names[0]}, names[0][UNKNOWN_ID]

    def cuts(line: str, ids: list[int]) -> bool:
        pieces = processor.encode(line, out_type=str)
        return [piece if piece in known else unknown for piece in pieces] == [names[0][id] for id in ids[:-1]]

    def joins(line: str, ids: list[int]) -> bool:
        del line
        joined = _joined(processor, [names[1][id] for id in ids[:-1]])
        return UNKNOWN_ID in ids or joined == targets.decode([ids])[0].replace("_", " ")

    sides = run_dir.problem.in_direction(SIDES)
    files = [run_dir.data_dir / run_dir.problem.text_filename("dev", side) for side in sides if run_dir.data_dir]
    if not any(map(Path.exists, files)):
        warn("the data that the model was trained on is not there, so its pieces are not checked")
    for file, vocabulary, is_right, what in zip(files, (inputs, targets), (cuts, joins), ("cuts", "joins")):
        lines = [*read_lines(file)] if file.exists() else []
        others = [line for line, ids in zip(lines, vocabulary.ids_of(lines)) if not is_right(line, ids)]
        about = f"SentencePiece alone {what} {len(others):,} of {len(lines):,} lines in {file} otherwise, such as "
        if len(others) > _FEW * len(lines):
            raise UserError(f"{about}{others[0]!r:.80}; {_ADVICE}")
        if others:
            warn(f"{about}{others[0]!r:.80}")
    return inputs.model


def _joined(processor: sentencepiece.SentencePieceProcessor, pieces: list[str]) -> str:
    """Returns the text of some pieces as Argos Translate makes it."""
    return processor.decode_pieces(pieces).replace("\u2581", " ").replace("_", " ").removeprefix(" ")


def _score(package: Path, stored: SplitScores, language: str) -> float:
    """Returns the BLEU of a package's folder on a split under the settings of Argos Translate."""
    import ctranslate2

    processor = sentencepiece.SentencePieceProcessor(model_file=str(package / "sentencepiece.model"))
    pieces = [processor.encode(line, out_type=str) for line in stored.inputs]
    translator = ctranslate2.Translator(str(package / "model"))
    found = translator.translate_batch(pieces, max_batch_size=2048, batch_type="tokens", **SEARCH)
    outputs = [_joined(processor, each.hypotheses[0]) for each in found]
    return Bleu(language=language).score(outputs, *stored.references)


def pack(folder: Path, card: str) -> None:
    """Adds the model card to the package's folder, and moves it into a zip. The same content makes the same bytes."""
    (folder / "README.md").write_text(card, encoding="utf-8")
    with zipfile.ZipFile(folder.with_name(f"{folder.name}.argosmodel"), "w") as package:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            about = zipfile.ZipInfo(path.relative_to(folder.parent).as_posix())  # without the date
            about.compress_type, about.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            with open(path, "rb") as content, package.open(about, "w", force_zip64=True) as packed:
                shutil.copyfileobj(content, packed)
    shutil.rmtree(folder)
