"""The engines side by side on one file: whole commands, cold and warm, and the speed in their stride."""

import dataclasses
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from t2t_lite.benchmark.decoding import Speed, measure
from t2t_lite.benchmark.engine_names import ENGINES
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.parsing.parser import Parser


class WholeCommand(NamedTuple):
    """A run of t2t-lite-decoder in a process of its own."""

    seconds: float
    peak_bytes: int
    outputs: list[str]


@dataclasses.dataclass(frozen=True)
class EngineSpeed:
    """What was measured of one engine.

    Args:
      name: one of `ENGINES`.
      cold, warm: the whole command, with nothing compiled by an earlier one, and again; None: not measured.
      batches: the speed in batches; None if the engine cannot do what the settings ask for.
      one_by_one: the same one by one; None: not measured.
      reason: why there are no figures; "".
    """

    name: str
    cold: WholeCommand | None = None
    warm: WholeCommand | None = None
    batches: Speed | None = None
    one_by_one: Speed | None = None
    reason: str = ""


def measure_engines(
    output_dir: Path,
    names: Iterable[str],
    source: Path,
    lines: Sequence[str],
    decode_hparams: str,
    *,
    repeats: int,
    one_by_one: int,
    flags: Sequence[str] = (),
    program: Callable[[str], list[str]] | None,
) -> Iterable[EngineSpeed]:
    """Yields what is measured of each engine.

    Args:
      output_dir: the run directory.
      names: the engines.
      source: the file to translate, for whole commands.
      lines: its lines with text.
      decode_hparams: changes to the run's search settings.
      repeats: timed runs after the first one, in the stride.
      one_by_one: number of lines to translate one by one.
      flags: further flags of whole commands.
      program: returns what executes a command of the package, given its name; None: no whole commands.
    """
    for name in names:
        format, quantization, xla_compile = ENGINES[name]
        with tempfile.TemporaryDirectory() as folder:
            try:
                which = _prepared(output_dir, Path(folder), format, quantization, decode_hparams)
                cold = warm = None
                if program is not None:
                    shared = [f"--decode_from_file={source}", f"--decode_hparams={decode_hparams}"]
                    all_flags = [*which, *shared, f"--xla_compile={xla_compile}", *flags]
                    cold, warm = (_whole_command([*program("decoder"), *all_flags], Path(folder)) for _ in range(2))
                path = Path(folder) / "export"
                if format:
                    translator = Translator.from_export(path, decode_hparams, warn=lambda line: None)
                else:
                    translator = Translator.from_run_dir(
                        output_dir, decode_hparams, warn=lambda line: None, xla_compile=xla_compile
                    )
                how = {"repeats": repeats, "options_of": Parser(translator).options_of}
                batches = measure(translator, lines, name, **how)
                few = lines[:one_by_one]
                single = measure(translator, few, name, one_by_one=True, **how) if few else None
                yield EngineSpeed(name, cold, warm, batches, single)
            except UserError as error:
                yield EngineSpeed(name, reason=str(error))


def _prepared(output_dir: Path, folder: Path, format: str, quantization: str | None, decode_hparams: str) -> list[str]:
    """Exports the run if the engine needs it, and returns the flags that choose the model."""
    if not format:
        return [f"--output_dir={output_dir}"]
    from t2t_lite.api.export import export

    path = folder / "export"
    how = {"decode_hparams": decode_hparams, "warn": lambda line: None}
    export(output_dir, path, format=format, quantization=quantization, **how)
    return [f"--export_dir={path}"]


def _whole_command(command: Sequence[str], cache: Path) -> WholeCommand:
    """Runs a command of the decoder that keeps what it compiles in a folder."""
    environment = os.environ | {"XDG_CACHE_HOME": str(cache)}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output, tempfile.TemporaryFile("w+") as messages:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=messages, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        messages.seek(0)
        if process.returncode:
            raise UserError((messages.read().splitlines() or [f"exit status {process.returncode}"])[-1])
        return WholeCommand(seconds, usage.ru_maxrss * 1024, output.read().split("\n")[:-1])
