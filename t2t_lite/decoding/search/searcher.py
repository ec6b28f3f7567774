"""Runs searches over batches, with growing caches and shrinking batches.

XLA compiles a search for the shapes of its tensors, which takes seconds for each new shape. Therefore the number of
sentences, the source length and the cache capacity are padded to powers of two. Caches start small and double when
full. When at most half of the sentences are unfinished, they move to a batch of half the size. A search that would run
out of memory is rejected.
"""

import collections
import functools
import math
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from t2t_lite.arrays import Array
from t2t_lite.config import HParams
from t2t_lite.decoding.ensemble import Ensemble
from t2t_lite.decoding.search.beam_search import ALL_STEPS, BeamSearch, static_size
from t2t_lite.decoding.search.beam_state import (
    EXISTS,
    BeamState,
    DecoderState,
    EncodedSource,
    SearchInputs,
    SearchResult,
)
from t2t_lite.errors import UserError
from t2t_lite.layers.beam_ancestry import BeamAncestry, entries_written_by
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.system.machine import cpu_threads, free_memory, num_cores

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
# A shape is compiled after this much time in uncompiled searches: two or three times the compilation time.
WORTH_COMPILING_SECONDS = 15.0
# The largest batch to compile, in hypotheses (sentences times beam size), if compiled batches cannot be searched in
# parallel, see `AdaptiveSearcher`.
MOST_HYPOTHESES = 64
# A search runs in parts of about this duration, and the caller can end it after each part.
_PART_SECONDS = 0.25
FLOAT32 = 4  # bytes
# Smaller searches are not checked against the free memory.
WORTH_CHECKING = 2**28
# Maximum bytes of a batch's caches on a CPU: each core has its own batch, and larger batches are no faster.
CACHES_OF_BATCH = 2**28


class Batch(NamedTuple):
    encoded_source: EncodedSource
    state: BeamState
    inputs: SearchInputs


class Kept(NamedTuple):
    """What a batch takes over from the batch that it continues."""

    capacity: Array | int  # number of positions for which there is room
    rows: Array  # int32 [rows], in order; -1, after all others, for a row of padding
    entries: Array  # int32 [rows, entries], the cache entries, see `compact_ancestry`; [rows, 0]: all


