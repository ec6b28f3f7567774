"""Requests for evaluation: a checkpoint of a run, a split, search settings and references."""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from t2t_lite.config import DecodeHParams, names_in
from t2t_lite.data.problem import SIDES
from t2t_lite.data.text_files import read_lines
from t2t_lite.decoding.loading import ModelSource
from t2t_lite.decoding.options import EngineOptions
from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.evaluation.options import EvalOptions
from t2t_lite.files import file_sha256
from t2t_lite.plugins import code_digest
from t2t_lite.registry import CONSTRAINTS, METRICS, PROBLEMS, REGISTRIES_OF_SETTINGS, SCORERS, Registry
from t2t_lite.runs.run_dir import RunDir

FOLDER = "scores"
# Settings that a folder's name always contains.
_NAMED = ("beam_size", "alpha")
_MAX_NAME = 150  # in characters; file systems allow 255 bytes


@dataclasses.dataclass(frozen=True)
class EvalRequest:
    """What to evaluate: a run with its checkpoint and search settings, on a split."""

    source: ModelSource  # its remarks were shown
    split: str  # "dev" or "test"
    data_dir: Path  # the folder with the data of the run's problem
    references: tuple[Path, ...]  # additional reference files
    again: bool  # whether to decode even if the outputs are stored
    options: EngineOptions

    @property
    def folder(self) -> Path:
        """The folder in the run directory, named after split, checkpoint and settings."""
        usual = DecodeHParams()
        values = dataclasses.asdict(self.source.settings)
        named = {name: value for name, value in values.items() if name in _NAMED or value != getattr(usual, name)}
        settings = ",".join(
            f"{name}={value:g}" if type(value) is float else f"{name}={value}" for name, value in named.items()
        )
        return self.source.run_dir.path / FOLDER / folder_name(self.split, self.source.selection.path, settings)

    @property
    def text_paths(self) -> tuple[Path, Path]:
        """The files with the split's inputs and targets, in the direction of the problem."""
        problem = self.source.run_dir.problem
        inputs, targets = (
            self.data_dir / problem.text_filename(self.split, side) for side in problem.in_direction(SIDES)
        )
        return inputs, targets

    def decoded_by(self) -> dict[str, Any]:
        """Returns everything that outputs depend on, as JSON data; equal data means equal outputs."""
        code = code_of_outputs(self.source.run_dir, self.source.settings)
        return {
            "problem": self.source.run_dir.problem.name,
            "split": self.split,
            "checkpoint": self.source.fingerprint()[0],
            "decode_hparams": dataclasses.asdict(self.source.settings),
            "inputs": file_sha256(self.text_paths[0]),
            "targets": file_sha256(self.text_paths[1]),
            **({"plugins": code} if code else {}),  # without plug-ins, the keys are the same as in earlier versions
        }

    def reference_digests(self) -> list[str]:
        return [file_sha256(path) for path in (self.text_paths[1], *self.references)]

    def texts(self) -> tuple[list[str], list[list[str]]]:
        inputs, *references = (list(read_lines(path)) for path in (*self.text_paths, *self.references))
        for path, lines in zip((self.text_paths[1], *self.references), references):
            if len(lines) != len(inputs):
                raise UserError(
                    f"{path} has {len(lines)} lines, but {self.text_paths[0]} has {len(inputs)}; line n of one must "
                    f"correspond to line n of the other"
                )
        return inputs, references


def code_of_outputs(run_dir: RunDir, settings: DecodeHParams) -> str:
    """Returns the `code_digest` of the registered code that determines the outputs and which are worst and best."""
    names: list[tuple[Registry, str]] = [
        (PROBLEMS, run_dir.problem.data_name),
        (METRICS, run_dir.problem.metric),
        *((registry, getattr(run_dir.hparams, name)) for name, registry in REGISTRIES_OF_SETTINGS.items()),
        *((CONSTRAINTS, name) for name in names_in(settings.constraints)),
        *((SCORERS, name) for name in names_in(settings.scorers)),
    ]
    return code_digest(names)


def folder_name(split: str, checkpoint: Path, settings: str) -> str:
    """Returns the name of a folder with scores, such as "test.average-8000.beam_size=4.alpha=0.6"."""
    name = re.sub(r"\.v\d+$", "", checkpoint.name)
    # No commas, because they separate files in flags.
    return re.sub(r"[^\w.=+-]", "_", f"{split}.{name}.{settings}".replace(",", "."))[:_MAX_NAME]


def make_request(source: ModelSource, options: EvalOptions, warn: Callable[[str], None] = LOG.warning) -> EvalRequest:
    """Checks the options and returns the request. `warn` receives the remarks, and warnings about the search."""
    run_dir = source.run_dir
    for line in source.settings_remarks:
        warn(line)
    references = tuple(map(Path, options.references))
    for path in references:
        if not path.is_file():
            raise UserError(f"`references`: no such file: {path}")
    for line in source.checkpoint_remarks:
        warn(line)
    source = dataclasses.replace(source, settings_remarks=(), checkpoint_remarks=())
    folder = run_dir.data_dir if options.data_dir is None else Path(options.data_dir)
    if folder is None:
        raise UserError(
            f"{run_dir.path} does not record where its data is, because it is older than version 0.5; pass `data_dir`"
        )
    if options.data_dir is None and not folder.is_dir():
        raise UserError(f"the data of {run_dir.path} is no longer in {folder}; pass its folder with `data_dir`")
    engine = EngineOptions(warn, options.xla_compile)
    request = EvalRequest(source, options.split, folder, references, options.again, engine)
    for path in request.text_paths:
        if not path.exists():
            raise UserError(
                f"{path} is missing: `data_dir={request.data_dir}` has no complete data for '{source.problem}'; "
                f"pass the folder that t2t-lite-datagen wrote"
            )
    return request
