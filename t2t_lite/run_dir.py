"""What a run directory holds, so that every tool needs only its path.

hparams.json        the settings
run.json            problem, vocabulary and the version that wrote them
vocab.*.subwords    a copy of the vocabulary
ckpt-<step>.*       checkpoints
average-<step>.*    an average of checkpoints, for inference only
train/, eval/       TensorBoard event files
"""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import t2t_lite
from t2t_lite.config import HParams
from t2t_lite.data.problem import Problem, get_problem
from t2t_lite.errors import UserError
from t2t_lite.files import sha256_of, write_text, written_whole

# How long to train and what to average may change between runs in one directory; what the model is may not.
_MAY_CHANGE = ("train_steps", "average_checkpoints")


@dataclasses.dataclass(frozen=True)
class RunDir:
    """An existing run directory, opened.

    Args:
      path: the directory.
      hparams: its settings.
      problem: its problem.
      vocabulary: the path of its vocabulary.
    """

    path: Path
    hparams: HParams
    problem: Problem
    vocabulary: Path


def open_run_dir(path: Path) -> RunDir:
    """Reads what a run directory says about itself.

    Raises:
      UserError: if it is no run directory, or its vocabulary is not the one it was trained with.
    """
    path = Path(path)
    settings, about = path / "hparams.json", path / "run.json"
    try:
        hparams = HParams.from_json(settings.read_text(encoding="utf-8"), str(settings))
        run = json.loads(about.read_text(encoding="utf-8"))
        name, vocabulary, digest = run["problem"], path / run["vocabulary"]["file"], run["vocabulary"]["sha256"]
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError(f"--output_dir={path} is not a run directory: it has no {Path(error.filename).name}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{about} or {settings} is damaged: {error!r}") from error
    try:
        problem = get_problem(name)
    except UserError as error:
        raise UserError(f"{about} names a problem that is not registered: {error}") from error
    if not vocabulary.exists() or sha256_of(vocabulary) != digest:
        raise UserError(f"{vocabulary} is not the vocabulary that the model in {path} was trained with; put that back")
    return RunDir(path, hparams, problem, vocabulary)


def prepare_run_dir(path: Path, hparams: HParams, problem: Problem, vocabulary: Path, random_seed: int = 1) -> RunDir:
    """Makes a run directory, or checks that an existing one was made with the same settings, problem and vocabulary.

    Raises:
      UserError: if it was made with others; the message names the differences.
    """
    path = Path(path)
    if (path / "run.json").exists():
        _check_same(open_run_dir(path), hparams, problem, vocabulary)
        seed = json.loads((path / "run.json").read_text(encoding="utf-8")).get("random_seed", random_seed)
        if seed != random_seed:
            # The place in the data that a checkpoint holds means another place in another order.
            raise UserError(
                f"{path} was made with --random_seed={seed}, not {random_seed}; use that, or another directory"
            )
    elif list_checkpoints(path):
        raise UserError(f"--output_dir={path} holds checkpoints but no run.json; use another directory")
    else:
        with written_whole(path / vocabulary.name) as partial:
            shutil.copyfile(vocabulary, partial)
    write_text(path / "hparams.json", hparams.to_json())
    run = {
        "version": t2t_lite.__version__,
        "problem": problem.name,
        "random_seed": random_seed,
        "vocabulary": {"file": vocabulary.name, "sha256": sha256_of(vocabulary)},
    }
    write_text(path / "run.json", json.dumps(run, indent=2) + "\n")
    return open_run_dir(path)


def _check_same(old: RunDir, hparams: HParams, problem: Problem, vocabulary: Path) -> None:
    advice = "use another --output_dir, or the settings that it was made with"
    if old.problem.name != problem.name:
        raise UserError(f"{old.path} was made with problem '{old.problem.name}', not '{problem.name}'; {advice}")
    comparable = old.hparams.replace(**{name: getattr(hparams, name) for name in _MAY_CHANGE})
    if changes := comparable.difference(hparams):
        raise UserError(f"{old.path} was made with other settings ({'; '.join(changes)}); {advice}")
    if sha256_of(old.vocabulary) != sha256_of(vocabulary):
        raise UserError(f"{old.path} was trained with {old.vocabulary}, which differs from {vocabulary}; {advice}")


def list_checkpoints(path: Path, kind: str = "ckpt") -> list[tuple[int, Path]]:
    """Returns (step, path without ending) of the whole checkpoints, by step. `kind` is "ckpt" or "average"."""
    found = []
    for index in Path(path).glob(f"{kind}-*.index"):
        match = re.fullmatch(rf"{kind}-(\d+)\.index", index.name)
        if match:
            found.append((int(match[1]), index.with_suffix("")))
    return sorted(found)
