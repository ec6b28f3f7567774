"""Scores by source length and by word frequency, which show where a model is weak."""

import collections
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from t2t_lite.scoring.sacrebleu_metrics import tokenizer_of, words_of

_MOST_BUCKETS = 6
# The lowest frequency of each class of words: 0, 1 to 4, 5 to 99, 100 to 999, 1000 and more.
_FREQUENCIES = (0, 1, 5, 100, 1000)


def by_length(
    inputs: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    score: Callable[[Sequence[str], Sequence[Sequence[str]]], float],
    has_words: bool = True,
) -> list[dict[str, Any]]:
    """Returns a row for each bucket of lines, by the number of whitespace-separated source words: 1-10, 11-20, ...

    Buckets are 5 words wide if no source has more than 20. Rows are {"words", "lines", "score", "length_ratio"}. The
    length ratio is the number of output words divided by the number of words in the first set of references, or None if
    `has_words` is False, as for trees.
    """
    lengths = [len(line.split()) for line in inputs]
    width = 10 if max(lengths, default=0) > 20 else 5
    rows: dict[int, list[int]] = collections.defaultdict(list)
    for row, length in enumerate(lengths):
        rows[min(max(length - 1, 0) // width, _MOST_BUCKETS - 1)].append(row)
    bucket_rows = []
    for bucket, chosen in sorted(rows.items()):
        outputs = [hypotheses[row] for row in chosen]
        theirs = [[lines[row] for row in chosen] for lines in references]
        is_last = bucket == _MOST_BUCKETS - 1
        ratio = len(" ".join(outputs).split()) / max(1, len(" ".join(theirs[0]).split())) if has_words else None
        bucket_rows.append(
            {
                "words": f"{bucket * width + 1}+" if is_last else f"{bucket * width + 1}-{(bucket + 1) * width}",
                "lines": len(chosen),
                "score": score(outputs, theirs),
                "length_ratio": ratio,
            }
        )
    return bucket_rows


def by_frequency(
    hypotheses: Sequence[str], references: Sequence[str], frequencies: Mapping[str, int], language: str = ""
) -> list[dict[str, Any]]:
    """Returns the F1 of output words by their frequency in training targets, as in compare-mt (Neubig 2019, N19-4007).

    Words, also those that `frequencies` counts, are the tokens of BLEU in `language`, see `words_of`. Each output word
    matches at most one reference word, so a repeated word matches at most as often as it occurs in the reference. Rows
    are {"frequency", "word_f1" (percent; None without words), "matches", "in_outputs", "in_references", "tokenizer"}.
    """
    split, tokenizer = words_of(language), tokenizer_of(language)
    matches, ours, theirs = (collections.Counter[int]() for _ in range(3))

    def class_of(word: str) -> int:
        return sum(frequencies.get(word, 0) >= first for first in _FREQUENCIES) - 1

    for hypothesis, reference in zip(hypotheses, references, strict=True):
        of_output, of_reference = (collections.Counter(split(text)) for text in (hypothesis, reference))
        for total, words in ((matches, of_output & of_reference), (ours, of_output), (theirs, of_reference)):
            for word, count in words.items():
                total[class_of(word)] += count
    ends = [
        f"{first}-{after - 1}" if after - first > 1 else str(first) for first, after in itertools.pairwise(_FREQUENCIES)
    ]
    return [
        {
            "frequency": name,
            "word_f1": 200 * matches[number] / (ours[number] + theirs[number])
            if ours[number] + theirs[number]
            else None,
            "matches": matches[number],
            "in_outputs": ours[number],
            "in_references": theirs[number],
            "tokenizer": tokenizer,
        }
        for number, name in enumerate([*ends, f"{_FREQUENCIES[-1]}+"])
    ]
