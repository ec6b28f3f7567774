"""t2t-lite-trainer: trains a model on a problem's data."""

from pathlib import Path

from t2t_lite.bin import cli
from t2t_lite.bin.datagen import generate_data


def main() -> None:
    """Runs the command."""
    parser = cli.Parser("Train a model. The same command again goes on from the last checkpoint.")
    add = parser.add_argument
    add("--problem", help="name of the problem")
    add("--hparams_set", help="name of the hparam set")
    add("--hparams", default="", metavar="NAME=VALUE,...", help="changes to the set")
    add("--model", help="name of the model (default: the set's)")
    add("--data_dir", type=cli.path, help="where the data is")
    add("--output_dir", type=cli.path, help="the run directory: settings, vocabulary, checkpoints, event files")
    add("--generate_data", action="store_true", help="make the data first, if it is not there")
    add("--tmp_dir", type=cli.path, help="where source files are, or are fetched to, for --generate_data")
    add("--train_steps", type=cli.whole_number(1), help="steps in all (default: the set's)")
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
    add(
        "--keep_checkpoint_max",
        type=cli.whole_number(1),
        default=20,
        help="how many checkpoints are kept (default: 20)",
    )
    add(
        "--log_step_count_steps",
        type=cli.whole_number(1),
        default=100,
        help="steps between progress reports (default: 100)",
    )
    add("--random_seed", type=cli.whole_number(0), default=1, help="fixes weights, data order and dropout (default: 1)")
    add(
        "--virtual_devices",
        type=cli.whole_number(0),
        default=0,
        help="split the CPU into this many devices and train on all",
    )
    add(
        "--registry_help",
        nargs="?",
        const="",
        metavar="NAME",
        help="list problems, hparam sets and models, or describe the one called NAME, and end",
    )
    arguments = parser.parse_args()
    if arguments.registry_help is None:
        for flag in ("problem", "hparams_set", "data_dir", "output_dir"):
            if not getattr(arguments, flag):
                parser.error(f"--{flag} is required")
    cli.run(_train, arguments)


def _train(arguments) -> None:
    from t2t_lite.data.manifest import check_data, check_lengths
    from t2t_lite.data.problem import get_problem
    from t2t_lite.plugins import load_builtins
    from t2t_lite.quiet import import_tensorflow
    from t2t_lite.registry import HPARAMS, MODELS
    from t2t_lite.run_dir import prepare_run_dir

    load_builtins()
    if arguments.registry_help is not None:
        from t2t_lite.bin.registry_help import print_registry_help

        print_registry_help(arguments.registry_help)
        return
    problem = get_problem(arguments.problem)
    hparams = HPARAMS[arguments.hparams_set]().override(arguments.hparams)
    if arguments.model:
        hparams = hparams.replace(model=arguments.model)
    if arguments.train_steps is not None:
        hparams = hparams.replace(train_steps=arguments.train_steps)
    MODELS.check(hparams.model)
    # What can be refused is refused before data is made, and before TensorFlow is imported.
    problem.check_hparams(hparams)
    if arguments.generate_data:
        generate_data(problem, arguments.data_dir, arguments.tmp_dir)
    data_dir = Path(arguments.data_dir)
    manifest = check_data(data_dir, problem)
    check_lengths(manifest, hparams)
    inputs, targets = (data_dir / vocabulary["file"] for vocabulary in problem.in_direction(manifest.vocabularies))
    run_dir = prepare_run_dir(
        Path(arguments.output_dir), hparams, problem, targets, arguments.random_seed, inputs_vocabulary=inputs
    )
    import_tensorflow()
    from t2t_lite.training.strategy import make_strategy
    from t2t_lite.training.trainer import TrainOptions, train

    options = TrainOptions(**{name: getattr(arguments, name) for name in TrainOptions.__dataclass_fields__})
    train(run_dir, data_dir, make_strategy(arguments.virtual_devices), options)
