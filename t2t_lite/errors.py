"""The exception for user errors, and nearest-name hints for its messages."""

import difflib
import re
from collections.abc import Iterable

_FEW = 8  # up to this number, all known names are listed


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


def nearest(name: str, known: Iterable[str], is_registered: bool = False) -> str:
    """Returns a hint such as "; did you mean 'a' or 'b'?" for a mistyped name.

    If no name is close, the hint has all known names, or the three most similar ones of many. For a name that
    `is_registered`, it also says how to list all, and that plug-ins register names.
    """
    words = set(_words(name))

    def in_common(other: str) -> float:
        theirs = set(_words(other))
        return difflib.SequenceMatcher(None, name, other).ratio() + len(words & theirs) / max(1, len(words | theirs))

    known = sorted(known)
    first = sorted(known, key=in_common, reverse=True)
    listing = "; `registry_help` lists all" if is_registered and len(known) > _FEW else ""
    if close := difflib.get_close_matches(name, known, n=3, cutoff=0.55):
        return f"; did you mean {' or '.join(map(repr, close))}?{listing.removeprefix(';')}"
    plugin = ". If a plug-in registers it, pass `t2t_usr_dir`" if is_registered else ""
    if len(known) > _FEW:
        return f"; the nearest are {', '.join(map(repr, first[:3]))}{listing}{plugin}"
    return f"; known: {', '.join(first)}{plugin}" if known else plugin


def _words(name: str) -> list[str]:
    return re.findall("[a-z]+", name.lower())
