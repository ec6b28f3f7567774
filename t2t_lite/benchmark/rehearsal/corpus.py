"""Writes synthetic corpora where `t2t-lite-datagen --tmp_dir` finds the sources of a WMT problem.

Both forms can be interrupted: a second call goes on after the last finished part.
"""

import concurrent.futures
import itertools
import json
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from t2t_lite.benchmark.rehearsal.synthetic_text import BLOCK, block_of_pairs
from t2t_lite.data.problem import Problem, TfdsSource
from t2t_lite.files import INCOMPLETE, growing_path, progress_path, write_text, written_whole
from t2t_lite.system.cores import num_cores
from t2t_lite.system.quiet import prepare_process

_VERSION = "1.0.0"
_BLOCKS_PER_SHARD = 3
_TFDS_SPLITS = {"train": "train", "dev": "validation", "test": "test"}
# Number of blocks that are made ahead, for each core. A block takes about 7 MB.
_AHEAD = 4


def counts_of(problem: Problem, pairs: int) -> dict[str, int]:
    """Returns the number of pairs in each split: `pairs` for training, as published for the others."""
    return {**problem.published_counts, "train": pairs}


def write_text_files(problem: Problem, pairs: int, folder: Path, block_size: int = BLOCK) -> list[Path]:
    """Writes a text file for each split and language, and returns their paths.

    Args:
      problem: a WMT problem.
      pairs: number of training pairs.
      folder: the future --tmp_dir.
      block_size: number of pairs that are made at once. Other sizes give other pairs.
    """
    (source,) = (each for each in problem.sources if isinstance(each, TfdsSource))
    names = iter(source.placed)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for split, number in counts_of(problem, pairs).items():
        paths = [folder / next(names), folder / next(names)]
        if not all(path.exists() for path in paths):
            _write_sides(split, number, paths, block_size)
        written += paths
    return written


def _write_sides(split: str, number: int, paths: list[Path], block_size: int) -> None:
    """Writes the files of one split block by block, and notes the end of each block."""
    growing, progress = [growing_path(path) for path in paths], progress_path(paths[0])
    done = json.loads(progress.read_text()) if progress.exists() else {"blocks": 0, "bytes": [0, 0]}
    with growing[0].open("ab") as inputs, growing[1].open("ab") as targets:
        files = inputs, targets
        for file, end in zip(files, done["bytes"]):
            file.truncate(end)
            file.seek(end)
        numbers = range(done["blocks"], -(-number // block_size))
        calls = [(split, block, number, block_size) for block in numbers]
        for block, sides in zip(numbers, _in_processes(_block, calls)):
            for file, lines in zip(files, sides):
                file.write("".join(f"{line}\n" for line in lines).encode())
                file.flush()
            write_text(progress, json.dumps({"blocks": block + 1, "bytes": [file.tell() for file in files]}))
    for incomplete, path in zip(growing, paths):
        incomplete.replace(path)
    progress.unlink()


def _block(split: str, block: int, number: int, block_size: int) -> tuple[list[str], list[str]]:
    """Returns a block of a split with `number` pairs."""
    return block_of_pairs(split, block, min(block_size, number - block * block_size))


def write_tfds(problem: Problem, pairs: int, folder: Path, block_size: int = BLOCK) -> Path:
    """Writes the data set as tensorflow-datasets does, and returns its folder.

    Args:
      problem: a WMT problem.
      pairs: number of training pairs.
      folder: the future --tmp_dir.
      block_size: number of pairs that are made at once. Other sizes give other pairs.
    """
    import tensorflow_datasets

    (source,) = (each for each in problem.sources if isinstance(each, TfdsSource))
    languages = problem.source_language, problem.target_language
    target = folder / source.name / _VERSION
    if (target / "dataset_info.json").exists():
        return target
    target.mkdir(parents=True, exist_ok=True)
    where: Any = target  # the library has a type of its own for paths, and accepts others
    for leftover in target.glob(f"*{INCOMPLETE}"):
        leftover.unlink()
    name = source.name.split("/")[0]
    shards, infos = [], []
    template = tensorflow_datasets.core.ShardedFileTemplate(
        data_dir=where,
        dataset_name=name,
        filetype_suffix="tfrecord",
        template="{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
    )
    for split, number in counts_of(problem, pairs).items():
        split_name, of_shard = _TFDS_SPLITS[split], block_size * _BLOCKS_PER_SHARD
        lengths = [min(of_shard, number - first) for first in range(0, number, of_shard)]
        for shard in range(len(lengths)):
            path = target / f"{name}-{split_name}.tfrecord-{shard:05}-of-{len(lengths):05}"
            if not path.exists():
                shards.append((split, number, block_size, shard, languages, path))
        infos.append(
            tensorflow_datasets.core.SplitInfo(
                name=split_name, shard_lengths=lengths, num_bytes=0, filename_template=template
            )
        )
    for _ in _in_processes(_write_shard, shards):
        pass
    tensorflow_datasets.folder_dataset.write_metadata(
        data_dir=target,
        features=tensorflow_datasets.features.Translation(languages=sorted(languages)),
        split_infos=infos,
        filename_template=template,
    )
    return target


def _write_shard(split: str, number: int, block_size: int, shard: int, languages: tuple[str, str], path: Path) -> None:
    """Writes a shard of a split with `number` pairs."""
    import tensorflow as tf

    first = shard * _BLOCKS_PER_SHARD
    blocks = range(first, min(first + _BLOCKS_PER_SHARD, -(-number // block_size)))
    with written_whole(path) as incomplete, tf.io.TFRecordWriter(str(incomplete)) as writer:
        for block in blocks:
            for pair in zip(*_block(split, block, number, block_size)):
                features = {
                    language: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
                    for language, text in zip(languages, pair)
                }
                example = tf.train.Example(features=tf.train.Features(feature=features))
                writer.write(example.SerializeToString(deterministic=True))


def _in_processes(function: Callable, calls: list[tuple]) -> Iterator:
    """Yields the results of calls in order, with one process for each core."""
    context = multiprocessing.get_context("spawn")
    waiting, left = [], iter(calls)
    with ProcessPoolExecutor(num_cores(), mp_context=context, initializer=prepare_process) as pool:

        def submit(number: int) -> list[concurrent.futures.Future]:
            return [pool.submit(function, *call) for call in itertools.islice(left, number)]

        waiting = submit(_AHEAD * num_cores())
        while waiting:
            yield waiting.pop(0).result()
            waiting += submit(1)
