"""Inspects shards (number of examples, lengths, tokens per word, padding, samples as text)."""

import collections
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.data.batching import cut_into_batches
from t2t_lite.data.generation.shards import ENCODE_BATCH
from t2t_lite.data.manifest import FILENAME, Manifest, manifest_of_file
from t2t_lite.data.pipeline import parse_records, reading_shards, window_size
from t2t_lite.data.problem import SIDES
from t2t_lite.data.vocab import Vocabulary, open_vocabulary
from t2t_lite.errors import UserError


class WordCounter:
    """Counts the tokens in each word. Words are separated by spaces, and a space belongs to the word after it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        texts = [vocabulary.bytes_of(token) for token in range(vocabulary.size)]
        # After these tokens, the space between two runs of letters and digits is omitted.
        self._ends_run = np.array([vocabulary.ends_run(token) for token in range(vocabulary.size)])
        # False for padding and end symbols.
        self._is_text = np.array([bool(text) for text in texts]) | self._ends_run
        self._is_blank = np.array([text.isspace() for text in texts])
        self._starts_with_blank = np.array([text[:1].isspace() for text in texts])
        self._ends_with_blank = np.array([text[-1:].isspace() for text in texts])
        starts = (text.decode("utf-8", errors="replace")[:1] for text in texts)
        self._is_word = np.array([start.isalnum() for start in starts])

    def tokens_per_word(self, ids: np.ndarray, row_lengths: np.ndarray) -> collections.Counter[int]:
        """Returns {number of tokens: number of words with that many tokens}. End symbols are not counted.

        `ids` has the tokens of all texts, int [tokens]; `row_lengths` is int [texts].
        """
        rows = np.repeat(np.arange(len(row_lengths)), row_lengths)[self._is_text[ids]]
        ids = ids[self._is_text[ids]]
        first = np.ones(len(ids), bool)
        first[1:] = rows[1:] != rows[:-1]
        after_blank = np.zeros(len(ids), bool)
        after_blank[1:] = self._is_blank[ids[:-1]]
        # A run begins a word after an omitted space, or after a token that ends with a space.
        begins_run = first.copy()
        begins_run[1:] |= self._ends_run[ids[:-1]]
        is_word = self._is_word[ids[begins_run]]
        run = np.cumsum(begins_run) - 1
        left_out = is_word[run] & is_word[np.maximum(run - 1, 0)]
        written = np.zeros(len(ids), bool)
        written[1:] = self._ends_with_blank[ids[:-1]] & ~self._is_blank[ids[:-1]]
        after_run = begins_run & (left_out | (written & ~self._starts_with_blank[ids]))
        begins = first | (self._starts_with_blank[ids] & ~after_blank) | after_run
        words = np.bincount(np.cumsum(begins))[1:]
        counts = np.bincount(words)
        return collections.Counter({int(tokens): int(counts[tokens]) for tokens in np.flatnonzero(counts)})


class Padding(NamedTuple):
    lengths: np.ndarray  # the length to which each batch is padded: its longest text in tokens, int64 [batches]
    tokens: np.ndarray  # the number of tokens in each batch without padding, int64 [batches]
    rows: np.ndarray  # the number of texts in each batch, int64 [batches]

    @property
    def shares(self) -> np.ndarray:
        return 1 - self.tokens / (self.lengths * self.rows)

    @property
    def share(self) -> float:
        return float(1 - self.tokens.sum() / max(1, (self.lengths * self.rows).sum()))


def padding_of_batches(
    lengths: tuple[np.ndarray, np.ndarray], batch_tokens: int, max_length: int
) -> tuple[Padding, Padding]:
    """Returns the padding of inputs and targets if examples are batched as in training.

    `lengths` has the lengths of inputs and of targets in tokens, including the end symbol, int64 [examples] each.
    Examples with a side longer than `max_length` are left out. Batches have about `batch_tokens` target tokens.
    """
    kept = np.maximum(*lengths) <= max_length
    inputs, targets = (side[kept] for side in lengths)
    batch_statistics = [[np.zeros([3, 0], np.int64)] * 2]
    window = max(1, window_size(len(targets)))
    for start in range(0, len(targets), window):
        sides = [tf.constant(side[start : start + window], tf.int64) for side in (inputs, targets)]
        rows = cut_into_batches(sides[0], sides[1], batch_tokens, None, "both")
        batch_statistics.append(
            [
                np.stack([tf.reduce_max(side, axis=1), tf.reduce_sum(side, axis=1), rows.row_lengths()])
                for side in [tf.gather(side, rows) for side in sides]
            ]
        )
    of_inputs, of_targets = (Padding(*np.concatenate(parts, axis=1)) for parts in zip(*batch_statistics))
    return of_inputs, of_targets


@dataclass
class Inspection:
    manifest: Manifest
    split: str
    paths: list[Path]  # the shards
    vocabularies: tuple[Vocabulary, Vocabulary]  # the vocabularies of inputs and targets
    # for each side, a histogram of lengths in tokens, including the end symbol
    lengths: dict[str, collections.Counter[int]] = field(
        default_factory=lambda: {s: collections.Counter() for s in SIDES}
    )
    # a histogram of the length of each example's longer side, which training compares with max_length
    longer_sides: collections.Counter[int] = field(default_factory=collections.Counter)
    # for each side, a histogram of the number of tokens per word; words are separated by spaces
    tokens_per_word: dict[str, collections.Counter[int]] = field(
        default_factory=lambda: {s: collections.Counter() for s in SIDES}
    )
    # for each side, the padding of batches with training's default `batch_tokens` and `max_length`
    padding: dict[str, Padding] = field(default_factory=dict)
    # number of unknown tokens on each side
    unknown: collections.Counter[str] = field(default_factory=collections.Counter)
    # the first examples: the texts of the tokens on each side
    texts: list[tuple[list[str], list[str]]] = field(default_factory=list)

    @property
    def examples(self) -> int:
        return sum(self.longer_sides.values())

    def longer_than(self, max_length: int) -> int:
        return sum(count for length, count in self.longer_sides.items() if length > max_length)


def inspect_split(data_dir: Path, problem_name: str, split: str, num_texts: int = 3) -> Inspection:
    """Inspects a split of a forward problem. The result contains the first `num_texts` examples as text."""
    manifest = manifest_of_file(data_dir / FILENAME.format(problem_name))
    if split not in manifest.splits:
        raise UserError(f"{data_dir} has no {split} split of '{problem_name}' yet; finish it with t2t-lite-datagen")
    manifest.check_split(data_dir, split)
    return _inspect(manifest, split, [data_dir / name for name in manifest.splits[split]["shards"]], num_texts)


def inspect_shard(path: Path, num_texts: int = 3) -> Inspection:
    """Inspects one shard, whose file name contains the problem and the split."""
    if not (match := re.fullmatch(r"(.+)-(train|dev|test)-\d+-of-\d+", path.name)):
        raise UserError(
            f"{path} is not named like a shard (<problem>-<split>-00000-of-00010); pass the path of a shard"
        )
    return _inspect(manifest_of_file(path.with_name(FILENAME.format(match[1]))), match[2], [path], num_texts)


def _inspect(manifest: Manifest, split: str, paths: list[Path], num_texts: int) -> Inspection:
    folder = paths[0].parent
    for path in paths:
        if not path.exists():
            raise UserError(f"{path} is missing; regenerate it with t2t-lite-datagen and the same settings as before")
    of_inputs, of_targets = (open_vocabulary(folder / each["file"]) for each in manifest.vocabularies)
    inspection = Inspection(manifest, split, paths, (of_inputs, of_targets))
    counters = [WordCounter(vocabulary) for vocabulary in inspection.vocabularies]
    lengths = [[np.zeros(0, np.int64)] * len(SIDES)]
    with reading_shards(manifest.problem, folder):
        for batch in tf.data.TFRecordDataset([str(path) for path in paths]).batch(ENCODE_BATCH):
            rows = parse_records(batch, is_reversed=False, max_length=None)
            lengths.append([ids.row_lengths().numpy() for ids in rows])
            sides = zip(SIDES, rows, lengths[-1], counters, inspection.vocabularies)
            for side, ids, row_lengths, counter, vocabulary in sides:
                inspection.lengths[side].update(row_lengths.tolist())
                inspection.tokens_per_word[side].update(counter.tokens_per_word(ids.flat_values.numpy(), row_lengths))
                inspection.unknown[side] += int(np.sum(ids.flat_values.numpy() == vocabulary.unknown_id))
            inspection.longer_sides.update(np.maximum(*lengths[-1]).tolist())
            for inputs, targets in zip(*(ids[: num_texts - len(inspection.texts)].to_list() for ids in rows)):
                inspection.texts.append((of_inputs.tokens_of(inputs), of_targets.tokens_of(targets)))
    inputs, targets = map(np.concatenate, zip(*lengths))
    usual = HParams()
    paddings = padding_of_batches((inputs, targets), usual.batch_tokens, usual.max_length)
    inspection.padding.update(zip(SIDES, paddings))
    return inspection
