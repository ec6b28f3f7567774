"""The engines side by side on one file: whole commands, cold and warm, and the speed in their stride."""

import dataclasses
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t2t_lite.benchmark.process import WholeCommand, in_a_process, whole_command
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.parsing.parser import Parser
from t2t_lite.plugins import load_all
from t2t_lite.quiet import import_tensorflow
from t2t_lite.startup import keep_compiled, use_one_thread_per_operation

# How each engine is chosen: its format of export ("": the run directory itself), quantization, and whether it compiles.
ENGINES = {
    "tensorflow": ("", None, True),
    "uncompiled": ("", None, False),
    "ctranslate2": ("ctranslate2", None, False),
    "ctranslate2_int8": ("ctranslate2", "int8", False),
}


@dataclasses.dataclass(frozen=True)
class Speed:
    """The speed of one decoding configuration."""

    lines: int  # number of lines per repetition
    tokens: int  # number of output tokens, end symbols included
    seconds: list[float]  # times of the repetitions, but of the first, which includes compilation

    def lines_per_second(self) -> float:
        """Returns lines per second, by the median time."""
        return self.lines / statistics.median(self.seconds)

    def tokens_per_second(self) -> float:
        """Returns output tokens per second, by the median time."""
        return self.tokens / statistics.median(self.seconds)


@dataclasses.dataclass(frozen=True)
class EngineSpeed:
    """What was measured of one engine."""

    name: str  # one of `ENGINES`
    # cold, warm: the whole command, with nothing compiled by an earlier one, and again; None: not measured.
    cold: WholeCommand | None = None
    warm: WholeCommand | None = None
    batches: Speed | None = None  # the speed in batches; None if the engine cannot do what the settings ask for
    one_by_one: Speed | None = None  # the same one by one; None: not measured
    reason: str = ""  # why there are no figures; ""


def measure_engines(
    output_dir: Path,
    names: Iterable[str],
    source: Path,
    lines: Sequence[str],
    decode_hparams: str,
    *,
    repeats: int,
    one_by_one: int,
    t2t_usr_dir: str | None,
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
      t2t_usr_dir: a folder of plug-ins, or None.
      program: returns what executes a command of the package, given its name; None: no whole commands.
    """
    flags = [f"--t2t_usr_dir={t2t_usr_dir}"] if t2t_usr_dir else []
    for name in names:
        format, quantization, xla_compile = ENGINES[name]
        with tempfile.TemporaryDirectory() as folder:
            try:
                which = _prepared(output_dir, Path(folder), format, quantization, decode_hparams)
                cold = warm = None
                if program is not None:
                    shared = [f"--decode_from_file={source}", f"--decode_hparams={decode_hparams}"]
                    all_flags = [*which, *shared, f"--xla_compile={xla_compile}", *flags]
                    cold, warm = (whole_command([*program("decoder"), *all_flags], Path(folder)) for _ in range(2))
                model = _Model(name, output_dir, Path(folder) / "export", decode_hparams, t2t_usr_dir)
                batches, single = in_a_process(_stride, model, lines, repeats, one_by_one)
                yield EngineSpeed(name, cold, warm, batches, single)
            except UserError as error:
                yield EngineSpeed(name, reason=str(error))


class _Model(NamedTuple):
    """A model for one engine: a run directory, or an export of it if the engine needs one."""

    engine: str
    output_dir: Path
    export_dir: Path
    decode_hparams: str
    t2t_usr_dir: str | None

    def load(self) -> Translator:
        """Loads it into this process, which has no TensorFlow yet."""
        format, _, xla_compile = ENGINES[self.engine]
        if format:
            return Translator.from_export(self.export_dir, self.decode_hparams, warn=lambda line: None)
        keep_compiled()
        if not xla_compile:
            use_one_thread_per_operation()
        load_all(self.t2t_usr_dir)
        import_tensorflow()
        return Translator.from_run_dir(
            self.output_dir, self.decode_hparams, warn=lambda line: None, xla_compile=xla_compile
        )


def measure(
    translator: Translator,
    lines: Sequence[str],
    repeats: int,
    one_by_one: bool = False,
    options_of: Callable[[Sequence[str]], dict[str, Any]] = lambda lines: {},
) -> Speed:
    """Translates the same lines repeatedly and measures the time.

    Args:
      translator: a `Translator`.
      lines: the lines to translate.
      repeats: number of repetitions after the first one.
      one_by_one: whether to translate each line in a separate call.
      options_of: returns the options of `Translator.translate` for some lines.
    """
    calls = [[line] for line in lines] if one_by_one else [lines]
    seconds: list[float] = []
    outputs: list[str] = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        outputs = [text for call in calls for text in translator.translate(call, **options_of(call))]
        seconds.append(time.perf_counter() - start)
    tokens = sum(len(row) for row in translator.vocabulary.ids_of(outputs))
    return Speed(len(lines), tokens, seconds[1:])


def _stride(model: _Model, lines: Sequence[str], repeats: int, one_by_one: int) -> tuple[Speed, Speed | None]:
    """Returns the speed in batches and one by one; in a process of its own, because engines differ in its settings."""
    translator = model.load()
    how = {"repeats": repeats, "options_of": Parser(translator).options_of}
    batches = measure(translator, lines, **how)
    few = lines[:one_by_one]
    return batches, measure(translator, few, one_by_one=True, **how) if few else None


def _prepared(output_dir: Path, folder: Path, format: str, quantization: str | None, decode_hparams: str) -> list[str]:
    """Exports the run if the engine needs it, and returns the flags that choose the model."""
    if not format:
        return [f"--output_dir={output_dir}"]
    from t2t_lite.api.export import export

    path = folder / "export"
    how = {"decode_hparams": decode_hparams, "warn": lambda line: None}
    export(output_dir, path, format=format, quantization=quantization, **how)
    return [f"--export_dir={path}"]
