"""Runs searches of a model over batches: in few static shapes, in growing caches, and without sentences that are done.

A search is compiled for the shapes of its tensors, and each compilation takes seconds. So the number of sentences is
a power of two, and so is the length of the source and that of the caches: what is left over is filled up. Caches begin
small and are doubled when they are full. When at most half of the sentences go on, these are taken together into a
batch of half the size.
"""

import functools
import threading
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from t2t_lite.decoding.search.beam_search import BeamSearch
from t2t_lite.decoding.search.beam_state import SearchResult, Sentences
from t2t_lite.decoding.search.memory import check_memory, too_large
from t2t_lite.layers.beam_ancestry import with_room

# Positions that no source has fewer of, and that caches begin with.
SHORTEST = 16
CAPACITY = 32
# When at most one sentence in so many goes on, the others leave the batch,
SHRINK = 2
# unless it has fewer than so many left: one of two costs little less than one of eight, and would be compiled as well.
FEWEST = 8


class Searcher:
    """Searches the outputs of batches of sentences.

    Args:
      model: a built `Seq2SeqModel` with its weights, or an `Ensemble`.
      search: how to search.
      batch_tokens: how many positions a batch may have, filled-up ones included, of the source and of the caches.
      xla_compile: whether the search is compiled with XLA.
    """

    def __init__(self, model, search: BeamSearch, batch_tokens: int, xla_compile: bool = True):
        self._model = model
        self._search = search
        self._batch_tokens = batch_tokens
        self._xla_compile = xla_compile
        self._graphs = {}
        self._lock = threading.Lock()

    def rows_of(self, length: int) -> int:
        """Returns how many sentences of `length` pieces make a batch, at least 1."""
        return 2 ** int(np.log2(max(1, self._batch_tokens // max(_bucket(length), CAPACITY))))

    def __call__(self, inputs: np.ndarray, sentences: Sentences) -> SearchResult:
        """Searches the outputs of one batch.

        Args:
          inputs: int32 [batch, source length], padded with 0.
          sentences: what is known of them, NumPy arrays; their `source_mask` is made here.

        Returns:
          the hypotheses, NumPy arrays [batch, beam, ...].

        Raises:
          UserError: if the search needs more memory than there is.
        """
        count, length = inputs.shape
        size = 1 if count == 1 else max(count, _smallest(self.rows_of(length), count))
        check_memory(self._model, self._search, size, CAPACITY)
        try:
            return self._found(inputs, sentences, count, size)
        except tf.errors.ResourceExhaustedError as error:
            raise too_large(self._search, size, "does not fit into memory") from error

    def _found(self, inputs: np.ndarray, sentences: Sentences, count: int, size: int) -> SearchResult:
        length = inputs.shape[1]
        # Learned positions have an end.
        room = min(_bucket(length), self._model.max_positions or _bucket(length))
        inputs = np.pad(inputs, [(0, size - count), (0, room - length)])
        sentences = Sentences(*(part if _absent(part) else _filled_up(part, size) for part in sentences))
        if self._search.coverage_beta:
            sentences = sentences._replace(source_mask=inputs != 0)
        found, graphs = _Results(count, self._search.beam_size), self._graphs_for(sentences)
        # Numbers of sentences; that of a filled-up row is -1.
        rows = np.where(np.arange(size) < count, np.arange(size), -1)
        # Batches are made when their turn has come, as they take memory.
        waiting = [(rows, lambda: (*graphs.begun(inputs, sentences, _until(size)), sentences))]
        while waiting:
            rows, make = waiting.pop()
            waiting += self._share_out(graphs, rows, *make(), found)
        return found.stacked()

    def _share_out(self, graphs, rows, memory, loop, sentences, found):
        """Takes what is done out of a batch that cannot stay as it is; returns the batches to go on with."""
        done = loop.done.numpy().all(1)
        finished, going_on = np.flatnonzero(done & (rows >= 0)), np.flatnonzero(~done)
        if finished.size:
            found.add(rows[finished], [part.numpy()[finished] for part in self._search.result(loop.finished)])
        capacity = loop.ids.shape[2]
        if loop.position == capacity:
            capacity *= 2
        most = max(1, self._batch_tokens // capacity)

        def go_on(share):
            check_memory(self._model, self._search, len(share), capacity)
            smaller = graphs.part(memory, loop, sentences, capacity, share)
            return smaller[0], graphs.advanced(*smaller, _until(len(share))), smaller[2]

        shares = _shares(going_on, len(rows), most)
        return [(np.where(share < 0, -1, rows[share]), functools.partial(go_on, share)) for share in shares]

    def _graphs_for(self, sentences: Sentences) -> "_Graphs":
        """Returns the graphs for searches about which as much is known."""
        known = tuple(_absent(part) for part in sentences)
        with self._lock:  # threads would trace them all
            if known not in self._graphs:
                self._graphs[known] = _Graphs(self._model, self._search, sentences, self._xla_compile)
            return self._graphs[known]


class _Graphs:
    """The parts of a search, each traced once for all shapes.

    begin(inputs, sentences, capacity, until) -> (memory, loop): encodes the source and advances from position 0. One
      graph, as the way into a graph of so many tensors takes a millisecond.
    advance(memory, loop, sentences, until) -> loop: see `BeamSearch.advance`.
    part(memory, loop, sentences, capacity, rows) -> the same of the given rows, -1 for a filled-up one.
    """

    def __init__(self, model, search: BeamSearch, sentences: Sentences, xla_compile: bool):
        beam_size = search.beam_size
        graph = functools.partial(tf.function, autograph=False)
        number = tf.TensorSpec([], tf.int32)
        about = tf.nest.map_structure(
            lambda part: tf.TensorSpec([None] * np.ndim(part), tf.as_dtype(part.dtype)), sentences
        )

        def begin(inputs, sentences, capacity, until):
            memory, caches = model.start_decoding(inputs, beam_size, capacity)
            return memory, advance(memory, search.start(sentences, caches, capacity), sentences, until)

        def advance(memory, loop, sentences, until):
            def step(ids, position, state, lineage):
                return model.decode_step(ids, position, memory, state, lineage)

            return search.advance(step, loop, sentences, until)

        def part(memory, loop, sentences, capacity, rows):
            def kept(tensor):
                return tf.gather(tensor, tf.maximum(rows, 0)) if tensor.shape.rank else tensor

            memory, loop, sentences = tf.nest.map_structure(kept, (memory, loop, sentences))
            loop = loop._replace(done=loop.done | (rows < 0)[:, tf.newaxis])
            more = [[0, 0], [0, 0], [0, capacity - tf.shape(loop.ids)[2]]]
            state = tf.cond(
                more[2][1] > 0, lambda: model.grow_caches(loop.state, beam_size, capacity), lambda: loop.state
            )
            lineage = with_room(loop.lineage, loop.position, capacity)
            finished = loop.finished._replace(ids=tf.pad(loop.finished.ids, more))
            loop = loop._replace(ids=tf.pad(loop.ids, more), lineage=lineage, finished=finished, state=state)
            return memory, loop, sentences

        inputs = tf.TensorSpec([None, None], tf.int32)
        compiled = {"jit_compile": True} if xla_compile else {}
        self.begin = graph(begin, input_signature=[inputs, about, number, number], **compiled)
        # What dimensions it leaves open are those that differ from batch to batch.
        memory, loop = tf.nest.map_structure(
            lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype),
            self.begin.get_concrete_function().structured_outputs,
        )
        self.advance = graph(advance, input_signature=[memory, loop, about, number], **compiled)
        self._compiled, self._lock = set(), threading.Lock()
        rows = tf.TensorSpec([None], tf.int32)
        self.part = graph(part, input_signature=[memory, loop, about, number, rows])

    def begun(self, inputs, sentences, until: int):
        """Calls `begin`, with the caches that all searches begin with."""
        return self._one_compilation_at_a_time(inputs.shape, self.begin, inputs, sentences, CAPACITY, until)

    def advanced(self, memory, loop, sentences, until: int):
        """Calls `advance`."""
        shapes = tuple(tuple(tensor.shape) for tensor in tf.nest.flatten((memory, loop.ids)))
        return self._one_compilation_at_a_time(shapes, self.advance, memory, loop, sentences, until)

    def _one_compilation_at_a_time(self, shapes, graph, *arguments):
        # Several at a time would take as long together, and much more memory.
        if shapes in self._compiled:
            return graph(*arguments)
        with self._lock:
            result = graph(*arguments)
        self._compiled.add(shapes)
        return result


class _Results:
    """Collects hypotheses as their sentences are done."""

    def __init__(self, count: int, beam_size: int):
        self._by_row = [None] * count
        self._beam_size = beam_size

    def add(self, rows, parts) -> None:
        """Takes the hypotheses of some sentences, the arrays of a `SearchResult`."""
        for place, row in enumerate(rows):
            self._by_row[row] = [part[place] for part in parts]

    def stacked(self) -> SearchResult:
        """Returns those of all sentences, SearchResult of NumPy arrays."""
        longest = max(1, *(row[1].max() for row in self._by_row))
        ids = np.zeros([len(self._by_row), self._beam_size, longest], np.int32)
        for into, row in zip(ids, self._by_row, strict=True):
            into[:, : row[0].shape[1]] = row[0][:, :longest]
        return SearchResult(ids, *(np.stack(parts) for parts in list(zip(*self._by_row, strict=True))[1:]))


def _until(size: int) -> int:
    """Returns with how many sentences left a batch is given up for a smaller one."""
    return size // SHRINK if size // SHRINK >= FEWEST else 0


def _smallest(size: int, count: int) -> int:
    """Returns the smallest size of a batch, of those that one of `size` shrinks to, that holds so many."""
    while size // SHRINK >= max(count, FEWEST):
        size //= SHRINK
    return size


def _bucket(length: int) -> int:
    """Returns the number of positions that so many are filled up to."""
    return max(SHORTEST, 2 ** int(np.ceil(np.log2(max(1, length)))))


def _absent(part) -> bool:
    return isinstance(part, tuple)


def _filled_up(array: np.ndarray, size: int) -> np.ndarray:
    """Returns an array [batch, ..., length] with zeros up to `size` rows and to a number of positions that is usual."""
    more = [(0, size - len(array))] + [(0, 0)] * (array.ndim - 1)
    if array.ndim > 1:
        more[-1] = (0, _bucket(array.shape[-1]) - array.shape[-1])
    return np.pad(array, more)


def _shares(going_on: np.ndarray, size: int, most: int) -> Iterator[np.ndarray]:
    """Cuts the rows that go on into batches of at most `most`, each as a batch of `size` with sentences left out.

    Yields:
      rows, int32, with -1 for one that is filled up.
    """
    while size > most:
        size = max(1, size // SHRINK)
    size = _smallest(size, len(going_on))
    for start in range(0, len(going_on), size):
        share = going_on[start : start + size].astype(np.int32)
        yield np.pad(share, (0, size - len(share)), constant_values=-1)
