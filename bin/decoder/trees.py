"""The parts of the decoder that are specific to parsing problems."""

import argparse
import itertools
from collections.abc import Callable
from pathlib import Path

from t2t_lite.bin.decoder.models import ChosenModel
from t2t_lite.data.text_files import read_lines
from t2t_lite.errors import UserError
from t2t_lite.files import write_text
from t2t_lite.trees.drawing import draw_svg, text_art
from t2t_lite.trees.tree import parse_brackets, tree_words

# A picture with more trees would be too large to be useful.
MAX_DRAWN = 100


def check(arguments: argparse.Namespace, model: ChosenModel) -> None:
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
