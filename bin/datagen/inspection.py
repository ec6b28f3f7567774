"""t2t-lite-datagen --inspect: shows the contents of a split or a shard."""

import argparse
import collections
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from t2t_lite.bin import cli
from t2t_lite.config import HParams
from t2t_lite.data.manifest import mean, quantile
from t2t_lite.data.problem import SPLITS, get_problem
from t2t_lite.errors import UserError
from t2t_lite.system.tensorflow import import_tensorflow
from t2t_lite.visualization.figures import COLORS, check_plot_file, make_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from t2t_lite.data.inspection import Inspection

_MAX_LENGTHS = (64, 128, 256, 512)
# The plot: the share of texts and words that the axes show, since a few very long ones would hide the others.
_SHOWN = 0.995
_MAX_BINS = 60
_MAX_TOKENS_PER_WORD = 10


def print_inspection(arguments: argparse.Namespace) -> None:
    asked = arguments.inspect
    if not Path(asked).is_file() and asked not in SPLITS:
        raise UserError(f"--inspect={asked} is neither a file nor a split ({', '.join(SPLITS)})", status=2)
    if arguments.plot_file is not None:
        check_plot_file(Path(arguments.plot_file))
    import_tensorflow()
    from t2t_lite.data.inspection import inspect_shard, inspect_split

    if Path(asked).is_file():
        inspection = inspect_shard(Path(asked))
    else:
        inspection = inspect_split(Path(arguments.data_dir), get_problem(arguments.problem).data_name, asked)
    what = inspection.paths[0].name if len(inspection.paths) == 1 else f"{len(inspection.paths)} shards"
    title = f"{inspection.manifest.problem}, {inspection.split}, {what}: {inspection.examples:,} examples"
    print(f"{title}\n")
    titles = ("side", "vocabulary", "tokens", "mean", "median", "95%", "longest", "per word", "unknown")
    table = cli.table(*titles, left=2, pad_edge=True)
    for (side, counter), vocabulary in zip(inspection.lengths.items(), inspection.vocabularies):
        tokens = sum(length * count for length, count in counter.items())
        table.add_row(
            side,
            f"{vocabulary.size:,} ({vocabulary.path.name})",
            f"{tokens:,}",
            f"{mean(counter):.1f}",
            *(str(quantile(counter, share)) for share in (0.5, 0.95, 1.0)),
            f"{mean(inspection.tokens_per_word[side]):.2f}",
            f"{inspection.unknown[side] / max(1, tokens):.2%}",
        )
    cli.print_table(table)
    print("Lengths are in tokens, including the end symbol; per word: mean number of tokens per word between spaces.\n")
    shares = ", ".join(f"{padding.share:.1%} of the {side}" for side, padding in inspection.padding.items())
    batch = f"{HParams.batch_tokens:,} target tokens, max_length={HParams.max_length}"
    print(f"Padding in training batches with default settings ({batch}): {shares}.")
    dropped = inspection.manifest.splits.get(inspection.split, {}).get("dropped", {})
    message = ", ".join(f"{count:,} ({why})" for why, count in dropped.items()) or "none"
    print(f"Dropped when the whole split was generated: {message}.")
    if inspection.split == "train":
        message = ", ".join(
            f"{inspection.longer_than(limit):,} with max_length={limit} "
            f"({inspection.longer_than(limit) / inspection.examples:.2%})"
            for limit in _MAX_LENGTHS
        )
        print(f"Dropped in training because a side is too long: {message}. Nothing is truncated.")
    for number, tokens in enumerate(inspection.texts, start=1):
        print(f"\nExample {number}")
        for side, parts in zip(("inputs ", "targets"), tokens):
            print(f"  {side}  {'|'.join(parts)}")
    if arguments.plot_file is not None:
        _plot(inspection, title, Path(arguments.plot_file))
        print(f"\nplot: {arguments.plot_file}")


def _plot(inspection: "Inspection", title: str, file: Path) -> None:
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
