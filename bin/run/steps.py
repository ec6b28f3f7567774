"""The steps of a run: the commands, what they make, and whether what is there already is what they would make."""

import argparse
import hashlib
import json
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t2t_lite.bin import cli
from t2t_lite.bin.datagen import make_parser as datagen_parser
from t2t_lite.bin.run.recipe import Recipe, listed
from t2t_lite.config import AUTO_BATCH_BY
from t2t_lite.data.generation.options import GenerateOptions
from t2t_lite.data.generation.sources import check_obtainable, check_unchanged, source_digests
from t2t_lite.data.manifest import read_manifest
from t2t_lite.data.problem import REVERSED_SUFFIX, Corpus, OwnFile, Problem, get_problem
from t2t_lite.decoding.export_dir import open_export
from t2t_lite.errors import UserError
from t2t_lite.evaluation.stored import SplitScores, stored_evaluations
from t2t_lite.files import file_sha256, split_paths, write_text
from t2t_lite.registry import PROBLEMS
from t2t_lite.runs.checkpoint_files import checkpoint_digest, list_checkpoints, recorded_members
from t2t_lite.runs.evaluations import evaluations_without_gain, read_evaluations
from t2t_lite.runs.run_dir import data_digests, open_run_dir, recorded
from t2t_lite.runs.selection import select
from t2t_lite.runs.tuned_settings import search_settings

_WRITTEN = "# Written by t2t-lite-run, and again if its file changes."
# The names of the steps, in their order.
STEPS = ("data", "train", "average", "evaluate", "back_translate", "export", "report")


class Step(NamedTuple):
    name: str  # one of STEPS
    about: str  # what it is for, such as "seed 2"; "": there is only one
    command: str  # without "t2t-lite-"
    flags: list[str]
    results: Callable[[], Sequence[str | Path]]  # what to name at its end
    is_done: Callable[[], bool]  # may raise UserError, if what is there is of something else
    needs: list[str] = []  # the titles of the steps whose results it reads
    trainings: list[Path] = []  # the runs that would be lost if it is done again
    stale: Callable[[], list[Path]] = list  # what to remove before it is done again
    check: Callable[[], object] = list  # raises UserError if it cannot be done again

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
    data: str  # the title of the step that makes its data


def steps_of(recipe: Recipe) -> Iterator[Step]:
    """Yields all steps in order. All paths are relative to the current folder, that of the recipe's file."""
    folder, is_both, flags = recipe.dir, recipe.values[""].reverse, recipe.flags["data"]
    runs = {seed: folder / f"seed-{seed}" for seed in recipe.seeds}
    forward = _Model("", recipe.problem, folder / "data", runs, "data")
    problem = f"{recipe.problem}{REVERSED_SUFFIX}"
    runs = {seed: folder / f"reverse/seed-{seed}" for seed in (recipe.seeds if is_both else recipe.seeds[:1])}
    reverse = _Model("reverse", problem, forward.data_dir, runs, "data")
    has_reverse = is_both or recipe.is_back_translated
    trained = [*(() if recipe.is_back_translated else forward.runs.values()), *(runs.values() if has_reverse else ())]
    mixture = (
        [f"--mixture={_write_mixture(folder / 'mixture.t2t-lite-run.toml', recipe.parts)}"] if recipe.parts else []
    )
    yield _data(forward, [*mixture, *flags], trained)
    if recipe.is_back_translated:
        yield from _training(recipe, reverse)
        back = _back_translation(recipe, reverse, [*forward.runs.values()])
        yield back
        own, given, target = recipe.problem_options, recipe.values["back_translation"], recipe.target_texts
        weights = {"weight": given.weight} if given.weight else {}
        parts = recipe.parts or [{"problem": recipe.problem, **own} | dict.fromkeys(weights, 1.0)]
        added = {"name": "back-translations", "train_source": str(*back.results()), "train_target": str(target)}
        added |= {"tag": given.tag, "train_only": True, **weights}
        path = _write_mixture(folder / "back_translation/mixture.t2t-lite-run.toml", [*parts, added])
        about = "with back-translations"
        forward = forward._replace(problem="text_mixture", data_dir=path.parent / "data", data=f"data ({about})")
        # The flags of the problem belong to its part of the mixture.
        flags = [flag for flag in recipe.flags["data"] if recipe.parts or flag[2:].partition("=")[0] not in own]
        yield _data(forward, [f"--mixture={path}", *flags], [*forward.runs.values()], about, [back.title])
    yield from _training(recipe, forward)
    if is_both and not recipe.is_back_translated:
        yield from _training(recipe, reverse)
    for model in (forward, reverse) if is_both else (forward,):
        for form in recipe.values["export"].formats:
            yield _export(recipe, model, form)
    models, report = (forward, reverse) if has_reverse else (forward,), folder / "report.html"
    texts = ",".join(str(run) for model in models for run in model.runs.values())
    flags = [f"--output_dir={texts}", f"--report_file={report}"]
    yield Step("report", "", "report", flags, lambda: [report], lambda: False)  # it takes a second


