"""Decodes standard input, line by line, or the files that the flags name. An interrupted run on files is resumed."""

import argparse
import contextlib
import dataclasses
import gzip
import io
import itertools
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO, TypeVar

import rich.console
from rich import progress

from t2t_lite.bin import cli
from t2t_lite.bin.decoder.outputs import OutputWriter, ResumableWriter, attention_picture
from t2t_lite.data.text_files import STANDARD_INPUT, lenient_lines, open_bytes, read_lines, unpacked
from t2t_lite.decoding.ctranslate2_engine import check_settings
from t2t_lite.decoding.export_dir import check_loadable
from t2t_lite.decoding.glossary import Glossary
from t2t_lite.decoding.loading import ModelSource, open_model
from t2t_lite.decoding.options import EngineOptions
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.exporting.export import exported_run
from t2t_lite.files import file_sha256, write_text, written_whole
from t2t_lite.parsing.parser import Parser
from t2t_lite.system.tensorflow import import_for_searches
from t2t_lite.trees.drawing import draw_svg, text_art
from t2t_lite.trees.tokenizer import TOKENIZERS
from t2t_lite.trees.tree import parse_brackets, tree_words

_Line = TypeVar("_Line")

# Maximum number of waiting input lines that are translated together.
WAITING_LINES = 64


def waiting_blocks(lines: Iterator[_Line], most: int) -> Iterator[list[_Line]]:
    """Yields blocks of the currently available lines: at least one line, at most `most`.

    A thread reads the lines, so that available lines never wait for lines that have not arrived yet.
    """
    waiting: queue.Queue[Any] = queue.Queue(maxsize=2 * most)
    end = EOFError()  # follows the last line, unless reading them raised something else

    def read() -> None:
        last: BaseException = end
        try:
            for line in lines:
                waiting.put(line)
        except BaseException as error:
            last = error
        waiting.put(last)

    threading.Thread(target=read, daemon=True).start()
    while True:
        block = [waiting.get()]
        with contextlib.suppress(queue.Empty):
            while len(block) < most and not isinstance(block[-1], BaseException):
                block.append(waiting.get_nowait())
        last = block.pop() if isinstance(block[-1], BaseException) else None
        if block:
            yield block
        if last is end:
            return
        if last is not None:
            raise last


def decode_stream(
    lines: Iterator[tuple[str, ...]], writer: OutputWriter, batch_lines: int, files: Sequence[TextIO]
) -> None:
    first_line = 1
    for block in waiting_blocks(lines, batch_lines):
        for file, texts in zip(files, writer.outputs_of(block, first_line), strict=True):
            file.writelines(line + "\n" for line in texts)
            file.flush()
        first_line += len(block)


def decode_interactively(translator: Translator | Parser, **options: Any) -> None:
    """Prompts for lines until the input ends. Prints each translation with its time, and draws trees."""
    draws = isinstance(translator, Parser)
    if sys.stdin.isatty():
        # Traces the search while the user types, which takes several times as long as a translation.
        def warm_up() -> None:
            with contextlib.suppress(Exception):  # the first typed line will raise it again
                translator.translate(["a b c"])

        threading.Thread(target=warm_up, daemon=True).start()
    with _history():
        for number, line in enumerate(_lines(), start=1):
            start = time.perf_counter()
            (best,) = translator.translate([line], return_scores=True, first_line=number, **options)
            seconds = time.perf_counter() - start
            print(best.text, flush=True)
            if draws and best.text:
                print(text_art(parse_brackets(best.text)[0]), flush=True)
            print(f"  {seconds:.3f} s, score {best.score:.3f}, log-probability {best.log_prob:.3f}", file=sys.stderr)


def _lines() -> Iterator[str]:
    if not sys.stdin.isatty():
        yield from _standard_input()
        return
    while True:
        try:
            yield input("> ")
        except EOFError:
            return
        except UnicodeDecodeError:
            cli.warn("the line was not UTF-8; set the terminal to UTF-8")


def _standard_input() -> Iterator[str]:
    stream: Any = sys.stdin.buffer  # a BufferedReader, or what a program that calls the command has put there
    with unpacked(stream if hasattr(stream, "peek") else io.BufferedReader(stream), "standard input") as content:
        yield from lenient_lines(content, "standard input", cli.warn)


@contextlib.contextmanager
def _history() -> Iterator[None]:
    """Makes the lines of earlier sessions available inside the block, and saves those of this session at its end."""
    try:
        import readline
    except ImportError:  # this Python has no readline, so the prompt has no history
        readline = None
    if readline is None or not sys.stdin.isatty():
        yield
        return
    path = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "t2t-lite" / "decoder_history"
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            readline.set_history_length(1000)
            readline.write_history_file(path)


