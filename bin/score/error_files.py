"""Reads the files for --errors: training trees, and the hypotheses in the beams."""

import json
from collections.abc import Sequence
from pathlib import Path

from t2t_lite.data.text_files import read_lines
from t2t_lite.errors import UserError
from t2t_lite.trees.tree import tree_words
from t2t_lite.trees.treebank import Malformed, read_trees, treebank_files


def words_of_treebanks(paths: Sequence[str]) -> frozenset[str]:
    """Returns the words of all trees in files and folders. Raises UserError, see `treebank_files` and `read_trees`."""
    files = [file for path in paths for file in treebank_files(Path(path))]
    trees = (tree for file in files for tree in read_trees(file) if not isinstance(tree, Malformed))
    return frozenset(word for tree in trees for word in tree_words(tree))


def read_n_best(path: Path) -> list[list[str]]:
    """Returns the texts of the hypotheses in each line of the decoder's output with return_beams=True.

    Raises a UserError if a line has another format.
    """
    beams = []
    for number, line in enumerate(read_lines(path), start=1):
        try:
            beams.append([hypothesis["text"] for hypothesis in json.loads(line)])
        except (ValueError, TypeError, KeyError):
            raise UserError(
                f"{path}, line {number}: not a list of hypotheses; decode with --decode_hparams=return_beams=True"
            ) from None
    return beams
