"""Data generation: text -> vocabularies, shuffled TFRecord shards of ids, dev and test as text, manifest."""

import collections
import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import tensorflow as tf

from t2t_lite.data.manifest import Manifest, check_data, read_manifest
from t2t_lite.data.pipeline import reading_shards
from t2t_lite.data.problem import SPLITS, Example, Problem
from t2t_lite.data.sources import find_or_fetch
from t2t_lite.data.vocab import Vocabulary, train_vocabulary
from t2t_lite.errors import UserError
from t2t_lite.files import INCOMPLETE, sha256_of, write_text, written_whole

ENCODE_BATCH = 1000
SPILL = ".spill"
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
    vocabularies = _make_vocabularies(problem, files, data_dir, say)
    if manifest is None:
        manifest = _new_manifest(problem, vocabularies, files)
        manifest.write(data_dir)
    for vocabulary, made_with in zip(vocabularies, manifest.vocabularies):
        if vocabulary.sha256 != made_with["sha256"]:
            raise UserError(
                f"{vocabulary.path} is not the vocabulary that the data in {data_dir} was made with "
                f"({made_with['file']}); put that one back, or use another --data_dir"
            )
    for split in SPLITS:
        if split not in manifest.splits or not all(path.exists() for path in _split_paths(problem, data_dir, split)):
            _write_split(problem, split, files, vocabularies, data_dir)
            manifest.splits[split] = _describe_split(problem, split, data_dir)
            manifest.write(data_dir)
        say(f"{problem.data_name}: {split}: {manifest.splits[split]['examples']} pairs")
    for ending in (SPILL, INCOMPLETE):  # of runs that were killed
        for leftover in data_dir.glob(f"{problem.data_name}-*{ending}"):
            leftover.unlink()
    return manifest


def _new_manifest(problem: Problem, vocabularies: tuple[Vocabulary, Vocabulary], files: dict) -> Manifest:
    inputs, targets = ({"file": each.path.name, "sha256": each.sha256, "size": each.size} for each in vocabularies)
    return Manifest(
        problem=problem.data_name,
        vocabulary=targets,
        splits={},
        sources={name: sha256_of(path) for name, path in files.items()},
        inputs_vocabulary=None if problem.shared_vocabulary else inputs,
    )


def _make_vocabularies(
    problem: Problem, files: dict, data_dir: Path, say: Callable[[str], None]
) -> tuple[Vocabulary, Vocabulary]:
    """Learns those that are not there, and returns that of the inputs and that of the targets."""
    if problem.vocab_kind != "bpe":
        raise UserError(f"problem '{problem.data_name}' asks for vocab_kind '{problem.vocab_kind}'; known: 'bpe'")
    vocabularies = {}
    for name in dict.fromkeys(problem.vocab_filenames):
        path = data_dir / name
        if not path.exists():
            sides = [side for side, its_name in zip(Example._fields, problem.vocab_filenames) if its_name == name]
            say(f"{problem.data_name}: learning {problem.vocab_size} pieces of {' and '.join(sides)}")
            train_vocabulary(_texts(problem, files, sides), problem.vocab_size, path)
        vocabularies[name] = Vocabulary(path)
    return tuple(vocabularies[name] for name in problem.vocab_filenames)


def _texts(problem: Problem, files: dict, sides: list[str]) -> Iterator[str]:
    """Yields the texts of some sides of the train split."""
    example = None
    for example in problem.examples("train", files):
        yield from (getattr(example, side) for side in sides)
    if example is None:
        raise _no_examples(problem, "train")


def _all_files(problem: Problem) -> list[str]:
    paths = [path.name for split in SPLITS for path in _split_paths(problem, Path(), split)]
    return [*problem.vocab_filenames, *paths]


def _shard_paths(problem: Problem, data_dir: Path, split: str) -> list[Path]:
    return [data_dir / problem.shard_filename(split, i) for i in range(problem.shards_of(split))]


def _text_paths(problem: Problem, data_dir: Path, split: str) -> list[Path]:
    """The plain text of a split, inputs and targets; the training text is not written again."""
    return [] if split == "train" else [data_dir / problem.text_filename(split, side) for side in Example._fields]


def _split_paths(problem: Problem, data_dir: Path, split: str) -> list[Path]:
    return _shard_paths(problem, data_dir, split) + _text_paths(problem, data_dir, split)


def _no_examples(problem: Problem, split: str) -> UserError:
    return UserError(f"problem '{problem.data_name}' has no {split} examples; check its sources")


def _write_split(
    problem: Problem, split: str, files: dict, vocabularies: tuple[Vocabulary, Vocabulary], data_dir: Path
) -> None:
    """Spreads the pairs over spill files at random, then shuffles each into its shard: memory holds one shard."""
    generator = random.Random(f"{SHUFFLE_SEED} {split}")
    shards = _shard_paths(problem, data_dir, split)
    spills = [path.with_name(path.name + SPILL) for path in shards]
    writers = [tf.io.TFRecordWriter(str(path)) for path in spills]
    count = 0
    for record in _records(problem.examples(split, files), vocabularies):
        generator.choice(writers).write(record)
        count += 1
    for writer in writers:
        writer.close()
    if not count:
        raise _no_examples(problem, split)
    for spill, shard in zip(spills, shards):
        records = [record.numpy() for record in tf.data.TFRecordDataset(str(spill))]
        generator.shuffle(records)
        with written_whole(shard) as partial, tf.io.TFRecordWriter(str(partial)) as writer:
            for record in records:
                writer.write(record)
        spill.unlink()
    _write_text(problem, split, files, data_dir)


def _write_text(problem: Problem, split: str, files: dict, data_dir: Path) -> None:
    """Writes a split as text, a sentence a line in the order of the source, to decode and to score."""
    paths = _text_paths(problem, data_dir, split)
    if not paths:
        return
    sides = list(zip(*problem.examples(split, files)))
    for path, lines in zip(paths, sides):
        if any("\n" in line for line in lines):
            raise UserError(f"problem '{problem.data_name}' has a {split} example with a line break; take it out")
        write_text(path, "".join(line + "\n" for line in lines))


def _records(examples: Iterator[Example], vocabularies: tuple[Vocabulary, Vocabulary]) -> Iterator[bytes]:
    """Yields a serialised tf.train.Example with int64 lists `inputs` and `targets` for each pair, in order."""
    while batch := list(itertools.islice(examples, ENCODE_BATCH)):
        sides = (
            vocabulary.encode(tf.constant(texts)).to_list() for vocabulary, texts in zip(vocabularies, zip(*batch))
        )
        for inputs, targets in zip(*sides):
            feature = {
                "inputs": tf.train.Feature(int64_list=tf.train.Int64List(value=inputs)),
                "targets": tf.train.Feature(int64_list=tf.train.Int64List(value=targets)),
            }
            yield tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString(deterministic=True)


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
