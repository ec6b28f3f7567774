"""Runs searches over batches, with growing caches and shrinking batches.

XLA compiles a search for the shapes of its tensors, which takes seconds for each new shape. Therefore the number of
sentences, the source length and the cache capacity are padded to powers of two. Caches start small and double when
full. When at most half of the sentences are unfinished, they move to a batch of half the size.
"""

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import tensorflow as tf

from t2t_lite.arrays import static_size
from t2t_lite.decoding.ensemble import Ensemble
from t2t_lite.decoding.search.beam_search import BeamSearch
from t2t_lite.decoding.search.beam_state import (
    EXISTS,
    BeamState,
    SearchInputs,
    SearchResult,
)
from t2t_lite.decoding.search.search_graphs import Batch, Interruptible, SearchGraphs, Selection
from t2t_lite.decoding.search.search_memory import check_search_memory, too_large
from t2t_lite.models.base import Seq2SeqModel

# Sources are padded to at least this length, and caches start with this capacity.
MIN_SOURCE_LENGTH = 16
INITIAL_CAPACITY = 32
# Uncompiled searches have exact shapes and start with smaller caches, because every step reads whole caches.
UNCOMPILED_CAPACITY = 8
# After this many positions, an uncompiled search drops the cache entries that no hypothesis needs any more. More often
# would cost more than it saves.
_COMPACT_EVERY = 8
# A batch shrinks by this factor when at most 1/SHRINK of its sentences are unfinished, but not below MIN_BATCH
# sentences: a batch of two costs little less than one of eight, and would need another compilation.
SHRINK = 2
MIN_BATCH = 8


# A batch yet to be created: its sentences, int32 [rows], -1 for a padding row; and the function that creates it.
_Waiting: TypeAlias = tuple[np.ndarray, Callable[[], Batch]]


