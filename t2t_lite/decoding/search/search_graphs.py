"""The graphs of a search, which run in parts so that the caller can end a search between two of them."""

import functools
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from t2t_lite.arrays import Array, static_size
from t2t_lite.decoding.ensemble import Ensemble
from t2t_lite.decoding.search.beam_search import ALL_STEPS, BeamSearch
from t2t_lite.decoding.search.beam_state import BeamState, DecoderState, EncodedSource, SearchInputs
from t2t_lite.decoding.search.in_place import write_in_place
from t2t_lite.layers.beam_ancestry import BeamAncestry
from t2t_lite.layers.cache import entries_written_by
from t2t_lite.models.base import Seq2SeqModel

# A search runs in parts of about this duration, and the caller can end it after each part.
_PART_SECONDS = 0.25


class Batch(NamedTuple):
    encoded_source: EncodedSource
    state: BeamState
    inputs: SearchInputs


class Interruptible:
    """Runs the steps of a search in parts of about a quarter of a second, with at least one step each.

    `check` is called after each part, and an exception from it ends the search; None: all steps form one part.
    """

    def __init__(self, check: Callable[[], None] | None) -> None:
        self.check = check or (lambda: None)
        self._is_checked = check is not None
        self._steps = 1 if check else ALL_STEPS

    def run(
        self,
        advance: Callable[[Batch, int], Batch],
        batch: Batch,
        is_over: Callable[[Batch], bool],
    ) -> Batch:
        """Returns the batch after the last part; `advance` runs at most the given number of steps."""
        while True:
            start = time.perf_counter()
            batch = advance(batch, self._steps)
            if not self._is_checked:
                return batch
            is_last = is_over(batch)  # waits for the device
            self.check()
            if is_last:
                return batch
            taken = time.perf_counter() - start
            if taken > _PART_SECONDS:
                self._steps = max(1, self._steps // 2)
            elif taken < _PART_SECONDS / 2:
                self._steps *= 2


class Selection(NamedTuple):
    """What a batch continues with."""

    capacity: Array | int  # number of positions for which there is room
    rows: Array  # int32 [rows], in order; -1, after all others, for a row of padding
    kept: Array  # int32 [rows, entries], the cache entries, see `compact_ancestry`; [rows, 0]: all


class SearchGraphs:
    """The graphs of a search, each traced once for all shapes.

    begin(source_ids, inputs, capacity) -> (encoded_source, state): encodes the source.

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
        self.begin = compiled(self._begin, input_signature=[ids, input_specs, number])
        # The dimensions that are None in these shapes vary between batches.
        encoded_source, state = tf.nest.map_structure(
            lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype),
            self.begin.get_concrete_function().structured_outputs,
        )
        batch, steps = [encoded_source, state, input_specs], [number, number]
        selection = Selection(number, tf.TensorSpec([None], tf.int32), ids)
        if xla_compile:
            self._advance_graph = compiled(self._advance, input_signature=[*batch, *steps])
            self._select_graph = graph(self._select, input_signature=[*batch, selection])
            functions = [self._advance_graph, self._select_graph]
        else:
            self._resume_graph = graph(self._resume, input_signature=[*batch, selection, *steps])
            functions = [self._resume_graph]
        # Traced now rather than when called; otherwise TensorFlow would warn about each search unlike earlier ones.
        for function in functions:
            function.get_concrete_function()

    def advance_batch(
        self, batch: Batch, selection: Selection | None, until: int, interruptible: Interruptible
    ) -> Batch:
        """Selects what a batch continues with (None: all), runs steps in parts, and returns the batch after them."""
        if self._xla_compile:
            batch = Batch(*self._select_graph(*batch, selection)) if selection else batch
            shapes = tuple(tuple(tensor.shape) for tensor in tf.nest.flatten((batch.encoded_source, batch.state.ids)))

        def advance(batch: Batch, steps: int) -> Batch:
            nonlocal selection
            if self._xla_compile:
                arguments = self._advance_graph, *batch, until, steps
                return batch._replace(state=self.one_compilation_at_a_time(shapes, *arguments))
            chosen, selection = selection, None
            if chosen is None:  # all rows
                size, capacity = static_size(batch.state.ids, 0), static_size(batch.state.ids, 2)
                chosen = Selection(capacity, np.arange(size, dtype=np.int32), np.zeros([size, 0], np.int32))
            return Batch(*self._resume_graph(*batch, chosen, until, steps))

        def is_over(batch: Batch) -> bool:
            state = batch.state
            is_full = int(state.position) == static_size(state.ids, 2)
            return is_full or int(np.sum(~state.done.numpy().all(1))) <= until

        return interruptible.run(advance, batch, is_over)

    def one_compilation_at_a_time(self, shapes: Hashable, graph: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
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
        selection: Selection,
        until: tf.Tensor,
        steps: tf.Tensor,
    ) -> tuple[EncodedSource, BeamState, SearchInputs]:
        encoded_source, state, inputs = self._select(encoded_source, state, inputs, selection)
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
        self, encoded_source: EncodedSource, state: BeamState, inputs: SearchInputs, selection: Selection
    ) -> tuple[EncodedSource, BeamState, SearchInputs]:
        capacity, rows, kept = selection
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
            compact = functools.partial(self._model.compact_state, kept=kept)
            compacts = tf.shape(kept)[1] > 0
            state = tf.cond(compacts, lambda: self._search.compacted(state, kept, capacity, compact), lambda: state)
        else:
            state = self._search.grown(state, capacity, functools.partial(self._grown, state, capacity))
        # A condition loses static dimensions that the state needs.
        for tensor, shape in zip(tf.nest.flatten(state), shapes, strict=True):
            tensor.set_shape(shape)
        return encoded_source, state, inputs

    def _grown(self, state: BeamState, capacity: Array | int, decoder_state: DecoderState) -> DecoderState:
        def grow() -> DecoderState:
            return self._model.grow_state(decoder_state, self._search.beam_size, capacity)

        return tf.cond(capacity > tf.shape(state.ids)[2], grow, lambda: decoder_state)
