"""Requests for evaluation: a checkpoint of a run, a split, search settings and references."""

import dataclasses
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from t2t_lite.config import DecodeHParams, names_in
from t2t_lite.data.problem import SIDES
from t2t_lite.data.text_files import read_lines
from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.evaluation.options import EvalOptions
from t2t_lite.files import file_sha256
from t2t_lite.plugins import code_digest
from t2t_lite.registry import CONSTRAINTS, METRICS, PROBLEMS, REGISTRIES_OF_SETTINGS, SCORERS, Registry
from t2t_lite.runs.checkpoint_files import INDEX
from t2t_lite.runs.run_dir import RunDir
from t2t_lite.runs.selection import Selection, select
from t2t_lite.runs.tuned_settings import search_settings

FOLDER = "scores"
# Settings that a folder's name always contains.
_NAMED = ("beam_size", "alpha")
_MAX_NAME = 150  # in characters; file systems allow 255 bytes


@dataclasses.dataclass(frozen=True)
class Request:
    run_dir: RunDir
    split: str  # "dev" or "test"
    data_dir: Path  # the folder with the data of the run's problem
    selection: Selection  # the checkpoint
    settings: DecodeHParams  # the search settings
    references: tuple[Path, ...] = ()  # additional reference files
    again: bool = False  # whether to decode even if the outputs are stored
    xla_compile: bool | None = None  # whether to compile the search with XLA; None: once it pays off
    warn: Callable[[str], None] = LOG.warning  # receives warnings about the search

    @property
    def folder(self) -> Path:
        """The folder in the run directory, named after split, checkpoint and settings."""
        usual = DecodeHParams()
        values = dataclasses.asdict(self.settings)
        named = {name: value for name, value in values.items() if name in _NAMED or value != getattr(usual, name)}
        settings = ",".join(
            f"{name}={value:g}" if type(value) is float else f"{name}={value}" for name, value in named.items()
        )
        return self.run_dir.path / FOLDER / folder_name(self.split, self.selection.path, settings)

    @property
    def text_paths(self) -> tuple[Path, Path]:
        """The files with the split's inputs and targets, in the direction of the problem."""
        problem = self.run_dir.problem
        inputs, targets = (
            self.data_dir / problem.text_filename(self.split, side) for side in problem.in_direction(SIDES)
        )
        return inputs, targets

    def decoded_by(self) -> dict[str, Any]:
        """Returns everything that outputs depend on, as JSON data; equal data means equal outputs."""
        code = code_of_outputs(self.run_dir, self.settings)
        return {
            "problem": self.run_dir.problem.name,
            "split": self.split,
            "checkpoint": file_sha256(Path(f"{self.selection.path}{INDEX}")),  # contains the checksums of the weights
            "decode_hparams": dataclasses.asdict(self.settings),
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


def make_request(
    run_dir: RunDir,
    options: EvalOptions,
    warn: Callable[[str], None] = LOG.warning,
    ignored: Collection[str] = (),
) -> Request:
    """Checks the options and returns the request. For `warn` and `ignored` see `search_settings`."""
    data_dir, references = options.data_dir, options.references
    settings = search_settings(run_dir.path, run_dir.problem.decode_hparams, options.decode_hparams, warn, ignored)
    for path in references:
        if not Path(path).is_file():
            raise UserError(f"`references`: no such file: {path}")
    selection = select(run_dir.path, options.checkpoint_path or None, warn)
    paths = tuple(map(Path, references))
    folder = run_dir.data_dir if data_dir is None else Path(data_dir)
    if folder is None:
        raise UserError(
            f"{run_dir.path} does not record where its data is, because it is older than version 0.5; pass `data_dir`"
        )
    if data_dir is None and not folder.is_dir():
        raise UserError(f"the data of {run_dir.path} is no longer in {folder}; pass its folder with `data_dir`")
    how = (options.again, options.xla_compile, warn)
    request = Request(run_dir, options.split, folder, selection, settings, paths, *how)
    for path in request.text_paths:
        if not path.exists():
            raise UserError(
                f"{path} is missing: `data_dir={request.data_dir}` has no complete data for '{run_dir.problem.name}'; "
                f"pass the folder that t2t-lite-datagen wrote"
            )
    return request
