"""Inspects shards (number of examples, lengths, tokens per word, padding, samples as text) and plots the results."""

import collections
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.data.batching import cut_into_batches
from t2t_lite.data.generation.records import ENCODE_BATCH
from t2t_lite.data.manifest import FILENAME, Manifest, manifest_of_file
from t2t_lite.data.pipeline import reading_shards
from t2t_lite.data.problem import SIDES
from t2t_lite.data.token_statistics import WordCounter, mean, quantile
from t2t_lite.data.vocab import Vocabulary, open_vocabulary
from t2t_lite.data.windows import window_size
from t2t_lite.errors import UserError
from t2t_lite.visualization.figures import COLORS, make_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN = 0.995  # share of texts and words that the axes show; a few very long ones would hide the others
_MAX_BINS = 60
_MAX_TOKENS_PER_WORD = 10


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
    lengths: tuple[np.ndarray, np.ndarray], batch_tokens: int, max_length: int, batch_by: str
) -> tuple[Padding, Padding]:
    """Returns the padding of inputs and targets if examples are batched as in training.

    `lengths` has the lengths of inputs and of targets in tokens, including the end symbol, int64 [examples] each.
    Examples with a side longer than `max_length` are left out. Batches have about `batch_tokens` target tokens; for
    `batch_by`, see `cut_into_batches`.
    """
    kept = np.maximum(*lengths) <= max_length
    inputs, targets = (side[kept] for side in lengths)
    batch_statistics = [[np.zeros([3, 0], np.int64)] * 2]
    window = max(1, window_size(len(targets)))
    for start in range(0, len(targets), window):
        sides = [tf.constant(side[start : start + window], tf.int64) for side in (inputs, targets)]
        rows = cut_into_batches(sides[0], sides[1], batch_tokens, None, batch_by)
        of_batches = [tf.gather(side, rows) for side in sides]
        batch_statistics.append(
            [
                np.stack([tf.reduce_max(side, axis=1), tf.reduce_sum(side, axis=1), rows.row_lengths()])
                for side in of_batches
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
    match = re.fullmatch(r"(.+)-(train|dev|test)-\d+-of-\d+", path.name)
    if not match:
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
    features = {side: tf.io.RaggedFeature(tf.int64) for side in SIDES}
    with reading_shards(manifest.problem, folder):
        for batch in tf.data.TFRecordDataset([str(path) for path in paths]).batch(ENCODE_BATCH):
            parsed: dict[str, Any] = tf.io.parse_example(batch, features)
            rows = [parsed[side] for side in SIDES]
            lengths.append([ids.row_lengths().numpy() for ids in rows])
            for side, ids, row_lengths, counter, vocabulary in zip(
                SIDES, rows, lengths[-1], counters, inspection.vocabularies
            ):
                inspection.lengths[side].update(row_lengths.tolist())
                inspection.tokens_per_word[side].update(counter.tokens_per_word(ids.flat_values.numpy(), row_lengths))
                inspection.unknown[side] += int(np.sum(ids.flat_values.numpy() == vocabulary.unknown_id))
            inspection.longer_sides.update(np.maximum(*lengths[-1]).tolist())
            for inputs, targets in zip(*(ids[: num_texts - len(inspection.texts)].to_list() for ids in rows)):
                inspection.texts.append((of_inputs.tokens_of(inputs), of_targets.tokens_of(targets)))
    inputs, targets = map(np.concatenate, zip(*lengths))
    usual = HParams()
    paddings = padding_of_batches((inputs, targets), usual.batch_tokens, usual.max_length, "both")
    inspection.padding.update(zip(SIDES, paddings))
    return inspection


def plot_inspection(inspection: Inspection, title: str, file: Path) -> None:
    """Plots the lengths of texts, the tokens per word, and each batch's padding by its padded length."""
    figure = make_figure(14, 4.5)
    lengths, words, padding = figure.subplots(1, 3)
    for side, color in zip(inspection.lengths, COLORS):
        if inspection.padding[side].lengths.size:
            label = f"{side}: {inspection.padding[side].share:.1%} in all"
            shares = 100 * inspection.padding[side].shares
            padding.plot(inspection.padding[side].lengths, shares, "o", color=color, alpha=0.6, label=label)
    _draw_lengths(lengths, inspection.lengths)
    _draw_words(words, inspection.tokens_per_word)
    lengths.set(xlabel="length, tokens", ylabel="texts, %")
    words.set(xlabel="tokens per word", ylabel="words, %")
    padding.set(xlabel="padded length of a batch, tokens", ylabel="padding, %")
    padding.set_ylim(bottom=0)
    padding.xaxis.get_major_locator().set_params(integer=True)
    for axes in (lengths, words, padding):
        axes.grid(alpha=0.3)
        axes.set_axisbelow(True)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1), fontsize="small", frameon=False)
    figure.suptitle(title, parse_math=False)
    save(figure, file)


def _draw_lengths(axes: "Axes", lengths: dict[str, collections.Counter[int]]) -> None:
    last = max(quantile(counter, _SHOWN) for counter in lengths.values())
    step = -(-(last + 1) // _MAX_BINS)
    # A bin of a single length is centred on it.
    edges = [place - (0.5 if step == 1 else 0.0) for place in range(0, last + 1 + step, step)]
    for (side, counter), color in zip(lengths.items(), COLORS):
        values, counts = np.array([*counter]), np.array([*counter.values()])
        if not counts.size:
            continue
        median, most, longest = (quantile(counter, share) for share in (0.5, 0.95, 1.0))
        label = f"{side}: median {median}, 95% {most}, longest {longest}"
        weights = 100 * counts / counts.sum()
        axes.hist(values, edges, weights=weights, histtype="stepfilled", color=color, alpha=0.25)
        axes.hist(values, edges, weights=weights, histtype="step", color=color, label=label)
        axes.axvline(median, color=color, linestyle="--", linewidth=1)
        axes.axvline(most, color=color, linestyle=":", linewidth=1)
    axes.set_xlim(0, edges[-1])


def _draw_words(axes: "Axes", words: dict[str, collections.Counter[int]]) -> None:
    most = max(quantile(counter, _SHOWN) for counter in words.values())
    shown = range(1, min(max(most, 2), _MAX_TOKENS_PER_WORD) + 1)
    width = 0.8 / len(words)
    for number, ((side, counter), color) in enumerate(zip(words.items(), COLORS)):
        if not counter:
            continue
        total = counter.total()
        shares = [100 * counter[tokens] / total for tokens in shown[:-1]]
        shares.append(100 - sum(shares))  # words with this number of tokens or more
        places = [tokens + (number - (len(words) - 1) / 2) * width for tokens in shown]
        axes.bar(places, shares, width, color=color, label=f"{side}: {mean(counter):.2f} on average")
    axes.set_xticks(shown, [*map(str, shown[:-1]), f"{shown[-1]}+"])
