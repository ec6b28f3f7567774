"""Pictures of attention and of trees: checks their flags, and draws them."""

import argparse
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_lite.bin import cli
from t2t_lite.data.text_files import read_lines
from t2t_lite.errors import UserError
from t2t_lite.files import write_text
from t2t_lite.trees.drawing import draw_svg, text_art
from t2t_lite.trees.tree import parse_brackets, tree_words
from t2t_lite.visualization.choices import FORMS, MAX_SENTENCES

if TYPE_CHECKING:
    from t2t_lite.bin.decoder.models import ChosenModel
    from t2t_lite.decoding.translator import Translator
    from t2t_lite.parsing.parser import Parser
    from t2t_lite.visualization.attention_picture import AttentionPicture

# A picture with more trees would be too large to be useful.
MAX_DRAWN = 100


def check_model(arguments: argparse.Namespace, translator: "Translator") -> None:
    _picture(arguments, translator, [("a", "a")]).check(Path(arguments.draw_attention))


def draw_attention(
    arguments: argparse.Namespace, translator: "Translator | Parser", pairs: Sequence[tuple[str, str]], lines: int
) -> None:
    """Draws the attention for the first of `pairs`.

    These are the first lines that are not blank, with their translations or trees; `lines` is the number of all such
    lines.
    """
    file = Path(arguments.draw_attention)
    chosen = pairs[: MAX_SENTENCES if file.suffix.lower() == ".html" else 1]
    if not chosen:
        raise UserError(f"{file} was not written because there is no line to draw")
    _picture(arguments, translator, chosen).save(file)
    left = lines - len(chosen)
    what = f"{len(chosen)} lines" if len(chosen) > 1 else "one line"
    cli.warn(f"drew the attention of {what} in {file}{f'; {left:,} more are left out' if left else ''}")


def _picture(
    arguments: argparse.Namespace, translator: "Translator | Parser", pairs: Sequence[tuple[str, str]]
) -> "AttentionPicture":
    from t2t_lite.visualization.attention_picture import AttentionPicture

    options: dict[str, Any] = {name: getattr(arguments, name) for name in ("layers", "heads", "words", "query")}
    return AttentionPicture(translator, pairs, kinds=arguments.kind, form=arguments.form or FORMS[0], **options)


def check_trees(arguments: argparse.Namespace, model: "ChosenModel") -> None:
    settings, writes_trees = model.settings, model.writes_trees
    for flag in () if writes_trees else ("draw_trees", "tokenizer"):
        if getattr(arguments, flag):
            raise UserError(f"--{flag} is for parsing problems; the model in {model.where} writes no trees")
    if settings.only_trees and not writes_trees:
        raise UserError(f"only_trees=True is for parsing; the model in {model.where} writes no trees")
    for flag in ("prefix_file", "constraint_file", "alignments") if writes_trees else ():
        if getattr(arguments, flag):
            raise UserError(f"--{flag} is not for parsing problems; the model in {model.where} writes trees")
    if arguments.draw_trees and Path(arguments.draw_trees).suffix.lower() in (".png", ".pdf", ".jpg", ".jpeg", ".gif"):
        raise UserError(f"--draw_trees={arguments.draw_trees}: trees can only be drawn as .svg or text", status=2)
    if arguments.draw_trees and settings.return_beams:
        raise UserError("--draw_trees draws the best tree of each line; remove return_beams=True", status=2)


def draw_trees(trees: Path, picture: Path, warn: Callable[[str], None]) -> None:
    """Draws the first trees of a file that the decoder wrote, as SVG if the picture is named .svg, else as text art.

    Each line of the file has one tree or none. `warn` receives a message about how many trees were drawn and left out.
    """
    numbered = ((number, line) for number, line in enumerate(read_lines(trees), start=1) if line)
    chosen = [(number, parse_brackets(line)[0]) for number, line in itertools.islice(numbered, MAX_DRAWN)]
    captions = [f"{number}  {' '.join(tree_words(tree))}" for number, tree in chosen]
    if picture.suffix.lower() == ".svg":
        drawn = draw_svg([(caption, tree) for caption, (_, tree) in zip(captions, chosen)])
    else:
        drawn = "\n".join(f"{caption}\n\n{text_art(tree)}\n" for caption, (_, tree) in zip(captions, chosen))
    write_text(picture, drawn)
    left = sum(1 for _ in numbered)
    warn(f"drew {len(chosen)} trees in {picture}{f'; {left:,} more are left out' if left else ''}")
