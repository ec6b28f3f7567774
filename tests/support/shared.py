"""What is made once for a whole test run, whatever the number of its processes."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import filelock


class SharedFolders:
    """Folders that all processes of a test run read and none writes to, each made by the first that asks for it."""

    def __init__(self, root: Path):  # a folder that belongs to the whole run
        self._root = root

    @classmethod
    def of_run(cls, tmp_path_factory) -> "SharedFolders":
        """Returns those of this test run. With pytest-xdist, whose workers have a folder each in that of the run."""
        base = tmp_path_factory.getbasetemp()
        root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
        root.mkdir(exist_ok=True)
        return cls(root)

    def get(self, name: str, make: Callable[[Path], None]) -> Path:
        """Returns the folder of a name, one for each content; `make` fills it, and it does not exist before."""
        folder = self._root / name
        # A process that finds the lock taken waits for the one that makes the folder.
        with filelock.FileLock(self._root / f"{name}.lock"):
            if not (self._root / f"{name}.made").exists():  # else it is the first, or the one before it failed
                shutil.rmtree(folder, ignore_errors=True)
                make(folder)
                (self._root / f"{name}.made").touch()
        return folder
