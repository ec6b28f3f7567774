"""Measures our steps and the peer's steps, in two processes that are timed one after the other."""

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from t2t_lite.errors import UserError

BACKENDS = "tensorflow", "jax"
_ROOT = Path(__file__).resolve().parents[2]  # the folder with dev/
# Time reserved for the peer. Its six cases and the beam search took 60 s on an H200.
_SECONDS_OF_PEER = 75.0
# Extra time to finish a measurement that is in progress when the time of a process is up.
_SECONDS_OF_ENDING = 120.0


class Wanted(NamedTuple):
    """What to measure."""

    backend: str  # one of `BACKENDS`
    minutes: float  # the approximate time limit, after which no measurement starts
    batches_file: Path | None = None  # the batches for the loss curves, see `stored_batches`; None: no curves
    # export_dir, trained_dir: see `under_jax.Measurement.curves`; only under JAX.
    export_dir: Path | None = None
    trained_dir: Path | None = None


def measure(wanted: Wanted) -> dict[str, dict]:
    """Measures this machine's accelerator or, with a small plan, its CPU.

    Returns:
      {"ours": the figures of `under_jax` or `under_tensorflow`, "peer": those of `peer.Peer` or {"not measured": the
      reason}}.

    Raises:
      UserError: if nothing could be measured.
    """
    with_peer = all(importlib.util.find_spec(module) for module in ("torch", "transformers"))
    seconds = max(60.0 * wanted.minutes - (_SECONDS_OF_PEER if with_peer else 0.0), 1.0)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ready, go = folder / "ready", folder / "go"
        given = {name: str(path) for name, path in wanted._asdict().items() if isinstance(path, Path)}
        given |= {"ready_file": str(ready)} if with_peer else {}
        module = f"under_{wanted.backend}"
        with contextlib.ExitStack() as running:
            if with_peer:
                peer = _start("peer", folder, [str(folder / "peer.json"), str(ready), str(go)])
                running.callback(_end, peer, 0.0)
            ours = _start(module, folder, [str(folder / "ours.json"), str(seconds), json.dumps(given)])
            running.callback(_end, ours, 0.0)
            _end(ours, seconds + _SECONDS_OF_ENDING)
            left = start + seconds - time.monotonic()
            if wanted.backend == "jax" and (folder / "ours.json").exists() and left > 0:
                largest = _start("largest_batch", folder, [str(folder / "ours.json"), str(left)])
                running.callback(_end, largest, 0.0)
                _end(largest, left + _SECONDS_OF_ENDING)
            go.touch()
            if with_peer:
                _end(peer, _SECONDS_OF_PEER + _SECONDS_OF_ENDING)
        figures = {part: _read(folder / f"{part}.json") for part in ("ours", "peer")}
        if not figures["ours"]:
            raise UserError(f"nothing could be measured: {_last_line(folder / f'{module}.log')}")
        if not with_peer:
            figures["peer"] = {"not measured": "it needs the packages torch and transformers"}
        elif not figures["peer"]:
            figures["peer"] = {"not measured": _last_line(folder / "peer.log")}
    return figures


def _start(module: str, folder: Path, arguments: Sequence[str]) -> subprocess.Popen:
    backend = "tensorflow" if module == "under_tensorflow" else "jax"
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    # Both leave memory for the peer.
    for name, value in (("XLA_PYTHON_CLIENT_PREALLOCATE", "false"), ("TF_FORCE_GPU_ALLOW_GROWTH", "true")):
        environment.setdefault(name, value)
    environment.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.85")
    with open(folder / f"{module}.log", "w") as log:
        return subprocess.Popen(
            # -P: not a package of the same name in the current folder
            [sys.executable, "-P", "-m", f"dev.accelerator.{module}", *arguments],
            stdout=log,
            stderr=log,
            env=environment,
        )


def _end(process: subprocess.Popen, seconds: float) -> None:
    """Waits for a process for the given time, and kills it if it has not ended by then."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()  # its results so far are in its file
        process.wait()


def _read(file: Path) -> dict:
    return json.loads(file.read_text()) if file.exists() else {}


def _last_line(log: Path) -> str:
    lines = log.read_text().splitlines() if log.exists() else []
    return lines[-1] if lines else "its process wrote nothing"
