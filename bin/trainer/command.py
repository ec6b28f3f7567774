"""t2t-lite-trainer: trains a model on a problem's data."""

import argparse
import dataclasses
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from t2t_lite.api.training import check_evaluation, train
from t2t_lite.bin import cli
from t2t_lite.bin.cli.device_flags import add_device_flags
from t2t_lite.bin.cli.display import CommandDisplay
from t2t_lite.bin.cli.plugin_flags import trust_plugins
from t2t_lite.bin.cli.problem_flags import parse_with_problem
from t2t_lite.data.problem import get_problem
from t2t_lite.training.options import SCHEDULES, TrainOptions
from t2t_lite.training.tf_config import make_tf_configs

_DEFAULTS = TrainOptions()
# The arguments of `make_strategy`, which are flags, too.
_DEVICES = ("strategy", "num_gpus", "virtual_devices")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command with the flags `argv` (default: those of this process) and returns its exit status."""
    # The other workers may still read what this one has sent.
    has_workers = bool(os.environ.get("TF_CONFIG"))
    return cli.run("trainer", _main, argv, exit_at_once=not has_workers)


def make_parser() -> cli.CommandParser:
    """Returns the parser of the command's flags."""
    parser = cli.CommandParser(
        "trainer", "Train a model. Run the same command again to resume from the last checkpoint.", runs=True
    )
    _add_task(parser)
    _add_devices(parser)
    _add_running(parser)
    _add_choosing(parser)
    return parser


def _add_task(parser: cli.CommandParser) -> None:
    add = parser.add_argument_group("what to train").add_argument
    add("--problem", help="name of the problem")
    add("--hparams_set", help="name of the hparam set")
    add("--hparams", default="", metavar="NAME=VALUE,...", help="overrides of the set's values")
    add("--model", help="name of the model (default: the set's)")
    add("--data_dir", type=cli.path, help="folder with the data")
    add("--output_dir", type=cli.path, help="the run directory: settings, vocabulary, checkpoints, event files")
    add("--generate_data", action="store_true", help="generate the data first, if it is missing")
    add(
        "--tmp_dir", type=cli.path, help="folder for source files, which are downloaded if missing; for --generate_data"
    )
    add("--train_steps", type=cli.whole_number(1), help="total number of steps (default: the set's)")
    add(
        "--recipe",
        metavar="NAME",
        help="paper: checkpoints every 10 minutes, the last ones averaged at the end, the test split evaluated, and a "
        "report beside the paper's figures; none (default: the set's recipe, if it has one)",
    )
    add(
        "--warm_start_from",
        type=cli.path,
        metavar="RUN",
        help="start with the weights of another run, or of one of its checkpoints (RUN/ckpt-2000), where they fit",
    )
    add(
        "--random_seed",
        type=cli.whole_number(0),
        default=1,
        help="seed of initial weights, data order and dropout (default: 1)",
    )


def _add_devices(parser: cli.CommandParser) -> None:
    add = parser.add_argument_group("devices").add_argument
    add_device_flags(add)
    add(
        "--make_tf_config",
        metavar="HOST:PORT,...",
        help="print the variable TF_CONFIG for each of these workers and exit",
    )


def _add_running(parser: cli.CommandParser) -> None:
    add = parser.add_argument_group("checkpoints and reports").add_argument
    add(
        "--save_checkpoints_secs",
        type=cli.whole_number(1),
        help="seconds between checkpoints (default: 600)",
    )
    add(
        "--save_checkpoints_steps",
        type=cli.whole_number(0),
        default=0,
        help="steps between checkpoints, instead of seconds",
    )
    add("--keep_checkpoint_max", type=cli.whole_number(1), default=20, help="checkpoints to keep (default: 20)")
    add("--log_step_count_steps", type=cli.whole_number(1), default=100, help="steps between reports (default: 100)")
    add(
        "--report",
        action="store_true",
        help="keep an HTML report in the run directory, report.html, up to date (see t2t-lite-report)",
    )
    add("--profile", action="store_true", help="write a TensorBoard trace of a few steps")


