"""Loads exported models for decoding: with CTranslate2 without TensorFlow, a Keras model with it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from t2t_lite.config import DecodeHParams
from t2t_lite.data.vocab import Vocabulary, open_vocabulary
from t2t_lite.decoding.engine import Engine
from t2t_lite.decoding.tokenizing import LEARNED_POSITIONS
from t2t_lite.errors import UserError
from t2t_lite.export_dir import ExportDir, open_export, warn_of_version
from t2t_lite.settings import SettingValue


class LoadedExport(NamedTuple):
    """The parts of a translator that are loaded from an export directory."""

    engine: Engine
    vocabulary: Vocabulary  # of the targets
    inputs_vocabulary: Vocabulary
    decode_hparams: DecodeHParams
    problem: str  # its name
    has_inputs: bool  # see `Problem`


def load_export(
    path: Path,
    decode_hparams: str | Mapping[str, SettingValue],
    warn: Callable[[str], None],
    xla_compile: bool | None,
    num_threads: int | None,
) -> LoadedExport:
    """Loads an export directory; for arguments and errors see `Translator.from_export`."""
    export = open_export(path)
    warn_of_version(export, warn)
    targets, *others = (open_vocabulary(file) for file in dict.fromkeys((export.vocabulary, export.inputs_vocabulary)))
    inputs = others[0] if others else targets
    settings = export.decode_hparams.changed(decode_hparams)
    engine: Engine
    if export.format == "ctranslate2":
        from t2t_lite.decoding.ctranslate2_engine import CTranslate2Engine

        is_learned = export.content["hparams"].get("position_encoding") == "learned"
        engine = CTranslate2Engine(
            path,
            targets,
            inputs,
            export.content["max_positions"],
            LEARNED_POSITIONS if is_learned else "the limit of the export",
            export.content["alignment_layer"],
            digest=export.content["files"]["model.bin"]["sha256"],
            warn=warn,
            num_threads=num_threads,
        )
    elif export.format == "keras":
        engine = _keras_engine(export, targets, inputs, settings.precision, warn, xla_compile, num_threads)
    else:
        raise UserError(
            f"{path} is a SavedModel, which searches on its own: load it with TensorFlow, see {path / 'README.md'}; "
            f"for t2t-lite export the run with --format=ctranslate2 or keras"
        )
    content = export.content
    return LoadedExport(engine, targets, inputs, settings, content["problem"], content["has_inputs"])


def _keras_engine(
    export: ExportDir,
    vocabulary: Vocabulary,
    inputs_vocabulary: Vocabulary,
    precision: str,
    warn: Callable[[str], None],
    xla_compile: bool | None,
    num_threads: int | None,
) -> Engine:
    from t2t_lite.quiet import import_tensorflow

    import_tensorflow()
    from t2t_lite.decoding.tensorflow_engine import TensorFlowEngine
    from t2t_lite.models.building import make_model
    from t2t_lite.models.loading import load_model_file

    file = export.path / "model.keras"
    model = load_model_file(file)
    if precision != model.hparams.precision:
        weights, hparams = model.get_weights(), model.hparams.replace(precision=precision)
        model = make_model(hparams, vocabulary.size, inputs_vocabulary.size)
        model.set_weights(weights)
    model.freeze()
    digest = export.content["files"][file.name]["sha256"]
    of_both = vocabulary, inputs_vocabulary
    return TensorFlowEngine(model, *of_both, warn, xla_compile, num_threads, digest=digest)
