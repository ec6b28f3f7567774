"""Writes the dev and test splits as plain text, for decoding and scoring."""

import contextlib
from pathlib import Path

from t2t_lite.data.generation.corpus_statistics import FIRST_PAIRS
from t2t_lite.data.generation.records import comparison_side, comparison_texts
from t2t_lite.data.generation.split_writer import split_pairs
from t2t_lite.data.problem import SIDES, Example, Problem
from t2t_lite.data.text_files import read_lines
from t2t_lite.errors import UserError
from t2t_lite.files import written_whole


def text_filenames(problem: Problem, split: str) -> list[str]:
    """Returns the names of a split's text files, inputs and targets; the train split has none."""
    return [] if split == "train" else [problem.text_filename(split, side) for side in SIDES]


def text_exists(problem: Problem, split: str, data_dir: Path) -> bool:
    return all((data_dir / name).exists() for name in text_filenames(problem, split))


def write_split_text(problem: Problem, split: str, files: dict[str, Path], data_dir: Path) -> list[Example]:
    """Writes a split, one sentence per line, in source order. Returns its first FIRST_PAIRS pairs."""
    first_pairs = []
    paths = [data_dir / name for name in text_filenames(problem, split)]
    with contextlib.ExitStack() as stack:
        partial = [stack.enter_context(written_whole(path)) for path in paths]
        texts = [stack.enter_context(open(path, "w", encoding="utf-8", newline="")) for path in partial]
        for pair in split_pairs(problem, split, files, 0):
            if len(first_pairs) < FIRST_PAIRS:
                first_pairs.append(pair)
            if problem.drop_reason(split, pair):
                continue
            if any("\n" in line for line in pair):
                raise UserError(f"problem '{problem.data_name}' has a {split} example with a line break; remove it")
            for text, line in zip(texts, pair):
                text.write(line + "\n")
    return first_pairs


def held_out_sources(problem: Problem, split: str, data_dir: Path) -> dict[str, frozenset[str]]:
    """Returns the sources, without tags, to compare with: those of dev and test for train, of dev for test."""
    side = comparison_side(problem)
    return {
        other: frozenset(comparison_texts(problem, read_lines(data_dir / problem.text_filename(other, side))))
        for other in {"train": ("dev", "test"), "test": ("dev",)}.get(split, ())
    }


def equal_splits(first_pairs: dict[str, list[Example]], split: str) -> list[str]:
    """Returns a note for each other split with the same first pairs, a sign that `examples` ignores the split."""
    return [
        f"{split} begins with the same {len(first_pairs[split])} pairs as {other}: if all pairs are the same, its "
        f"scores mean nothing; use different pairs for each split"
        for other in first_pairs
        if other != split and first_pairs[split] and first_pairs[split] == first_pairs[other]
    ]
