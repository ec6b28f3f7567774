"""Synthetic parallel text with the statistics of WMT: word frequencies, word lengths and sentence lengths.

The other language is a word-by-word translation with a few rules, so that a model can learn it: each syllable has one
translation, some words swap places with the next word, and some have no translation.
"""

import functools
import itertools

import numpy as np

# Number of different words, not counting numbers, capitals and punctuation.
WORDS = 500_000
# The frequency of the word with rank r is proportional to 1 / (r + SHIFT) (Zipf's law, as modified by Mandelbrot).
_SHIFT = 2.7
# The number of words in a sentence has a log-normal distribution with mean 26, as in WMT's English-German data. One of
# LONG_EVERY sentences is a multiple of that, up to LONGEST words; texts from the web contain such lines.
_MEDIAN_LENGTH, _SPREAD = 21.5, 0.62
_LONG_EVERY, _LONGEST = 5000, 2000
# Pairs are drawn in blocks, each from a seed of its own.
BLOCK = 20_000

# The parts of syllables: onset, vowel, coda. "-" is no coda.
_ENGLISH = "b c d f g h l m n p r s t w th st pr", "a e i o u ea", "- n s"
_GERMAN = "b k d f g h l m n p r z t w sch st pf", "a e i ö ü ei", "- n ch"
_SYLLABLES = 306
# Words up to the first number have one syllable, up to the second two, and the others three: frequent words are short.
_RANKS = 306, 30_000
_SPREADING = 7_368_787  # a prime, which spreads the words of one length over all syllables


def _syllables(language: tuple[str, str, str]) -> list[str]:
    """Returns the syllables of a language; those with the same index in two languages are translations."""
    return ["".join(parts).rstrip("-") for parts in itertools.product(*(part.split() for part in language))]


@functools.cache
def words_of(language: str) -> np.ndarray:
    """Returns all words of "en" or "de" by rank, an array of strings [WORDS]."""
    syllables = _syllables(_ENGLISH if language == "en" else _GERMAN)
    words = []
    for number, (first, last) in enumerate(zip((0, *_RANKS), (*_RANKS, WORDS)), 1):
        size = _SYLLABLES**number
        for rank in range(first, last):
            place, word = (rank - first) * _SPREADING % size, ""
            for _ in range(number):
                place, syllable = divmod(place, _SYLLABLES)
                word += syllables[syllable]
            # Every third German word is a noun.
            words.append(word.capitalize() if language == "de" and rank % 3 == 0 else word)
    return np.array(words, object)


@functools.cache
def _cumulative() -> np.ndarray:
    """Returns the probability of all words up to each rank, float64 [WORDS]."""
    frequencies = 1 / (np.arange(WORDS) + _SHIFT)
    return np.cumsum(frequencies) / frequencies.sum()


def sentence_lengths(random: np.random.Generator, number: int) -> np.ndarray:
    """Returns the number of words in some sentences, int64 [number]."""
    lengths = random.lognormal(np.log(_MEDIAN_LENGTH), _SPREAD, number)
    lengths[random.integers(_LONG_EVERY, size=number) == 0] *= 20
    return np.clip(lengths.astype(np.int64), 1, _LONGEST)


def block_of_pairs(split: str, block: int, number: int = BLOCK) -> tuple[list[str], list[str]]:
    """Returns sentences in two languages, "en" and "de". They depend only on the arguments.

    Args:
      split: "train", "dev" or "test".
      block: the number of the block.
      number: number of pairs in the block.
    """
    random = np.random.default_rng([("train", "dev", "test").index(split), block])
    lengths = sentence_lengths(random, number)
    ends = np.cumsum(lengths)
    ranks = np.searchsorted(_cumulative(), random.random(ends[-1])).clip(max=WORDS - 1)
    is_last = np.zeros(len(ranks), bool)
    is_last[ends - 1] = True
    is_first = np.roll(is_last, 1)
    figures = random.random(len(ranks)) < 0.015
    numbers = [str(number) for number in random.integers(1, 2030, figures.sum())]
    has_comma = (random.random(len(ranks)) < 0.07) & ~is_last

    english, german = words_of("en")[ranks], words_of("de")[ranks]
    for words in (english, german):
        words[figures] = numbers
    order = _order(ranks, is_last)
    is_kept = (ranks % 23 != 5) | is_first  # articles, for example, have no translation
    places = order[is_kept[order]]
    sentences = np.repeat(np.arange(number), lengths)
    kept_lengths = np.bincount(sentences[places], minlength=number)
    sides = []
    for words, comma, of_sentence in (
        (english, has_comma, lengths),
        (german[places], has_comma[places], kept_lengths),
    ):
        words[comma] += ","
        sides.append(_sentences(words, np.cumsum(of_sentence)))
    return sides[0], sides[1]


def _order(ranks: np.ndarray, is_last: np.ndarray) -> np.ndarray:
    """Returns the place in the English text of each German word, int64 [words], before words are left out."""
    moves = (ranks % 7 == 0) & ~is_last
    moves[1:] &= ~moves[:-1]
    order = np.arange(len(ranks))
    (moved,) = np.nonzero(moves)
    order[moved], order[moved + 1] = moved + 1, moved
    return order


def _sentences(words: np.ndarray, ends: np.ndarray) -> list[str]:
    """Joins words to sentences that end at the given places."""
    joined, start = [], 0
    texts = words.tolist()
    for end in ends.tolist():
        sentence = " ".join(texts[start:end])
        joined.append(f"{sentence[:1].upper()}{sentence[1:]}.")
        start = end
    return joined
