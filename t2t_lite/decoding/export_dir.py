"""Export directories. Each holds a trained model and everything needed to use it without its run directory.

export.json         its format, problem, search settings and vocabularies, and the checksums of all other files
README.md           the model card, for people
vocab.*             the vocabulary, or those of both sides
the model           saved_model.pb and variables/; or model.bin, config.json and *_vocabulary.json; or model.keras;
                    or NAME.argosmodel
"""

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from t2t_lite.config import DecodeHParams
from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.files import file_sha256, written_folder

MANIFEST, MODEL_CARD = "export.json", "README.md"
FORMATS = ("saved_model", "ctranslate2", "keras", "argos")


@dataclasses.dataclass(frozen=True)
class ExportDir:
    path: Path
    content: dict[str, Any]  # the content of export.json
    is_checked: bool = False  # whether its files are known to be there and unchanged

    @property
    def format(self) -> str:
        return self.content["format"]

    @property
    def decode_hparams(self) -> DecodeHParams:
        return DecodeHParams().replace(**self.content["decode_hparams"])

    @property
    def files(self) -> list[Path]:
        return [self.path / name for name in (MANIFEST, *self.content["files"])]

    @property
    def vocabulary(self) -> Path:
        return self.path / self.content["vocabulary"]

    @property
    def inputs_vocabulary(self) -> Path:
        """The vocabulary of the inputs; the same path as `vocabulary` if both sides share one."""
        return self.path / self.content["inputs_vocabulary"]


def read_export(path: str | os.PathLike) -> ExportDir:
    """Reads the description of an export without checking its files. Raises UserError if it is not an export."""
    path = Path(path)
    try:
        content = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        _ = [(entry["bytes"], entry["sha256"]) for entry in content["files"].values()]
        export = ExportDir(path, content)
        if content["format"] not in FORMATS:
            raise UserError(f"{path / MANIFEST}: unknown format '{content['format']}'; install a newer t2t-lite")
        _ = export.vocabulary, export.inputs_vocabulary, export.decode_hparams, content["checkpoint"]["name"]
        _ = [content[name] for name in ("problem", "has_inputs", "writes_trees", "max_positions", "alignment_layer")]
        for name in (*content["files"], content["vocabulary"], content["inputs_vocabulary"]):
            if not (path / name).resolve().is_relative_to(path.resolve()):
                raise UserError(f"{path / MANIFEST} names {name}, which is not in the export; export the model again")
            if name not in content["files"]:
                raise UserError(f"{path / MANIFEST} has no checksum of {name}; export the model again")
        return export
    except OSError as error:
        raise UserError(
            f"{path} is not an export directory: it has no {MANIFEST}; create one with t2t-lite-export"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path / MANIFEST} is damaged ({error!r}); export the model again") from error


def open_export(path: str | os.PathLike) -> ExportDir:
    """Reads the description of an export directory, and checks that all its files are there and unchanged."""
    return check_files(read_export(path))


def check_files(export: ExportDir) -> ExportDir:
    """Checks that all files of an export are there and unchanged, unless this is known, and returns it as checked."""
    for name, entry in () if export.is_checked else export.content["files"].items():
        file, size, digest = export.path / name, entry["bytes"], entry["sha256"]
        if not file.is_file():
            raise UserError(f"{export.path} lacks {name}; copy the whole directory, or export the model again")
        if (found := file.stat().st_size) != size:
            raise UserError(f"{file} has {found:,} bytes instead of {size:,}; copy it again, or export the model again")
        if file_sha256(file) != digest:
            raise UserError(f"{file} was changed since the export; copy it again, or export the model again")
    return dataclasses.replace(export, is_checked=True)


def check_loadable(export: ExportDir) -> ExportDir:
    """Does what `check_files` does. Raises UserError also for a SavedModel, which has its own search."""
    export = check_files(export)
    if export.format in ("saved_model", "argos"):
        is_argos = export.format == "argos"
        kind, program = ("an Argos package", "Argos Translate") if is_argos else ("a SavedModel", "TensorFlow")
        raise UserError(
            f"{export.path} is {kind}, which t2t-lite does not load; load it with {program} (see "
            f"{export.path / MODEL_CARD}), or export the run with --format=ctranslate2 or keras"
        )
    return export


def open_keras_export(path: str | os.PathLike) -> ExportDir:
    """Opens an export as `open_export` does. Raises UserError also if its format is not keras."""
    export = open_export(path)
    if export.format != "keras":
        raise UserError(f"{path} has the format {export.format}; export the run with --format=keras")
    return export


def write_export(path: Path, write: Callable[[Path], dict[str, Any]]) -> ExportDir:
    """Writes an export directory atomically. Replaces an existing one; call `check_target` first.

    `write` writes all files except export.json into the given folder, and returns the content of export.json without
    the list of files.
    """
    with written_folder(path, "`export_dir`") as folder:
        content = write(folder)
        described = {
            file.relative_to(folder).as_posix(): {"bytes": file.stat().st_size, "sha256": file_sha256(file)}
            for file in sorted(file for file in folder.rglob("*") if file.is_file())
        }
        text = json.dumps(content | {"files": described}, indent=2, ensure_ascii=False)
        (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")
    return ExportDir(path, content | {"files": described}, is_checked=True)


def check_target(path: Path, overwrite: bool) -> None:
    """Raises UserError if an export must not be written to `path`. With `overwrite`, it may replace an export."""
    if not path.exists():
        return
    if not path.is_dir() or (any(path.iterdir()) and not (path / MANIFEST).exists()):
        raise UserError(f"`export_dir={path}` exists and is not an export; pass a new folder")
    if (path / MANIFEST).exists() and not overwrite:
        raise UserError(
            f"`export_dir={path}` is already an export; pass a new folder, or pass --overwrite to replace it"
        )
    if (path / MANIFEST).exists():
        known = {MANIFEST, *read_export(path).content["files"]}
        if others := {str(file.relative_to(path)) for file in path.rglob("*") if not file.is_dir()} - known:
            raise UserError(
                f"`export_dir={path}` also contains {min(others)}, which is not part of the export; move it away"
            )


def warn_of_version(export: ExportDir, warn: Callable[[str], None] = LOG.warning) -> None:
    import t2t_lite

    def numbers(version: str) -> list[int]:
        return [int(part) for part in version.split(".")[:2] if part.isdigit()]

    wrote = str(export.content.get("versions", {}).get("t2t-lite", ""))
    if numbers(wrote) > numbers(t2t_lite.__version__):
        warn(f"{export.path} was written by t2t-lite {wrote}, but this is {t2t_lite.__version__}; upgrade if it fails")
