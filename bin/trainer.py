"""t2t-lite-trainer: trains a model on a problem's data."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from t2t_lite.bin import cli
from t2t_lite.bin.cli.device_flags import add_device_flags
from t2t_lite.bin.cli.plugin_flags import trust_plugins
from t2t_lite.bin.cli.problem_flags import parse_with_problem
from t2t_lite.bin.datagen.command import generate_data
from t2t_lite.errors import UserError
from t2t_lite.training.evaluation.model_selection import METRICS
from t2t_lite.training.options import SCHEDULES, TrainOptions
from t2t_lite.training.tf_config import make_tf_configs, workers_of_environment

_DEFAULTS = TrainOptions()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command with the flags `argv` (default: those of this process) and returns its exit status."""
    return cli.run("trainer", _main, argv)


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


def _add_task(parser) -> None:
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


def _add_devices(parser) -> None:
    add = parser.add_argument_group("devices").add_argument
    add_device_flags(add)
    add(
        "--make_tf_config",
        metavar="HOST:PORT,...",
        help="print the variable TF_CONFIG for each of these workers and exit",
    )


def _add_running(parser) -> None:
    add = parser.add_argument_group("checkpoints and reports").add_argument
    add(
        "--save_checkpoints_secs",
        type=cli.whole_number(1),
        default=600,
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
    add("--profile", action="store_true", help="write a TensorBoard trace of a few steps")


def _add_choosing(parser) -> None:
    add = parser.add_argument_group("evaluation").add_argument
    add(
        "--schedule",
        type=cli.one_of(SCHEDULES, "schedule"),
        default=_DEFAULTS.schedule,
        metavar="WORD",
        help="train; eval: evaluate the checkpoints that another process writes; train_and_evaluate: both (default)",
    )
    add(
        "--eval_decode", action="store_true", help="translate or parse the dev split at each checkpoint, for BLEU or F1"
    )
    add(
        "--decode_hparams",
        default="",
        metavar="NAME=VALUE,...",
        help="overrides of the problem's search settings for --eval_decode",
    )
    add(
        "--eval_metric",
        choices=METRICS,
        default=_DEFAULTS.eval_metric,
        help="the metric of model selection (default: loss)",
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


def _main(flags: Sequence[str]) -> None:
    parser = make_parser()
    arguments = parse_with_problem(parser, flags)
    needed = {"train": ("problem", "hparams_set", "data_dir", "output_dir"), "eval": ("data_dir", "output_dir")}
    if not arguments.make_tf_config:
        for flag in needed["eval" if arguments.schedule == "eval" else "train"]:
            if not getattr(arguments, flag):
                parser.error(f"--{flag} is required")
    if arguments.eval_metric in ("bleu", "f1") and not arguments.eval_decode and arguments.schedule != "train":
        parser.error(f"--eval_metric={arguments.eval_metric} needs --eval_decode")
    if arguments.decode_hparams and not arguments.eval_decode:
        parser.error("--decode_hparams needs --eval_decode")
    if arguments.problem_options and not arguments.generate_data:
        parser.error(f"--{next(iter(arguments.problem_options))} applies to data generation and needs --generate_data")
    _run(arguments)


def _run(arguments) -> None:
    if arguments.make_tf_config:
        for number, config in enumerate(make_tf_configs(arguments.make_tf_config.split(","))):
            print(f"# worker {number}{', the chief' if number == 0 else ''}\nexport TF_CONFIG='{config}'")
    elif arguments.schedule == "eval":
        _evaluate(arguments)
    else:
        _train(arguments)


def _train(arguments) -> None:
    from t2t_lite.locks import training_in

    trust_plugins(arguments, _warm_start_run(arguments))
    workers, worker = workers_of_environment()
    problem, hparams = _task(arguments)
    # Check flags before data is generated and TensorFlow is imported.
    problem.check_hparams(hparams)
    _check_evaluation(arguments, problem)
    if arguments.generate_data and len(workers) > 1:
        raise UserError("--generate_data works on one machine only; run t2t-lite-datagen first, then all workers")
    # Only the chief locks the run directory, because only it writes there.
    with training_in(arguments.output_dir) if worker == 0 else contextlib.nullcontext():
        number = _train_here(arguments, problem, hparams, is_chief=worker == 0)
    if number:
        raise SystemExit(128 + number)


def _warm_start_run(arguments) -> list[str]:
    """Returns the run directory of --warm_start_from, or [] without that flag."""
    path = arguments.warm_start_from
    return [] if not path else [path if Path(path).is_dir() else str(Path(path).parent)]


def _train_here(arguments, problem, hparams, is_chief: bool) -> int:
    """Generates missing data, prepares the run directory and trains; returns the result of `train`."""
    from t2t_lite.data.manifest import check_data
    from t2t_lite.data.problem import get_problem
    from t2t_lite.quiet import import_tensorflow
    from t2t_lite.run_dir import RunDir, prepare_run_dir
    from t2t_lite.training.checks import check_training

    if arguments.generate_data:
        generate_data(
            get_problem(arguments.problem, **arguments.problem_options), arguments.data_dir, arguments.tmp_dir
        )
    data_dir, output_dir = Path(arguments.data_dir), Path(arguments.output_dir)
    manifest = check_data(data_dir, problem)
    check_training(problem, hparams, manifest, data_dir)
    inputs, targets = (data_dir / vocabulary["file"] for vocabulary in problem.in_direction(manifest.vocabularies))
    if is_chief:
        run_dir = prepare_run_dir(
            output_dir, hparams, problem, targets, arguments.random_seed, inputs_vocabulary=inputs
        )
    else:
        run_dir = RunDir(output_dir, hparams, problem, targets, inputs)  # only the chief writes and checks it
    import_tensorflow()
    from t2t_lite.training.trainer import train

    return train(run_dir, data_dir, *_strategy_and_options(arguments))


def _check_evaluation(arguments, problem) -> None:
    """Raises UserError if evaluation flags do not fit the problem."""
    from t2t_lite.training.evaluation.model_selection import check_metric

    check_metric(arguments.eval_metric, problem)
    if problem.decode_hparams.override(arguments.decode_hparams).only_trees and problem.metric != "parseval":
        raise UserError(f"only_trees=True is for parsing, and '{problem.name}' is not", status=2)


def _task(arguments):
    """Returns (problem, hparams) according to the flags."""
    from t2t_lite.data.problem import get_problem
    from t2t_lite.registry import HPARAMS, MODELS

    problem = get_problem(arguments.problem)
    hparams = HPARAMS[arguments.hparams_set]().override(arguments.hparams)
    if arguments.model:
        hparams = hparams.replace(model=arguments.model)
    if arguments.train_steps is not None:
        hparams = hparams.replace(train_steps=arguments.train_steps)
    MODELS.check(hparams.model)
    return problem, hparams


def _strategy_and_options(arguments):
    from t2t_lite.training.strategy import device_memory, make_strategy

    fields = {name: value for name, value in vars(arguments).items() if name in TrainOptions.__dataclass_fields__}
    options = TrainOptions(**fields, free_bytes=device_memory(arguments.virtual_devices))
    return make_strategy(arguments.strategy, arguments.num_gpus, arguments.virtual_devices), options


def _evaluate(arguments) -> None:
    from t2t_lite.quiet import import_tensorflow
    from t2t_lite.run_dir import open_run_dir, wait_for_run_dir

    wait_for_run_dir(Path(arguments.output_dir), arguments.eval_wait_secs, lambda line: print(line, flush=True))
    trust_plugins(arguments, [arguments.output_dir])
    run_dir = open_run_dir(Path(arguments.output_dir))
    _check_evaluation(arguments, run_dir.problem)
    import_tensorflow()
    from t2t_lite.training.evaluation.continuous import evaluate_continuously

    evaluate_continuously(run_dir, Path(arguments.data_dir), *_strategy_and_options(arguments))
