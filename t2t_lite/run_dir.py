"""What a run directory holds, so that every tool needs only its path.

hparams.json        the settings
run.json            problem, vocabularies, plug-ins and the version that wrote them
vocab.*             a copy of the vocabulary, or of that of each side
ckpt-<step>.*       checkpoints
average-<step>.*    an average of checkpoints, for inference only
train/, eval/       TensorBoard event files
log.jsonl           the same figures, one JSON object a report
evaluations.json    the figures of each evaluated checkpoint
"""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import t2t_lite
from t2t_lite.config import HParams
from t2t_lite.data.problem import REVERSED_SUFFIX, Problem, get_problem
from t2t_lite.errors import UserError
from t2t_lite.files import sha256_of, write_text, written_whole
from t2t_lite.plugins import load_usr_dir
from t2t_lite.registry import MODELS, PROBLEMS, Origin, Registry

# How long to train and what to average may change between runs in one directory; what the model is may not.
_MAY_CHANGE = ("train_steps", "average_checkpoints")


@dataclasses.dataclass(frozen=True)
class RunDir:
    """An existing run directory, opened.

    Args:
      path: the directory.
      hparams: its settings.
      problem: its problem.
      vocabulary: the path of the targets' vocabulary.
      inputs_vocabulary: that of the inputs; the same path if both sides share one.
    """

    path: Path
    hparams: HParams
    problem: Problem
    vocabulary: Path
    inputs_vocabulary: Path


def open_run_dir(path: Path) -> RunDir:
    """Reads what a run directory says about itself.

    Raises:
      UserError: if it is no run directory, or a vocabulary is not the one it was trained with.
    """
    path = Path(path)
    settings, about = path / "hparams.json", path / "run.json"
    try:
        hparams = HParams.from_json(settings.read_text(encoding="utf-8"), str(settings))
        run = json.loads(about.read_text(encoding="utf-8"))
        name = run["problem"]
        entries = (run["vocabulary"], run.get("inputs_vocabulary", run["vocabulary"]))
        digests = {path / entry["file"]: entry["sha256"] for entry in entries}
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError(f"--output_dir={path} is not a run directory: it has no {Path(error.filename).name}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{about} or {settings} is damaged: {error!r}") from error
    for registry, its_name in ((PROBLEMS, name.removesuffix(REVERSED_SUFFIX)), (MODELS, hparams.model)):
        _require(registry, its_name, run.get("plugins", {}).get(registry.kind), about)
    try:
        problem = get_problem(name)
    except UserError as error:
        raise UserError(f"{about} names a problem that is not registered: {error}") from error
    for vocabulary, digest in digests.items():
        if not vocabulary.exists() or sha256_of(vocabulary) != digest:
            raise UserError(
                f"{vocabulary} is not the vocabulary that the model in {path} was trained with; put that back"
            )
    return RunDir(path, hparams, problem, *(path / entry["file"] for entry in entries))


def _require(registry: Registry, name: str, origin: list[str] | None, about: Path) -> None:
    """Loads the plug-in that `name` comes from, if it is not registered."""
    if origin is None or name in registry:
        return
    origin = Origin(*origin)
    came = f"{about}: the {registry.kind} '{name}' comes from"
    if origin.kind == "package":
        raise UserError(f"{came} the package {origin.where}, which is not installed here; install it with pip")
    if not Path(origin.where).is_dir():
        raise UserError(f"{came} the folder {origin.where}, which is not there; give its place with --t2t_usr_dir")
    load_usr_dir(origin.where)


def _origins(problem: Problem, hparams: HParams) -> dict[str, Origin]:
    """Returns which plug-ins the problem and the model come from, if they do."""
    names = {PROBLEMS: problem.data_name, MODELS: hparams.model}
    return {registry.kind: origin for registry, name in names.items() if (origin := registry.origin(name))}


def prepare_run_dir(
    path: Path,
    hparams: HParams,
    problem: Problem,
    vocabulary: Path,
    random_seed: int = 1,
    inputs_vocabulary: Path | None = None,
) -> RunDir:
    """Makes a run directory, or checks that an existing one was made with the same settings, problem and vocabularies.

    Args:
      path: the directory.
      hparams: the settings.
      problem: the problem, perhaps reversed.
      vocabulary: that of the problem's targets.
      random_seed: what fixes the run's weights and its order of data.
      inputs_vocabulary: that of the problem's inputs, if it is another one.

    Returns:
      the directory, opened.

    Raises:
      UserError: if it was made with others; the message names the differences.
    """
    path = Path(path)
    inputs_vocabulary = inputs_vocabulary or vocabulary
    if (path / "run.json").exists():
        _check_same(open_run_dir(path), hparams, problem, vocabulary, inputs_vocabulary)
        seed = json.loads((path / "run.json").read_text(encoding="utf-8")).get("random_seed", random_seed)
        if seed != random_seed:
            # The place in the data that a checkpoint holds means another place in another order.
            raise UserError(
                f"{path} was made with --random_seed={seed}, not {random_seed}; use that, or another directory"
            )
    elif list_checkpoints(path):
        raise UserError(f"--output_dir={path} holds checkpoints but no run.json; use another directory")
    else:
        for source in {vocabulary, inputs_vocabulary}:
            with written_whole(path / source.name) as partial:
                shutil.copyfile(source, partial)
    write_text(path / "hparams.json", hparams.to_json())
    run = {
        "version": t2t_lite.__version__,
        "problem": problem.name,
        "random_seed": random_seed,
        "plugins": _origins(problem, hparams),
        "vocabulary": {"file": vocabulary.name, "sha256": sha256_of(vocabulary)},
    }
    if inputs_vocabulary != vocabulary:
        run["inputs_vocabulary"] = {"file": inputs_vocabulary.name, "sha256": sha256_of(inputs_vocabulary)}
    write_text(path / "run.json", json.dumps(run, indent=2) + "\n")
    return open_run_dir(path)


def _check_same(old: RunDir, hparams: HParams, problem: Problem, vocabulary: Path, inputs_vocabulary: Path) -> None:
    advice = "use another --output_dir, or the settings that it was made with"
    if old.problem.name != problem.name:
        raise UserError(f"{old.path} was made with problem '{old.problem.name}', not '{problem.name}'; {advice}")
    comparable = old.hparams.replace(**{name: getattr(hparams, name) for name in _MAY_CHANGE})
    if changes := comparable.difference(hparams):
        raise UserError(f"{old.path} was made with other settings ({'; '.join(changes)}); {advice}")
    for mine, other in ((old.vocabulary, vocabulary), (old.inputs_vocabulary, inputs_vocabulary)):
        if sha256_of(mine) != sha256_of(other):
            raise UserError(f"{old.path} was trained with {mine}, which differs from {other}; {advice}")


def best_checkpoint(path: Path) -> Path:
    """Returns the checkpoint to use, without ending: the average of checkpoints if there is one, else the last one.

    Raises:
      UserError: if there is none.
    """
    for kind in ("average", "ckpt"):
        if found := list_checkpoints(path, kind):
            return found[-1][1]
    raise UserError(f"{path} has no checkpoint yet; train first, with t2t-lite-trainer --output_dir={path}")


def list_checkpoints(path: Path, kind: str = "ckpt") -> list[tuple[int, Path]]:
    """Returns (step, path without ending) of the whole checkpoints, by step. `kind` is "ckpt" or "average"."""
    found = []
    for index in Path(path).glob(f"{kind}-*.index"):
        match = re.fullmatch(rf"{kind}-(\d+)\.index", index.name)
        if match:
            found.append((int(match[1]), index.with_suffix("")))
    return sorted(found)