class Searcher:
    """Searches for the outputs of batches of sentences with a built model that has its weights.

    `batch_tokens` limits the number of positions in a batch, padding included, in the source and in one beam's cache.
    """

    def __init__(
        self, model: Seq2SeqModel | Ensemble, search: BeamSearch, batch_tokens: int, xla_compile: bool = True
    ) -> None:
        self._model = model
        self._search = search
        self._batch_tokens = batch_tokens
        self._xla_compile = xla_compile
        self._capacity = INITIAL_CAPACITY if xla_compile else UNCOMPILED_CAPACITY
        # Compacted caches could have any size, so XLA would compile each of them. Custom models may not be able to.
        self._compacts = getattr(model, "can_compact", False) and search.beam_size > 1 and not xla_compile
        self._graphs: SearchGraphs | None = None
        self._lock = threading.Lock()

    def batch_size_of(self, length: int) -> int:
        """Returns the number of sentences per batch for sources of `length` tokens, at least 1."""
        return 2 ** int(np.log2(max(1, self._batch_tokens // max(_padded_length(length), INITIAL_CAPACITY))))

    def padded_shape(self, source_ids: np.ndarray) -> tuple[int, int]:
        """Returns (rows, source length) to which a compiled search pads a batch, int32 [batch, source length]."""
        count, length = source_ids.shape
        size = max(count, _smallest(self.batch_size_of(length), count)) if count > 1 else 1
        # A source must not exceed the learned positions.
        return size, min(_padded_length(length), self._model.max_positions or _padded_length(length))

    def __call__(
        self, source_ids: np.ndarray, inputs: SearchInputs, check: Callable[[], None] | None = None
    ) -> SearchResult:
        """Searches for the outputs of one batch. Returns the hypotheses, NumPy arrays [batch, beam, ...].

        The sources are int32 [batch, source length], padded with 0; the inputs are NumPy arrays, with the same fields
        set in each call. `source_mask` is set here. `check` is called several times a second; an exception from it ends
        the search.
        """
        count, size = len(source_ids), len(source_ids)
        if self._xla_compile:
            size, room = self.padded_shape(source_ids)
            source_ids = np.pad(source_ids, [(0, size - count), (0, room - source_ids.shape[1])])
            inputs = tf.nest.map_structure(lambda array: _pad_batch(array, size), inputs)
        check_search_memory(self._model, self._search, size, self._capacity)
        try:
            return self._search_batch(source_ids, inputs, count, Interruptible(check))
        except tf.errors.ResourceExhaustedError as error:
            raise too_large(self._search, size, "does not fit into memory") from error

    def _search_batch(
        self, source_ids: np.ndarray, inputs: SearchInputs, count: int, interruptible: Interruptible
    ) -> SearchResult:
        """Searches a batch whose first `count` rows are sentences and whose other rows are padding."""
        size = len(source_ids)
        if self._search.coverage_beta:
            inputs = inputs._replace(source_mask=source_ids != 0)
        with self._lock:  # otherwise every thread would trace its own graphs
            if self._graphs is None:
                self._graphs = SearchGraphs(self._model, self._search, inputs, self._xla_compile, self._compacts)
            graphs = self._graphs
        results = _Results(count, self._search.beam_size)
        # The sentence index of each row; -1 for a padding row.
        rows = np.where(np.arange(size) < count, np.arange(size), -1)

        def begin() -> Batch:
            interruptible.check()
            begun = source_ids, inputs, self._capacity
            source, state = graphs.one_compilation_at_a_time(source_ids.shape, graphs.begin, *begun)
            return graphs.advance_batch(Batch(source, state, inputs), None, _until(size), interruptible)

        # To save memory, each batch is created only when its turn comes.
        waiting: list[_Waiting] = [(rows, begin)]
        while waiting:
            rows, make = waiting.pop()
            waiting += self._split(graphs, rows, make(), results, interruptible)
        return results.stacked()

    def _split(
        self, graphs: SearchGraphs, rows: np.ndarray, batch: Batch, results: "_Results", interruptible: Interruptible
    ) -> list[_Waiting]:
        state = batch.state
        done = state.done.numpy().all(1)
        finished, alive = np.flatnonzero(done & (rows >= 0)), np.flatnonzero(~done)
        if finished.size:
            results.add(rows[finished], [part.numpy()[finished] for part in self._search.result(state.finished)])
        position, capacity = int(state.position), static_size(state.ids, 2)
        if position == capacity:
            capacity = capacity + _COMPACT_EVERY if self._compacts else 2 * capacity
        most = max(1, self._batch_tokens // capacity)

        def advance(part: np.ndarray) -> Batch:
            kept, positions = np.zeros([len(part), 0], np.int32), capacity
            if self._compacts:
                kept = _entries_to_keep(state, part, capacity - position)
                positions = kept.shape[1] // self._search.beam_size
            check_search_memory(self._model, self._search, len(part), positions)
            selection = Selection(capacity, part, kept)
            return graphs.advance_batch(batch, selection, _until(len(part)), interruptible)

        if self._xla_compile:
            parts = _parts(alive, len(rows), most)
        else:  # without padding
            parts = [alive[start : start + most].astype(np.int32) for start in range(0, len(alive), most)]
        return [(np.where(part < 0, -1, rows[part]), functools.partial(advance, part)) for part in parts]


class _Results:
    """Collects the hypotheses of sentences as they finish."""

    def __init__(self, count: int, beam_size: int) -> None:
        self._by_row: list[Sequence[np.ndarray]] = [()] * count
        self._beam_size = beam_size

    def add(self, rows: np.ndarray, parts: Sequence[np.ndarray]) -> None:
        for place, row in enumerate(rows):
            self._by_row[row] = [part[place] for part in parts]

    def stacked(self) -> SearchResult:
        longest = max(1, *(row[1].max() for row in self._by_row))
        ids = np.zeros([len(self._by_row), self._beam_size, longest], np.int32)
        for into, row in zip(ids, self._by_row, strict=True):
            into[:, : row[0].shape[1]] = row[0][:, :longest]
        return SearchResult(ids, *(np.stack(parts) for parts in list(zip(*self._by_row, strict=True))[1:]))


def _entries_to_keep(state: BeamState, rows: np.ndarray, room: int) -> np.ndarray:
    """Returns the cache entries before the current position that hypotheses of some sentences need, and free ones.

    Every sentence gets the number of the sentence that needs most, in order, and then -1 for `room` positions: int32
    [rows, entries], see `compact_ancestry`.
    """
    before = state.ancestry.entries.numpy()[rows, :, : int(state.ancestry.place)]  # [rows, beam, entries]
    is_alive = state.log_probs.numpy()[rows] > EXISTS
    is_needed = (before & is_alive[:, :, np.newaxis]).any(1)
    needed = np.argsort(~is_needed, axis=1, kind="stable")[:, : is_needed.sum(1).max(initial=0)]
    free = [(0, 0), (0, room * before.shape[1])]
    return np.pad(np.sort(needed, axis=1).astype(np.int32), free, constant_values=-1)


def _until(size: int) -> int:
    """Returns the number of unfinished sentences at which a batch shrinks; 0: it does not shrink."""
    return size // SHRINK if size // SHRINK >= MIN_BATCH else 0


def _smallest(size: int, count: int) -> int:
    """Returns the smallest size of at least `count` to which a batch of `size` can shrink."""
    while size // SHRINK >= max(count, MIN_BATCH):
        size //= SHRINK
    return size


def _padded_length(length: int) -> int:
    return max(MIN_SOURCE_LENGTH, 2 ** int(np.ceil(np.log2(max(1, length)))))


def _pad_batch(array: np.ndarray, size: int) -> np.ndarray:
    """Pads an array [batch, ..., length] with zeros to `size` rows and to a padded length."""
    more = [(0, size - len(array))] + [(0, 0)] * (array.ndim - 1)
    if array.ndim > 1:
        more[-1] = (0, _padded_length(array.shape[-1]) - array.shape[-1])
    return np.pad(array, more)


def _parts(alive: np.ndarray, size: int, most: int) -> Iterator[np.ndarray]:
    """Divides the alive rows of a batch into batches of at most `most` rows: int32, -1 for a padding row."""
    while size > most:
        size = max(1, size // SHRINK)
    size = _smallest(size, len(alive))
    for start in range(0, len(alive), size):
        part = alive[start : start + size].astype(np.int32)
        yield np.pad(part, (0, size - len(part)), constant_values=-1)
