"""The code blocks of the documentation."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Block(NamedTuple):
    """A block: its kind (sh, python, or text for the output of the block before) and its content."""

    kind: str
    content: str


def text_of(page: str) -> str:
    """Returns a page by its path from the root."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_of(page: str) -> list[Block]:
    """Returns the blocks of a page."""
    found = re.findall(r"^```([^\n]*)\n(.*?)^```$", text_of(page), re.MULTILINE | re.DOTALL)
    return [Block(*each) for each in found]


def contents(page: str, kind: str, text: str = "") -> list[str]:
    """Returns the contents of the blocks of a page that are of a kind and contain a text."""
    return [block.content for block in blocks_of(page) if block.kind == kind and text in block.content]


def command_lines(content: str) -> list[str]:
    """Returns the lines of a block of commands without comments, each command in one line."""
    lines = re.sub(r"(^|\s+)#(\s.*)?$", "", content.replace("\\\n", ""), flags=re.MULTILINE).splitlines()
    return [line for line in lines if line.strip()]
