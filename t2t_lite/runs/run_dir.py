"""Run directories, which contain everything about a run, so that tools need only the path.

hparams.json        the settings
run.json            problem, its languages if they are not its own, random_seed, vocabularies, plug-ins, hparams_set,
                    data_dir, eval_metric, checksums of the data, the decoder layer for word alignments, and the
                    version that wrote the file
vocab.*             copies of the vocabularies: one for both sides, or one for each
ckpt-<step>.*       checkpoints; ckpt-<step>.v2.* replaces an earlier one of the same step
average-<step>.*    an average of checkpoints, for inference only; it records their steps, also in .members.json
training.lock       exists while a process trains here, and describes the process
train/, eval/       TensorBoard event files
log.jsonl           the same figures as JSON, one object per report, and one per start: devices, versions, parameters
evaluations.json    the scores of each evaluated checkpoint
evaluation_due      the step of a checkpoint that a stopped trainer did not evaluate; the resumed run evaluates it
decode_hparams.json decoding settings tuned on dev, which become the run's defaults; see `tuned_settings`
report.md           the report at the end of a training run with a recipe
report.html         the report that t2t-lite-trainer --report writes
scores/             outputs, scores and reports from t2t-lite-eval, in a folder for each split and checkpoint
exports/            checkpoints converted by t2t-lite-decoder --engine=ctranslate2, which recreates missing ones
"""

import dataclasses
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import t2t_lite
from t2t_lite.config import AUTO_BATCH_BY, HParams
from t2t_lite.data.problem import LANGUAGES, REVERSED_SUFFIX, Problem, get_problem
from t2t_lite.errors import UserError
from t2t_lite.files import file_sha256, make_folder, write_text, written_whole
from t2t_lite.options import SettingValue
from t2t_lite.plugins import is_trusted, load_usr_dir, trust
from t2t_lite.registry import PROBLEMS, REGISTRIES_OF_SETTINGS, Origin, Registry
from t2t_lite.runs.checkpoint_files import list_checkpoints

# Settings that may change when a run is resumed.
_MAY_CHANGE = ("train_steps", "average_checkpoints")
# The value of batch_by in runs from versions without this setting; resumed runs keep it.
OLD_BATCH_BY = "targets"
# The content of run.json.
_Run: TypeAlias = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class RunDir:
    path: Path  # the directory
    hparams: HParams  # the run's settings
    problem: Problem  # the run's problem
    vocabulary: Path  # path of the target vocabulary
    inputs_vocabulary: Path  # path of the source vocabulary; the same path if both sides share one
    data_dir: Path | None = None  # where the training data was; None if the run does not record it
    alignment_layer: int | None = None  # the measured decoder layer for word alignments; None if it was not measured


def open_run_dir(path: Path) -> RunDir:
    """Opens a run directory, and checks that its vocabularies are those that the model was trained with.

    A run may come from anywhere, so its plug-in folders are loaded only if the user trusts them, see `trust`.
    """
    path = Path(path)
    about, settings, run = _read(path)
    try:
        name = run["problem"]
        entries = (run["vocabulary"], run.get("inputs_vocabulary", run["vocabulary"]))
        digests = {path / entry["file"]: entry["sha256"] for entry in entries}
        its_names = _names(name, settings)
        if not isinstance(layer := run.get("alignment_layer"), int | None):
            raise TypeError(f"alignment_layer is {layer!r}")
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{about} is damaged: {error!r}") from error
    for what, folder in _missing_plugins(path, about, run, its_names):
        if not is_trusted(folder):
            raise UserError(
                f"{what} comes from code in {folder}, which runs only with your permission: pass "
                f"--t2t_usr_dir={folder}, or --trust_plugins to trust that folder from now on; in a program, first "
                f"call t2t_lite.plugins.load_usr_dir('{folder}')"
            )
        load_usr_dir(str(folder))
    hparams = HParams.from_json(json.dumps(settings), str(path / "hparams.json"))
    try:
        problem = get_problem(name)
    except UserError as error:
        raise UserError(f"{about} names a problem that is not registered: {error}") from error
    problem.set_languages(run)
    if own := run.get("decode_hparams"):
        try:
            problem.decode_hparams = problem.decode_hparams.replace(**own)
        except (TypeError, UserError) as error:
            raise UserError(f"{about} is damaged: decode_hparams: {error}") from error
    for vocabulary, digest in digests.items():
        if not vocabulary.exists() or file_sha256(vocabulary) != digest:
            raise UserError(
                f"{vocabulary} is not the vocabulary that the model in {path} was trained with; restore the original"
            )
    targets, inputs = (path / entry["file"] for entry in entries)
    data_dir = recorded(path, "data_dir")
    return RunDir(path, hparams, problem, targets, inputs, Path(data_dir) if data_dir else None, layer)


