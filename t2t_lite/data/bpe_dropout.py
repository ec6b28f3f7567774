"""BPE dropout: splits sentences into different tokens in each epoch (Provilkov et al. 2020, arXiv 1910.13267)."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from t2t_lite.data.manifest import Manifest
from t2t_lite.data.problem import Problem
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.data.vocab.sentencepiece import BLANK, SentencePieceVocabulary
from t2t_lite.errors import UserError

if TYPE_CHECKING:
    import tensorflow as tf


class BpeDropout:
    """Splits encoded texts into characters and merges them again, leaving out merges at random.

    Before each merge, every possible merge is dropped with probability `rate`. The best remaining merge is then made;
    if none remains, the word is finished (algorithm 1). With a rate of 0, the tokens are the same as from the
    vocabulary's `encode`. Symbols, bytes and unknown tokens do not change.
    """

    def __init__(self, vocabulary: SentencePieceVocabulary, rate: float) -> None:
        self._rate = rate
        tokens, scores = vocabulary.tokens(), vocabulary.merge_scores()
        self._size = len(tokens)
        ids = {tokens[id]: id for id in scores}
        merges = {
            ids[token[:cut]] * self._size + ids[token[cut:]]: id
            for token, id in ids.items()
            for cut in range(1, len(token))
            if token[:cut] in ids and token[cut:] in ids
        } or {-1: 0}
        self._keys = np.array(sorted(merges))
        self._merged = np.array([merges[key] for key in self._keys.tolist()])
        self._costs = np.array([-scores.get(id, 0.0) for id in range(self._size)])
        leaves = [
            [ids[character] for character in token] if token in ids and ids.keys() >= {*token} else [ids.get(token, id)]
            for id, token in enumerate(tokens)
        ]
        self._leaf_counts = np.array([len(of_token) for of_token in leaves])
        self._leaf_starts = np.cumsum(self._leaf_counts) - self._leaf_counts
        self._leaves = np.array([leaf for of_token in leaves for leaf in of_token])
        # A token with a leading space starts a word, unless some tokens contain spaces elsewhere.
        has_words = not any(BLANK in token[1:] for token in ids)
        self._starts_word = np.array([has_words and token.startswith(BLANK) for token in tokens])
        self._is_fixed = ~np.isin(np.arange(self._size), list(ids.values()))

    def __call__(self, flat: np.ndarray, lengths: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        """Takes and returns ids, int [tokens], all texts in a row with end symbols, and their lengths, int [texts]."""
        counts = self._leaf_counts[flat]
        ids = self._leaves[np.repeat(self._leaf_starts[flat], counts) + _ranges(counts)]
        text = np.repeat(np.repeat(np.arange(len(lengths)), lengths), counts)
        fixed = self._is_fixed[ids]
        is_start = self._starts_word[ids] | fixed
        is_start[1:] |= (text[1:] != text[:-1]) | fixed[:-1]
        is_start[:1] = True
        word = np.cumsum(is_start) - 1
        text_of_word = text[is_start]
        ids, word = self._merge(ids, word, rng)
        texts = text_of_word[word]
        return ids.astype(flat.dtype), np.bincount(texts, minlength=len(lengths)).astype(lengths.dtype)

    def _merge(self, ids: np.ndarray, word: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        finished: list[tuple[np.ndarray, np.ndarray]] = []
        while len(ids) > 1:
            keys = ids[:-1] * self._size + ids[1:]
            indices = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            places = np.flatnonzero((self._keys[indices] == keys) & (word[:-1] == word[1:]))
            merged = self._merged[indices[places]]
            kept = rng.random(len(places)) >= self._rate
            places, merged = places[kept], merged[kept]
            if not len(places):
                break
            # In each word, the best merge; of equally good ones, the leftmost.
            order = np.lexsort((places, self._costs[merged], word[places]))
            best = order[np.flatnonzero(np.diff(word[places][order], prepend=-1))]
            ids[places[best]] = merged[best]
            goes_on = np.zeros(word[-1] + 1, bool)
            goes_on[word[places[best]]] = True
            is_left = np.ones(len(ids), bool)
            is_left[places[best] + 1] = False
            ids, word = ids[is_left], word[is_left]
            active = goes_on[word]
            finished.append((ids[~active], word[~active]))
            ids, word = ids[active], word[active]
        finished.append((ids, word))
        ids, word = (np.concatenate(parts) for parts in zip(*finished))
        order = np.argsort(word, kind="stable")
        return ids[order], word[order]


def _ranges(counts: np.ndarray) -> np.ndarray:
    """Returns the concatenated ranges 0 to n - 1 for each count n."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


class NewTokens:
    """Retokenizes the pairs in a data window, as a function of seed, epoch and window number.

    `sides` are the BPE dropout for inputs and for targets; None keeps that side. A text that would get more than
    `longest` tokens keeps its old ones.
    """

    def __init__(self, sides: Sequence[BpeDropout | None], longest: int) -> None:
        self._sides = sides
        self._longest = longest

    def of_window(
        self, inputs: "tf.RaggedTensor", targets: "tf.RaggedTensor", seed: "tf.Tensor", window: "tf.Tensor"
    ) -> "tuple[tf.RaggedTensor, ...]":
        """Returns inputs and targets, int32 [pairs, (length)], with new tokens. Works in graphs.

        `seed` is (random seed, epoch), int64 [2]; `window` is the window's number, int64.
        """
        import tensorflow as tf

        from t2t_lite.data import batching

        sides = []
        for side, (split, texts) in enumerate(zip(self._sides, (inputs, targets))):
            if split is not None:
                arguments = (texts.flat_values, texts.row_lengths(), tf.concat([seed, [window, side]], axis=0))
                of_side = functools.partial(self._split, split)
                flat, lengths = batching.call_numpy(of_side, arguments, [tf.int32, tf.int64])
                flat.set_shape([None])
                lengths.set_shape([None])
                texts = batching.RaggedTensor.from_row_lengths(flat, lengths, validate=False)
            sides.append(texts)
        return tuple(sides)

    def _split(
        self, split: BpeDropout, flat: np.ndarray, lengths: np.ndarray, entropy: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(entropy.astype(np.uint64).tolist())))
        ids, counts = split(flat, lengths, rng)
        keeps = np.maximum(counts, lengths) > self._longest
        if not keeps.any():
            return ids, counts
        source = np.where(keeps, np.cumsum(lengths) - lengths + len(ids), np.cumsum(counts) - counts)
        chosen = np.where(keeps, lengths, counts)
        return np.concatenate([ids, flat])[np.repeat(source, chosen) + _ranges(chosen)], chosen


def make_new_tokens(problem: Problem, data_dir: Path, manifest: Manifest, rate: float, max_length: int) -> NewTokens:
    """Returns the BPE dropout for the data of a problem, on each side that has byte-pair tokens."""
    files = problem.in_direction([entry["file"] for entry in manifest.vocabularies])
    made: dict[str, BpeDropout | None] = {}
    for file in files:
        vocabulary = open_vocabulary(data_dir / file)
        made[file] = None
        if isinstance(vocabulary, SentencePieceVocabulary) and vocabulary.is_bpe:
            made[file] = BpeDropout(vocabulary, rate)
    if not any(made.values()):
        raise UserError(
            f"hparams=bpe_dropout={rate}: the vocabularies in {data_dir} have no byte-pair tokens; set bpe_dropout=0"
        )
    return NewTokens([made[file] for file in files], manifest.longest("train", max_length))
