"""Compares the speed of the engines on one file: whole commands, cold and warm, and steady decoding."""

import dataclasses
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from t2t_lite.benchmark.process import WholeCommand, in_a_process, whole_command
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.exporting.export import export
from t2t_lite.parsing.parser import Parser
from t2t_lite.plugins import load_all
from t2t_lite.system.tensorflow import import_for_searches

# For each engine: its export format ("": it reads the run directory itself), quantization, and whether it compiles.
ENGINES = {
    "tensorflow": ("", None, True),
    "uncompiled": ("", None, False),
    "ctranslate2": ("ctranslate2", None, False),
    "ctranslate2_int8": ("ctranslate2", "int8", False),
}


@dataclasses.dataclass(frozen=True)
class Speed:
    lines: int  # number of lines per repetition
    tokens: int  # number of output tokens, including end symbols
    seconds: list[float]  # time of each repetition except the first, which includes compilation

    def lines_per_second(self) -> float:
        return self.lines / statistics.median(self.seconds)

    def tokens_per_second(self) -> float:
        return self.tokens / statistics.median(self.seconds)


@dataclasses.dataclass(frozen=True)
class EngineSpeed:
    name: str  # one of `ENGINES`
    # cold, warm: the whole command, without and with compiled code from an earlier run; None: not measured.
    cold: WholeCommand | None = None
    warm: WholeCommand | None = None
    batches: Speed | None = None  # the speed in batches; None if the engine does not support the settings
    one_by_one: Speed | None = None  # the speed line by line; None: not measured
    reason: str = ""  # why there are no measurements; "" if there are


@dataclasses.dataclass(frozen=True)
class Decoding:
    output_dir: Path  # the run directory
    source: Path  # the file to translate, for whole commands
    lines: Sequence[str]  # the lines of `source` that are not empty
    decode_hparams: str  # changes to the run's search settings
    repeats: int  # number of timed repetitions after the first one, for the steady speed
    one_by_one: int  # number of lines to translate one by one
    t2t_usr_dir: str | None  # the folder with plug-ins; None: no plug-ins


def measure_engines(
    decoding: Decoding, names: Iterable[str], program: Callable[[str], list[str]] | None
) -> Iterable[EngineSpeed]:
    """Yields the measurements of each engine.

    `program` takes the name of one of the package's commands and returns the program that runs it, with its first
    arguments. If it is None, whole commands are not measured.
    """
    plugins = [f"--t2t_usr_dir={decoding.t2t_usr_dir}"] if decoding.t2t_usr_dir else []
    shared = [f"--decode_from_file={decoding.source}", f"--decode_hparams={decoding.decode_hparams}", *plugins]
    for name in names:
        format, quantization, xla_compile = ENGINES[name]
        with tempfile.TemporaryDirectory() as folder:
            path, which = decoding.output_dir, f"--output_dir={decoding.output_dir}"
            try:
                if format:
                    path = Path(folder) / "export"
                    which = f"--export_dir={path}"
                    how = {"decode_hparams": decoding.decode_hparams, "warn": lambda line: None}
                    export(decoding.output_dir, path, format=format, quantization=quantization, **how)
                cold = warm = None
                if program is not None:
                    command = [*program("decoder"), which, f"--xla_compile={xla_compile}", *shared]
                    cold, warm = (whole_command(command, Path(folder)) for _ in range(2))
                yield EngineSpeed(name, cold, warm, *in_a_process(_steady_speed, decoding, name, path))
            except UserError as error:
                yield EngineSpeed(name, reason=str(error))


def _steady_speed(decoding: Decoding, name: str, path: Path) -> tuple[Speed, Speed | None]:
    """Returns the speed in batches and line by line. Runs in its own process, because engines need different settings.

    `path` is the run directory, or its export if the engine needs one.
    """
    format, _, xla_compile = ENGINES[name]
    if format:
        translator = Translator.from_export(path, decoding.decode_hparams, warn=lambda line: None)
    else:
        import_for_searches(xla_compile)
        load_all(decoding.t2t_usr_dir)
        translator = Translator.from_run_dir(
            path, decoding.decode_hparams, warn=lambda line: None, xla_compile=xla_compile
        )
    options_of = Parser(translator).options_of

    def speed(calls: Sequence[Sequence[str]]) -> Speed:
        seconds: list[float] = []
        outputs: list[str] = []
        for _ in range(1 + decoding.repeats):
            start = time.perf_counter()
            outputs = [text for call in calls for text in translator.translate(call, **options_of(call))]
            seconds.append(time.perf_counter() - start)
        return Speed(len(outputs), sum(len(row) for row in translator.vocabulary.ids_of(outputs)), seconds[1:])

    few = [[line] for line in decoding.lines[: decoding.one_by_one]]
    return speed([decoding.lines]), speed(few) if few else None
