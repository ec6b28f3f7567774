"""Trains a model, and runs the final steps of a recipe."""

import contextlib
import dataclasses
import signal
from collections.abc import Collection, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_lite.config import AUTO_BATCH_BY, AUTO_PRECISION, HParams, resolve_hparams
from t2t_lite.data.generation.generate_data import generate_data as generate
from t2t_lite.data.manifest import Manifest, check_data, read_manifest
from t2t_lite.data.problem import SIDES, Problem, get_problem
from t2t_lite.display import Display
from t2t_lite.errors import UserError
from t2t_lite.evaluation.evaluate import evaluate, score_split
from t2t_lite.files import write_text
from t2t_lite.options import SettingValue
from t2t_lite.recipes import Recipe, choose_recipe
from t2t_lite.registry import MODELS, PROBLEMS
from t2t_lite.reproduce.cost import training_figures
from t2t_lite.reproduce.run_report import run_report
from t2t_lite.runs.checkpoint_files import list_checkpoints
from t2t_lite.runs.evaluations import Columns, read_evaluation_columns, read_reports
from t2t_lite.runs.run_dir import (
    RunDir,
    folder_to_start_from,
    open_run_dir,
    prepare_run_dir,
    stored_setting,
    with_order_of_run,
)
from t2t_lite.runs.selection import average_checkpoints
from t2t_lite.system.locks import training_in
from t2t_lite.system.machine import has_gpu, keep_compiled
from t2t_lite.system.tensorflow import tensorflow_job
from t2t_lite.training.callbacks import Callback, check_callbacks
from t2t_lite.training.checks import check_training
from t2t_lite.training.cluster import use_slurm, workers_of_environment
from t2t_lite.training.options import TrainOptions, check_evaluation

if TYPE_CHECKING:
    import tensorflow as tf

    from t2t_lite.report.writing import ReportCallback


# The values of `TrainResult.ended_by` for a complete run.
COMPLETE = ("last step", "early stopping")


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """The outcome of a training run.

    Args:
      output_dir: the run directory.
      step: the last step.
      ended_by: "last step", "early stopping", "callback" or "signal".
      signal: the name of the signal, such as "SIGINT", or "".
      history: the logged training metrics as columns of equal length: step, loss, learning_rate, ...
      evaluations: the evaluations as columns: step, loss, perplexity, accuracy and, with decoding, bleu or f1 and
        `eval_metric`.
      checkpoints: paths of the existing checkpoints, without suffix, oldest first.
      report: the path of the recipe's report; None without a recipe, or if the run is not complete.
    """

    output_dir: Path
    step: int
    ended_by: str
    signal: str = ""
    history: Columns = dataclasses.field(default_factory=dict, repr=False)
    evaluations: Columns = dataclasses.field(default_factory=dict, repr=False)
    checkpoints: list[Path] = dataclasses.field(default_factory=list, repr=False)
    report: Path | None = None


