"""Formats numbers, texts and JSON for reports and files."""

import json
import math
from collections.abc import Mapping


def format_duration(seconds: float) -> str:
    """Formats a duration as hours, minutes and seconds: 3725.2 -> "1:02:05"."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"


def as_json(value: object) -> str:
    """Returns JSON to read, in lines; null stands for numbers that are not finite, which JSON does not have."""
    return json.dumps(_finite(value), ensure_ascii=False, indent=1, allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value


def one_line(text: str) -> str:
    """Returns an output with blanks for line breaks, which vocabularies with byte tokens can produce.

    Files of texts have a line for each output, and are read with `read_lines`: it knows no other ends of lines, such as
    U+0085 or U+2028.
    """
    return text.replace("\r", " ").replace("\n", " ")


def encodable(text: str) -> str:
    """Returns a text with "?" for halves of characters, which JSON can hold and UTF-8 cannot."""
    return text.encode("utf-8", errors="replace").decode()