def _add_choosing(parser: cli.CommandParser) -> None:
    add = parser.add_argument_group("evaluation").add_argument
    add(
        "--schedule",
        type=cli.one_of(SCHEDULES, "schedule"),
        default=_DEFAULTS.schedule,
        metavar="WORD",
        help="train; eval: evaluate the checkpoints that another process writes; train_and_evaluate: both (default)",
    )
    add(
        "--eval_decode",
        action="store_true",
        help="translate or parse the dev split at each checkpoint, for BLEU or F1 and --eval_metric",
    )
    add(
        "--decode_hparams",
        default="",
        metavar="NAME=VALUE,...",
        help="overrides of the problem's search settings for --eval_decode",
    )
    add(
        "--eval_lines",
        type=cli.whole_number(1),
        metavar="N",
        help="with --eval_decode, translate or parse the first N lines of the dev split only (default: all)",
    )
    add(
        "--eval_metric",
        default=_DEFAULTS.eval_metric,
        metavar="NAME",
        help="the metric of model selection, such as bleu or chrf with --eval_decode (default: loss)",
    )
    add("--keep_best_n", type=cli.whole_number(0), default=0, help="also keep this many of the best checkpoints")
    add(
        "--early_stopping_patience",
        type=cli.whole_number(0),
        default=0,
        help="stop after this many evaluations without improvement (default: 0, never)",
    )
    add(
        "--eval_wait_secs",
        type=cli.whole_number(0),
        default=_DEFAULTS.eval_wait_secs,
        help="with --schedule=eval, exit after this many seconds without a new checkpoint (default: 3600)",
    )


def _main(flags: Sequence[str]) -> int:
    parser = make_parser()
    arguments = parse_with_problem(parser, flags)
    needed = {"train": ("problem", "hparams_set", "data_dir", "output_dir"), "eval": ("data_dir", "output_dir")}
    if not arguments.make_tf_config:
        for flag in needed["eval" if arguments.schedule == "eval" else "train"]:
            if not getattr(arguments, flag):
                parser.error(f"--{flag} is required")
    if arguments.schedule == "eval" and arguments.recipe:
        parser.error("--recipe is for trainings, and --schedule=eval is none")
    if arguments.schedule == "eval" and arguments.report:
        parser.error("--report is for trainings, and --schedule=eval is none; use t2t-lite-report")
    TrainOptions(**_options(arguments))  # checks the flags before anything is waited for or trusted
    if arguments.problem_options and not arguments.generate_data:
        parser.error(f"--{next(iter(arguments.problem_options))} applies to data generation and needs --generate_data")
    return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    """Executes the command and returns its exit status."""
    if arguments.make_tf_config:
        for number, config in enumerate(make_tf_configs(arguments.make_tf_config.split(","))):
            print(f"# worker {number}{', the chief' if number == 0 else ''}\nexport TF_CONFIG='{config}'")
    elif arguments.schedule == "eval":
        _evaluate(arguments)
    else:
        return _train(arguments)
    return 0


def _train(arguments: argparse.Namespace) -> int:
    trust_plugins(arguments, _warm_start_run(arguments))
    names = (
        *("data_dir", "output_dir", "hparams", "model", "train_steps", "generate_data", "tmp_dir", "recipe", "report"),
        *_DEVICES,
    )
    result = train(
        get_problem(arguments.problem, **arguments.problem_options),
        arguments.hparams_set,
        display=CommandDisplay(),
        **{name: getattr(arguments, name) for name in names},
        **_options(arguments),
    )
    return 128 + signal.Signals[result.signal] if result.signal else 0


def _warm_start_run(arguments: argparse.Namespace) -> list[str]:
    """Returns the run directory of --warm_start_from, or [] without that flag."""
    path = arguments.warm_start_from
    return [] if not path else [path if Path(path).is_dir() else str(Path(path).parent)]


def _options(arguments: argparse.Namespace) -> dict:
    """Returns the flags that are `TrainOptions`."""
    given = {name: value for name, value in vars(arguments).items() if name in TrainOptions.__dataclass_fields__}
    if given["save_checkpoints_secs"] is None:
        del given["save_checkpoints_secs"]
    return given


def _evaluate(arguments: argparse.Namespace) -> None:
    from t2t_lite.quiet import import_tensorflow
    from t2t_lite.run_dir import open_run_dir, wait_for_run_dir

    wait_for_run_dir(Path(arguments.output_dir), arguments.eval_wait_secs, cli.say)
    trust_plugins(arguments, [arguments.output_dir])
    run_dir, options = open_run_dir(Path(arguments.output_dir)), TrainOptions(**_options(arguments))
    check_evaluation(run_dir.problem, options)
    import_tensorflow()
    from t2t_lite.training.evaluation.continuous import evaluate_continuously
    from t2t_lite.training.strategy import device_memory, make_strategy

    options = dataclasses.replace(options, free_bytes=device_memory(arguments.virtual_devices))
    strategy = make_strategy(*(getattr(arguments, name) for name in _DEVICES))
    evaluate_continuously(run_dir, Path(arguments.data_dir), strategy, options, CommandDisplay())
