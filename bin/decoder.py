"""t2t-lite-decoder: translates text with a trained model."""

import contextlib
import itertools
import sys
from pathlib import Path

from t2t_lite.bin import cli

# Lines of standard input that are translated together.
BLOCK_LINES = 512


def main() -> None:
    """Runs the command."""
    parser = cli.Parser("Translate a file, or standard input to standard output: N lines in, N lines out, in order.")
    parser.add_argument("--output_dir", required=True, type=cli.path, help="the run directory of the model")
    parser.add_argument("--decode_from_file", type=cli.path, help="text to translate, plain or .gz")
    parser.add_argument("--decode_to_file", type=cli.path, help="where to write; appears when it is whole")
    parser.add_argument(
        "--decode_hparams",
        default="",
        metavar="NAME=VALUE,...",
        help="changes to the problem's defaults, such as beam_size=8,alpha=1.0",
    )
    parser.add_argument(
        "--checkpoint_path",
        type=cli.path,
        help="a checkpoint, without ending (default: the run's average if there is one, else its last checkpoint)",
    )
    cli.run(_decode, parser.parse_args())


def _decode(arguments) -> None:
    from t2t_lite.data.problem import decode_line, read_lines
    from t2t_lite.errors import UserError
    from t2t_lite.files import written_whole
    from t2t_lite.plugins import load_builtins
    from t2t_lite.quiet import import_tensorflow
    from t2t_lite.run_dir import open_run_dir

    load_builtins()
    # What can be refused is refused before TensorFlow is imported.
    open_run_dir(arguments.output_dir).problem.decode_hparams.override(arguments.decode_hparams)
    target = Path(arguments.decode_to_file) if arguments.decode_to_file else None
    if target and target.is_dir():
        raise UserError(f"--decode_to_file={target} is a directory; give the name of a file")
    if arguments.decode_from_file:
        # Sorting by length pays most over the whole file.
        blocks = iter([list(read_lines(Path(arguments.decode_from_file)))])
    else:
        lines = (decode_line(line, "standard input", number) for number, line in enumerate(sys.stdin.buffer, start=1))
        blocks = iter(lambda: list(itertools.islice(lines, BLOCK_LINES)), [])
    first = next(blocks, [])
    import_tensorflow()
    from t2t_lite.decoding.translator import Translator

    translator = Translator.from_run_dir(
        arguments.output_dir, arguments.decode_hparams, arguments.checkpoint_path, _warn
    )
    _warn(f"using {translator.checkpoints[0]}")
    with contextlib.ExitStack() as stack:
        output = sys.stdout
        if target:
            output = stack.enter_context(open(stack.enter_context(written_whole(target)), "w", encoding="utf-8"))
        first_line = 1
        for block in itertools.chain([first], blocks):
            output.writelines(line + "\n" for line in translator.translate(block, first_line))
            output.flush()
            first_line += len(block)


def _warn(line: str) -> None:
    print(line, file=sys.stderr)
