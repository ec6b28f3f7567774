"""Returns the model that the decoder's flags select: run directories or an export."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from t2t_lite.bin import cli
from t2t_lite.config import DecodeHParams
from t2t_lite.decoding.export_dir import MANIFEST, read_export
from t2t_lite.errors import UserError
from t2t_lite.exporting.export import exported_run
from t2t_lite.files import file_sha256
from t2t_lite.runs.checkpoint_files import INDEX
from t2t_lite.runs.run_dir import open_run_dir, run_files
from t2t_lite.runs.selection import select
from t2t_lite.runs.tuned_settings import search_settings
from t2t_lite.system.machine import keep_compiled, use_one_thread_per_operation
from t2t_lite.system.tensorflow import import_tensorflow

if TYPE_CHECKING:
    from t2t_lite.decoding.translator import Translator


class ChosenModel(NamedTuple):
    """The properties of a model that are known before loading it, which may take seconds."""

    where: str  # for messages
    settings: DecodeHParams
    writes_trees: bool
    files: list[Path]  # the model's files, which outputs must not overwrite
    load: "Callable[[], Translator]"


def chosen_model(arguments: argparse.Namespace) -> ChosenModel:
    """Returns the model that the flags select, after all checks that do not need TensorFlow."""
    if arguments.export_dir:
        return _of_export(arguments, Path(arguments.export_dir), arguments.decode_hparams)
    runs = [Path(run) for run in arguments.output_dir]
    cli.trust_plugins(arguments, arguments.output_dir)
    if arguments.engine == "ctranslate2":  # exports the run first if necessary
        if len(runs) > 1:
            raise UserError(
                "--engine=ctranslate2 supports only one model; use --engine=tensorflow for several run directories"
            )
        (run,) = runs
        usual = open_run_dir(run).problem.decode_hparams
        settings = search_settings(run, usual, arguments.decode_hparams, cli.warn)
        _check_ctranslate2(arguments, settings)
        export_dir = exported_run(run, arguments.checkpoint_path or None, settings, cli.warn)
        model = _of_export(arguments, export_dir, vars(settings))
        return model._replace(where=str(run), files=[*model.files, *run_files(run)])
    problems = [open_run_dir(run).problem for run in runs]
    checkpoint_path = arguments.checkpoint_path or None
    chosen = [select(run, checkpoint_path, warn=lambda line: None) for run in runs]
    usual = problems[0].decode_hparams
    settings = search_settings(runs[0], usual, arguments.decode_hparams, warn=lambda line: None)

    def load() -> "Translator":
        _prepare(arguments)
        import_tensorflow()
        from t2t_lite.decoding.translator import Translator

        translator = Translator.from_run_dir(
            runs, arguments.decode_hparams, checkpoint_path, cli.warn, xla_compile=arguments.xla_compile
        )
        used = [selection._replace(path=path) for selection, path in zip(chosen, translator.checkpoints, strict=True)]
        cli.warn(f"using {', '.join(map(str, used))}")
        return translator

    files = [file for run in runs for file in run_files(run)]
    return ChosenModel(",".join(arguments.output_dir), settings, problems[0].writes_trees, files, load)


def fixed_model(arguments: argparse.Namespace, settings: DecodeHParams) -> dict[str, Any]:
    """Returns, as a JSON object, the model and the settings that outputs depend on, the same on every machine.

    Sets --checkpoint_path to the checkpoint of a single run, because workers may start after the run has a new one.
    """
    if arguments.export_dir:
        files = [Path(arguments.export_dir) / MANIFEST]
    else:
        runs = [Path(run) for run in arguments.output_dir]
        chosen = [select(run, arguments.checkpoint_path or None, lambda line: None).path for run in runs]
        if len(runs) == 1:
            arguments.checkpoint_path = str(chosen[0])
        files = [Path(f"{path}{INDEX}") for path in chosen]
    flags = {name: getattr(arguments, name) for name in ("engine", "tokenizer", "batch_lines", "alignment_layer")}
    found = {"model": [file_sha256(path) for path in files], "flags": flags, "settings": vars(settings)}
    return json.loads(json.dumps(found))


def _of_export(arguments: argparse.Namespace, path: Path, decode_hparams: str | dict[str, str | float]) -> ChosenModel:
    export = read_export(path)
    engine = "ctranslate2" if export.format == "ctranslate2" else "tensorflow"
    if arguments.engine not in (None, engine):
        raise UserError(f"--engine={arguments.engine}: {path} was exported for {engine}; omit --engine", status=2)
    settings = export.decode_hparams.changed(decode_hparams)
    if engine == "ctranslate2":
        _check_ctranslate2(arguments, settings, export.content["alignment_layer"])

    def load() -> "Translator":
        from t2t_lite.decoding.translator import Translator

        if engine == "tensorflow":
            _prepare(arguments)
        translator = Translator.from_export(path, decode_hparams, cli.warn, xla_compile=arguments.xla_compile)
        cli.warn(f"using {path} ({export.content['checkpoint']['name']}, {engine})")
        return translator

    files = [path / name for name in (MANIFEST, *export.content["files"])]
    return ChosenModel(str(path), settings, export.content["writes_trees"], files, load)


def _prepare(arguments: argparse.Namespace) -> None:
    keep_compiled()
    if not arguments.xla_compile:
        use_one_thread_per_operation()


def _check_ctranslate2(arguments: argparse.Namespace, settings: DecodeHParams, layer: int | None = None) -> None:
    from t2t_lite.decoding.ctranslate2_engine import check_settings

    phrases, alignment_layer = bool(arguments.constraint_file), arguments.alignment_layer
    check_settings(settings, layer, phrases, alignment_layer=alignment_layer)