def _chosen(recipe: Recipe, run: Path, table: str) -> Path:
    """Returns the checkpoint that a run is evaluated or exported with."""
    return select(run, recipe.values[table].checkpoint_path, warn=lambda line: None).path


def _search(recipe: Recipe, run: Path) -> dict[str, Any]:
    """Returns all settings of the search of a run."""
    return vars(search_settings(run, open_run_dir(run).problem.decode_hparams, recipe.search, lambda line: None))


def _about(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _data(model: _Model, flags: list[str], runs: list[Path], about: str = "", needs: Sequence[str] = ()) -> Step:
    folder, arguments = model.data_dir, [f"--problem={model.problem}", f"--data_dir={model.data_dir}", *flags]

    def parse() -> tuple[argparse.Namespace, GenerateOptions, Problem]:
        parsed = cli.parse_with_problem(datagen_parser(), arguments)
        options = GenerateOptions(**cli.given(parsed, GenerateOptions))
        return parsed, options, options.applied_to(get_problem(model.problem, **parsed.problem_options))

    def check() -> None:
        parsed, _, problem = parse()
        check_obtainable(problem, Path(parsed.tmp_dir or folder / "downloads"))

    def is_done() -> bool:
        _, options, made = parse()
        if (manifest := read_manifest(folder, made)) is None or not manifest.is_complete(made, folder):
            return False
        files = {each.name: each.path for each in made.sources if isinstance(each, OwnFile) and each.path.exists()}
        digests, recorded = source_digests(files), {**manifest.settings}
        for name in (name for name in made.options if name in recorded):
            then, now = (split_paths(str(options[name])) for options in (recorded, made.options))
            if [manifest.sources.get(file) for file in then] == [digests.get(file, "") for file in now]:
                made.options[name] = recorded[name]  # the same files, which may have been moved
        manifest.check_settings(made, options.max_cases, folder)
        manifest.languages(made, folder)
        there = {name: digest for name, digest in manifest.sources.items() if name in files}
        if there or not {*digests.values()} <= {*manifest.sources.values()}:  # else the files were moved
            check_unchanged(files, there, folder)
        return True

    def stale() -> list[Path]:
        name = parse()[2].data_name
        return [path for each in (f"{name}-*", f"vocab.{name}.*", f"*.{name}.json", f"*.{name}.md")
                for path in sorted(folder.glob(each))]  # fmt: skip

    results = lambda: [folder, *folder.glob("dropped.*.md")]  # noqa: E731
    return Step("data", about, "datagen", arguments, results, is_done, [*needs], runs, stale, check)


def _training(recipe: Recipe, model: _Model) -> Iterator[Step]:
    """Yields training and averaging for each seed, and the evaluation of all of them together."""
    made: list[str] = []
    for seed, run in model.runs.items():
        about = _about(model.label, f"seed {seed}" if len(recipe.seeds) > 1 else "")
        yield _train(recipe, model, seed, about)
        made.append(f"train ({about})" if about else "train")
        if recipe.hparams.average_checkpoints > 1:
            yield _average(recipe, run, about, made[-1])
            made.append(made[-1].replace("train", "average"))
    for split in recipe.values["evaluate"].splits:
        yield _evaluate(recipe, model, split, made)


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
        same = {name: getattr(stored.hparams, name) for name in (*free, "train_steps")}
        of_seed = json.loads((run / "run.json").read_text(encoding="utf-8")).get("random_seed", seed)
        is_same = of_seed == seed and not wanted.replace(**same).difference(stored.hparams)
        if not is_same or (manifest := read_manifest(model.data_dir, stored.problem)) is None:
            return False
        patience = recipe.values["train"].early_stopping_patience or 0
        without_gain = evaluations_without_gain(read_evaluations(run), recorded(run, "eval_metric") or "loss")
        is_over = without_gain >= patience > 0 or checkpoints[-1][0] >= wanted.train_steps
        return is_over and data_digests(run)[-1:] == [manifest.digest()]

    return Step("train", about, "trainer", flags, lambda: [run], is_done, [model.data], stale=lambda: [run])


def _average(recipe: Recipe, run: Path, about: str, training: str) -> Step:
    def is_done() -> bool:
        averages, last = list_checkpoints(run, "average"), list_checkpoints(run)[-recipe.hparams.average_checkpoints :]
        return bool(averages) and recorded_members(averages[-1][1]) == [step for step, _ in last]

    results = lambda: [path for _, path in list_checkpoints(run, "average")[-1:]]  # noqa: E731
    return Step("average", about, "avg", [f"--output_dir={run}"], results, is_done, [training])


def _evaluate(recipe: Recipe, model: _Model, split: str, needs: list[str]) -> Step:
    runs, asked = [*model.runs.values()], recipe.values["evaluate"]
    flags = [f"--output_dir={','.join(map(str, runs))}", f"--split={split}", *recipe.flags["evaluate"]]
    flags += listed("decode_hparams", recipe.search)

    def found() -> list[SplitScores | None]:
        references = [file_sha256(Path(file)) for file in asked.references]
        return [
            next((each for each in stored_evaluations(open_run_dir(run), split, _chosen(recipe, run, "evaluate"))
                  if each.decode_hparams == _search(recipe, run) and each.reference_digests[1:] == references
                  and {*asked.metrics} <= {figure.metric for figure in each.figures}), None)
            for run in runs
        ]  # fmt: skip

    def results() -> list[str]:
        return [f"{each.path} ({each.figures[0].label} {each.figures[0].score:.2f})" for each in found() if each]

    is_done, stale = lambda: all(found()), lambda: [each.path for each in found() if each]
    return Step("evaluate", _about(model.label, split), "eval", flags, results, is_done, needs, stale=stale)


def _back_translation(recipe: Recipe, reverse: _Model, trainings: list[Path]) -> Step:
    seed, run = next(iter(reverse.runs.items()))
    # Another model, other settings or other texts make another file.
    checkpoint = recipe.values["evaluate"].checkpoint_path
    made_by = [recipe.hparams_set, recipe.flags["train"], seed, checkpoint, recipe.back_search]
    digest = hashlib.sha256(repr([made_by, file_sha256(recipe.target_texts)]).encode()).hexdigest()
    texts = recipe.dir / f"back_translation/sources.{digest[:8]}.txt"
    flags = [f"--output_dir={run}", f"--decode_from_file={recipe.target_texts}", f"--decode_to_file={texts}"]
    flags += [f"--checkpoint_path={checkpoint}"] if checkpoint else []
    flags += listed("decode_hparams", recipe.back_search)

    def is_done() -> bool:
        if not texts.exists() and (others := [*texts.parent.glob("sources.*.txt")]):
            raise UserError(f"{others[0]} was made by another model, with other settings or from other texts")
        return texts.exists()

    needs = [f"{name} (reverse{f', seed {seed}' if len(recipe.seeds) > 1 else ''})" for name in ("train", "average")]
    return Step("back_translate", "", "decoder", flags, lambda: [texts], is_done, needs, trainings)


def _export(recipe: Recipe, model: _Model, form: str) -> Step:
    seed, run = next(iter(model.runs.items()))
    folder = recipe.dir / model.label / "exports" / form
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
        content = open_export(folder).content
        made_with = content["checkpoint"].get("sha256"), content.get("quantization"), content["decode_hparams"]
        return made_with == (checkpoint_digest(_chosen(recipe, run, "export")), quantization, _search(recipe, run))

    about = _about(model.label, f"seed {seed}" if len(recipe.seeds) > 1 else "")
    needs = [f"{name} ({about})" if about else name for name in ("train", "average")]
    return Step("export", _about(model.label, form), "export", flags, lambda: [folder], is_done, needs)


def _write_mixture(path: Path, parts: Iterable[Mapping[str, Any]]) -> Path:
    """Writes a mixture, whose paths are relative to its folder, unless it is there. Returns its path."""
    lines = [_WRITTEN]
    for part in parts:
        lines.append("[[parts]]")
        for name, value in part.items():
            if name in PROBLEMS[part.get("problem", "text_pairs")].file_lists:
                files = split_paths(value) if isinstance(value, str) else value
                here = path.parent.resolve()
                ours = [file for file in files if Corpus(file).is_local and file[:1] not in "~/-"]
                value = [os.path.relpath(Path(file).resolve(), here) if file in ours else file for file in files]
            lines.append(f"{name} = {json.dumps(value, ensure_ascii=False)}")  # which is TOML for these values, too
    text = "\n".join(lines) + "\n"
    before = path.read_text(encoding="utf-8") if path.exists() else _WRITTEN
    if not before.startswith(_WRITTEN):
        raise UserError(f"{path} would be overwritten; move it away, or use another dir")
    if before != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    return path
