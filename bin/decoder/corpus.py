"""Decodes a corpus of many files on Apache Beam: for each file, the bytes that t2t-lite-decoder alone would write.

Workers read blocks of lines, decode them with the model that each of them loads once, and write the outputs of a file
when all of its blocks are there. A file whose output exists is not decoded again.
"""

import argparse
import contextlib
import gzip
import hashlib
import itertools
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from apache_beam.io.filesystems import FileSystems
from apache_beam.ml.inference.base import KeyedModelHandler, ModelHandler, RunInference

from t2t_lite.bin import cli
from t2t_lite.bin.decoder.files import BLOCK_LINES, read_aligned_lines
from t2t_lite.bin.decoder.models import chosen_model
from t2t_lite.bin.decoder.outputs import OutputWriter
from t2t_lite.errors import UserError
from t2t_lite.plugins import load_all
from t2t_lite.system.beam import new_pipeline

# In the output folder: what the outputs were made from.
_RECORD = "decoded.json"
_PROGRESS_SECONDS = 10.0


class Shard(NamedTuple):
    """A file of the corpus."""

    source: str
    target: str


class Block(NamedTuple):
    """Consecutive lines of a shard."""

    first_line: int
    lines: list[tuple[str, ...]]


class _Decoder(ModelHandler[Block, list[str], OutputWriter]):
    """Decodes blocks in the workers of Beam.

    Args:
      arguments: the flags of the command.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        super().__init__(min_batch_size=1, max_batch_size=1)
        self._arguments = arguments

    def load_model(self) -> OutputWriter:
        """Returns a writer with the loaded model."""
        from t2t_lite.bin.decoder.command import loaded

        load_all(self._arguments.t2t_usr_dir)
        return OutputWriter(loaded(self._arguments, chosen_model(self._arguments)), self._arguments)

    def run_inference(
        self, batch: Sequence[Block], model: OutputWriter, inference_args: dict[str, Any] | None = None
    ) -> Iterable[list[str]]:
        """Yields the output lines of each block."""
        del inference_args
        for block in batch:
            yield model.outputs_of(block.lines, block.first_line)[0]


def decode_corpus(arguments: argparse.Namespace) -> None:
    """Decodes all files that --decode_from_file names into the folder --decode_to_file.

    Raises:
      UserError: if there are no files, two have the same name, the folder has outputs of another model or of other
        settings, Beam cannot run, or a worker fails.
    """
    shards = _shards(arguments.decode_from_file, arguments.decode_to_file)
    settings = chosen_model(arguments).settings
    FileSystems.exists(arguments.decode_to_file) or FileSystems.mkdirs(arguments.decode_to_file)
    waiting = _waiting(shards, arguments, vars(settings))
    cli.warn(f"{len(shards)} files, {len(shards) - len(waiting)} of them are already decoded")
    if not waiting:
        return
    beam, pipeline = new_pipeline(arguments.runner, arguments.beam_options)
    counted = beam.metrics.Metrics.counter("t2t_lite", "lines")
    size = arguments.batch_lines or BLOCK_LINES

    def blocks(number: int) -> Iterator[tuple[tuple[int, int], Block]]:
        for block in _blocks_of(waiting[number].source, size):
            counted.inc(len(block.lines))
            yield (number, block.first_line), block

    def by_shard(found: tuple[tuple[int, int], Any]) -> tuple[int, tuple[int, list[str]]]:
        (number, first_line), outputs = found
        return number, (first_line, outputs)

    def write(number: int, outputs: Iterable[tuple[int, list[str]]]) -> None:
        _write(waiting[number].target, [lines for _, lines in sorted(outputs)])

    numbers = pipeline | beam.Create(range(len(waiting))) | beam.Reshuffle()
    read = numbers | "read" >> beam.FlatMap(blocks) | "to workers" >> beam.Reshuffle()
    decoded = read | RunInference(KeyedModelHandler(_Decoder(arguments)))
    # A file without lines has no blocks, but an output.
    empty = numbers | "all files" >> beam.Map(lambda number: (number, (0, [])))
    all_blocks = (decoded | "by file" >> beam.Map(by_shard), empty) | beam.Flatten()
    _ = all_blocks | beam.GroupByKey() | "write" >> beam.MapTuple(write)
    start = time.monotonic()
    with _progress(waiting):
        try:
            result = pipeline.run()
            result.wait_until_finish()
        except Exception as error:  # runners raise anything
            raise UserError(f"--runner={arguments.runner}: {_reason(error)}; the same command goes on") from error
    lines = sum(
        counter.result for counter in result.metrics().query()["counters"] if counter.key.metric.name == "lines"
    )
    seconds = time.monotonic() - start
    cli.warn(f"{lines:,} lines of {len(waiting)} files in {seconds:.1f} s, {lines / seconds:.1f} lines/s")


def _shards(pattern: str, folder: str) -> list[Shard]:
    (matched,) = FileSystems.match([pattern])
    sources = sorted(found.path for found in matched.metadata_list)
    if not sources:
        raise UserError(f"--decode_from_file={pattern}: there are no such files")
    shards = [Shard(source, FileSystems.join(folder, source.rpartition("/")[2])) for source in sources]
    targets = [shard.target for shard in shards]
    if repeated := next((target for target in targets if targets.count(target) > 1), None):
        raise UserError(f"--decode_from_file={pattern}: several files would be written to {repeated}; rename them")
    if same := next((shard.source for shard in shards if shard.source == shard.target), None):
        raise UserError(f"--decode_to_file={folder} has the input {same}; pass another folder")
    return shards


def _waiting(shards: list[Shard], arguments: argparse.Namespace, settings: dict[str, Any]) -> list[Shard]:
    """Returns the shards without an output, and records what the outputs are made from."""
    names = ("output_dir", "export_dir", "engine", "checkpoint_path", "tokenizer", "batch_lines")
    made_by = {"flags": {name: getattr(arguments, name) for name in names}, "settings": settings}
    digests = {shard.source.rpartition("/")[2]: _digest(shard.source) for shard in shards}
    path = FileSystems.join(arguments.decode_to_file, _RECORD)
    before = json.loads(FileSystems.open(path).read()) if FileSystems.exists(path) else None
    if before and before["made_by"] != json.loads(json.dumps(made_by)):
        raise UserError(
            f"--decode_to_file={arguments.decode_to_file} has outputs of another model or of other settings; pass "
            f"another folder"
        )
    known = before["inputs"] if before else {}
    done = [
        shard
        for shard in shards
        if known.get(name := shard.source.rpartition("/")[2]) == digests[name] and FileSystems.exists(shard.target)
    ]
    record = json.dumps({"made_by": made_by, "inputs": known | digests}, indent=1)
    for shard in set(shards) - set(done):
        if FileSystems.exists(shard.target):
            FileSystems.delete([shard.target])  # made from another input
    with FileSystems.create(path) as file:
        file.write(record.encode())
    return [shard for shard in shards if shard not in done]


def _digest(path: str) -> str:
    with _local(path) as file, open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@contextlib.contextmanager
def _local(path: str) -> Iterator[Path]:
    """Yields a local file with the content of a file in any of Beam's file systems."""
    if "://" not in path:
        yield Path(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.rpartition("/")[2]
        with FileSystems.open(path, compression_type="uncompressed") as source, open(copy, "wb") as target:
            shutil.copyfileobj(source, target)
        yield copy


def _blocks_of(path: str, size: int) -> Iterator[Block]:
    with _local(path) as file:
        rows = read_aligned_lines([file], cli.warn)
        for number in itertools.count():
            if not (lines := list(itertools.islice(rows, size))):
                return
            yield Block(1 + number * size, lines)


def _write(path: str, blocks: list[list[str]]) -> None:
    """Writes an output file, which gets its final name only once it is complete."""
    partial = f"{path}.incomplete"
    with FileSystems.create(partial, compression_type="uncompressed") as file:
        for lines in blocks:
            content = "".join(line + "\n" for line in lines).encode("utf-8", errors="replace")
            if lines or len(blocks) == 1:
                file.write(gzip.compress(content, mtime=0) if path.endswith(".gz") else content)
    if FileSystems.exists(path):
        FileSystems.delete([path])
    FileSystems.rename([partial], [path])


@contextlib.contextmanager
def _progress(shards: list[Shard]) -> Iterator[None]:
    """Reports the number of finished files from time to time."""
    ended = threading.Event()

    def report() -> None:
        before = 0
        while not ended.wait(_PROGRESS_SECONDS):
            done = sum(FileSystems.exists(shard.target) for shard in shards)
            if done > before:
                cli.warn(f"{done} of {len(shards)} files")
            before = done

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _reason(error: BaseException) -> str:
    """Returns the last line of an error, without the names of Beam's steps."""
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__
