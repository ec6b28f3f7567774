"""t2t-lite-export: writes a trained model in a format that other programs read."""

from collections.abc import Sequence

from t2t_lite.bin import cli
from t2t_lite.bin.cli.plugin_flags import trust_plugins


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command with the flags `argv` (default: those of this process) and returns its exit status."""
    return cli.run("export", _run, argv)


def make_parser() -> cli.CommandParser:
    """Returns the parser of the command's flags."""
    from t2t_lite.api.export import QUANTIZATIONS
    from t2t_lite.export_dir import FORMATS

    parser = cli.CommandParser(
        "export",
        "Write a trained model, with its vocabularies and a model card, into a directory of its own.",
        runs=True,
    )
    add = parser.add_argument
    add("--output_dir", required=True, type=cli.path, help="the run directory of the model")
    add("--export_dir", required=True, type=cli.path, help="the directory to write")
    add(
        "--format",
        choices=FORMATS,
        default=FORMATS[0],
        help="saved_model: strings in and out, for TensorFlow alone; ctranslate2: a faster engine, without TensorFlow; "
        "keras: the Keras model (default: saved_model)",
    )
    add("--quantization", choices=QUANTIZATIONS, help="ctranslate2: round the weights (default: float32)")
    add(
        "--checkpoint_path",
        type=cli.path,
        metavar="best|last|average|ckpt-N|PATH",
        help="which checkpoint (default: the run's average if it exists, else the last one)",
    )
    add(
        "--decode_hparams",
        default="",
        metavar="NAME=VALUE,...",
        help="overrides of the run's search settings, which become the defaults of the export, such as beam_size=8",
    )
    add("--overwrite", action="store_true", help="replace an existing export")
    return parser


def _run(flags: Sequence[str]) -> None:
    arguments = make_parser().parse_args(flags)
    from t2t_lite.api.export import export
    from t2t_lite.plugins import load_all

    load_all(arguments.t2t_usr_dir)
    trust_plugins(arguments, [arguments.output_dir])
    found = export(
        arguments.output_dir,
        arguments.export_dir,
        format=arguments.format,
        quantization=arguments.quantization,
        checkpoint_path=arguments.checkpoint_path or None,
        decode_hparams=arguments.decode_hparams,
        overwrite=arguments.overwrite,
        warn=cli.warn,
    )
    size = sum(entry["bytes"] for entry in found.content["files"].values())
    print(f"{found.path}: {found.format}, {size / 2**20:,.1f} MiB; how to use it: {found.path / 'README.md'}")
