"""The steps of a run: the commands, what they make, and whether what is there already is what they would make."""

import argparse
import json
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from t2t_lite.bin import cli
from t2t_lite.bin.datagen import make_parser as datagen_parser
from t2t_lite.bin.run.recipe import Recipe, listed
from t2t_lite.config import AUTO_BATCH_BY
from t2t_lite.data.generation.options import GenerateOptions
from t2t_lite.data.generation.sources import check_obtainable, check_unchanged, source_digests
from t2t_lite.data.manifest import read_manifest
from t2t_lite.data.problem import REVERSED_SUFFIX, OwnFile, Problem, get_problem
from t2t_lite.decoding.export_dir import read_export
from t2t_lite.evaluation.stored import stored_evaluations
from t2t_lite.files import split_paths, write_text
from t2t_lite.registry import PROBLEMS
from t2t_lite.runs.checkpoint_files import INDEX, checkpoint_digest, list_checkpoints, recorded_members
from t2t_lite.runs.evaluations import evaluations_without_gain, read_evaluations
from t2t_lite.runs.run_dir import data_digests, open_run_dir, recorded, run_files
from t2t_lite.runs.selection import select
from t2t_lite.runs.tuned_settings import search_settings

# The names of the steps, in their order.
STEPS = ("data", "train", "average", "evaluate", "back_translate", "export", "report")


class Step(NamedTuple):
    name: str  # one of STEPS
    about: str  # what it is for, such as "seed 2"; "": there is only one
    command: str  # without "t2t-lite-"
    flags: list[str]
    results: list[Path]  # files and folders
    is_done: Callable[[], bool]  # may raise UserError, if what is there is of something else
    outcome: Callable[[], Iterable[Any]] | None = None  # what to name at its end; None: the results
    check: Callable[[], object] = lambda: None  # raises UserError if it cannot be made again

    @property
    def title(self) -> str:
        return f"{self.name} ({self.about})" if self.about else self.name

    @property
    def line(self) -> str:
        """The command as it is typed."""
        return shlex.join([f"t2t-lite-{self.command}", *self.flags])


class _Model(NamedTuple):
    """A direction of translation: its problem and data, and a run directory for each seed."""

    label: str  # "" or "reverse"
    problem: str
    data_dir: Path
    runs: dict[int, Path]


def steps_of(recipe: Recipe) -> Iterator[Step]:
    """Yields all steps in order. All paths are relative to the current folder, that of the recipe's file."""
    folder, is_both = recipe.dir, recipe.values[""].reverse
    forward = _Model("", recipe.problem, folder / "data", {seed: folder / f"seed-{seed}" for seed in recipe.seeds})
    used = recipe.seeds if is_both else recipe.seeds[:1]
    reverse = _Model("reverse", f"{recipe.problem}{REVERSED_SUFFIX}", forward.data_dir,
                     {seed: folder / f"reverse/seed-{seed}" for seed in used})  # fmt: skip
    flags = recipe.flags["data"]
    if recipe.parts:
        flags = [f"--mixture={_write_mixture(folder / 'mixture.toml', recipe.parts)}", *flags]
    yield _data(forward, flags)
    if recipe.is_back_translated:
        yield from _training(recipe, reverse)
        run, target = reverse.runs[used[0]], Path(recipe.values["back_translation"].target_texts)
        texts = folder / "back_translation/sources.txt"
        flags = [f"--output_dir={run}", f"--decode_from_file={target}", f"--decode_to_file={texts}"]
        flags += listed("decode_hparams", recipe.back_search)
        is_done = lambda: _is_newer(texts, [target, Path(f"{_chosen(run)}{INDEX}")])  # noqa: E731
        yield Step("back_translate", "", "decoder", flags, [texts], is_done)
        own, back = recipe.problem_options, recipe.values["back_translation"]
        weights = {"weight": back.weight} if back.weight else {}
        parts = recipe.parts or [{"problem": recipe.problem, **own} | dict.fromkeys(weights, 1.0)]
        added = {"train_source": str(texts), "train_target": str(target), "tag": back.tag, "train_only": True}
        added |= {"name": "back-translations", **weights}
        mixture = _write_mixture(texts.with_name("mixture.toml"), [*parts, added])
        forward = forward._replace(problem="text_mixture", data_dir=mixture.parent / "data")
        # The flags of the problem belong to its part of the mixture.
        flags = [flag for flag in recipe.flags["data"] if recipe.parts or flag[2:].partition("=")[0] not in own]
        yield _data(forward, [f"--mixture={mixture}", *flags], "with back-translations")
    yield from _training(recipe, forward)
    if is_both and not recipe.is_back_translated:
        yield from _training(recipe, reverse)
    for model in (forward, reverse) if is_both else (forward,):
        for form in recipe.values["export"].formats:
            yield _export(recipe, model, form)
    models = (forward, reverse) if is_both or recipe.is_back_translated else (forward,)
    runs, report = [run for model in models for run in model.runs.values()], folder / "report.html"
    flags = [f"--output_dir={','.join(map(str, runs))}", f"--report_file={report}"]
    is_reported = lambda: _is_newer(report, [file for run in runs for file in run_files(run)])  # noqa: E731
    yield Step("report", "", "report", flags, [report], is_reported)


