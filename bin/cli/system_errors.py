"""Turns errors of the operating system into a line with advice."""

import errno

_ADVICE = {
    errno.EACCES: "you may not read or write it; change its permissions, or choose another place",
    errno.EPERM: "you may not do that there; change its permissions, or choose another place",
    errno.EROFS: "it lies on a file system that can only be read; choose another place",
    errno.ENOENT: "there is no such file or folder; look at the path",
    errno.EEXIST: "it is there already; choose another name",
    errno.EISDIR: "it is a folder; give a file",
    errno.ENOTDIR: "a part of that path is a file and not a folder; look at the path",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
    errno.ENOSPC: "no room is left on that disk; make room, or choose another place",
    errno.EDQUOT: "your share of that disk is used up; make room, or choose another place",
    errno.EMFILE: "too many files are open; raise the limit (ulimit -n)",
    errno.ENOMEM: "out of memory; use smaller settings, or end other programs",
    errno.EIO: "the disk fails to read or write; try another one",
    errno.ELOOP: "links there lead in a circle; look at the path",
}


def message_of(error: OSError) -> str:
    """Returns the line for an error of the system: where it came up, and what to do."""
    where = error.filename if error.filename is not None else "writing"
    name = where if len(str(where)) <= 200 else f"{str(where)[:60]}..."
    return f"{name}: {_ADVICE.get(error.errno) or error.strerror or error}"
