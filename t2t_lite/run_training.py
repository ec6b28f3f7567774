"""Trains a model, and runs the final steps of a recipe."""

import contextlib
import dataclasses
import signal
from collections.abc import Collection, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_lite.config import AUTO_BATCH_BY, AUTO_PRECISION, HParams, resolve_hparams
from t2t_lite.data.bpe_dropout import make_new_tokens
from t2t_lite.data.generation.generate import generate_data as generate
from t2t_lite.data.manifest import check_data, read_manifest
from t2t_lite.data.problem import SIDES, Problem, get_problem
from t2t_lite.display import Display
from t2t_lite.errors import UserError
from t2t_lite.options import SettingValue
from t2t_lite.recipes import Recipe, choose_recipe
from t2t_lite.registry import MODELS, PROBLEMS
from t2t_lite.runs.checkpoint_files import list_checkpoints
from t2t_lite.runs.evaluations import Columns, read_evaluation_columns, read_reports
from t2t_lite.runs.run_dir import RunDir, folder_to_start_from, open_run_dir, prepare_run_dir, with_order_of_run
from t2t_lite.system.locks import training_in
from t2t_lite.system.machine import has_gpu, keep_compiled
from t2t_lite.system.tensorflow import tensorflow_job
from t2t_lite.training.cluster import use_slurm, workers_of_environment
from t2t_lite.training.options import Callback, TrainOptions, check_callbacks, check_evaluation

if TYPE_CHECKING:
    from t2t_lite.training.policy import Ending

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
    is_chief, data_dir, output_dir = worker == 0, Path(data_dir), Path(output_dir)
    generated = get_problem(problem) if isinstance(problem, str) else problem
    if generated.data_name not in PROBLEMS:
        raise UserError(
            f"problem '{generated.data_name}' is not registered; decorate its class with @PROBLEMS.register"
        )
    problem = get_problem(generated.name)
    # Of the options, training needs only the languages; others affect the data.
    if (made := read_manifest(data_dir, problem)) is not None:
        made.languages(generated, data_dir)  # a check
        problem.set_languages(made.settings)
    problem.set_languages(generated.options)
    settings = _settings(hparams_set, hparams, model, train_steps, output_dir, options.get("warm_start_from"))
    chosen = choose_recipe(recipe, hparams_set)
    checked = _options(options, problem.flags, chosen, settings)
    callbacks = list(callbacks)
    check_callbacks(callbacks)
    follower = None
    if report and is_chief:
        from t2t_lite.report import writing

        writing.check_packages("report")
        follower = writing.ReportCallback(output_dir, evaluates=checked.schedule != "train")
        callbacks.append(follower)
    # Check the arguments before generating data and importing TensorFlow.
    problem.check_hparams(settings)
    check_evaluation(problem, checked)
    if generate_data and len(workers) > 1:
        raise UserError("`generate_data` works on one machine only; run t2t-lite-datagen first, then start all workers")
    # Only the chief locks the run directory, because only it writes there.
    locked = training_in(output_dir) if is_chief else contextlib.nullcontext()
    with follower.until_the_end() if follower else contextlib.nullcontext(), locked:
        if generate_data:
            more = _vocabulary_to_start_with(generated, data_dir, output_dir, checked.warm_start_from)
            generate(generated, data_dir, tmp_dir=tmp_dir, display=display, **more)
        if chosen and is_chief:
            check_data(data_dir, problem, chosen.split)
        ending = _train(problem, settings, hparams_set, data_dir, output_dir, checked, is_chief, callbacks, display)
        result = TrainResult(
            output_dir=output_dir,
            step=ending.step,
            ended_by=ending.reason,
            signal=signal.Signals(ending.signal).name if ending.signal else "",
            history=read_reports(output_dir),
            evaluations=read_evaluation_columns(output_dir),
            checkpoints=[path for _, path in list_checkpoints(output_dir)],
        )
        if chosen and is_chief and result.ended_by in COMPLETE:
            from t2t_lite.reproduce import run_report

            written = run_report.finish(chosen, output_dir, data_dir, hparams_set, display or Display())
            result = dataclasses.replace(result, report=written)
    return result


