"""t2t-lite-decoder: translates text with a trained model."""

import itertools
import sys
from pathlib import Path

from t2t_lite.bin import cli

# Lines of standard input that are translated together.
BLOCK_LINES = 512


def main() -> None:
    """Runs the command."""
    parser = cli.Parser("Translate a file, or standard input to standard output: N lines in, N lines out, in order.")
    parser.add_argument("--output_dir", required=True, type=cli.directory, help="the run directory of the model")
    parser.add_argument("--decode_from_file", type=cli.directory, help="text to translate, plain or .gz")
    parser.add_argument("--decode_to_file", type=cli.directory, help="where to write; appears when it is whole")
    parser.add_argument(
        "--decode_hparams",
        default="",
        metavar="NAME=VALUE,...",
        help="changes to the problem's defaults, such as beam_size=8,alpha=1.0",
    )
    parser.add_argument(
        "--checkpoint_path",
        type=cli.directory,
        help="a checkpoint, without ending (default: the run's average if there is one, else its last checkpoint)",
    )
    cli.run(_decode, parser.parse_args())


def _decode(arguments) -> None:
    from t2t_lite.data.problem import decode_line, read_lines
    from t2t_lite.files import written_whole
    from t2t_lite.plugins import load_builtins
    from t2t_lite.quiet import import_tensorflow

    load_builtins()
    source = Path(arguments.decode_from_file) if arguments.decode_from_file else None
    if source:
        lines = read_lines(source)
    else:
        lines = (decode_line(line, "standard input", number) for number, line in enumerate(sys.stdin.buffer, start=1))
    first = list(itertools.islice(lines, BLOCK_LINES))  # before TensorFlow: an unreadable file is said at once
    import_tensorflow()
    from t2t_lite.decoding.translator import Translator

    translator = Translator.from_run_dir(
        arguments.output_dir, arguments.decode_hparams, arguments.checkpoint_path, _warn
    )
    _warn(f"using {translator.checkpoint}")
    if source:
        # Sorting by length pays most over the whole file.
        blocks = [first + list(lines)]
    else:
        blocks = itertools.chain([first], iter(lambda: list(itertools.islice(lines, BLOCK_LINES)), []))
    if arguments.decode_to_file:
        with written_whole(Path(arguments.decode_to_file)) as partial, open(partial, "w", encoding="utf-8") as output:
            _translate(translator, blocks, output)
    else:
        _translate(translator, blocks, sys.stdout)


def _translate(translator, blocks, output) -> None:
    for block in blocks:
        output.writelines(line + "\n" for line in translator.translate(block))
        output.flush()


def _warn(line: str) -> None:
    print(line, file=sys.stderr)
