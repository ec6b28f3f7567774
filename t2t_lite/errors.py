"""The exception for user errors, and nearest-name hints for its messages."""

import difflib
import re
from collections.abc import Iterable


class UserError(Exception):
    """An error that the user can fix. The message is one line: what is wrong, where, and what to do.

    A message puts arguments of the Python API in backquotes, with their values if these matter: `data_dir=x`. Commands
    print it without a traceback, with arguments rewritten as flags (`as_flags` in `bin/cli`), and exit with `status`.

    Args:
      message: one line.
      status: exit status of a command that ends with this error; 2 means an invalid command line.
    """

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def nearest(name: str, known: Iterable[str], how_many: int = 3) -> str:
    """Returns a hint such as "; did you mean 'a' or 'b'?" for a mistyped name.

    If no name is close, the hint lists all known names, the most similar ones first.
    """
    words = set(_words(name))

    def in_common(other: str) -> float:
        theirs = set(_words(other))
        return difflib.SequenceMatcher(None, name, other).ratio() + len(words & theirs) / max(1, len(words | theirs))

    known = sorted(known)
    first = sorted(known, key=in_common, reverse=True)[:5]
    known = [*first, *(other for other in known if other not in first)]
    close = difflib.get_close_matches(name, known, n=how_many, cutoff=0.55)
    if close:
        return "; did you mean " + " or ".join(repr(match) for match in close) + "?"
    return f"; known: {', '.join(known)}" if known else ""


def _words(name: str) -> list[str]:
    return re.findall("[a-z]+", name.lower())