def _settings(
    hparams_set: str | None,
    hparams: HParams | Mapping[str, SettingValue] | str | None,
    model: str | None,
    train_steps: int | None,
    output_dir: Path,
    warm_start_from: str | PathLike | None,
) -> HParams:
    if hparams_set is None and warm_start_from and not isinstance(hparams, HParams):
        if (output_dir / "run.json").exists():  # the run to resume
            started = open_run_dir(output_dir).hparams
        else:  # the best `batch_by` depends on the devices, so it is chosen again
            started = open_run_dir(folder_to_start_from(Path(warm_start_from))).hparams.replace(batch_by=AUTO_BATCH_BY)
        hparams = started.changed(hparams)
    settings = resolve_hparams(hparams_set, hparams, model)
    if train_steps is not None:
        settings = settings.replace(train_steps=train_steps)
    MODELS.check(settings.model)
    return settings


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


def _vocabulary_to_start_with(
    problem: Problem, data_dir: Path, output_dir: Path, warm_start_from: str | PathLike | None
) -> dict[str, str]:
    """Returns the option `vocab_file` for generating data with the vocabulary of the run to warm-start from.

    If there is data already, it is the option that this data was made with. Returns {} to leave the option unset.
    Raises UserError if training cannot start from that run, unless this one has checkpoints.
    """
    if not warm_start_from:
        return {}
    path = Path(warm_start_from)
    if not list_checkpoints(output_dir):
        with tensorflow_job():
            from t2t_lite.training.warm_start import resolve

            resolve(path)
    if problem.vocab_file:
        return {}
    if (manifest := read_manifest(data_dir, problem)) is not None:
        return {"vocab_file": made_with} if (made_with := manifest.settings.get("vocab_file")) else {}
    other = open_run_dir(folder_to_start_from(path))
    # Data is stored in the forward direction, but a run may train the reverse direction of the same problem.
    forward = other.problem if other.problem.data_name == problem.data_name else problem
    files = dict.fromkeys(map(str, forward.in_direction((other.inputs_vocabulary, other.vocabulary))))
    is_like = all(problem.symbols_of(side) == other.problem.symbols_of(side) for side in SIDES)
    if not is_like or (len(files) == 1 and not problem.shared_vocabulary):
        return {}
    return {"vocab_file": ",".join(files)}


def _train(
    problem: Problem,
    hparams: HParams,
    hparams_set: str | None,
    data_dir: Path,
    output_dir: Path,
    options: TrainOptions,
    is_chief: bool,
    callbacks: Iterable[Callback],
    display: Display | None,
) -> "Ending":
    manifest = check_data(data_dir, problem)
    vocabularies = [data_dir / vocabulary["file"] for vocabulary in manifest.vocabularies]
    manifest.check_lengths(hparams)
    problem.check_data(hparams, manifest.settings, vocabularies)
    if hparams.bpe_dropout:
        make_new_tokens(problem, data_dir, manifest, hparams.bpe_dropout, hparams.max_length)
    inputs, targets = problem.in_direction(vocabularies)
    if options.warm_start_from and not list_checkpoints(output_dir):
        other = open_run_dir(folder_to_start_from(Path(options.warm_start_from))).problem
        if "decode_hparams" in vars(other):  # of an imported model, which still decodes as it did
            problem.decode_hparams = other.decode_hparams

    def prepare(settings: HParams) -> RunDir:
        if not is_chief:
            return RunDir(output_dir, settings, problem, targets, inputs)  # the chief writes and checks it
        return prepare_run_dir(
            output_dir,
            settings,
            problem,
            targets,
            options.random_seed,
            inputs_vocabulary=inputs,
            data_dir=data_dir,
            eval_metric=options.eval_metric if options.schedule != "train" else None,
            hparams_set=hparams_set,
            data_digest=manifest.digest(),
        )

    depends_on_devices = hparams.precision == AUTO_PRECISION
    if options.xla_compile or (options.xla_compile is None and has_gpu()):
        keep_compiled()
        depends_on_devices |= hparams.batch_by == AUTO_BATCH_BY
    # Importing TensorFlow takes seconds: prepare the directory first, unless settings depend on the devices.
    run_dir = None if depends_on_devices else prepare(with_order_of_run(output_dir, hparams))
    with tensorflow_job():
        from t2t_lite.training import run

        first, make = (run_dir.hparams, lambda _: run_dir) if run_dir else (hparams, prepare)
        return run.train(first, make, output_dir, data_dir, manifest, options, callbacks, display)
