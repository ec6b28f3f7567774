"""Data generation: text -> vocabulary file, shuffled TFRecord shards of ids, dev and test as text, manifest."""

import collections
import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import tensorflow as tf

from t2t_lite.data.manifest import Manifest, check_data, read_manifest
from t2t_lite.data.pipeline import reading_shards
from t2t_lite.data.problem import SPLITS, Example, Problem
from t2t_lite.data.sources import find_or_fetch
from t2t_lite.data.vocab import Vocabulary, train_vocabulary
from t2t_lite.errors import UserError
from t2t_lite.files import sha256_of, write_text, written_whole

ENCODE_BATCH = 1000
SPILL = ".spill"
# Splits that are also written as plain text, a sentence a line in the order of the source, to decode and to score.
TEXT_SPLITS = ("dev", "test")
# The order of records in shards is a function of this and of the sources only.
SHUFFLE_SEED = 1706_03762


def generate(problem: Problem, data_dir: Path, tmp_dir: Path, say: Callable[[str], None] = print) -> Manifest:
    """Makes the data of a problem. What is already there and whole is kept, so an interrupted run goes on.

    Args:
      problem: what to generate; a reversed problem has the forward problem's data.
      data_dir: where to write.
      tmp_dir: where source files are, or are fetched to.
      say: takes lines about progress.

    Returns:
      the manifest.

    Raises:
      UserError: on missing, damaged or unreadable sources, or unusable data already in `data_dir`.
    """
    data_dir = Path(data_dir)
    manifest = read_manifest(data_dir, problem)
    if manifest is not None and all((data_dir / name).exists() for name in _all_files(problem)):
        say(f"{problem.data_name}: already in {data_dir}, nothing to do")
        return check_data(data_dir, problem)
    files = find_or_fetch(problem, Path(tmp_dir))
    vocabulary_path = data_dir / problem.vocab_filename
    if not vocabulary_path.exists():
        say(f"{problem.data_name}: learning {problem.vocab_size} pieces")
        train_vocabulary(_texts(problem.examples("train", files)), problem.vocab_size, vocabulary_path)
    vocabulary = Vocabulary(vocabulary_path)
    if manifest is not None and manifest.vocabulary["sha256"] != vocabulary.sha256:
        raise UserError(
            f"{vocabulary_path} is not the vocabulary that the shards in {data_dir} were made with; "
            f"put that one back, or remove the shards"
        )
    splits = {}
    for split in SPLITS:
        if not all(path.exists() for path in _shard_paths(problem, data_dir, split)):
            _write_split(problem, split, files, vocabulary, data_dir)
        if split in TEXT_SPLITS:
            _write_text(problem, split, files, data_dir)
        splits[split] = _describe_split(problem, split, data_dir)
        say(f"{problem.data_name}: {split}: {splits[split]['examples']} pairs")
    manifest = Manifest(
        problem=problem.data_name,
        vocabulary={"file": vocabulary_path.name, "sha256": vocabulary.sha256, "size": vocabulary.size},
        splits=splits,
        sources={name: sha256_of(path) for name, path in files.items()},
    )
    manifest.write(data_dir)
    for spill in data_dir.glob(f"{problem.data_name}-*{SPILL}"):
        spill.unlink()  # of a run that was killed after it had written its shards
    return manifest


def _all_files(problem: Problem) -> list[str]:
    shards = [problem.shard_filename(split, i) for split in SPLITS for i in range(problem.shards_of(split))]
    texts = [problem.text_filename(split, side) for split in TEXT_SPLITS for side in Example._fields]
    return [problem.vocab_filename, *shards, *texts]


def _shard_paths(problem: Problem, data_dir: Path, split: str) -> list[Path]:
    return [data_dir / problem.shard_filename(split, i) for i in range(problem.shards_of(split))]


def _texts(examples: Iterable[Example]) -> Iterator[str]:
    return itertools.chain.from_iterable(examples)


def _write_split(problem: Problem, split: str, files: dict, vocabulary: Vocabulary, data_dir: Path) -> None:
    """Spreads the pairs over spill files at random, then shuffles each into its shard: memory holds one shard."""
    generator = random.Random(f"{SHUFFLE_SEED} {split}")
    shards = _shard_paths(problem, data_dir, split)
    spills = [path.with_name(path.name + SPILL) for path in shards]
    writers = [tf.io.TFRecordWriter(str(path)) for path in spills]
    count = 0
    for record in _records(problem.examples(split, files), vocabulary):
        generator.choice(writers).write(record)
        count += 1
    for writer in writers:
        writer.close()
    if not count:
        raise UserError(f"problem '{problem.data_name}' has no {split} examples; check its sources")
    for spill, shard in zip(spills, shards):
        records = [record.numpy() for record in tf.data.TFRecordDataset(str(spill))]
        generator.shuffle(records)
        with written_whole(shard) as partial, tf.io.TFRecordWriter(str(partial)) as writer:
            for record in records:
                writer.write(record)
        spill.unlink()


def _write_text(problem: Problem, split: str, files: dict, data_dir: Path) -> None:
    for side, lines in zip(Example._fields, zip(*problem.examples(split, files))):
        write_text(data_dir / problem.text_filename(split, side), "".join(line + "\n" for line in lines))


def _records(examples: Iterator[Example], vocabulary: Vocabulary) -> Iterator[bytes]:
    """Yields a serialised tf.train.Example with int64 lists `inputs` and `targets` for each pair, in order."""
    while batch := list(itertools.islice(examples, ENCODE_BATCH)):
        sides = (vocabulary.encode(tf.constant(side)).to_list() for side in zip(*batch))
        for inputs, targets in zip(*sides):
            feature = {
                "inputs": tf.train.Feature(int64_list=tf.train.Int64List(value=inputs)),
                "targets": tf.train.Feature(int64_list=tf.train.Int64List(value=targets)),
            }
            yield tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def _describe_split(problem: Problem, split: str, data_dir: Path) -> dict:
    """Reads a split back, which also proves that its shards are readable, and returns its part of the manifest."""
    paths = _shard_paths(problem, data_dir, split)
    lengths = {"inputs": collections.Counter(), "targets": collections.Counter()}
    features = {name: tf.io.RaggedFeature(tf.int64) for name in lengths}
    with reading_shards(problem, data_dir):
        for batch in tf.data.TFRecordDataset([str(path) for path in paths]).batch(ENCODE_BATCH):
            for name, ids in tf.io.parse_example(batch, features).items():
                lengths[name].update(ids.row_lengths().numpy().tolist())
    return {
        "examples": sum(lengths["inputs"].values()),
        "shards": {path.name: path.stat().st_size for path in paths},
        "lengths": {
            name: {str(length): number for length, number in sorted(counter.items())}
            for name, counter in lengths.items()
        },
    }
