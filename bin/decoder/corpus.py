"""Decodes a corpus of many files on Apache Beam: for each file, the bytes that t2t-lite-decoder alone would write.

Workers read blocks of lines, decode them with the model that each of them loads once, and write each block's outputs to
the folder FILE.blocks. When all blocks of a file are there, they become the output file. So an interrupted run goes on
after the last blocks, and a block that is decoded twice has the same outputs.
"""

import argparse
import contextlib
import gzip
import itertools
import json
import os
import re
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from apache_beam.io.filesystems import FileSystems
from apache_beam.ml.inference.base import KeyedModelHandler, ModelHandler, RunInference

from t2t_lite.bin import cli
from t2t_lite.bin.decoder.files import BLOCK_LINES, chosen_model, loaded, read_aligned_lines
from t2t_lite.bin.decoder.outputs import OutputWriter
from t2t_lite.decoding.loading import ModelSource, open_model
from t2t_lite.errors import UserError
from t2t_lite.files import file_sha256
from t2t_lite.system.beam import new_pipeline

# In the output folder: what the outputs were made from.
_RECORD = "decoded.json"
# The end of the name of the folder with a file's blocks.
_BLOCKS = ".blocks"
_PROGRESS_SECONDS = 10.0


class Shard(NamedTuple):
    source: str
    target: str


class Block(NamedTuple):
    first_line: int
    lines: list[tuple[str, ...]]


class _Decoder(ModelHandler[Block, list[str], OutputWriter]):
    """Decodes blocks in the workers of Beam."""

    def __init__(self, arguments: argparse.Namespace, model: ModelSource) -> None:
        super().__init__(min_batch_size=1, max_batch_size=1)
        # Workers may start after the run has a new checkpoint or other tuned settings.
        self._arguments, self._opening = arguments, model.arguments()

    def load_model(self) -> OutputWriter:
        cli.load_plugins(self._arguments, self._arguments.output_dir)
        return OutputWriter(loaded(open_model(**self._opening), self._arguments), self._arguments)

    def run_inference(
        self, batch: Sequence[Block], model: OutputWriter, inference_args: dict[str, Any] | None = None
    ) -> Iterable[list[str]]:
        del inference_args
        for block in batch:
            yield model.outputs_of(block.lines, block.first_line)[0]


def decode_corpus(arguments: argparse.Namespace) -> None:
    """Decodes all files that --decode_from_file names into the folder --decode_to_file."""
    shards = _shards(arguments.decode_from_file, arguments.decode_to_file)
    model = chosen_model(arguments)
    if os.path.isfile(arguments.decode_to_file):
        raise UserError(f"--decode_to_file={arguments.decode_to_file} is a file; with --runner, pass a folder")
    beam, pipeline = new_pipeline(arguments.runner, arguments.beam_options)
    if not FileSystems.exists(arguments.decode_to_file):
        FileSystems.mkdirs(arguments.decode_to_file)
    waiting = _waiting(shards, arguments, model)
    cli.warn(f"{len(shards)} files, {len(shards) - len(waiting)} of them are already decoded")
    if not waiting:
        return
    counted = beam.metrics.Metrics.counter("t2t_lite", "lines")
    size = arguments.batch_lines or BLOCK_LINES

    def blocks(number: int) -> Iterator[tuple[tuple[int, int], Block | None]]:
        with _local(waiting[number].source) as file:
            rows, first_line = read_aligned_lines([file], cli.warn), 1
            while lines := list(itertools.islice(rows, size)):
                is_done = FileSystems.exists(_block_path(waiting[number], first_line))
                counted.inc(0 if is_done else len(lines))
                yield (number, first_line), None if is_done else Block(first_line, lines)
                first_line += size

    def write(found: tuple[tuple[int, int], list[str]]) -> tuple[tuple[int, int], None]:
        (number, first_line), outputs = found
        path = _block_path(waiting[number], first_line)
        content = "".join(line + "\n" for line in outputs).encode("utf-8", errors="replace")
        is_compressed = FileSystems.split(path)[0].endswith(f".gz{_BLOCKS}")
        with contextlib.suppress(OSError):  # another worker has made the folder
            FileSystems.mkdirs(FileSystems.split(path)[0])
        _write_whole(path, [gzip.compress(content, mtime=0) if is_compressed else content])
        return (number, first_line), None

    numbers = pipeline | beam.Create(range(len(waiting))) | beam.Reshuffle()
    read = numbers | "read" >> beam.FlatMap(blocks)
    done = read | "decoded before" >> beam.Filter(lambda found: found[1] is None)
    new = read | "not decoded" >> beam.Filter(lambda found: found[1] is not None) | "to workers" >> beam.Reshuffle()
    decoded = new | RunInference(KeyedModelHandler(_Decoder(arguments, model))) | "write" >> beam.Map(write)
    of_file = (done, decoded) | beam.Flatten() | "by file" >> beam.MapTuple(lambda place, _: place)
    # A file without lines has no blocks, but an output.
    empty = numbers | "all files" >> beam.Map(lambda number: (number, 0))
    grouped = (of_file, empty) | "with all files" >> beam.Flatten() | beam.GroupByKey()
    _ = grouped | "join" >> beam.MapTuple(lambda number, first_lines: _join(waiting[number], first_lines))
    for line in model.remarks:
        cli.warn(line)
    start = time.monotonic()
    with _progress(arguments.decode_to_file, size):
        try:
            result = pipeline.run()
            result.wait_until_finish()
        except Exception as error:  # runners raise anything
            raise UserError(f"--runner={arguments.runner}: {_reason(error)}; run the command again to go on") from error
    found = result.metrics().query()["counters"]
    lines = sum(counter.result for counter in found if counter.key.metric.name == "lines")
    seconds = time.monotonic() - start
    cli.warn(f"{lines:,} lines of {len(waiting)} files in {seconds:.1f} s, {lines / seconds:.1f} lines/s")


