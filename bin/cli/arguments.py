"""Types of command-line arguments. Each parses a string, or raises an error that names the accepted values."""

import argparse
import math
import os
import re
from collections.abc import Callable, Sequence

from t2t_lite.aliases import alias_hint
from t2t_lite.errors import nearest
from t2t_lite.files import split_paths
from t2t_lite.options import parse_bool


def path(text: str) -> str:
    """Parses the path of a file or directory on this machine. "~" is the home directory."""
    if is_remote(text):
        raise argparse.ArgumentTypeError(
            f"takes a path on this machine, not '{text}'; copy the files here, or mount the bucket"
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(
            f"takes a path in UTF-8, not {os.fsencode(text)!r}; rename the file or folder"
        ) from None
    return os.path.expanduser(text)


def is_remote(path: str) -> bool:
    """Returns whether a path is in a file system such as gs:// or s3://."""
    return re.match(r"[a-z][a-z0-9+.-]*://", path, re.IGNORECASE) is not None


def paths(text: str) -> list[str]:
    """Parses paths separated by commas. The path of an existing file or directory may contain commas."""
    parts = split_paths(text)
    if not all(parts):
        raise argparse.ArgumentTypeError(f"takes paths separated by commas, but '{text}' contains an empty path")
    return [path(part) for part in parts]


def joined_paths(text: str) -> str:
    """Returns paths separated by commas as they are; a problem splits them."""
    return text


def whole_number(minimum: int) -> Callable[[str], int]:
    """Returns an argument type for whole numbers from `minimum` to 2**31 - 1."""

    def parse(text: str) -> int:
        if not text.lstrip("-").isdigit() or not minimum <= int(text) < 2**31:
            raise argparse.ArgumentTypeError(f"takes a whole number from {minimum} to {2**31 - 1}, not '{text}'")
        return int(text)

    return parse


def numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"takes whole numbers separated by commas, not '{text}'") from None


def choice_type(words: Sequence[str], flag: str) -> Callable[[str], str]:
    """Returns an argument type that accepts one of `words`. `flag` is its flag, for hints."""

    def parse(text: str) -> str:
        if text not in words:
            hint = alias_hint(flag, text) or nearest(text, words)
            raise argparse.ArgumentTypeError(f"takes {' or '.join(words)}, not '{text}'{hint}")
        return text

    return parse


def truth_or_auto(text: str) -> bool | None:
    """Parses True, False or auto; auto becomes None."""
    return None if text.lower() == "auto" else truth(text)


def truth(text: str) -> bool:
    """Parses True or False, in upper or lower case, or 1 or 0."""
    try:
        return parse_bool(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def positive_number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"takes a number above 0, not '{text}'")
    return number


def not_negative(text: str) -> float:
    return 0.0 if text == "0" else positive_number(text)


def listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