# The number of lines that are sorted by length together.
BLOCK_LINES = 2048
# A picture with more trees would be too large to be useful.
MAX_DRAWN = 100
# The flags that outputs depend on, besides settings.
_SHAPING = ("score_file", "prefix_file", "constraint_file", "alignment_layer", "tokenizer")


def chosen_model(arguments: argparse.Namespace) -> ModelSource:
    """Returns the model that the flags select, after all checks that do not need TensorFlow."""
    phrases = bool(arguments.constraint_file or arguments.terms)
    wanted = {"phrases": phrases, "alignment_layer": arguments.alignment_layer}  # of CTranslate2
    if arguments.export_dir:
        model = open_model(export_dir=arguments.export_dir, decode_hparams=arguments.decode_hparams)
        if arguments.engine not in (None, model.engine):
            raise UserError(
                f"--engine={arguments.engine}: {model.where} was exported for {model.engine}; omit --engine", status=2
            )
    else:
        cli.trust_plugins(arguments, arguments.output_dir)
        is_exported = arguments.engine == "ctranslate2"
        if is_exported and len(arguments.output_dir) > 1:
            raise UserError(
                "--engine=ctranslate2 supports only one model; use --engine=tensorflow for several run directories"
            )
        model = open_model(arguments.output_dir, arguments.checkpoint_path, arguments.decode_hparams)
        if is_exported:
            check_settings(model.settings, **wanted)
            model = exported_run(model, cli.warn)
    if model.export is not None and model.engine == "ctranslate2":
        check_settings(model.settings, model.export.content["alignment_layer"], **wanted)
    return model


def decode(
    arguments: argparse.Namespace, model: ModelSource, inputs: list[Path], targets: list[Path], picture: Path | None
) -> None:
    """Decodes with a model that was checked; the files are those that `_files` of the command returns."""
    terms = {"terms": Glossary(arguments.terms)} if arguments.terms else {}
    translator = loaded(model, arguments)
    if arguments.decode_interactive:
        decode_interactively(translator, **terms)
        return
    writer, resumed_after = OutputWriter(translator, arguments, **terms), 0
    is_stream = inputs[0] == STANDARD_INPUT or (arguments.alignments and not arguments.decode_to_file)
    if not is_stream:
        made_by = {
            # A pipe cannot be read again, so such a run cannot be resumed. The time makes it unique.
            "input": None if all(path.is_file() for path in inputs) else time.time(),
            **translator.engine.description(),
            "settings": dataclasses.asdict(translator.decode_hparams),
            "flags": [getattr(arguments, name) for name in _SHAPING],
            **({"terms": file_sha256(Path(arguments.terms))} if arguments.terms else {}),
            **({"target_language": arguments.target_language} if arguments.target_language else {}),
            **({"n_best_format": "text"} if arguments.n_best_format == "text" else {}),
        }
        resumed_after = decode_file(inputs, targets, writer, arguments.batch_lines, made_by)
    else:
        if inputs[0] == STANDARD_INPUT and sys.stdin.isatty():
            cli.warn("type lines to translate; Ctrl-D ends the input")
        lines = read_aligned_lines(inputs, cli.warn)
        with contextlib.ExitStack() as stack:
            files = [] if arguments.decode_to_file else [sys.stdout]
            for target in targets:
                opener: Callable[..., TextIO] = gzip.open if target.suffix == ".gz" else open
                partial = stack.enter_context(written_whole(target))
                files.append(stack.enter_context(opener(partial, "wt", encoding="utf-8")))
            usual = WAITING_LINES if inputs[0] == STANDARD_INPUT else BLOCK_LINES
            decode_stream(lines, writer, arguments.batch_lines or usual, files)
    if isinstance(translator, Parser) and translator.parsed:
        cli.warn((f"after line {resumed_after:,}: " if resumed_after else "") + translator.report())
    if picture:
        _draw_trees(targets[0], picture)
    if arguments.draw_attention:
        if resumed_after:
            writer.read_back(read_aligned_lines(inputs, lambda line: None), read_lines(targets[0]))
        writer.draw_attention()


