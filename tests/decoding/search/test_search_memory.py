"""A search that cannot fit into memory is rejected with one line, and unusual settings cause a warning."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.config import DecodeHParams, HParams
from t2t_lite.decoding.ensemble import Ensemble
from t2t_lite.decoding.search.beam_search import BeamSearch
from t2t_lite.decoding.search.beam_state import SearchInputs
from t2t_lite.decoding.search.searcher import Searcher, check_search_memory, search_bytes, tokens_of_batch
from t2t_lite.errors import UserError

BASE = SimpleNamespace(name="base", hparams=HParams(), vocab_size=37_000, max_positions=None)


def test_the_papers_search_needs_the_bytes_computed_by_hand():
    search = BeamSearch(37_000, 4, 0.6)
    logits, candidates = 32 * 4 * 37_000 * 4, 32 * 4 * 8 * 4
    caches = 32 * 4 * 32 * 6 * (512 + 512) * 4
    scores = 8 * 32 * 4 * (4 * 32) * 4
    assert search_bytes(BASE, search, 32, 32) == logits + candidates + caches + scores
    check_search_memory(BASE, search, 32, 32)


def test_batches_of_large_models_are_as_large_as_their_caches_allow():
    search, wide = BeamSearch(37_000, 4, 0.6), BeamSearch(37_000, 8, 0.6)
    of_position = 4 * 6 * 1024 * 4
    assert tokens_of_batch(BASE, search, 4096) == 2**28 // of_position < 4096
    assert tokens_of_batch(BASE, wide, 4096) == tokens_of_batch(Ensemble([BASE, BASE]), search, 4096)
    assert tokens_of_batch(BASE, wide, 4096) == 2**28 // of_position // 2
    assert tokens_of_batch(BASE, search, 64) == 64
    recurrent = SimpleNamespace(hparams=HParams(self_attention_type="recurrent"))
    assert tokens_of_batch(recurrent, search, 4096) == 4096


@pytest.mark.parametrize(
    ("rows", "message"),
    [(1, "one sentence at a time .* smaller beam_size in"), (32, "32 sentences at a time .* batch_tokens")],
)
def test_a_beam_that_cannot_fit_is_refused_with_needed_and_free_memory(rows, message):
    needed = r"beam_size=30000 needs at least [\d,.]+ GiB, but only [\d,.]+ GiB are free; use"
    with pytest.raises(UserError, match=message) as caught:
        check_search_memory(BASE, BeamSearch(37_000, 30_000, 0.6), rows, 32)
    assert re.search(needed, str(caught.value))


LINEAR = HParams(learning_rate_schedule="linear", learning_rate_decay_steps=5000)


class Greedy:
    """A model that needs more memory than any machine has."""

    vocab_size, max_positions, hparams = 10, None, HParams()

    def start_decoding(self, inputs, beam_size, max_length):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")


def test_an_out_of_memory_error_of_tensorflow_becomes_one_line():
    searcher = Searcher(Greedy(), BeamSearch(10, 4, 0.6), 64, xla_compile=False)
    with pytest.raises(UserError, match="one sentence at a time with beam_size=4 does not fit into memory; use a sm"):
        searcher(np.ones([1, 3], np.int32), SearchInputs(np.array([5], np.int32)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (DecodeHParams(beam_size=2000), ["beam_size=2000: a step takes about 500 times as long as with 4"]),
        (DecodeHParams(batch_tokens=1), ["batch_tokens=1: sentences are decoded one at a time"]),
        (DecodeHParams(beam_size=100, batch_tokens=32), []),
        (HParams(batch_tokens=1), ["batch_tokens=1: with so few target tokens per step"]),
        (HParams(learning_rate_constant=1000.0), ["learning_rate_constant=1000.0: this multiplies the paper's"]),
        (HParams(learning_rate=2.0), ["learning_rate=2.0: this is the peak rate itself"]),
        (HParams(learning_rate=0.5, optimizer="sgd"), []),
        (HParams(optimizer="lion"), ["optimizer=lion: the paper's learning rate suits Adam; set learning_rate"]),
        (HParams(optimizer="adamw"), ["optimizer=adamw: without weight_decay, this equals adam"]),
        (HParams(learning_rate_decay_steps=9), ["learning_rate_decay_steps=9 has no effect with learning_rate_sch"]),
        (LINEAR, ["learning_rate_decay_steps=5000: this is below train_steps=100000; from that step on, the learning"]),
        (HParams(residual_dropout=0.9), ["residual_dropout=0.9: this drops more than half"]),
        (HParams(), []),
    ],
)
def test_settings_that_are_rarely_intended_give_a_warning_with_their_effect(settings, message):
    for line, start in zip(settings.warnings(), message, strict=True):
        assert line.startswith(start)
