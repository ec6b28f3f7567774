"""Plots what an inspection of shards has found: lengths, tokens per word, padding."""

import collections
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from t2t_lite.data.inspection import Inspection
from t2t_lite.data.token_statistics import mean, quantile
from t2t_lite.visualization.figures import COLORS, make_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN = 0.995  # share of texts and of words that the axes show; few very long ones would hide all others
_MAX_BINS = 60
_MAX_TOKENS_PER_WORD = 10


def plot_inspection(found: Inspection, title: str, file: Path) -> None:
    """Plots three panels into a file, which appears once it is complete.

    Lengths are a histogram of the share of texts; tokens per word one of the share of words; padding is a point for
    each batch, over the length to which it is padded.
    """
    figure = make_figure(14, 4.5)
    lengths, words, padding = figure.subplots(1, 3)
    for side, color in zip(found.lengths, COLORS):
        if found.padding[side].lengths.size:
            label = f"{side}: {found.padding[side].share:.1%} in all"
            shares = 100 * found.padding[side].shares
            padding.plot(found.padding[side].lengths, shares, "o", color=color, alpha=0.6, label=label)
    _draw_lengths(lengths, found.lengths)
    _draw_words(words, found.tokens_per_word)
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
    # A bin of one length is centred on it.
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
        shares.append(100 - sum(shares))  # words of as many tokens, or more
        places = [tokens + (number - (len(words) - 1) / 2) * width for tokens in shown]
        axes.bar(places, shares, width, color=color, label=f"{side}: {mean(counter):.2f} on average")
    axes.set_xticks(shown, [*map(str, shown[:-1]), f"{shown[-1]}+"])
