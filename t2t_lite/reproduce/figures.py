"""Draws figures 3 to 5 of the paper from a trained model: encoder self-attention in layer 5 of 6.

Figure 3 shows the attention of all heads for one word: "making ... more difficult". Figure 4 shows one head
for all words, and two heads for a pronoun. Figure 5 shows two heads that follow the structure of the sentence.
"""

import dataclasses
import string
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from t2t_lite.errors import UserError
from t2t_lite.files import encodable, make_folder, write_text
from t2t_lite.visualization.attention import AttentionPicture, find_query
from t2t_lite.visualization.attention_drawing import Panel, described, draw_lines
from t2t_lite.visualization.attention_map import AttentionMap, HasAttention, attention_map, head_statistics, paper_layer
from t2t_lite.visualization.figures import save

FIGURE_EXTENSIONS = (".svg", ".png", ".html", ".md")  # of the files to write
PRONOUNS = ("its", "it", "his", "her", "their", "he", "she", "they", "him", "them")
FAR = 4  # words; in the paper, the "distant dependency" of "making" is three to seven words away
_WORDS = range(8, 19)  # allowed lengths of an automatically chosen sentence, in words


class FigureFiles(NamedTuple):
    files: list[Path]  # the pictures and the caption
    caption: str  # a description of the figure, with measurements


@dataclasses.dataclass(frozen=True)
class Choices:
    """What to draw; None: chosen from the attention weights."""

    layer: int | None = None  # the layer, from 0; None: the one that corresponds to the paper's layer
    heads: Sequence[int] | None = None  # the heads, from 0
    word: str | None = None  # the word in figures 3 and 4


def draw_figure(
    number: int, model: HasAttention, line: str, output: str, folder: Path, choices: Choices | None = None
) -> FigureFiles:
    """Draws figure 3, 4 or 5 of the paper as figure<number>.svg, .png and .html, with a caption in .md.

    `line` is a sentence, and `output` its translation or tree. `choices` says what to draw.
    """
    choices = choices or Choices()
    line, output = encodable(line), encodable(output)
    layer = paper_layer(model.attention_layers.get("encoder", 0)) if choices.layer is None else choices.layer
    each = attention_map(model, line, output, "encoder", layer).in_words()
    for head in choices.heads or ():
        if not 0 <= head < each.num_heads:
            raise UserError(f"`heads`: there is no head {head}; choose from 0 to {each.num_heads - 1}", status=2)
    panels, why = {3: _figure_3, 4: _figure_4, 5: _figure_5}[number](each, choices)
    make_folder(folder, "`output_dir`")
    files = [folder / f"figure{number}{ending}" for ending in FIGURE_EXTENSIONS]
    figure = draw_lines(panels)
    for file in files[:2]:
        save(figure, file)
    last = panels[-1]
    picture = AttentionPicture(
        model, [(line, output)], kinds=["encoder"], layers=[each.layer], heads=last.heads, words=True, query=last.query
    )
    picture.save(files[2])
    shown = ", ".join(str(head) for head in dict.fromkeys(head for panel in panels for head in panel.heads))
    caption = f"Encoder self-attention, layer {each.layer} (from 0), heads {shown}, of “{line}”. {why}"
    write_text(files[3], f"# Figure {number}\n\n{caption}\n")
    return FigureFiles(files, caption)


def sentence_for(number: int, lines: Iterable[str]) -> str | None:
    """Returns the first line with 8 to 18 words and, for figure 4, a pronoun; None if there is none."""
    for line in lines:
        words = line.split()
        if len(words) in _WORDS and (number != 4 or _pronoun_in(words) is not None):
            return line
    return None


def _figure_3(each: AttentionMap, choices: Choices) -> tuple[list[Panel], str]:
    """Draws all heads for one word: by default, the one with most weight on distant words, beyond uniform attention."""
    far, uniform = _share_far(each).mean(0), _share_far(each.uniform())[0]  # [queries]
    gains = np.where(each.queries.special, -np.inf, far - uniform)
    query = int(gains.argmax()) if choices.word is None else find_query(each, choices.word, "word")
    heads = list(choices.heads or range(each.num_heads))
    tops = [f"head {head} {_top(each, head, query)}" for head in heads]
    why = (
        f"The attention of “{each.queries.labels[query]}”: averaged over all heads, {far[query]:.0%} of the weight is "
        f"at least {FAR} words away, compared to {uniform[query]:.0%} with uniform attention. The largest weight of "
        f"each head: {', '.join(tops)}."
    )
    return [Panel(each, heads, query)], why


def _figure_4(each: AttentionMap, choices: Choices) -> tuple[list[Panel], str]:
    """Draws one head, then two heads for one word: by default, a pronoun and the sharpest heads for it."""
    query = _pronoun_in(each.queries.labels) if choices.word is None else find_query(each, choices.word, "word")
    if query is None:
        raise UserError("`sentence` has no pronoun for figure 4; pass another one, or pass a word in it as `word`")
    entropies = _entropies(each)[:, query]
    others = [head for head in np.argsort(entropies).tolist() if each.weights[head, query].argmax() != query]
    heads = list(choices.heads or others[:2] or [int(entropies.argmin())])
    uniform = float(_entropies(each.uniform())[0, query])
    tops = [f"head {head} {_top(each, head, query)} (entropy {entropies[head]:.2f} bits)" for head in heads]
    why = (
        f"First head {heads[0]}, then what “{each.queries.labels[query]}” attends to most: {', '.join(tops)}. "
        f"Uniform attention has an entropy of {uniform:.2f} bits."
    )
    return [Panel(each, heads[:1]), Panel(each, heads, query)], why


def _figure_5(each: AttentionMap, choices: Choices) -> tuple[list[Panel], str]:
    """Draws two heads: by default, sharply focused ones that do not just attend at a fixed distance."""
    sharp = np.argsort(_entropies(each).mean(1)).tolist()
    # The largest share of queries that attend most to keys at the same distance; 1 for a fixed shift.
    shifts = each.weights.argmax(-1) - np.arange(len(each.queries))
    shares = [np.unique(of_head, return_counts=True)[1].max() / len(of_head) for of_head in shifts]
    heads = list(choices.heads or sorted(sharp, key=lambda head: shares[head] > 0.5)[:2])
    measured = head_statistics([each])
    described_heads = [f"head {head}: {', '.join(described(measured, head))}" for head in heads]
    return [Panel(each, [head]) for head in heads], f"{'. '.join(described_heads)}."


def _share_far(each: AttentionMap) -> np.ndarray:
    """Returns the share of weight on keys at least `FAR` words away, float [heads, queries]."""
    places = np.arange(len(each.queries))
    far = (abs(places[:, None] - places[None]) >= FAR) & ~np.asarray(each.keys.special)[None]
    return (each.weights * far).sum(-1)


def _entropies(each: AttentionMap) -> np.ndarray:
    """Returns the entropy of the weights of each query in bits, float [heads, queries]."""
    return -(each.weights * np.log2(np.maximum(each.weights, 1e-12))).sum(-1)


def _top(each: AttentionMap, head: int, query: int) -> str:
    key = int(each.weights[head, query].argmax())
    return f"“{each.keys.labels[key]}” {each.weights[head, query, key]:.2f}"


def _pronoun_in(words: Sequence[str]) -> int | None:
    """Returns the index of the word that comes first in `PRONOUNS`; None if no word is a pronoun."""
    plain = [word.strip(string.punctuation).lower() for word in words]
    ranks = [PRONOUNS.index(word) for word in plain if word in PRONOUNS]
    return plain.index(PRONOUNS[min(ranks)]) if ranks else None