class _Pace:
    """The parts in which a search runs, of about a quarter of a second and at least one step each.

    `check` is called after each part, and an exception from it ends the search; None: all steps form one part.
    """

    def __init__(self, check: Callable[[], None] | None) -> None:
        self.check = check
        self.steps = 1 if check else ALL_STEPS  # at most, of the next part

    def adapt(self, seconds: float) -> None:
        """Sets the steps of the next part, given the time that this one took."""
        if seconds > _PART_SECONDS:
            self.steps = max(1, self.steps // 2)
        elif seconds < _PART_SECONDS / 2:
            self.steps *= 2


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
        size = count = len(source_ids)
        if self._xla_compile:
            size, room = self.padded_shape(source_ids)
            source_ids = np.pad(source_ids, [(0, size - count), (0, room - source_ids.shape[1])])

            def padded(array: np.ndarray) -> np.ndarray:
                """Pads an array [batch, ..., length] to the size of the batch and to a padded length."""
                more = [(0, size - count)] + [(0, 0)] * (array.ndim - 1)
                if array.ndim > 1:
                    more[-1] = (0, _padded_length(array.shape[-1]) - array.shape[-1])
                return np.pad(array, more)

            inputs = tf.nest.map_structure(padded, inputs)
        if self._search.coverage_beta:
            inputs = inputs._replace(source_mask=np.asarray(self._model.is_source_token(source_ids)))
        check_search_memory(self._model, self._search, size, self._capacity)
        try:
            return self._search_batch(source_ids, inputs, count, _Pace(check))
        except tf.errors.ResourceExhaustedError as error:
            raise too_large(self._search, size, "does not fit into memory") from error

    def _search_batch(self, source_ids: np.ndarray, inputs: SearchInputs, count: int, pace: _Pace) -> SearchResult:
        """Searches a batch whose first `count` rows are sentences and whose other rows are padding."""
        with self._lock:  # otherwise every thread would trace its own graphs
            if self._graphs is None:
                self._graphs = SearchGraphs(self._model, self._search, inputs, self._xla_compile, self._compacts)
            graphs = self._graphs
        found: list[Sequence[np.ndarray]] = [()] * count  # the parts of each sentence's `SearchResult`
        rows = np.arange(len(source_ids))
        rows[count:] = -1
        # Batches to come: the sentence of each row, -1 for padding; and what they continue, None for the first one.
        # To save memory, each is made only when its turn comes.
        waiting: list[tuple[np.ndarray, Batch | None, Kept | None]] = [(rows, None, None)]
        while waiting:
            rows, batch, kept = waiting.pop()
            if batch is None or kept is None:
                if pace.check:
                    pace.check()
                batch = graphs.begin(source_ids, inputs, self._capacity)
            else:
                positions = kept.entries.shape[1] // self._search.beam_size if self._compacts else int(kept.capacity)
                check_search_memory(self._model, self._search, len(rows), positions)
            smaller = len(rows) // SHRINK
            batch = graphs.advance(batch, kept, smaller if smaller >= MIN_BATCH else 0, pace)

            done = batch.state.done.numpy().all(1)
            finished = np.flatnonzero(done & (rows >= 0))
            if finished.size:
                parts = [part.numpy()[finished] for part in self._search.result(batch.state.finished)]
                for row, *of_row in zip(rows[finished], *parts, strict=True):
                    found[row] = of_row
            for rest in self._continued(batch.state, np.flatnonzero(~done)):
                waiting.append((np.where(rest.rows < 0, -1, rows[rest.rows]), batch, rest))

        longest = max(1, *(lengths.max() for _, lengths, *_ in found))
        ids = np.zeros([count, self._search.beam_size, longest], np.int32)
        for into, (tokens, *_) in zip(ids, found, strict=True):
            into[:, : tokens.shape[1]] = tokens[:, :longest]
        return SearchResult(ids, *(np.stack(parts) for parts in list(zip(*found, strict=True))[1:]))

    def _continued(self, state: BeamState, alive: np.ndarray) -> Iterator[Kept]:
        """Divides the unfinished rows `alive` of a batch into batches with room for more positions."""
        position, capacity = int(state.position), static_size(state.ids, 2)
        if position == capacity:
            capacity = capacity + _COMPACT_EVERY if self._compacts else 2 * capacity
        size = most = max(1, self._batch_tokens // capacity)
        if self._xla_compile:  # one of few sizes
            size = static_size(state.ids, 0)
            while size > most:
                size = max(1, size // SHRINK)
            size = _smallest(size, len(alive))
        for start in range(0, len(alive), size):
            rows = alive[start : start + size].astype(np.int32)
            if self._xla_compile:
                rows = np.pad(rows, (0, size - len(rows)), constant_values=-1)
            everything = np.zeros([len(rows), 0], np.int32)
            entries = _entries_to_keep(state, rows, capacity - position) if self._compacts else everything
            yield Kept(capacity, rows, entries)


class SearchGraphs:
    """The graphs of a search, each traced once for all shapes.

    An uncompiled search selects what a batch continues with and runs its steps in one graph, because steps overwrite
    caches that their own graph has made, but must copy those of a caller. XLA would compile that graph for each number
    of cache entries, so a compiled search has one graph for the selection and one for the steps.
    """

    def __init__(
        self,
        model: Seq2SeqModel | Ensemble,
        search: BeamSearch,
        inputs: SearchInputs,
        xla_compile: bool,
        compacts: bool,
    ) -> None:
        self._model, self._search, self._xla_compile, self._compacts = model, search, xla_compile, compacts
        self._compiled: set[Hashable] = set()  # the shapes for which graphs were called
        self._lock = threading.Lock()
        graph = functools.partial(tf.function, autograph=False)
        compiled = functools.partial(graph, jit_compile=True) if xla_compile else graph
        number, ids = tf.TensorSpec([], tf.int32), tf.TensorSpec([None, None], tf.int32)
        input_specs = tf.nest.map_structure(
            lambda part: tf.TensorSpec([None] * np.ndim(part), tf.as_dtype(part.dtype)), inputs
        )
        self._begin_graph = compiled(self._begin, input_signature=[ids, input_specs, number])
        # The dimensions that are None in these shapes vary between batches.
        encoded_source, state = tf.nest.map_structure(
            lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype),
            self._begin_graph.get_concrete_function().structured_outputs,
        )
        batch, steps = [encoded_source, state, input_specs], [number, number]
        kept = Kept(number, tf.TensorSpec([None], tf.int32), ids)
        if xla_compile:
            self._advance_graph = compiled(self._advance, input_signature=[*batch, *steps])
            self._select_graph = graph(self._select, input_signature=[*batch, kept])
            functions = [self._advance_graph, self._select_graph]
        else:
            self._resume_graph = graph(self._resume, input_signature=[*batch, kept, *steps])
            functions = [self._resume_graph]
        # Traced now rather than when called; otherwise TensorFlow would warn about each search unlike earlier ones.
        for function in functions:
            function.get_concrete_function()

    def begin(self, source_ids: np.ndarray, inputs: SearchInputs, capacity: int) -> Batch:
        """Encodes the sources; caches have room for `capacity` positions."""
        arguments = self._begin_graph, source_ids, inputs, capacity
        encoded_source, state = self._one_compilation_at_a_time(source_ids.shape, *arguments)
        return Batch(encoded_source, state, inputs)

    def advance(self, batch: Batch, kept: Kept | None, until: int, pace: _Pace) -> Batch:
        """Continues what is kept of a batch (None: all) until it is full or has at most `until` unfinished rows."""
        if self._xla_compile:
            batch = Batch(*self._select_graph(*batch, kept)) if kept else batch
            shapes = tuple(tuple(tensor.shape) for tensor in tf.nest.flatten((batch.encoded_source, batch.state.ids)))
        while True:
            start = time.perf_counter()
            if self._xla_compile:
                arguments = self._advance_graph, *batch, until, pace.steps
                batch = batch._replace(state=self._one_compilation_at_a_time(shapes, *arguments))
            else:
                if kept is None:
                    size, capacity = static_size(batch.state.ids, 0), static_size(batch.state.ids, 2)
                    kept = Kept(capacity, np.arange(size, dtype=np.int32), np.zeros([size, 0], np.int32))
                batch, kept = Batch(*self._resume_graph(*batch, kept, until, pace.steps)), None
            if pace.check is None:
                return batch
            is_full = int(batch.state.position) == static_size(batch.state.ids, 2)  # waits for the device
            is_over = is_full or np.sum(~batch.state.done.numpy().all(1)) <= until
            pace.check()
            if is_over:
                return batch
            pace.adapt(time.perf_counter() - start)

    def _one_compilation_at_a_time(self, shapes: Hashable, graph: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
        """Calls a graph, but compiles one at a time: parallel compilations are no faster and need much more memory."""
        if not self._xla_compile or shapes in self._compiled:
            return graph(*arguments)
        with self._lock:
            result = graph(*arguments)
        self._compiled.add(shapes)
        return result

    def _begin(
        self, source_ids: tf.Tensor, inputs: SearchInputs, capacity: tf.Tensor
    ) -> tuple[EncodedSource, BeamState]:
        encoded_source, decoder_state = self._model.start_decoding(source_ids, self._search.beam_size, capacity)
        return encoded_source, self._search.start(inputs, decoder_state, capacity)

    def _resume(
        self,
        encoded_source: EncodedSource,
        state: BeamState,
        inputs: SearchInputs,
        kept: Kept,
        until: tf.Tensor,
        steps: tf.Tensor,
    ) -> tuple[EncodedSource, BeamState, SearchInputs]:
        encoded_source, state, inputs = self._select(encoded_source, state, inputs, kept)
        with entries_written_by(write_in_place):
            return encoded_source, self._advance(encoded_source, state, inputs, until, steps), inputs

    def _advance(
        self, encoded_source: EncodedSource, state: BeamState, inputs: SearchInputs, until: tf.Tensor, steps: tf.Tensor
    ) -> BeamState:
        def step(
            ids: tf.Tensor, position: tf.Tensor, decoder_state: DecoderState, ancestry: BeamAncestry
        ) -> tuple[tf.Tensor, DecoderState, tf.Tensor | None]:
            return self._model.decode_step(ids, position, encoded_source, decoder_state, ancestry)

        return self._search.advance(step, state, inputs, until, steps)

    def _select(
        self, encoded_source: EncodedSource, state: BeamState, inputs: SearchInputs, kept: Kept
    ) -> tuple[EncodedSource, BeamState, SearchInputs]:
        capacity, rows, entries = kept
        whole = encoded_source, state, inputs
        shapes = [tensor.shape for tensor in tf.nest.flatten(state)]
        size = tf.shape(state.last)[0]
        has_all = (tf.size(rows) == size) & (rows[-1] == size - 1)

        def selected() -> tuple[EncodedSource, BeamState, SearchInputs]:
            def of_rows(tensor: tf.Tensor) -> tf.Tensor:
                return tf.gather(tensor, tf.maximum(rows, 0)) if tensor.shape.rank else tensor

            return tf.nest.map_structure(of_rows, whole)

        encoded_source, state, inputs = tf.cond(has_all, lambda: whole, selected)
        state = state._replace(done=state.done | (rows < 0)[:, tf.newaxis])
        if self._compacts:
            compact = functools.partial(self._model.compact_state, kept=entries)
            compacts = tf.shape(entries)[1] > 0
            state = tf.cond(compacts, lambda: self._search.grown(state, capacity, compact, entries), lambda: state)
        else:
            is_larger = capacity > tf.shape(state.ids)[2]

            def grow(decoder_state: DecoderState) -> DecoderState:
                grown = functools.partial(self._model.grow_state, decoder_state, self._search.beam_size, capacity)
                return tf.cond(is_larger, grown, lambda: decoder_state)

            state = self._search.grown(state, capacity, grow)
        # A condition loses static dimensions that the state needs.
        for tensor, shape in zip(tf.nest.flatten(state), shapes, strict=True):
            tensor.set_shape(shape)
        return encoded_source, state, inputs


def write_in_place(array: Array, place: int | Array, part: Array, axis: int) -> Array:
    """Returns the array with `part` written at `place` along an axis, -1 or -2; for `entries_written_by`.

    Reuses the array if nothing else reads it. Views it as a matrix, which makes writing twice as fast.

    Each step adds one position to the caches of all layers. XLA writes in place; TensorFlow's slicing and scatter
    operations copy the whole cache, which took a sixth of the search time.
    """
    width = part.shape[axis] * (1 if axis == -1 else part.shape[-1])
    start = place * (width // part.shape[axis])
    rows = tf.reshape(part, [-1, width])
    matrix = tf.reshape(array, [tf.shape(rows)[0], -1])
    all_rows = {"begin_mask": 1, "end_mask": 1, "strides": [1, 1]}
    written = tf.raw_ops.TensorStridedSliceUpdate(
        input=matrix, begin=[0, start], end=[0, start + width], value=rows, **all_rows
    )
    return tf.ensure_shape(tf.reshape(written, tf.shape(array)), array.shape)


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


def _smallest(size: int, count: int) -> int:
    """Returns the smallest size of at least `count` to which a batch of `size` can shrink."""
    while size // SHRINK >= max(count, MIN_BATCH):
        size //= SHRINK
    return size


def _padded_length(length: int) -> int:
    return max(MIN_SOURCE_LENGTH, 2 ** int(np.ceil(np.log2(max(1, length)))))


def tokens_of_batch(model: Seq2SeqModel | Ensemble, search: BeamSearch, batch_tokens: int) -> int:
    """Returns the maximum number of positions in a batch: `batch_tokens`, or fewer on a CPU, see `CACHES_OF_BATCH`."""
    of_position = sum(map(_cache_bytes, _model_hparams(model))) * search.beam_size
    if not of_position or tf.config.list_physical_devices("GPU"):
        return batch_tokens
    return min(batch_tokens, CACHES_OF_BATCH // of_position)


def check_search_memory(model: Seq2SeqModel | Ensemble, search: BeamSearch, rows: int, capacity: int) -> None:
    """Raises UserError if a search step needs more memory than is free. On a GPU, the allocator reports this itself."""
    needed = search_bytes(model, search, rows, capacity)
    if needed < WORTH_CHECKING or tf.config.list_physical_devices("GPU"):
        return
    free = free_memory("CPU")
    if free is not None and needed > free:
        raise too_large(
            search, rows, f"needs at least {needed / 2**30:,.1f} GiB, but only {free / 2**30:,.1f} GiB are free"
        )


def too_large(search: BeamSearch, rows: int, what: str) -> UserError:
    """Returns the error for a search that does not fit into memory; `what` is the reason."""
    sentences = f"{rows} sentences at a time" if rows > 1 else "one sentence at a time"
    smaller = "beam_size or batch_tokens" if rows > 1 else "beam_size"
    return UserError(
        f"a search of {sentences} with beam_size={search.beam_size} {what}; use a smaller {smaller} in `decode_hparams`"
    )


def search_bytes(model: Seq2SeqModel | Ensemble, search: BeamSearch, rows: int, capacity: int) -> int:
    """Returns a lower bound on the bytes that a step needs for `rows` sentences and `capacity` target positions."""
    beam = search.beam_size
    logits = rows * beam * search.vocab_size * FLOAT32
    candidates = rows * beam * min(2 * beam, search.vocab_size) * FLOAT32
    hparams_of_all = _model_hparams(model)
    caches = sum(_cache_bytes(hparams) for hparams in hparams_of_all) * rows * beam * capacity
    # Each hypothesis attends to the cache entries of all beams, but masks those of other hypotheses.
    scores = max((each.num_heads for each in hparams_of_all if each.self_attention_type == "full"), default=0)
    return logits + candidates + caches + scores * rows * beam * beam * capacity * FLOAT32


def _model_hparams(model: Seq2SeqModel | Ensemble) -> list[HParams]:
    models = getattr(model, "models", [model])
    return [each.hparams for each in models if hasattr(each, "hparams")]  # custom models may have none


def _cache_bytes(hparams: HParams) -> int:
    if hparams.self_attention_type not in ("full", "local"):
        return 0
    size = 2 if hparams.precision != "float32" else FLOAT32
    return hparams.num_decoder_layers * hparams.num_heads * (hparams.key_size + hparams.value_size) * size


class AdaptiveSearcher:
    """Searches batches like `Searcher`; compiles a shape once its uncompiled batches have taken `seconds`.

    XLA needs seconds to compile a shape. After that, a batch of a few sentences takes two thirds of the time, and a
    single sentence a third. This pays off for a server or an interactive user, but not for a file of a thousand lines.
    """

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
        per_operation = tf.config.threading.get_intra_op_parallelism_threads() or cpu_threads()
        most_hypotheses = MOST_HYPOTHESES if per_operation == 1 < num_cores() else math.inf
        self._seconds, self._most_sentences = seconds, most_hypotheses / search.beam_size
        self._taken: dict[tuple[int, int], float] = collections.defaultdict(float)
        self._asked: set[tuple[int, int]] = set()
        self._ready: set[tuple[int, int]] = set()
        self._lock, self._background = threading.Lock(), ThreadPoolExecutor(1, "compile")
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