def train(
    problem: str | Problem,
    hparams_set: str | None = None,
    *,
    data_dir: str | PathLike,
    output_dir: str | PathLike,
    hparams: HParams | Mapping[str, SettingValue] | str | None = None,
    model: str | None = None,
    train_steps: int | None = None,
    callbacks: Iterable[Callback] = (),
    generate_data: bool = False,
    tmp_dir: str | PathLike | None = None,
    display: Display | None = None,
    recipe: str | Recipe | None = None,
    report: bool = False,
    **options: Any,
) -> TrainResult:
    """Trains a model, as t2t-lite-trainer does. Repeating the call resumes a stopped run.

    Args:
      problem: the name of a registered problem, or a `Problem` with options for `generate_data`.
      hparams_set: the name of a hyperparameter set; None if `hparams` is complete, or to use the settings of the run
        in `warm_start_from`.
      data_dir: the folder with the problem's data.
      output_dir: the run directory, for settings, vocabularies, checkpoints and logs.
      hparams: changes to the set, as a dict or "name=value,..."; or complete settings from `get_hparams`.
      model: the name of the model; None: the set's.
      train_steps: the total number of steps; None: the set's.
      callbacks: receive the metrics of steps and evaluations, and can stop the run.
      generate_data: whether to generate missing data first. With `warm_start_from`, it uses the vocabulary of that run.
      tmp_dir: where `generate_data` finds or stores source files, see `t2t_lite.generate_data`.
      display: where to show the progress; None: the logger "t2t_lite".
      recipe: "paper" saves checkpoints every 10 minutes, averages the last ones at the end, evaluates the test split,
        and reports the results beside the paper's; or another `Recipe`; "none": no recipe; None: the set's, if any.
      report: whether to keep an HTML report, `output_dir`/report.html, up to date, see `t2t_lite.write_report`. Errors
        in writing it are only warnings.
      options: `TrainOptions`: strategy, num_gpus, save_checkpoints_steps, eval_decode, random_seed, ...

    Raises:
      UserError: if settings, data or checkpoints are unusable, another process trains in `output_dir`, the disk or
        memory is full, or the loss or gradients are not finite.
    """
    use_slurm()
    workers, worker = workers_of_environment()
    generated = get_problem(problem) if isinstance(problem, str) else problem
    if generated.data_name not in PROBLEMS:
        raise UserError(
            f"problem '{generated.data_name}' is not registered; decorate its class with @PROBLEMS.register"
        )
    problem = get_problem(generated.name)
    # Of the options, training needs only the languages; others affect the data.
    if (made := read_manifest(Path(data_dir), problem)) is not None:
        problem.set_languages(made.settings)
    problem.set_languages(generated.options)
    if hparams_set is None and options.get("warm_start_from") and not isinstance(hparams, HParams):
        hparams = _settings_to_start_from(Path(output_dir), Path(options["warm_start_from"])).changed(hparams)
    settings = _settings(hparams_set, hparams, model, train_steps)
    chosen = choose_recipe(recipe, hparams_set)
    checked = _options(options, problem.flags, chosen, settings)
    callbacks = list(callbacks)
    check_callbacks(callbacks)
    if follower := _follower(Path(output_dir), checked) if report and worker == 0 else None:
        callbacks.append(follower)
    # Check the arguments before generating data and importing TensorFlow.
    problem.check_hparams(settings)
    check_evaluation(problem, checked)
    if generate_data and len(workers) > 1:
        raise UserError("`generate_data` works on one machine only; run t2t-lite-datagen first, then start all workers")
    run = _Run(problem, settings, Path(data_dir), Path(output_dir), checked, worker == 0, hparams_set)
    # Only the chief locks the run directory, because only it writes there.
    locked = training_in(run.output_dir) if run.is_chief else contextlib.nullcontext()
    with follower.until_the_end() if follower else contextlib.nullcontext(), locked:
        if generate_data:
            run.check_warm_start()

            generate(
                generated, run.data_dir, tmp_dir=tmp_dir, display=display, **run.vocabulary_to_start_with(generated)
            )
        if chosen and run.is_chief:
            run.check_split(chosen.split)
        result = run.train(callbacks, display)
        if chosen and run.is_chief and result.ended_by in COMPLETE:
            written = _finish(chosen, result.output_dir, run.data_dir, hparams_set, display or Display())
            result = dataclasses.replace(result, report=written)
    return result


def _follower(output_dir: Path, options: TrainOptions) -> "ReportCallback":
    """Returns the callback that updates the report. Raises UserError if a package for reports is missing."""
    from t2t_lite.report import writing

    writing.check_packages("report")
    return writing.ReportCallback(output_dir, evaluates=options.schedule != "train")


def _settings(
    hparams_set: str | None,
    hparams: HParams | Mapping[str, SettingValue] | str | None,
    model: str | None,
    train_steps: int | None,
) -> HParams:
    settings = resolve_hparams(hparams_set, hparams, model)
    if train_steps is not None:
        settings = settings.replace(train_steps=train_steps)
    MODELS.check(settings.model)
    return settings


def _settings_to_start_from(output_dir: Path, other: Path) -> HParams:
    """Returns the settings of the run to resume, or of the run to warm-start from."""
    if (output_dir / "run.json").exists():
        return open_run_dir(output_dir).hparams
    # The best `batch_by` depends on the devices, so it is chosen again.
    return open_run_dir(folder_to_start_from(other)).hparams.replace(batch_by=AUTO_BATCH_BY)


