"""The keys that clients must give, if the server asks for any."""

import hashlib
import hmac
from os import PathLike
from pathlib import Path

from t2t_lite.errors import UserError


class Keys:
    """The keys of a file: one in each line; empty lines and lines that begin with # do not count.

    Without a path no key is needed, and any is accepted. Raises UserError if the file has no key.
    """

    def __init__(self, path: str | PathLike | None) -> None:
        self._path = path
        self._digests: list[bytes] = []
        self.read()

    @property
    def are_needed(self) -> bool:
        """Whether clients must give a key."""
        return self._path is not None

    def read(self) -> None:
        """Reads the file again. Raises UserError as the class does; the keys stay as they were then."""
        if self._path is None:
            return
        try:
            lines = Path(self._path).read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            raise UserError(f"`api_keys={self._path}` cannot be read: {error}") from error
        keys = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if not keys:
            raise UserError(f"`api_keys={self._path}` has no key; write one in each line")
        self._digests = [_digest(key) for key in keys]

    def accept(self, key: str) -> bool:
        """Returns whether a key is one of them, in a time that does not depend on how much of it is right."""
        given = _digest(key)
        found = False
        for digest in self._digests:  # all of them, also after a match
            found |= hmac.compare_digest(digest, given)
        return found or not self.are_needed


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", errors="replace")).digest()
