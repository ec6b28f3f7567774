"""Compiles searches only when it pays off: after the uncompiled batches of a shape have taken enough time.

XLA needs seconds to compile a shape. After that, a batch of a few sentences takes two thirds of the time, and a single
sentence a third. This pays off for a server or an interactive user, but not for a file of a thousand lines.
"""

import collections
import functools
import math
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf

from t2t_lite.decoding.ensemble import Ensemble
from t2t_lite.decoding.search.beam_search import BeamSearch
from t2t_lite.decoding.search.beam_state import SearchInputs, SearchResult
from t2t_lite.decoding.search.searcher import Searcher
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.system.machine import num_cores

# A shape is compiled after this much time in uncompiled searches: two or three times the compilation time.
WORTH_COMPILING_SECONDS = 15.0
# The largest batch to compile, in hypotheses (sentences times beam size), if compiled batches cannot be searched in
# parallel, see `AdaptiveSearcher`.
MOST_HYPOTHESES = 64


class AdaptiveSearcher:
    """Searches batches like `Searcher`; compiles a shape once its uncompiled batches have taken `seconds`."""

    def __init__(
        self,
        model: Seq2SeqModel | Ensemble,
        search: BeamSearch,
        batch_tokens: int,
        seconds: float = WORTH_COMPILING_SECONDS,
    ) -> None:
        self._compiled = Searcher(model, search, batch_tokens, xla_compile=True)
        self._uncompiled = Searcher(model, search, batch_tokens, xla_compile=False)
        # With beam size 4, compilation reduces the time for 32 sentences to three quarters, and hardly reduces the time
        # for 128. But if each operation has one thread, compiled batches run one after the other, so on several cores,
        # parallel uncompiled batches are faster.
        of_process = tf.config.threading.get_intra_op_parallelism_threads()
        per_operation = of_process or int(os.environ.get("TF_NUM_INTRAOP_THREADS") or 0) or num_cores()
        most_hypotheses = MOST_HYPOTHESES if per_operation == 1 < num_cores() else math.inf
        self._seconds, self._most_sentences = seconds, most_hypotheses / search.beam_size
        self._taken: dict[tuple[int, int], float] = collections.defaultdict(float)
        self._asked: set[tuple[int, int]] = set()
        self._ready: set[tuple[int, int]] = set()
        self._lock = threading.Lock()
        self.batch_size_of = self._compiled.batch_size_of

    def __call__(
        self, source_ids: np.ndarray, inputs: SearchInputs, check: Callable[[], None] | None = None
    ) -> SearchResult:
        if self.is_compiled(source_ids):
            return self._compiled(source_ids, inputs, check)
        shape, start = self._compiled.padded_shape(source_ids), time.perf_counter()
        result = self._uncompiled(source_ids, inputs, check)
        with self._lock:
            self._taken[shape] += time.perf_counter() - start
            long_enough = self._taken[shape] > self._seconds and shape not in self._asked
            worth_it = long_enough and len(source_ids) <= self._most_sentences
            if worth_it:
                self._asked.add(shape)
        if worth_it:
            self._background.submit(self.compile, source_ids, inputs)  # compilation may outlast the caller
        return result

    def is_compiled(self, source_ids: np.ndarray) -> bool:
        return self._compiled.padded_shape(source_ids) in self._ready

    def compile(
        self, source_ids: np.ndarray, inputs: SearchInputs, check: Callable[[], None] | None = None
    ) -> SearchResult:
        """Searches for the outputs of one batch with compiled graphs, which later batches of its shape also use."""
        result = self._compiled(source_ids, inputs, check)
        self._ready.add(self._compiled.padded_shape(source_ids))
        return result

    @functools.cached_property
    def _background(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, "compile")