def _options(
    options: Mapping[str, Any], problem_flags: Collection[str], recipe: Recipe | None, hparams: HParams
) -> TrainOptions:
    for name in options.keys() & set(problem_flags) - set(TrainOptions.declared()):
        raise UserError(f"`{name}` is an option of the problem: pass it to get_problem, and the result to train")
    if options.get("schedule") == "eval":
        raise UserError(
            "train() cannot evaluate without training; use t2t_lite.evaluate, or t2t-lite-trainer --schedule=eval"
        )
    if recipe is None:
        return TrainOptions.of_keywords(options, train)
    checked = TrainOptions.of_keywords({"save_checkpoints_secs": recipe.save_checkpoints_secs, **options}, train)
    kept = max(checked.keep_checkpoint_max, hparams.average_checkpoints if recipe.averages else 1)
    return dataclasses.replace(checked, keep_checkpoint_max=kept)


@dataclasses.dataclass(frozen=True)
class _Run:
    """The arguments of one training run."""

    problem: Problem
    hparams: HParams
    data_dir: Path
    output_dir: Path
    options: TrainOptions
    is_chief: bool
    hparams_set: str | None = None

    def train(self, callbacks: Iterable[Callback], display: Display | None) -> TrainResult:
        """Prepares the run directory and trains."""
        manifest = self._check()
        options, is_open = self.options, self.hparams.precision == AUTO_PRECISION
        if options.xla_compile or (options.xla_compile is None and has_gpu()):
            keep_compiled()
            is_open |= self.hparams.batch_by == AUTO_BATCH_BY
        # Importing TensorFlow takes seconds: prepare the directory first, unless settings depend on the devices.
        run_dir = None if is_open else self._run_dir(manifest, self.hparams)
        with tensorflow_job():
            from t2t_lite.training import devices, run

            free_bytes = devices.device_memory(options.virtual_devices)
            made = devices.make_strategy(
                options.strategy,
                options.num_gpus,
                options.virtual_devices,
                options.xla_compile,
                options.worker_timeout,
            )
            compiled = devices.may_compile(made, options.xla_compile)
            if run_dir is None:
                run_dir = self._run_dir(
                    manifest, self._with_precision(made, display), devices.default_batch_by(compiled)
                )
            compiled = devices.compiles(compiled, options.xla_compile, run_dir.hparams.batch_by)
            options = dataclasses.replace(options, free_bytes=free_bytes, xla_compile=compiled)
            ending = run.train(run_dir, self.data_dir, made, options, callbacks, display)
        return self._result(ending.step, ending.reason, ending.signal)

    def _with_precision(self, strategy: "tf.distribute.Strategy", display: Display | None) -> HParams:
        """Returns the settings, with precision=auto replaced by the run's or, if it is new, the devices' best."""
        from t2t_lite.training.devices import choose_precision

        if self.hparams.precision != AUTO_PRECISION:
            return self.hparams
        is_new = not (self.output_dir / "run.json").exists()
        precision, why = choose_precision(
            strategy, None if is_new else str(stored_setting(self.output_dir, "precision"))
        )
        if self.is_chief:
            (display or Display()).say(why)
        return self.hparams.replace(precision=precision)

    def check_warm_start(self) -> None:
        """Raises UserError if training cannot start from `warm_start_from`. Does nothing if the run has checkpoints."""
        if self.options.warm_start_from and not list_checkpoints(self.output_dir):
            with tensorflow_job():
                from t2t_lite.training.warm_start import resolve

                resolve(Path(self.options.warm_start_from))

    def check_split(self, split: str) -> None:
        """Raises UserError if there is no data, or the split to evaluate at the end has no pairs."""
        check_data(self.data_dir, self.problem, split)

    def vocabulary_to_start_with(self, problem: Problem) -> dict[str, str]:
        """Returns the option `vocab_file` for generating data with the vocabulary of the run to warm-start from.

        If there is data already, it is the option that this data was made with. Returns {} to leave the option unset.
        """
        if not self.options.warm_start_from or problem.vocab_file:
            return {}
        if (manifest := read_manifest(self.data_dir, problem)) is not None:
            return {"vocab_file": made_with} if (made_with := manifest.settings.get("vocab_file")) else {}
        other = open_run_dir(folder_to_start_from(Path(self.options.warm_start_from)))
        # Data is stored in the forward direction, but a run may train the reverse direction of the same problem.
        forward = other.problem if other.problem.data_name == problem.data_name else problem
        files = dict.fromkeys(map(str, forward.in_direction((other.inputs_vocabulary, other.vocabulary))))
        is_like = all(problem.symbols_of(side) == other.problem.symbols_of(side) for side in SIDES)
        if not is_like or (len(files) == 1) != problem.shared_vocabulary:
            return {}
        return {"vocab_file": ",".join(files)}

    def _check(self) -> Manifest:
        """Checks settings and data, and returns the data's manifest."""
        manifest = check_data(self.data_dir, self.problem)
        check_training(self.problem, self.hparams, manifest, self.data_dir)
        return manifest

    def _run_dir(self, manifest: Manifest, hparams: HParams, batch_by: str = "both") -> RunDir:
        """Prepares the run directory and returns it. In a new run, `batch_by` replaces the value auto."""
        hparams = with_order_of_run(self.output_dir, hparams, batch_by)
        vocabularies = self.problem.in_direction(manifest.vocabularies)
        inputs, targets = (self.data_dir / vocabulary["file"] for vocabulary in vocabularies)
        if self.is_chief:
            evaluates = self.options.schedule != "train"
            return prepare_run_dir(
                self.output_dir,
                hparams,
                self.problem,
                targets,
                self.options.random_seed,
                inputs_vocabulary=inputs,
                data_dir=self.data_dir,
                eval_metric=self.options.eval_metric if evaluates else None,
                hparams_set=self.hparams_set,
                data_digest=manifest.digest(),
            )
        return RunDir(self.output_dir, hparams, self.problem, targets, inputs)  # the chief writes and checks it

    def _result(self, step: int, reason: str, number: int) -> TrainResult:
        return TrainResult(
            output_dir=self.output_dir,
            step=step,
            ended_by=reason,
            signal=signal.Signals(number).name if number else "",
            history=read_reports(self.output_dir),
            evaluations=read_evaluation_columns(self.output_dir),
            checkpoints=[path for _, path in list_checkpoints(self.output_dir)],
        )


