"""A small random model for searches, whose outputs can be listed, and a comparison with that list."""

import itertools

import numpy as np
import tensorflow as tf

from support.beams import beam_search
from support.constraints import constrained

EOS = 1
SENTENCES, VOCAB, LENGTH, SOURCE = 3, 4, 4, 5
WIDE = 130  # more than there are outputs


class Random:
    """Logits and attention that depend on sentence, position and last token, by tables of random numbers."""

    def __init__(self, sentences=SENTENCES, vocab_size=VOCAB, length=LENGTH, seed=0, spread=2.0):
        random = np.random.default_rng(seed)
        self.vocab_size, self.length = vocab_size, length
        self.logits = (spread * random.normal(size=(sentences, length, vocab_size, vocab_size))).astype("float32")
        attention = random.gamma(0.3, size=(sentences, length, vocab_size, SOURCE))
        self.attention = (attention / attention.sum(-1, keepdims=True)).astype("float32")

    def step(self, sentences=slice(None)):
        logits, attention = tf.constant(self.logits[sentences]), tf.constant(self.attention[sentences])

        def step(ids, position, state, ancestry):
            here = [tf.gather(table[:, position], ids, batch_dims=1) for table in (logits, attention)]
            return here[0], state, here[1]

        return step

    def search(self, beam_size=WIDE, sentences=slice(None), **rules):
        count = len(self.logits[sentences])
        rules = {"alpha": 0.6, "max_length": self.length, "never": ()} | rules
        return beam_search(self.step(sentences), (), count, self.vocab_size, beam_size=beam_size, **constrained(rules))

    def log_prob(self, sentence, tokens):
        before = (0, *tokens[:-1])
        logits = self.logits[sentence].astype("float64")
        return sum(
            logits[i, last, token] - np.log(np.exp(logits[i, last]).sum())
            for i, (last, token) in enumerate(zip(before, tokens))
        )

    def coverage(self, sentence, tokens):
        return sum(self.attention[sentence, i, last] for i, last in enumerate((0, *tokens[:-1])))

    def outputs(self):
        others = [token for token in range(self.vocab_size) if token != EOS]
        for length in range(1, self.length + 1):
            for start in itertools.product(others, repeat=length - 1):
                for last in range(self.vocab_size):
                    if last == EOS or length == self.length:
                        yield (*start, last)

    def best(self, sentence, allowed, added=lambda tokens: 0.0):
        """[(score, log_prob, tokens)] of the allowed outputs, best first, with alpha 0.6."""
        found = []
        for tokens in filter(allowed, self.outputs()):
            log_prob = self.log_prob(sentence, tokens)
            found.append((log_prob / ((5 + len(tokens)) / 6) ** 0.6 + added(tokens), log_prob, tokens))
        return sorted(found, reverse=True)


def assert_finds(result, sentence, expected):
    exists = result.log_probs[sentence].numpy() > -1e8
    assert exists.sum() == min(len(expected), len(exists))
    for place, (score, log_prob, tokens) in enumerate(expected[: exists.sum()]):
        length = result.lengths[sentence, place]
        assert tuple(result.ids[sentence, place, :length].numpy()) == tokens
        np.testing.assert_allclose(result.scores[sentence, place], score, atol=1e-4)
        np.testing.assert_allclose(result.log_probs[sentence, place], log_prob, atol=1e-4)
