"""The flags of t2t-lite-trainer."""

from t2t_lite.bin import cli
from t2t_lite.bin.device_flags import add_device_flags
from t2t_lite.training.evaluation.model_selection import METRICS
from t2t_lite.training.options import SCHEDULES, TrainOptions

_DEFAULTS = TrainOptions()


def make_parser() -> cli.Parser:
    """Returns the parser of the command's flags."""
    parser = cli.Parser("trainer", "Train a model. The same command again goes on from the last checkpoint.", runs=True)
    _add_task(parser)
    _add_devices(parser)
    _add_running(parser)
    _add_choosing(parser)
    return parser


def _add_task(parser) -> None:
    add = parser.add_argument_group("what to train").add_argument
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
        "--warm_start_from",
        type=cli.path,
        metavar="RUN",
        help="begin with the weights of another run, or of a checkpoint in it (RUN/ckpt-2000), as far as they fit",
    )
    add("--random_seed", type=cli.whole_number(0), default=1, help="fixes weights, data order and dropout (default: 1)")


def _add_devices(parser) -> None:
    add = parser.add_argument_group("devices").add_argument
    add_device_flags(add)
    add(
        "--make_tf_config",
        metavar="HOST:PORT,...",
        help="print the variable TF_CONFIG for each of these workers, and end",
    )


def _add_running(parser) -> None:
    add = parser.add_argument_group("checkpoints and reports").add_argument
    add("--save_checkpoints_secs", type=cli.whole_number(1), default=600, help="seconds between them (default: 600)")
    add("--save_checkpoints_steps", type=cli.whole_number(0), default=0, help="steps between them, instead of seconds")
    add("--keep_checkpoint_max", type=cli.whole_number(1), default=20, help="how many are kept (default: 20)")
    add("--log_step_count_steps", type=cli.whole_number(1), default=100, help="steps between reports (default: 100)")
    add("--profile", action="store_true", help="write a TensorBoard trace of a few steps")


def _add_choosing(parser) -> None:
    add = parser.add_argument_group("evaluation").add_argument
    add(
        "--schedule",
        type=cli.one_of(SCHEDULES, "schedule"),
        default=_DEFAULTS.schedule,
        metavar="WORD",
        help="train; eval: follow the checkpoints that another process writes; or train_and_evaluate: both (default)",
    )
    add(
        "--eval_decode", action="store_true", help="translate or parse the dev split at each checkpoint, for BLEU or F1"
    )
    add(
        "--decode_hparams",
        default="",
        metavar="NAME=VALUE,...",
        help="changes to the problem's search for --eval_decode",
    )
    add("--eval_metric", choices=METRICS, default=_DEFAULTS.eval_metric, help="what is best (default: loss)")
    add("--keep_best_n", type=cli.whole_number(0), default=0, help="keep so many of the best checkpoints, too")
    add(
        "--early_stopping_patience",
        type=cli.whole_number(0),
        default=0,
        help="end after so many evaluations without a better one (default: 0, never)",
    )
    add(
        "--eval_wait_secs",
        type=cli.whole_number(0),
        default=_DEFAULTS.eval_wait_secs,
        help="with --schedule=eval, end when no checkpoint has come for so long (default: 3600)",
    )