def _finish(recipe: Recipe, output_dir: Path, data_dir: Path, hparams_set: str | None, display: Display) -> Path:
    """Averages the last checkpoints of a complete run, evaluates, and writes `report.md` into the run directory.

    If there are fewer checkpoints than the settings ask for, all are averaged, and the report says so. `hparams_set`
    selects the paper's results for comparison; None: it is unknown. Returns the path of the report. Raises UserError if
    a checkpoint or the data is unusable.
    """
    run = open_run_dir(output_dir)
    checkpoints, wanted = list_checkpoints(output_dir), run.hparams.average_checkpoints
    if recipe.averages:
        steps = average_checkpoints(output_dir, min(wanted, len(checkpoints))).steps
        display.say(f"averaged the last {len(steps)} checkpoints (steps {', '.join(map(str, steps))})")
    display.say(f"evaluating the {recipe.split} split; if interrupted, run the same command again to continue here")
    scores = score_split(
        output_dir,
        recipe.split,
        data_dir=data_dir,
        checkpoint_path="average" if recipe.averages else "last",
        # Use the paper's settings, not tuned ones. The paper mentions no minimum length.
        decode_hparams=dataclasses.asdict(run.problem.decode_hparams.replace(min_length=0)),
    )
    training = training_figures(run, data_dir)
    last, _ = checkpoints[-1]
    if training.get("dev_step") != last:  # the training did not evaluate its last checkpoint
        dev = evaluate(output_dir, data_dir, checkpoint_path=f"ckpt-{last}", decode=False)
        training |= {"dev_step": last, "dev_perplexity": dev.perplexity}
    report = run_report(run, training, hparams_set, scores, wanted).markdown()
    path = output_dir / "report.md"
    write_text(path, report)
    display.text(report)
    display.say(f"wrote {path}")
    return path
