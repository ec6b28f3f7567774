"""Finds what is stored of a checkpoint in a run directory, without its data."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from t2t_lite.checkpoints.selection import select
from t2t_lite.checkpoints.versions import INDEX
from t2t_lite.config import DecodeHParams
from t2t_lite.errors import UserError
from t2t_lite.evaluation.request import FOLDER, code_of_outputs, folder_name
from t2t_lite.evaluation.split_scores import SplitScores, read_scores
from t2t_lite.files import sha256_of
from t2t_lite.run_dir import RunDir
from t2t_lite.tuned_settings import search_settings


def stored_evaluation(run_dir: RunDir, split: str, checkpoint_path: str | PathLike | None) -> SplitScores:
    """Returns the stored evaluation of a checkpoint: that with the run's own search settings, else the only one.

    Args:
      run_dir: the run.
      split: "dev" or "test".
      checkpoint_path: which checkpoint, see `checkpoints.selection`.

    Raises:
      UserError: if there is none, or there are several with other settings.
    """
    checkpoint = select(run_dir.path, checkpoint_path).path
    stored = stored_evaluations(run_dir, split, checkpoint)
    if not stored:
        raise UserError(
            f"{run_dir.path} has no scores of {checkpoint.name} on {split}; t2t-lite-eval --output_dir={run_dir.path} "
            f"--split={split} makes them"
        )
    own = vars(search_settings(run_dir.path, run_dir.problem.decode_hparams, warn=lambda line: None))
    of_own = [one for one in stored if one.decode_hparams == own]
    if not of_own and len(stored) > 1:
        names = ", ".join(one.path.name for one in stored)
        raise UserError(
            f"{run_dir.path} has scores of {checkpoint.name} with several settings ({names}); give one with "
            f"`hypothesis={stored[0].path}/hypotheses.txt`"
        )
    return (of_own or stored)[0]


def stored_evaluations(run_dir: RunDir, split: str, checkpoint: Path) -> list[SplitScores]:
    """Returns all stored evaluations of a checkpoint by the code of today.

    Args:
      run_dir: the run.
      split: "dev" or "test".
      checkpoint: the checkpoint's path, without suffix.
    """
    digest = sha256_of(Path(f"{checkpoint}{INDEX}"))
    folders = sorted((run_dir.path / FOLDER).glob(f"{folder_name(split, checkpoint, '')}*"))
    found = [read_scores(folder, run_dir.path, checkpoint) for folder in folders]
    return [
        one
        for one in found
        if one
        and one.content["decoded_by"]["checkpoint"] == digest
        and one.content["decoded_by"].get("plugins", "") == _code_of(run_dir, one.decode_hparams)
    ]


def _code_of(run_dir: RunDir, settings: Mapping[str, Any]) -> str:
    known = {name: value for name, value in settings.items() if name in DecodeHParams.names()}
    return code_of_outputs(run_dir, DecodeHParams().replace(**known))
