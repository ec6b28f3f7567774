"""Measures our steps under JAX and the peer's steps, in two processes that are timed one after the other."""

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from t2t_lite.errors import UserError

_PACKAGE = "t2t_lite.benchmark.accelerator"
# Time reserved for the peer. Its six cases and the beam search took 60 s on an H200.
_SECONDS_OF_PEER = 75.0
# Extra time to finish a measurement that is in progress when the time of a process is up.
_SECONDS_OF_ENDING = 120.0


def measure(minutes: float, batches_file: Path | None) -> dict[str, dict]:
    """Measures this machine's accelerator or, with a small plan, its CPU.

    Args:
      minutes: the approximate time limit, after which no measurement starts.
      batches_file: the batches for the loss curves, see `stored_batches`; None: no curves.

    Returns:
      {"jax": `figures` of `under_jax.Measurement`, "peer": `figures` of `peer.Peer` or {"not measured": the reason}}.

    Raises:
      UserError: if nothing could be measured.
    """
    with_peer = all(importlib.util.find_spec(module) for module in ("torch", "transformers"))
    seconds = max(60.0 * minutes - (_SECONDS_OF_PEER if with_peer else 0.0), 1.0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ready, go = folder / "ready", folder / "go"
        given = [str(folder / "jax.json"), str(seconds), str(ready) if with_peer else ""]
        given += [str(batches_file)] if batches_file else []
        with contextlib.ExitStack() as running:
            if with_peer:
                peer = _start("peer", folder, [str(folder / "peer.json"), str(ready), str(go)])
                running.callback(_end, peer, 0.0)
            jax = _start("under_jax", folder, given)
            running.callback(_end, jax, 0.0)
            _end(jax, seconds + _SECONDS_OF_ENDING)
            go.touch()
            if with_peer:
                _end(peer, _SECONDS_OF_PEER + _SECONDS_OF_ENDING)
        figures = {part: _read(folder / f"{part}.json") for part in ("jax", "peer")}
        if not figures["jax"]:
            raise UserError(f"nothing could be measured under JAX: {_last_line(folder / 'under_jax.log')}")
        if not with_peer:
            figures["peer"] = {"not measured": "it needs the packages torch and transformers"}
        elif not figures["peer"]:
            figures["peer"] = {"not measured": _last_line(folder / "peer.log")}
    return figures


def _start(module: str, folder: Path, arguments: Sequence[str]) -> subprocess.Popen:
    environment = os.environ | {"KERAS_BACKEND": "jax", "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leaves memory for the peer
    with open(folder / f"{module}.log", "w") as log:
        return subprocess.Popen(
            [sys.executable, "-m", f"{_PACKAGE}.{module}", *arguments], stdout=log, stderr=log, env=environment
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
