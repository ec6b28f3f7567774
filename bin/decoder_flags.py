"""The flags of t2t-lite-decoder."""

from t2t_lite.bin import cli


def make_parser() -> cli.Parser:
    """Returns the command's parser."""
    parser = cli.Parser(
        "decoder",
        "Translate a file, or standard input to standard output: N lines in, N lines out, in order.",
        runs=True,
    )
    parser.add_argument(
        "--output_dir",
        required=True,
        type=cli.path,
        metavar="RUN[,RUN,...]",
        help="the run directory of the model; several of the same vocabulary search together",
    )
    parser.add_argument(
        "--checkpoint_path",
        type=cli.path,
        help="a checkpoint, without ending (default: the run's average if there is one, else its last checkpoint)",
    )
    parser.add_argument(
        "--decode_hparams",
        default="",
        metavar="NAME=VALUE,...",
        help="changes to the problem's defaults, such as beam_size=8,alpha=1.0",
    )
    parser.add_argument("--xla_compile", type=cli.truth, default=True, help="compile the search (default: True)")
    _add_input(parser)
    _add_output(parser)
    return parser


def _add_input(parser) -> None:
    add = parser.add_argument_group("input").add_argument
    add("--decode_from_file", type=cli.path, help="text to translate, plain or .gz (default: standard input)")
    add("--decode_interactive", action="store_true", help="ask for lines, with a history, and tell how long each took")
    add(
        "--tokenizer",
        choices=("blanks", "treebank"),
        help="parsing: how lines are cut into words: at blanks (default), or plain text by the Penn Treebank's rules",
    )
    add(
        "--prefix_file", type=cli.path, help="line n of it is what translation n begins with; an empty line is anything"
    )
    add("--score_file", type=cli.path, help="do not translate: tell how probable are the pairs INPUT<tab>TRANSLATION")
    add(
        "--batch_lines",
        type=cli.whole_number(1),
        help="lines that are sorted by length and translated together, at most (default: 2048 of a file, of standard "
        "input as many as wait, up to 64)",
    )


def _add_output(parser) -> None:
    add = parser.add_argument_group("output").add_argument
    add("--decode_to_file", type=cli.path, help="where to write; appears when it is whole (.gz: compressed)")
    add("--alignments", type=cli.path, help="write which word comes from which, as i-j, to this file (.gz: compressed)")
    add("--draw_trees", type=cli.path, metavar="FILE.svg", help="parsing: draw the trees, as text if not called .svg")
    add(
        "--alignment_layer",
        type=int,
        help="the decoder layer, from 0, whose attention it is (default: the last but one; its heads' average)",
    )