def _shards(pattern: str, folder: str) -> list[Shard]:
    # Beam finds nothing for a pattern that begins with a wildcard.
    (matched,) = FileSystems.match([f"./{pattern}" if pattern[0] in "*?[" else pattern])
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


def _waiting(shards: list[Shard], arguments: argparse.Namespace, model: ModelSource) -> list[Shard]:
    flags = {name: getattr(arguments, name) for name in ("engine", "tokenizer", "batch_lines", "alignment_layer")}
    flags |= {"target_language": arguments.target_language} if arguments.target_language else {}
    found = {"model": model.fingerprint(), "flags": flags, "settings": vars(model.settings)}
    made_by = json.loads(json.dumps(found))  # in the form in which it is read back
    digests = {}
    for shard in shards:
        with _local(shard.source) as file:
            digests[shard.source.rpartition("/")[2]] = file_sha256(file)
    path = FileSystems.join(arguments.decode_to_file, _RECORD)
    before = json.loads(FileSystems.open(path).read()) if FileSystems.exists(path) else None
    if before and before["made_by"] != made_by:
        raise UserError(
            f"--decode_to_file={arguments.decode_to_file} has outputs of another model or of other settings; pass "
            f"another folder"
        )
    known = before["inputs"] if before else {}
    waiting = []
    for shard in shards:
        if known.get(name := shard.source.rpartition("/")[2]) != digests[name]:  # what is there is of another input
            outputs = (shard.target, f"{shard.target}{_BLOCKS}")
            FileSystems.delete([output for output in outputs if FileSystems.exists(output)])
        if not FileSystems.exists(shard.target):
            waiting.append(shard)
    _write_whole(path, [json.dumps({"made_by": made_by, "inputs": known | digests}, indent=1).encode()])
    return waiting


@contextlib.contextmanager
def _local(path: str) -> Iterator[Path]:
    if "://" not in path:
        yield Path(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.rpartition("/")[2]
        with FileSystems.open(path, compression_type="uncompressed") as source, open(copy, "wb") as target:
            shutil.copyfileobj(source, target)
        yield copy


def _block_path(shard: Shard, first_line: int) -> str:
    return FileSystems.join(f"{shard.target}{_BLOCKS}", f"{first_line:012d}")


def _join(shard: Shard, first_lines: Iterable[int]) -> None:
    paths = [_block_path(shard, first_line) for first_line in sorted(first_lines) if first_line]
    nothing = [gzip.compress(b"", mtime=0)] if shard.target.endswith(".gz") else []
    _write_whole(shard.target, map(_content, paths) if paths else nothing)
    if paths:
        FileSystems.delete([f"{shard.target}{_BLOCKS}"])


def _content(path: str) -> bytes:
    with FileSystems.open(path, compression_type="uncompressed") as file:
        return file.read()


def _write_whole(path: str, parts: Iterable[bytes]) -> None:
    partial = f"{path}.incomplete-{uuid.uuid4().hex}"  # another worker may write the same block
    with FileSystems.create(partial, compression_type="uncompressed") as file:
        for part in parts:
            file.write(part)
    if FileSystems.exists(path):
        FileSystems.delete([path])
    FileSystems.rename([partial], [path])


@contextlib.contextmanager
def _progress(folder: str, size: int) -> Iterator[None]:
    ended = threading.Event()

    def report() -> None:
        before = 0
        while not ended.wait(_PROGRESS_SECONDS):
            (matched,) = FileSystems.match([FileSystems.join(folder, f"*{_BLOCKS}", "[0-9]" * 12)])
            if (done := len(matched.metadata_list)) > before:
                cli.warn(f"{done:,} blocks of up to {size:,} lines are decoded")
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
    last = re.sub(r"\s*\[while running .*", "", lines[-1]).strip() if lines else type(error).__name__
    return last.removeprefix("t2t_lite.errors.").removeprefix("UserError: ")
