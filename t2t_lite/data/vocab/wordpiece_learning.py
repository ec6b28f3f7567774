"""Learns token lists: WordPiece and characters."""

import collections
from collections.abc import Sequence
from typing import TypeVar

import tensorflow as tf
from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

from t2t_lite.data.vocab.base import json_content
from t2t_lite.data.vocab.characters import FIRST_TOKEN, JOINER
from t2t_lite.data.vocab.wordpiece_ops import UNKNOWN_WORD, cutter
from t2t_lite.errors import UserError

# Limits the learner's time and memory, which grow with the number of distinct words.
MAX_WORDS = 100_000
_T = TypeVar("_T", str, bytes)


def train_tokens(
    kind: str, texts: Sequence[str], size: int, symbols: Sequence[str] = (), normalize_whitespace: bool = False
) -> bytes:
    """Learns a vocabulary of kind "wordpiece", "characters" or "bytes" and returns its file content.

    `size` includes the first 259 tokens; there are fewer if the text does not yield enough. Symbols are texts that are
    always one WordPiece token. "bytes" needs no texts.
    """
    for symbol in symbols if kind == "wordpiece" else ():
        if (
            symbol.startswith(JOINER)
            or symbol == UNKNOWN_WORD
            or len(symbol.encode()) > 100
            or list(symbols).count(symbol) > 1
        ):
            raise UserError(
                f"'{symbol}' cannot be a symbol: it begins with {JOINER}, is reserved, is too long or is listed twice"
            )
    room = size - FIRST_TOKEN - len(symbols)
    if kind != "bytes" and room < 1:
        raise UserError(
            f"vocab_size={size} is too small: the first {FIRST_TOKEN} tokens are symbols and bytes; raise it"
        )
    if kind == "bytes":
        tokens = []
    elif kind == "characters":
        counts: collections.Counter[str] = collections.Counter()
        for text in texts:
            counts.update(text)
        tokens = [character for character, _ in _by_frequency(counts)[:room]]
    else:
        cut, of_words = cutter(symbols, normalize_whitespace), collections.Counter()
        for first in range(0, len(texts), 10_000):
            of_words.update(cut(tf.constant(texts[first : first + 10_000])).flat_values.numpy().tolist())
        words = [(word.decode(), count) for word, count in _by_frequency(of_words) if word.decode() not in symbols]
        words = words[:MAX_WORDS]
        # The learner searches for the minimum frequency of tokens. All words above this threshold become tokens, so it
        # is at least the frequency of the last word that fits, and rarely more than sixteen times that frequency.
        least = words[min(room, len(words)) - 1][1]
        learned = learner.learn(
            words,
            room,
            [],
            lower_thresh=max(1, least // 2),
            upper_thresh=max(2, 16 * least),
            num_iterations=3,
            max_input_tokens=-1,
            slack_ratio=0.02,
            joiner=JOINER,
        )
        tokens = [*symbols, *[token for token in learned if token not in symbols][:room]]
    normalizes = {"normalize_whitespace": True} if normalize_whitespace and kind == "wordpiece" else {}
    return json_content(kind, tokens, symbols=list(symbols), **normalizes)


def _by_frequency(counts: collections.Counter[_T]) -> list[tuple[_T, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
