"""A small random model for searches, whose outputs can be listed, and a comparison with that list."""

import itertools

import numpy as np
import tensorflow as tf

from support.beams import beam_search
from t2t_lite.decoding.search.constraints import MinLength, NoRepeatNgram, Prefix

EOS = 1
SENTENCES, VOCAB, LENGTH, SOURCE = 3, 4, 4, 5
WIDE = 130  # more than there are outputs


class Random:
    """Logits and attention that depend on sentence, position and last token, by tables of random numbers."""

    def __init__(self, sentences=SENTENCES, vocab_size=VOCAB, length=LENGTH, seed=0, spread=2.0, penalty="wu"):
        self.penalty = penalty  # the kind of length penalty
        random = np.random.default_rng(seed)
        self.vocab_size, self.length, self.positions_run = vocab_size, length, 0  # how often its step was made
        self.logits = (spread * random.normal(size=(sentences, length, vocab_size, vocab_size))).astype("float32")
        attention = random.gamma(0.3, size=(sentences, length, vocab_size, SOURCE))
        self.attention = (attention / attention.sum(-1, keepdims=True)).astype("float32")

    def step(self, sentences=slice(None), dtype=tf.float32):
        logits, attention = tf.constant(self.logits[sentences]), tf.constant(self.attention[sentences])

        def step(ids, position, state, ancestry):
            self.positions_run += 1
            here = [tf.gather(table[:, position], ids, batch_dims=1) for table in (logits, attention)]
            return tf.cast(here[0], dtype), state, here[1]

        return step

    def search(self, beam_size=WIDE, sentences=slice(None), dtype=tf.float32, **rules):
        count, step = len(self.logits[sentences]), self.step(sentences, dtype)
        rules = {"alpha": 0.6, "penalty": self.penalty, "max_length": self.length, "never": ()} | rules
        return beam_search(step, (), count, self.vocab_size, beam_size=beam_size, **constrained(rules))

    def log_probs(self, sentence, history):
        """[vocab]: the log-probabilities of the next token after `history`, a tuple of tokens."""
        last = history[-1] if history else 0
        return log_softmax(self.logits[sentence, len(history), last].astype("float64"))

    def log_prob(self, sentence, tokens):
        return sum(self.log_probs(sentence, tokens[:i])[token] for i, token in enumerate(tokens))

    def coverage(self, sentence, tokens):
        return sum(self.attention[sentence, i, last] for i, last in enumerate((0, *tokens[:-1])))

    def outputs(self, limit=None):
        others, limit = [token for token in range(self.vocab_size) if token != EOS], limit or self.length
        for length in range(1, limit + 1):
            for start in itertools.product(others, repeat=length - 1):
                for last in range(self.vocab_size):
                    if last == EOS or length == limit:
                        yield (*start, last)

    def best(self, sentence, allowed=lambda tokens: True, added=lambda tokens: 0.0, alpha=0.6, limit=None):
        """[(score, log_prob, tokens)] of the allowed outputs of at most `limit` tokens, best first."""
        found = []
        for tokens in filter(allowed, self.outputs(limit)):
            log_prob = self.log_prob(sentence, tokens)
            found.append((score(log_prob, len(tokens), alpha, self.penalty) + added(tokens), log_prob, tokens))
        return sorted(found, reverse=True)


def plain_search(model, sentence, width, alpha, limit, groups=1, strength=0.0):
    """Beam search for one sentence with lists, always run to the limit, in the format of `Random.best`.

    Several groups are those of Vijayakumar et al. 2016, equation 3: a group keeps the best hypotheses under the penalty
    of this position; earlier penalties do not count. Each group is a beam of `width`; one of 1 is greedy search.
    """
    alive, finished = [[(0.0, ())] for _ in range(groups)], [[] for _ in range(groups)]
    for length in range(1, limit + 1):
        taken = []
        for group in range(groups):
            extended = []
            for log_prob, tokens in alive[group]:
                for token, following in enumerate(model.log_probs(sentence, tokens)):
                    penalty = strength * taken.count(token)
                    extended.append((log_prob + following - penalty, log_prob + following, (*tokens, token)))
            extended = sorted(extended, reverse=True)[: 2 * width if width > 1 else 1]
            ended = [each[1:] for each in extended if each[2][-1] == EOS or length == limit]
            kind = getattr(model, "penalty", "wu")
            found = [(score(log_prob, length, alpha, kind), log_prob, tokens) for log_prob, tokens in ended]
            finished[group] = sorted(finished[group] + found, reverse=True)[:width]
            alive[group] = [each[1:] for each in extended if each[2][-1] != EOS and length < limit][:width]
            # If too few hypotheses continue, those that have ended count as chosen by the group.
            taken += [tokens[-1] for _, tokens in [*alive[group], *ended][:width]]
    return sorted(itertools.chain(*finished), reverse=True)


def constrained(options):
    """Returns options of `beam_search` with constraints for `min_lengths`, `no_repeat_ngram_size` and `prefixes`."""
    options, inputs, constraints = dict(options), {}, []
    if "min_lengths" in options:
        inputs["min_lengths"] = options.pop("min_lengths")
        constraints.append(MinLength())
    if size := options.pop("no_repeat_ngram_size", 0):
        constraints.append(NoRepeatNgram(size))
    if "prefixes" in options:
        inputs["prefixes"] = options.pop("prefixes")
        constraints.append(Prefix(options.pop("never", (0,))))
        options["never"] = ()
    return options | {"constraints": tuple(constraints), "constraint_inputs": inputs}


def log_softmax(logits):
    return logits - np.log(np.sum(np.exp(logits), -1, keepdims=True))


def score(log_prob, length, alpha, penalty="wu"):
    return log_prob / (((5 + length) / 6) ** alpha if penalty == "wu" else length**alpha)


def assert_finds(result, sentence, expected):
    exists = result.log_probs[sentence].numpy() > -1e8
    assert exists.sum() == min(len(expected), len(exists))
    for place, (score, log_prob, tokens) in enumerate(expected[: exists.sum()]):
        length = result.lengths[sentence, place]
        assert tuple(result.ids[sentence, place, :length].numpy()) == tokens
        np.testing.assert_allclose(result.scores[sentence, place], score, atol=1e-4)
        np.testing.assert_allclose(result.log_probs[sentence, place], log_prob, atol=1e-4)