def loaded(model: ModelSource, arguments: argparse.Namespace) -> Translator | Parser:
    """Loads and checks a model; if it writes trees, returns a parser with the tokenizer that the flags select."""
    if model.export is not None:  # before TensorFlow, which takes seconds
        model = dataclasses.replace(model, export=check_loadable(model.export))
    if model.engine == "tensorflow":
        import_for_searches(arguments.xla_compile)
    translator = Translator.of(model, EngineOptions(cli.warn, arguments.xla_compile))
    cli.warn(f"using {model}")
    languages = translator.inputs_vocabulary.language_tokens
    if arguments.target_language:
        translator = translator.to_language(arguments.target_language)
    elif languages and not arguments.runner:
        listed = ", ".join(sorted(languages))
        cli.warn(f"the model has several target languages; choose one with --target_language: {listed}")
    if arguments.draw_attention:
        attention_picture(arguments, translator, [("a", "a")]).check(Path(arguments.draw_attention))
    if not model.writes_trees:
        return translator
    return Parser(translator, TOKENIZERS[arguments.tokenizer or "blanks"])


def read_aligned_lines(paths: list[Path], warn: Callable[[str], None]) -> Iterator[tuple[str, ...]]:
    """Yields tuples of corresponding lines of several files, which must have equal numbers of lines."""
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        files = [
            _standard_input() if path == STANDARD_INPUT else lenient_lines(enter(open_bytes(path)), str(path), warn)
            for path in paths
        ]
        for number in itertools.count(1):
            row = [next(file, None) for file in files]
            if all(line is None for line in row):
                return
            whole = tuple(line for line in row if line is not None)
            if len(whole) < len(row):
                ended, first = (
                    "standard input" if path == STANDARD_INPUT else path for path in (paths[row.index(None)], paths[0])
                )
                raise UserError(f"{ended} ends before line {number}; it must have a line for each line of {first}")
            yield whole


def decode_file(
    paths: list[Path], targets: list[Path], writer: OutputWriter, batch_lines: int | None, made_by: object
) -> int:
    """Decodes the lines of files to output files (`targets`), or to standard output if there are none.

    `made_by` describes what the outputs depend on, see `ResumableWriter`. `batch_lines`: None means `BLOCK_LINES`.
    Returns the number of lines that an interrupted run has decoded before.
    """
    size = batch_lines or BLOCK_LINES
    files, rows = None, read_aligned_lines(paths, cli.warn)
    if targets:
        files = ResumableWriter(targets, made_by)
        rows = files.rest_of(lambda: read_aligned_lines(paths, cli.warn), cli.warn)
    done = files.lines if files else 0
    start, first = time.perf_counter(), done
    with _progress_bar(paths, done) as advance, files.removed_if_empty() if files else contextlib.nullcontext():
        while block := list(itertools.islice(rows, size)):
            outputs = writer.outputs_of(block, done + 1, on_done=advance)
            if files:
                files.append(block, outputs)
            else:
                sys.stdout.writelines(line + "\n" for line in outputs[0])
                sys.stdout.flush()
            done += len(block)
    if files:
        files.finish()
    seconds = time.perf_counter() - start
    cli.warn(f"{done - first:,} lines in {seconds:.1f} s, {(done - first) / seconds:.1f} lines/s")
    return first


@contextlib.contextmanager
def _progress_bar(paths: list[Path], done: int) -> Iterator[Callable[[int], None]]:
    """Shows a progress bar on a terminal, if the lines can be counted in advance.

    Yields a function that takes the number of newly finished lines.
    """
    if not sys.stderr.isatty() or not all(path.is_file() for path in paths):
        yield lambda count: None
        return

    columns = (
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[speed]} lines/s"),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=rich.console.Console(stderr=True), transient=True) as bar:
        total = sum(1 for _ in read_aligned_lines(paths, lambda line: None))
        task = bar.add_task("", total=total, completed=done, speed="...")

        def advance(count: int) -> None:
            speed = bar.tasks[0].speed
            bar.update(task, advance=count, speed=f"{speed:.1f}" if speed else "...")

        yield advance


def _draw_trees(trees: Path, picture: Path) -> None:
    """Draws the first trees of a file that the decoder wrote, as SVG if the picture is named .svg, else as text art.

    Each line of the file has one tree or none.
    """
    numbered = ((number, line) for number, line in enumerate(read_lines(trees), start=1) if line)
    chosen = [(number, parse_brackets(line)[0]) for number, line in itertools.islice(numbered, MAX_DRAWN)]
    shown = [(f"{number}  {' '.join(tree_words(tree))}", tree) for number, tree in chosen]
    is_svg = picture.suffix.lower() == ".svg"
    drawn = draw_svg(shown) if is_svg else "\n".join(f"{caption}\n\n{text_art(tree)}\n" for caption, tree in shown)
    write_text(picture, drawn)
    left = sum(1 for _ in numbered)
    cli.warn(f"drew {len(chosen)} trees in {picture}{f'; {left:,} more are left out' if left else ''}")
