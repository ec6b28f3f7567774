"""Looks into shards: how many examples, of which lengths, and what they say."""

import collections
import re
from dataclasses import dataclass, field
from pathlib import Path

import tensorflow as tf

from t2t_lite.data.generation.records import ENCODE_BATCH
from t2t_lite.data.manifest import FILENAME, Manifest, manifest_of_file
from t2t_lite.data.pipeline import reading_shards
from t2t_lite.data.problem import SIDES
from t2t_lite.data.vocab import UNKNOWN_ID, Vocabulary, open_vocabulary
from t2t_lite.errors import UserError


@dataclass
class Inspection:
    """What shards of a split hold.

    Args:
      manifest: that of the data.
      split: whose shards they are.
      paths: the shards.
      vocabularies: of the inputs and of the targets.
      lengths: of each side, how many examples have so many tokens, end symbols included.
      longer_sides: the same of the longer side of each example, which training compares with max_length.
      unknown: unknown tokens of each side.
      texts: the first examples: the tokens' texts of each side.
    """

    manifest: Manifest
    split: str
    paths: list[Path]
    vocabularies: tuple[Vocabulary, Vocabulary]
    lengths: dict[str, collections.Counter] = field(default_factory=lambda: {s: collections.Counter() for s in SIDES})
    longer_sides: collections.Counter = field(default_factory=collections.Counter)
    unknown: collections.Counter = field(default_factory=collections.Counter)
    texts: list[tuple[list[str], list[str]]] = field(default_factory=list)

    @property
    def examples(self) -> int:
        """How many there are."""
        return sum(self.longer_sides.values())

    def longer_than(self, max_length: int) -> int:
        """Returns how many examples have a side of more tokens than this."""
        return sum(count for length, count in self.longer_sides.items() if length > max_length)


def inspect_split(data_dir: Path, problem_name: str, split: str, num_texts: int = 3) -> Inspection:
    """Looks into all shards of a split.

    Args:
      data_dir: where the data is.
      problem_name: the forward problem's.
      split: "train", "dev" or "test".
      num_texts: so many examples are kept as text.

    Raises:
      UserError: if there is no such data, or a shard is damaged.
    """
    manifest = manifest_of_file(data_dir / FILENAME.format(problem_name))
    if split not in manifest.splits:
        raise UserError(f"{data_dir} has no {split} split of '{problem_name}' yet; finish it with t2t-lite-datagen")
    return _inspect(manifest, split, [data_dir / name for name in manifest.splits[split]["shards"]], num_texts)


def inspect_shard(path: Path, num_texts: int = 3) -> Inspection:
    """Looks into one shard; its name says whose it is.

    Raises:
      UserError: if it is not the name of a shard, its manifest is not beside it, or it is damaged.
    """
    match = re.fullmatch(r"(.+)-(train|dev|test)-\d+-of-\d+", path.name)
    if not match:
        raise UserError(f"{path} is not called as a shard is (<problem>-<split>-00000-of-00010)")
    return _inspect(manifest_of_file(path.with_name(FILENAME.format(match[1]))), match[2], [path], num_texts)


def _inspect(manifest: Manifest, split: str, paths: list[Path], num_texts: int) -> Inspection:
    folder = paths[0].parent
    for path in paths:
        if not path.exists():
            raise UserError(f"{path} is missing; make it again with t2t-lite-datagen, with the flags it was made with")
    vocabularies = tuple(open_vocabulary(folder / each["file"]) for each in manifest.vocabularies)
    found = Inspection(manifest, split, paths, vocabularies)
    features = {side: tf.io.RaggedFeature(tf.int64) for side in SIDES}
    with reading_shards(manifest.problem, folder):
        for batch in tf.data.TFRecordDataset([str(path) for path in paths]).batch(ENCODE_BATCH):
            parsed = tf.io.parse_example(batch, features)
            rows = [parsed[side] for side in SIDES]
            for side, ids in zip(SIDES, rows):
                found.lengths[side].update(ids.row_lengths().numpy().tolist())
                found.unknown[side] += int(tf.reduce_sum(tf.cast(ids.flat_values == UNKNOWN_ID, tf.int64)))
            longer = tf.maximum(*(ids.row_lengths() for ids in rows))
            found.longer_sides.update(longer.numpy().tolist())
            for pair in zip(*(ids[: num_texts - len(found.texts)].to_list() for ids in rows)):
                found.texts.append(tuple(each.tokens_of(ids) for each, ids in zip(vocabularies, pair)))
    return found
