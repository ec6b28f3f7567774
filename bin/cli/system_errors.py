"""Turns errors of the operating system into one line with advice."""

import errno

_ADVICE = {
    errno.EACCES: "no permission to read or write it; change its permissions, or use another path",
    errno.EPERM: "operation not permitted; change the permissions, or use another path",
    errno.EROFS: "it is on a read-only file system; use another path",
    errno.ENOENT: "no such file or folder; check the path",
    errno.EEXIST: "it already exists; use another name",
    errno.EISDIR: "it is a folder; give a file",
    errno.ENOTDIR: "a part of the path is a file, not a folder; check the path",
    errno.ENAMETOOLONG: "the name is too long; use a shorter one",
    errno.ENOSPC: "no space left on the disk; free some space, or use another path",
    errno.EDQUOT: "disk quota exceeded; free some space, or use another path",
    errno.EMFILE: "too many files are open; raise the limit (ulimit -n)",
    errno.ENOMEM: "out of memory; use smaller settings, or close other programs",
    errno.EIO: "the disk cannot be read or written; try another one",
    errno.ELOOP: "its symbolic links form a loop; check the path",
}


def message_of(error: OSError) -> str:
    """Returns the line for a system error: where it occurred, and what to do."""
    where = error.filename if error.filename is not None else "writing"
    name = where if len(str(where)) <= 200 else f"{str(where)[:60]}..."
    return f"{name}: {_ADVICE.get(error.errno or 0) or error.strerror or error}"