def folder_to_start_from(path: Path) -> Path:
    """Returns the run directory that `warm_start_from` names, directly or by one of its checkpoints."""
    folder = path if path.is_dir() else path.parent
    for name in ("run.json", "hparams.json"):
        if not (folder / name).is_file():
            raise UserError(
                f"`warm_start_from={path}` is neither a run directory nor a checkpoint in one: {folder} has no "
                f"{name}; pass another run's `output_dir`, or a checkpoint in it, such as RUN/ckpt-2000"
            )
    return folder


def wait_for_run_dir(path: Path, seconds: float, say: Callable[[str], None]) -> None:
    """Waits up to `seconds` for training to create a run directory; `say` receives a line if it has to wait."""
    about, end = Path(path) / "run.json", time.monotonic() + seconds
    if not about.exists() and seconds > 0:
        say(f"waiting for training to start in {path} (at most {seconds:g} s, `eval_wait_secs`)")
    while not about.exists():
        if (left := end - time.monotonic()) <= 0:
            raise UserError(f"`output_dir={path}`: no training has started there; start it, or check the path")
        time.sleep(min(1.0, left))


def run_files(path: Path) -> list[Path]:
    """Returns the run's own files, except event files and exports.

    A run directory may also contain other files, such as translations, which are left out.
    """
    names = ("hparams.json", "run.json", "evaluations.json", "evaluation_due", "decode_hparams.json")
    more = ("log.jsonl", "report.md", "report.html", "vocab.*", "ckpt-*", "average-*")
    files = [file for name in (*names, *more) for file in Path(path).glob(name)]
    return [*files, *(file for file in Path(path).glob("scores/*/*") if file.is_file())]


def stored_setting(path: Path, name: str) -> SettingValue:
    """Returns one setting of a run as stored, without loading plug-ins or checking the other settings."""
    value = _read(Path(path))[1].get(name, getattr(HParams, name))
    try:
        return getattr(HParams(**{name: value}), name)
    except UserError as error:
        raise UserError(f"{Path(path) / 'hparams.json'} is damaged: {error}") from error


def with_order_of_run(path: Path, hparams: HParams) -> HParams:
    """Replaces batch_by=auto in the settings by the run's value, or by "both" if there is no run yet."""
    if hparams.batch_by != AUTO_BATCH_BY:
        return hparams
    is_new = not (Path(path) / "run.json").exists()
    return hparams.replace(batch_by="both" if is_new else stored_setting(path, "batch_by"))


def recorded(path: Path, name: str) -> str | None:
    """Returns an optional string in run.json: data_dir, eval_metric or hparams_set; None if it is not recorded."""
    about, _, run = _read(Path(path))
    value = run.get(name)
    if value is not None and not isinstance(value, str):
        raise UserError(f"{about} is damaged: {name} is {value!r}, not a string")
    return value


def record_alignment_layer(path: Path, layer: int) -> None:
    about, _, run = _read(Path(path))
    write_text(about, json.dumps(run | {"alignment_layer": layer}, indent=2) + "\n")


def data_digests(path: Path) -> list[str]:
    """Returns the checksums of all data that a run was trained on, see `Manifest.digest`; [] for runs before 0.9."""
    about, _, run = _read(Path(path))
    digests = run.get("data_sha256", [])
    if not isinstance(digests, list) or not all(isinstance(digest, str) for digest in digests):
        raise UserError(f"{about} is damaged: data_sha256 is {digests!r}, not a list of checksums")
    return digests


