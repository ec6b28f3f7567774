"""t2t-lite-trainer: trains a model on a problem's data."""

import argparse
import functools
import os
import signal
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import t2t_lite as t2t
from t2t_lite.bin import cli
from t2t_lite.bin.datagen import GenerationDisplay
from t2t_lite.data.problem import get_problem
from t2t_lite.options import option
from t2t_lite.runs.run_dir import open_run_dir, stored_setting, wait_for_run_dir
from t2t_lite.system.tensorflow import import_tensorflow
from t2t_lite.training import cluster
from t2t_lite.training.launcher import Launcher
from t2t_lite.training.options import TrainOptions, check_evaluation


def main(argv: Sequence[str] | None = None) -> int:
    # Other workers may still read data that this one sent.
    has_workers = bool(os.environ.get("TF_CONFIG") or cluster.is_in_step(os.environ))
    body = functools.partial(_run, is_own_process=argv is None)
    return cli.run("trainer", body, argv, exit_at_once=not has_workers, exit_after_error=True)


class Flags(cli.RunFlags):
    problem: str | None = option(None, "name of the problem", group="what to train")
    hparams_set: str | None = option(
        None, "name of the hparam set (default with --warm_start_from: the settings of that run)"
    )
    hparams: str = option("", "overrides of the set's values", metavar="NAME=VALUE,...")
    model: str | None = option(None, "name of the model", unset="the set's")
    data_dir: PathLike | None = option(None, "folder with the data")
    output_dir: PathLike | None = option(None, "the run directory: settings, vocabulary, checkpoints, event files")
    generate_data: bool = option(False, "generate the data first, if it is missing")
    tmp_dir: PathLike | None = option(
        None, "for --generate_data: folder for source files, which are downloaded if missing"
    )
    train_steps: int | None = option(None, "total number of steps", unset="the set's", at_least=1)
    recipe: str | None = option(
        None,
        "paper: save checkpoints every 10 minutes; at the end, average the last ones, evaluate the test split, and "
        "report the results next to the paper's; none: no recipe",
        unset="the set's recipe, if it has one",
        metavar="NAME",
    )
    options: type[TrainOptions] = TrainOptions
    processes_per_host: int = option(
        1,
        "processes on this machine, which train together; auto: one for each GPU",
        unset="1 for all devices",
        group="devices",
        metavar="N|auto",
        parse=lambda text: 0 if text == "auto" else cli.whole_number(1)(text),
    )
    max_restarts: int = option(
        0,
        "how often to start the processes again after one has ended with an error",
        unset="0",
        at_least=0,
        metavar="N",
    )
    make_tf_config: str | None = option(
        None, "print the TF_CONFIG variable for each of these workers and exit", metavar="HOST:PORT,..."
    )
    report: bool = option(
        False,
        "keep an HTML report, report.html in the run directory, up to date; see t2t-lite-report",
        group="checkpoints and reports",
    )


def make_parser() -> cli.CommandParser:
    about = "Train a model. Run the same command again to resume from the last checkpoint."
    parser = cli.CommandParser("trainer", about, Flags)
    parser.set_defaults(save_checkpoints_secs=None)  # a recipe has its own default
    return parser


def _run(flags: Sequence[str], is_own_process: bool) -> int:
    parser = make_parser()
    arguments = cli.parse_with_problem(parser, flags)
    if arguments.make_tf_config:
        for number, config in enumerate(cluster.make_tf_configs(arguments.make_tf_config.split(","))):
            print(f"# worker {number}{', the chief' if number == 0 else ''}\nexport TF_CONFIG='{config}'")
        return 0
    cluster.use_slurm()
    _check_flags(parser, arguments)
    if (arguments.processes_per_host != 1 or arguments.max_restarts) and not cluster.is_launched():
        log_dir = Path(arguments.output_dir) / "workers"
        command = [*cli.program("trainer"), *flags]
        return Launcher(command, arguments.processes_per_host, arguments.max_restarts, log_dir, cli.say).run()
    if is_own_process:
        cli.end_at_second_signal()
    if arguments.schedule == "eval":
        _evaluate(arguments)
        return 0
    return _train(arguments)


def _check_flags(parser: cli.CommandParser, arguments: argparse.Namespace) -> None:
    needed = {"train": ("problem", "hparams_set", "data_dir", "output_dir"), "eval": ("data_dir", "output_dir")}
    for flag in needed["eval" if arguments.schedule == "eval" else "train"]:
        if not getattr(arguments, flag) and not (flag == "hparams_set" and arguments.warm_start_from):
            parser.error(f"--{flag} is required")
    if arguments.schedule == "eval" and arguments.processes_per_host != 1:
        parser.error("--processes_per_host applies to training only; remove it with --schedule=eval")
    task = cluster.task_of_environment()
    if task and task.has_evaluator and arguments.schedule == "train_and_evaluate":
        parser.error("TF_CONFIG has an evaluator, which evaluates the checkpoints; pass --schedule=train to all tasks")
    if task and task.is_evaluator:  # all tasks of a cluster get the same flags, with which the others only train
        arguments.schedule, arguments.recipe, arguments.report = "eval", None, False
    for flag, instead in (("recipe", "remove it with --schedule=eval"), ("report", "use t2t-lite-report")):
        if arguments.schedule == "eval" and getattr(arguments, flag):
            parser.error(f"--{flag} applies to training only; {instead}")
    TrainOptions(**cli.given(arguments, TrainOptions))  # checks the flags before waiting or trusting plug-ins
    if arguments.problem_options and not arguments.generate_data:
        parser.error(f"--{next(iter(arguments.problem_options))} applies to data generation and needs --generate_data")


def _train(arguments: argparse.Namespace) -> int:
    path = arguments.warm_start_from  # a run directory, or a checkpoint in one
    cli.trust_plugins(arguments, [] if not path else [path if Path(path).is_dir() else str(Path(path).parent)])
    names = (
        *("data_dir", "output_dir", "hparams", "model", "train_steps"),
        *("generate_data", "tmp_dir", "recipe", "report"),
    )
    result = t2t.train(
        get_problem(arguments.problem, **arguments.problem_options),
        arguments.hparams_set,
        display=GenerationDisplay(),
        **{name: getattr(arguments, name) for name in names},
        **cli.given(arguments, TrainOptions),
    )
    if cluster.workers_of_environment()[1] == 0 and not result.signal:  # the chief, which tells of signals itself
        cli.say(f"done: {arguments.output_dir}, step {result.step} ({result.ended_by})")
        usual = int(stored_setting(result.output_dir, "average_checkpoints"))
        averages = len(result.checkpoints) >= usual > 1 and result.report is None
        cli.say_next("avg" if averages else "eval", f"--output_dir={arguments.output_dir}")
    return 128 + signal.Signals[result.signal] if result.signal else 0


def _evaluate(arguments: argparse.Namespace) -> None:
    wait_for_run_dir(Path(arguments.output_dir), arguments.eval_wait_secs, cli.say)
    cli.trust_plugins(arguments, [arguments.output_dir])
    run = open_run_dir(Path(arguments.output_dir))
    options = TrainOptions(**cli.given(arguments, TrainOptions))
    check_evaluation(run.problem, options)
    import_tensorflow()
    from t2t_lite.training import evaluation

    evaluation.evaluate_continuously(run, Path(arguments.data_dir), options, cli.CommandDisplay())