def _is_newer(path: Path, others: Iterable[Path]) -> bool:
    return path.exists() and all(path.stat().st_mtime_ns >= other.stat().st_mtime_ns for other in others)


def _chosen(run: Path, checkpoint_path: str | None = None) -> Path:
    """Returns the checkpoint that a run decodes with."""
    return select(run, checkpoint_path, warn=lambda line: None).path


def _search(recipe: Recipe, run: Path) -> dict[str, Any]:
    """Returns all settings of the search of a run."""
    return vars(search_settings(run, open_run_dir(run).problem.decode_hparams, recipe.search, lambda line: None))


def _about(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _data(model: _Model, flags: list[str], about: str = "") -> Step:
    arguments = [f"--problem={model.problem}", f"--data_dir={model.data_dir}", *flags]

    def parse() -> tuple[argparse.Namespace, GenerateOptions, Problem]:
        parsed = cli.parse_with_problem(datagen_parser(), arguments)
        options = GenerateOptions(**cli.given(parsed, GenerateOptions))
        return parsed, options, options.applied_to(get_problem(model.problem, **parsed.problem_options))

    def check() -> None:
        parsed, _, problem = parse()
        check_obtainable(problem, Path(parsed.tmp_dir or model.data_dir / "downloads"))

    def is_done() -> bool:
        _, options, made = parse()
        if (manifest := read_manifest(model.data_dir, made)) is None or not manifest.is_complete(made, model.data_dir):
            return False
        files = {each.name: each.path for each in made.sources if isinstance(each, OwnFile) and each.path.exists()}
        digests, recorded = source_digests(files), {**manifest.settings}
        for name in (name for name in made.options if name in recorded):  # the same files may have been moved
            then, now = (split_paths(str(options[name])) for options in (recorded, made.options))
            if [manifest.sources.get(file) for file in then] == [digests.get(file, "") for file in now]:
                made.options[name] = recorded[name]
        manifest.check_settings(made, options.max_cases, model.data_dir)
        manifest.languages(made, model.data_dir)
        if not {*digests.values()} <= {*manifest.sources.values()}:
            there = {name: digest for name, digest in manifest.sources.items() if name in files}
            check_unchanged(files, there, model.data_dir)
        return True

    return Step("data", about, "datagen", arguments, [model.data_dir], is_done, check=check)


def _training(recipe: Recipe, model: _Model) -> Iterator[Step]:
    """Yields training and averaging for each seed, and the evaluation of all of them together."""
    for seed, run in model.runs.items():
        about = _about(model.label, f"seed {seed}" if len(recipe.seeds) > 1 else "")
        yield _train(recipe, model, seed, about)
        if recipe.hparams.average_checkpoints > 1:
            yield _average(recipe, run, about)
    for split in recipe.values["evaluate"].splits:
        yield _evaluate(recipe, model, split)


def _train(recipe: Recipe, model: _Model, seed: int, about: str) -> Step:
    run, wanted = model.runs[seed], recipe.hparams
    flags = [f"--problem={model.problem}", f"--hparams_set={recipe.hparams_set}", f"--data_dir={model.data_dir}"]
    flags += [f"--output_dir={run}", f"--random_seed={seed}", *recipe.flags["train"]]

    def is_done() -> bool:
        if not (checkpoints := list_checkpoints(run)):
            return False
        stored = open_run_dir(run)
        # The trainer chooses these itself, or lets them change.
        free = [name for name in ("batch_by", "precision") if getattr(wanted, name) == AUTO_BATCH_BY]
        same = {name: getattr(stored.hparams, name) for name in (*free, "train_steps", "average_checkpoints")}
        of_seed = json.loads((run / "run.json").read_text(encoding="utf-8")).get("random_seed", seed)
        is_same = of_seed == seed and not wanted.replace(**same).difference(stored.hparams)
        if not is_same or (manifest := read_manifest(model.data_dir, stored.problem)) is None:
            return False
        patience = recipe.values["train"].early_stopping_patience or 0
        without_gain = evaluations_without_gain(read_evaluations(run), recorded(run, "eval_metric") or "loss")
        is_over = without_gain >= patience > 0 or checkpoints[-1][0] >= wanted.train_steps
        return is_over and data_digests(run)[-1:] == [manifest.digest()]

    return Step("train", about, "trainer", flags, [run], is_done)


def _average(recipe: Recipe, run: Path, about: str) -> Step:
    def is_done() -> bool:
        averages, last = list_checkpoints(run, "average"), list_checkpoints(run)[-recipe.hparams.average_checkpoints :]
        return bool(averages) and recorded_members(averages[-1][1]) == [step for step, _ in last]

    files = sorted(run.glob("average-*"))
    return Step("average", about, "avg", [f"--output_dir={run}"], files, is_done, lambda: [_chosen(run)])


def _evaluate(recipe: Recipe, model: _Model, split: str) -> Step:
    runs, asked = [*model.runs.values()], recipe.values["evaluate"]
    flags = [f"--output_dir={','.join(map(str, runs))}", f"--split={split}", *recipe.flags["evaluate"]]
    flags += listed("decode_hparams", recipe.search)

    def scores() -> list[str]:
        found = []
        for run in runs:
            for each in stored_evaluations(open_run_dir(run), split, _chosen(run, asked.checkpoint_path)):
                figures = [figure.metric for figure in each.figures]
                if each.decode_hparams == _search(recipe, run) and {*asked.metrics} <= {*figures}:
                    found.append(f"{each.path} ({each.figures[0].label} {each.figures[0].score:.2f})")
                    break
        return found

    folders = [folder for run in runs for folder in run.glob(f"scores/{split}.*")]
    is_done = lambda: len(scores()) == len(runs)  # noqa: E731
    return Step("evaluate", _about(model.label, split), "eval", flags, folders, is_done, scores)


def _export(recipe: Recipe, model: _Model, form: str) -> Step:
    run, folder = model.runs[recipe.seeds[0]], recipe.dir / model.label / "exports" / form
    of_form = {"ctranslate2": ("quantization",), "argos": ("quantization", "package_version")}.get(form, ())
    known = {"checkpoint_path", "license", "trust_plugins", *of_form}
    own = [flag for flag in recipe.flags["export"] if flag[2:].partition("=")[0] in known]
    flags = [f"--output_dir={run}", f"--export_dir={folder}", f"--format={form}", "--overwrite", *own]
    flags += listed("decode_hparams", recipe.search)
    asked = recipe.values["export"]
    quantization = (asked.quantization if of_form else None) or ("int8" if form == "argos" else None)

    def is_done() -> bool:
        if not folder.exists():
            return False
        content = read_export(folder).content
        made_with = content["checkpoint"]["sha256"], content["quantization"], content["decode_hparams"]
        return made_with == (checkpoint_digest(_chosen(run, asked.checkpoint_path)), quantization, _search(recipe, run))

    return Step("export", _about(model.label, form), "export", flags, [folder], is_done)


def _write_mixture(path: Path, parts: Iterable[Mapping[str, Any]]) -> Path:
    """Writes a mixture, whose paths are relative to its folder, unless it is there. Returns its path."""
    lines = []
    for part in parts:
        lines.append("[[parts]]")
        for name, value in part.items():
            if name in PROBLEMS[part.get("problem", "text_pairs")].file_lists:
                files = split_paths(value) if isinstance(value, str) else value
                is_whole = [os.path.isabs(os.path.expanduser(file)) or file == "-" for file in files]
                value = [file if whole else os.path.relpath(file, path.parent) for file, whole in zip(files, is_whole)]
            lines.append(f"{name} = {json.dumps(value, ensure_ascii=False)}")  # which is TOML for these values, too
    text = "\n".join(lines) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    return path
