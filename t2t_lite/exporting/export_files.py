"""Writes the files of an export: the model, its vocabularies and the model card."""

import contextlib
import dataclasses
import datetime
import importlib.metadata
import shutil
from pathlib import Path
from typing import Any

from t2t_lite.decoding.ctranslate2_engine import check_settings
from t2t_lite.decoding.export_dir import MODEL_CARD
from t2t_lite.decoding.loading import ModelSource
from t2t_lite.errors import UserError
from t2t_lite.evaluation.stored import stored_evaluations
from t2t_lite.exporting.model_card import model_card
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.runs import checkpoints
from t2t_lite.runs.checkpoint_files import checkpoint_digest, checkpoint_step

_PACKAGES = {"saved_model": ("tensorflow", "tensorflow-text"), "ctranslate2": ("ctranslate2",), "keras": ("keras",)}


@dataclasses.dataclass(frozen=True)
class Export:
    """An export to write; see `export`."""

    source: ModelSource  # a run
    format: str
    quantization: str | None
    name: str  # of the export, for the model card

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Writes all files except export.json. Returns the content of export.json without checksums."""
        run_dir, checkpoint, settings = self.source.run_dir, self.source.selection.path, self.source.settings
        targets, inputs = self.source.vocabularies
        # The weights are float32, whatever precision the training used.
        (model,) = self.source.models("float32")
        max_positions = model.max_positions
        if self.format == "ctranslate2":
            from t2t_lite.exporting import ctranslate2_model

            check_settings(settings.replace(only_trees=False))
            names = targets.tokens(), inputs.tokens()
            ctranslate2_model.write(model, *names, folder, self.quantization, targets.unknown_id)
            max_positions = max_positions or ctranslate2_model.POSITIONS
        elif self.format == "saved_model":
            from t2t_lite.exporting import saved_model

            saved_model.check(settings, run_dir.problem.has_inputs)
            saved_model.write(model, targets, inputs, settings, folder)
        else:
            model.save(folder / "model.keras")
        for path in dict.fromkeys((run_dir.vocabulary, run_dir.inputs_vocabulary)):
            shutil.copyfile(path, folder / path.name)
        alignment_layer = None
        with contextlib.suppress(UserError):  # a model without word alignments
            alignment_layer = model.alignment_layer
        packages = ("t2t-lite", *_PACKAGES[self.format])
        content = self._content(model) | {
            "format": self.format,
            "quantization": self.quantization,
            "max_positions": max_positions,
            "alignment_layer": alignment_layer,
            "versions": {package: importlib.metadata.version(package) for package in packages},
        }
        stored = [each for split in ("test", "dev") for each in stored_evaluations(run_dir, split, checkpoint)]
        scores = [each for each in stored if each.decode_hparams == vars(settings)]
        example = (scores[0].inputs or [""])[0] if scores else "..."
        (folder / MODEL_CARD).write_text(model_card(content, self.name, scores, example), encoding="utf-8")
        return content

    def _content(self, model: Seq2SeqModel) -> dict[str, Any]:
        """Returns the part of export.json that does not depend on the format."""
        source, run_dir, checkpoint = self.source, self.source.run_dir, self.source.selection.path
        return {
            "run": run_dir.path.resolve().name,
            "problem": source.problem,
            "has_inputs": source.has_inputs,
            "writes_trees": source.writes_trees,
            "source_language": source.source_language,
            "output_language": source.target_language,
            "checkpoint": {
                "name": checkpoint.name,
                "step": checkpoint_step(checkpoint),
                "members": checkpoints.average_members(checkpoint),
                "sha256": checkpoint_digest(checkpoint),
            },
            "hparams": vars(model.hparams),
            "parameters": model.count_params(),
            "decode_hparams": vars(source.settings),
            "vocabulary": run_dir.vocabulary.name,
            "inputs_vocabulary": run_dir.inputs_vocabulary.name,
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        }
