"""Loads exported models for decoding: CTranslate2 models without TensorFlow, Keras models with it."""

from collections.abc import Mapping
from pathlib import Path

from t2t_lite.config import DecodeHParams
from t2t_lite.data.vocab import Vocabulary, open_vocabulary
from t2t_lite.decoding.engine import Engine, Loaded
from t2t_lite.decoding.export_dir import ExportDir, open_export, warn_of_version
from t2t_lite.decoding.options import EngineOptions
from t2t_lite.decoding.tokenizing import LEARNED_POSITIONS
from t2t_lite.errors import UserError
from t2t_lite.options import SettingValue


def load_export(path: Path, decode_hparams: str | Mapping[str, SettingValue], options: EngineOptions) -> Loaded:
    """Loads an export directory; for arguments and errors see `Translator.from_export`."""
    export = open_export(path)
    warn_of_version(export, options.warn)
    targets, *others = (open_vocabulary(file) for file in dict.fromkeys((export.vocabulary, export.inputs_vocabulary)))
    vocabularies = targets, others[0] if others else targets
    settings, content = export.decode_hparams.changed(decode_hparams), export.content
    engine: Engine
    if export.format == "ctranslate2":
        from t2t_lite.decoding.ctranslate2_engine import CTranslate2Engine

        is_learned = content["hparams"].get("position_encoding") == "learned"
        engine = CTranslate2Engine(
            path,
            *vocabularies,
            content["max_positions"],
            LEARNED_POSITIONS if is_learned else "the limit of the export",
            content["alignment_layer"],
            options,
            digest=content["files"]["model.bin"]["sha256"],
            quantization=content.get("quantization"),
        )
    elif export.format == "keras":
        engine = _keras_engine(export, vocabularies, settings, options)
    else:
        raise UserError(
            f"{path} is a SavedModel, which t2t-lite does not load; load it with TensorFlow (see "
            f"{path / 'README.md'}), or export the run with --format=ctranslate2 or keras"
        )
    return Loaded(engine, *vocabularies, settings, content["problem"], content["has_inputs"])


def _keras_engine(
    export: ExportDir, vocabularies: tuple[Vocabulary, Vocabulary], settings: DecodeHParams, options: EngineOptions
) -> Engine:
    from t2t_lite.system.tensorflow import import_tensorflow

    import_tensorflow()
    from t2t_lite.decoding.tensorflow_engine import TensorFlowEngine
    from t2t_lite.models.building import make_model
    from t2t_lite.models.loading import load_model_file

    file = export.path / "model.keras"
    model = load_model_file(file)
    if settings.precision != model.hparams.precision:
        weights, hparams = model.get_weights(), model.hparams.replace(precision=settings.precision)
        model = make_model(hparams, *(each.size for each in vocabularies))
        model.set_weights(weights)
    model.measured_alignment_layer = export.content["alignment_layer"]
    model.freeze()
    digest = export.content["files"][file.name]["sha256"]
    return TensorFlowEngine(model, *vocabularies, options, digest=digest)
