"""Draws passages of prose from the source and the pages, to be read by someone who did not write them.

`.venv/bin/python tests/support/draw_passages.py --seed=20261124` prints 40 of them with their places.
"""

import argparse
import ast
import io
import random
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("t2t_lite", "problems", "hparams", "bin")
# Passages of fewer words, rows of numbers for example, say too little to be judged.
FEWEST_WORDS = 6
_WORD = re.compile(r"[^\W\d_]{2,}")


class Passage(NamedTuple):
    """A passage and where it stands."""

    place: str  # "path:line"
    kind: str  # docstring, comment, message or page
    text: str


def passages() -> list[Passage]:
    """Returns all passages of the source and the pages, in the order of their places."""
    found = []
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for line, kind, text in (*_docstrings_and_messages(ast.parse(source)), *_comments(source)):
            found.append(Passage(f"{path.relative_to(ROOT)}:{line}", kind, text))
    for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]):
        for line, text in _paragraphs(path.read_text(encoding="utf-8")):
            found.append(Passage(f"{path.relative_to(ROOT)}:{line}", "page", text))
    return [passage for passage in found if len(_WORD.findall(passage.text)) >= FEWEST_WORDS]


def draw(number: int, seed: int) -> list[Passage]:
    """Returns some passages: as many of each kind, the rest from the first kinds."""
    by_kind: dict[str, list[Passage]] = {}
    for passage in passages():
        by_kind.setdefault(passage.kind, []).append(passage)
    generator = random.Random(seed)
    kinds = sorted(by_kind)
    counts = {kind: number // len(kinds) + (place < number % len(kinds)) for place, kind in enumerate(kinds)}
    return [passage for kind in kinds for passage in generator.sample(by_kind[kind], counts[kind])]


def _docstrings_and_messages(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if text := ast.get_docstring(node):
                yield node.body[0].lineno, "docstring", text
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("UserError", "option", "add_argument", "error", "warn", "say", "print"):
                texts = [_text_of(value) for value in (*node.args, *(keyword.value for keyword in node.keywords))]
                yield from ((node.lineno, "message", text) for text in texts if text)


def _text_of(node: ast.expr) -> str:
    """Returns the text of a string, with {...} for what is put into it; "" for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text_of(part) or "{...}" for part in node.values)
    return ""


def _comments(source: str) -> Iterator[tuple[int, str, str]]:
    """Yields comments; those of consecutive lines are one."""
    lines: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            # A comment beside code is a passage of its own.
            goes_on = token.start[0] == last + 1 and token.line.lstrip().startswith("#")
            if lines and not goes_on:
                yield first, "comment", " ".join(lines)
                lines = []
            if not lines:
                first = token.start[0]
            last = token.start[0] if token.line.lstrip().startswith("#") else -1
            lines.append(token.string.lstrip("# "))
    if lines:
        yield first, "comment", " ".join(lines)


def _paragraphs(page: str) -> Iterator[tuple[int, str]]:
    """Yields paragraphs, items of lists and rows of tables, without blocks of code and comments."""
    text = re.sub(r"```.*?```|<!--.*?-->", lambda block: "\n" * block[0].count("\n"), page, flags=re.DOTALL)
    for block in re.finditer(r"(?:^[|\-] ?.*(?:\n  .*)*|(?:^(?![#|\-\s]).+\n?)+)", text, re.MULTILINE):
        yield text.count("\n", 0, block.start()) + 1, block[0].strip()


def main() -> None:
    """Prints the passages that a seed draws."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=20261124)
    parser.add_argument("--number", type=int, default=40)
    arguments = parser.parse_args()
    for number, passage in enumerate(draw(arguments.number, arguments.seed), 1):
        print(f"{number}. {passage.kind}, {passage.place}\n{passage.text}\n")


if __name__ == "__main__":
    main()
