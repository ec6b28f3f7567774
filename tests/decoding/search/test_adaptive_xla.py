"""Searches run uncompiled until compiling pays, and find the same either way."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.exported import WORDS, random_model, word_vocabulary

from t2t_lite.config import DecodeHParams
from t2t_lite.decoding import tensorflow_engine
from t2t_lite.decoding.search.beam_search import BeamSearch
from t2t_lite.decoding.search.beam_state import SearchInputs
from t2t_lite.decoding.search.searcher import AdaptiveSearcher, Searcher
from t2t_lite.decoding.translator import Translator

INPUTS = np.array([[4, 5, 6, 1], [7, 8, 1, 0], [9, 1, 0, 0]], "int32")
LIMITS = SearchInputs(np.array([9, 20, 14], "int32"))


@pytest.fixture(scope="module")
def model():
    return random_model(spread=1.5, seed=3)


def assert_same(found, expected):
    np.testing.assert_array_equal(found.ids[:, 0], expected.ids[:, 0])
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-4)


@pytest.mark.heavy
def test_a_shape_is_compiled_in_the_background_when_it_has_taken_long_enough(model):
    search = BeamSearch(30, 2, 0.6)
    expected = Searcher(model, search, 64, xla_compile=False)(INPUTS, LIMITS)
    searcher = AdaptiveSearcher(model, search, 64, seconds=0.0)
    assert not searcher.is_compiled(INPUTS)
    assert_same(searcher(INPUTS, LIMITS), expected)
    # No limit on speed: only an end of the test if it is never compiled.
    end = time.monotonic() + 300
    while not searcher.is_compiled(INPUTS) and time.monotonic() < end:
        assert_same(searcher(INPUTS, LIMITS), expected)
        time.sleep(0.05)
    assert searcher.is_compiled(INPUTS) and not searcher.is_compiled(np.ones([1, 40], "int32"))
    assert_same(searcher(INPUTS, LIMITS), expected)


@pytest.mark.heavy
@pytest.mark.parametrize(("threads", "cores", "compiles"), [(1, {0, 1}, False), (1, {0}, True), (2, {0, 1}, True)])
def test_large_batches_are_compiled_unless_that_ends_the_parallel_search(model, monkeypatch, threads, cores, compiles):
    monkeypatch.setattr("tensorflow.config.threading.get_intra_op_parallelism_threads", lambda: threads)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: cores)
    searcher = AdaptiveSearcher(model, BeamSearch(30, 2, 0.6), 1024, seconds=0.0)
    many = np.repeat(INPUTS, 12, axis=0)  # 72 hypotheses
    searcher(many, SearchInputs(np.repeat(LIMITS.limits, 12)))
    searcher(INPUTS, LIMITS)
    searcher._background.shutdown()  # waits for what was asked for
    assert searcher.is_compiled(INPUTS) and searcher.is_compiled(many) is compiles


@pytest.mark.slow
def test_batches_are_searched_at_the_same_time(model):
    # Each of two threads waits inside its search until the other is inside, too.
    both_inside = threading.Barrier(2, timeout=60)

    class Meeting(BeamSearch):
        def result(self, finished):
            both_inside.wait()
            return super().result(finished)

    searcher = Searcher(model, Meeting(30, 2, 0.6), 64, xla_compile=False)
    limits = SearchInputs(np.array([3], "int32"))
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda row: searcher(row[np.newaxis], limits), INPUTS[:2]))
    assert len(found) == 2


@pytest.mark.slow
def test_a_shape_that_is_seen_seldom_and_samples_are_not_compiled(model, tmp_path):
    searcher = AdaptiveSearcher(model, BeamSearch(30, 2, 0.6), 64, seconds=1e9)
    for _ in range(3):
        searcher(INPUTS, LIMITS)
    assert not searcher.is_compiled(INPUTS)
    translator = Translator(model, word_vocabulary(tmp_path), DecodeHParams(extra_length=3), warn=print)
    translator.sample(WORDS[:2], num_samples=2)
    (searcher,) = translator.engine._searchers.values()
    assert isinstance(searcher, Searcher)


@pytest.mark.heavy
def test_only_the_last_used_searches_are_kept(model, tmp_path, monkeypatch):
    monkeypatch.setattr(tensorflow_engine, "_MAX_SEARCHERS", 2)
    translator = Translator(model, word_vocabulary(tmp_path), DecodeHParams(extra_length=3), warn=print)
    for alpha in (0.1, 0.2, 0.1, 0.3):
        translator.translate(WORDS[:1], alpha=alpha)
    assert [search.alpha for search, _ in translator.engine._searchers] == [0.1, 0.3]