def trust_run_plugins(path: Path) -> list[Path]:
    """Permanently trusts the plug-in folders of a run that are not loaded yet, and returns them.

    If one of them cannot be trusted, none is.
    """
    path = Path(path)
    about, settings, run = _read(path)
    try:
        its_names = _names(run["problem"], settings)
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{about} is damaged: {error!r}") from error
    folders = [folder for _, folder in _missing_plugins(path, about, run, its_names)]
    for folder in folders:
        trust(folder)
    return folders


def _names(problem: str, settings: dict[str, Any]) -> dict[Registry, str]:
    chosen = {registry: settings.get(name, getattr(HParams, name)) for name, registry in REGISTRIES_OF_SETTINGS.items()}
    return {PROBLEMS: problem.removesuffix(REVERSED_SUFFIX)} | chosen


def _read(path: Path) -> tuple[Path, dict[str, Any], _Run]:
    settings, about = path / "hparams.json", path / "run.json"
    try:
        stored = json.loads(settings.read_text(encoding="utf-8"))
        if not isinstance(stored, dict):
            raise TypeError("not a JSON object")
        stored.setdefault("batch_by", OLD_BATCH_BY)
        for name in REGISTRIES_OF_SETTINGS:
            if not isinstance(stored.get(name, ""), str):
                raise UserError(f"{settings} is damaged: {name} is {stored[name]!r}, not a name")
        return about, stored, dict(json.loads(about.read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError(f"`output_dir={path}` {_why_no_run(path, Path(error.filename).name)}") from error
    except (ValueError, TypeError) as error:
        raise UserError(f"{about} or {settings} is damaged: {error!r}") from error


def _why_no_run(path: Path, missing: str) -> str:
    if path.is_file():
        return "is a file; pass the run directory (the `output_dir` of a training run)"
    if not path.exists() or not any(path.iterdir()):
        state = "is empty, not a run directory" if path.exists() else "is not a run directory: it does not exist"
        return f"{state}; check the path, or train first with t2t-lite-trainer --output_dir={path}"
    return f"is not a run directory: it has no {missing}; pass the `output_dir` of a training run"


def _missing_plugins(path: Path, about: Path, run: _Run, its_names: dict[Registry, str]) -> list[tuple[str, Path]]:
    """Returns (description, folder) for each part that is not registered and comes from a plug-in folder.

    Refuses parts from a package, or from a folder that is inside the run directory, is not an absolute path on a disk,
    or does not exist.
    """
    try:
        origins = {kind: Origin(*origin) for kind, origin in run.get("plugins", {}).items()}
        for origin in origins.values():
            if origin.kind not in ("package", "t2t_usr_dir") or not isinstance(origin.where, str):
                raise TypeError(f"plugins: {list(origin)}")
    except (TypeError, AttributeError) as error:
        raise UserError(f"{about} is damaged: {error!r}") from error
    missing = []
    for registry, name in its_names.items():
        if registry.kind not in origins or name in registry:
            continue
        origin, what = origins[registry.kind], f"{about}: the {registry.kind} '{name}'"
        if origin.kind == "package":
            raise UserError(
                f"{what} comes from the package {origin.where}; install the version that the run was trained with"
            )
        folder = Path(origin.where)
        if reason := _why_not(folder, path):
            raise UserError(
                f"{what} comes from the folder {folder}, which is {reason}; pass its location with `t2t_usr_dir`"
            )
        missing.append((what, folder.resolve()))
    return missing


def _why_not(folder: Path, run: Path) -> str | None:
    """Returns why a folder that a run names cannot be trusted, or None."""
    if not folder.is_absolute():
        return "a relative path"
    if folder.is_relative_to("/proc") or folder.is_relative_to("/dev"):  # /proc/self/cwd depends on the process
        return "not on a disk"
    if folder.resolve().is_relative_to(run.resolve()):
        return "inside the run directory"
    return None if folder.is_dir() else "missing"


def prepare_run_dir(
    path: Path,
    hparams: HParams,
    problem: Problem,
    vocabulary: Path,
    random_seed: int = 1,
    inputs_vocabulary: Path | None = None,
    data_dir: Path | None = None,
    eval_metric: str | None = None,
    hparams_set: str | None = None,
    data_digest: str | None = None,
) -> RunDir:
    """Creates a run directory, or checks that an existing one has the same settings, problem and vocabularies.

    `vocabulary` is that of the targets. Without `inputs_vocabulary`, both sides share it. `random_seed` fixes the run's
    initial weights and data order. `data_dir` is for evaluations, `eval_metric` ranks checkpoints, `hparams_set` is for
    reports, and `data_digest` is `Manifest.digest`; what is None is not recorded.
    """
    path, hparams = Path(path), with_order_of_run(path, hparams)
    inputs_vocabulary = inputs_vocabulary or vocabulary
    digests: list[str] = []
    old = None
    if (path / "run.json").exists():
        digests, old = data_digests(path), open_run_dir(path)
        _check_same(old, hparams, problem, vocabulary, inputs_vocabulary)
        seed = json.loads((path / "run.json").read_text(encoding="utf-8")).get("random_seed", random_seed)
        if seed != random_seed:
            # The data position in a checkpoint is valid only for the same data order.
            raise UserError(
                f"{path} was made with `random_seed={seed}`, not {random_seed}; pass that seed, or another `output_dir`"
            )
    elif list_checkpoints(path):
        raise UserError(f"`output_dir={path}` contains checkpoints but no run.json; pass another directory")
    else:
        make_folder(path, "`output_dir`")
        for source in {vocabulary, inputs_vocabulary}:
            with written_whole(path / source.name) as partial:
                shutil.copyfile(source, partial)
    write_text(path / "hparams.json", hparams.to_json())
    names = _names(problem.data_name, dataclasses.asdict(hparams))
    run = {
        "version": t2t_lite.__version__,
        "problem": problem.name,
        "random_seed": random_seed,
        "plugins": {each.kind: origin for each, name in names.items() if (origin := each.origin(name))},
        "vocabulary": {"file": vocabulary.name, "sha256": file_sha256(vocabulary)},
    }
    if inputs_vocabulary != vocabulary:
        run["inputs_vocabulary"] = {"file": inputs_vocabulary.name, "sha256": file_sha256(inputs_vocabulary)}
    more = {
        "decode_hparams": _own_settings(problem) or (old and _own_settings(old.problem)) or None,
        **{side: vars(problem).get(side) or vars(old.problem if old else problem).get(side) for side in LANGUAGES},
        "data_dir": None if data_dir is None else str(Path(data_dir).absolute()),
        "eval_metric": eval_metric,
        "hparams_set": hparams_set,
        "alignment_layer": old and old.alignment_layer,
    }
    run |= {name: value for name, value in more.items() if value is not None}
    if digests := [*digests, *([data_digest] if data_digest and data_digest not in digests else [])]:
        run["data_sha256"] = digests
    write_text(path / "run.json", json.dumps(run, indent=2) + "\n")
    return open_run_dir(path)


def _own_settings(problem: Problem) -> dict[str, SettingValue]:
    """Returns the search settings that a run has instead of those of its problem, because its model was imported."""
    usual = vars(type(problem).decode_hparams)
    return {name: value for name, value in vars(problem.decode_hparams).items() if value != usual[name]}


def _check_same(old: RunDir, hparams: HParams, problem: Problem, vocabulary: Path, inputs_vocabulary: Path) -> None:
    advice = "pass another `output_dir`, or the settings that it was made with"
    if old.problem.name != problem.name:
        raise UserError(f"{old.path} was made with problem '{old.problem.name}', not '{problem.name}'; {advice}")
    if changes := old.hparams.replace(**{name: getattr(hparams, name) for name in _MAY_CHANGE}).difference(hparams):
        raise UserError(f"{old.path} was made with other settings ({'; '.join(changes)}); {advice}")
    for mine, other in ((old.vocabulary, vocabulary), (old.inputs_vocabulary, inputs_vocabulary)):
        if file_sha256(mine) != file_sha256(other):
            raise UserError(f"{old.path} was trained with {mine}, which differs from {other}; {advice}")
