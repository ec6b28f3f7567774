"""The graphs of a search, which run in parts so that the caller can end a search between two of them."""

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from t2t_lite.arrays import static_size
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
    """A batch during its search."""

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
        advance: Callable[[BeamState, int], BeamState],
        state: BeamState,
        is_over: Callable[[BeamState], bool],
    ) -> BeamState:
        """Returns the state after the last part; `advance` runs at most the given number of steps."""
        while True:
            start = time.perf_counter()
            state = advance(state, self._steps)
            if not self._is_checked:
                return state
            is_last = is_over(state)  # waits for the device
            self.check()
            if is_last:
                return state
            taken = time.perf_counter() - start
            if taken > _PART_SECONDS:
                self._steps = max(1, self._steps // 2)
            elif taken < _PART_SECONDS / 2:
                self._steps *= 2


class SearchGraphs:
    """The graphs of a search, each traced once for all shapes.

    begin(source_ids, inputs, capacity) -> (encoded_source, state): encodes the source.
    advance(encoded_source, state, inputs, until, steps) -> state: see `BeamSearch.advance`.
    select(encoded_source, state, inputs, capacity, rows, kept) -> (encoded_source, state, inputs): selects rows, -1 for
      a padding row, and grows the caches to `capacity`. If `compacts`, caches keep only the entries `kept`.
    """

    def __init__(
        self,
        model: Seq2SeqModel | Ensemble,
        search: BeamSearch,
        inputs: SearchInputs,
        xla_compile: bool,
        compacts: bool,
    ) -> None:
        self._xla_compile, beam_size = xla_compile, search.beam_size
        graph = functools.partial(tf.function, autograph=False)
        number = tf.TensorSpec([], tf.int32)
        input_specs = tf.nest.map_structure(
            lambda part: tf.TensorSpec([None] * np.ndim(part), tf.as_dtype(part.dtype)), inputs
        )

        def begin(source_ids: tf.Tensor, inputs: SearchInputs, capacity: tf.Tensor) -> tuple[EncodedSource, BeamState]:
            encoded_source, decoder_state = model.start_decoding(source_ids, beam_size, capacity)
            return encoded_source, search.start(inputs, decoder_state, capacity)

        def advance(
            encoded_source: EncodedSource, state: BeamState, inputs: SearchInputs, until: tf.Tensor, steps: tf.Tensor
        ) -> BeamState:
            def step(
                ids: tf.Tensor, position: tf.Tensor, decoder_state: DecoderState, ancestry: BeamAncestry
            ) -> tuple[tf.Tensor, DecoderState, tf.Tensor | None]:
                return model.decode_step(ids, position, encoded_source, decoder_state, ancestry)

            with contextlib.nullcontext() if xla_compile else entries_written_by(write_in_place):
                return search.advance(step, state, inputs, until, steps)

        def select(
            encoded_source: EncodedSource,
            state: BeamState,
            inputs: SearchInputs,
            capacity: tf.Tensor,
            rows: tf.Tensor,
            kept_entries: tf.Tensor,
        ) -> tuple[EncodedSource, BeamState, SearchInputs]:
            def kept(tensor: tf.Tensor) -> tf.Tensor:
                return tf.gather(tensor, tf.maximum(rows, 0)) if tensor.shape.rank else tensor

            encoded_source, state, inputs = tf.nest.map_structure(kept, (encoded_source, state, inputs))
            state = state._replace(done=state.done | (rows < 0)[:, tf.newaxis])
            if compacts:

                def compact(decoder_state: DecoderState, room: int | tf.Tensor) -> DecoderState:
                    return model.compact_state(decoder_state, kept_entries, room)

                return encoded_source, search.compacted(state, kept_entries, capacity, compact), inputs
            grows = capacity > tf.shape(state.ids)[2]

            def grow(decoder_state: DecoderState) -> DecoderState:
                return tf.cond(
                    grows, lambda: model.grow_state(decoder_state, beam_size, capacity), lambda: decoder_state
                )

            return encoded_source, search.grown(state, capacity, grow), inputs

        source_ids = tf.TensorSpec([None, None], tf.int32)
        compiled = {"jit_compile": True} if xla_compile else {}
        self.begin = graph(begin, input_signature=[source_ids, input_specs, number], **compiled)
        # The dimensions that are None in these shapes vary between batches.
        encoded_source, state = tf.nest.map_structure(
            lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype),
            self.begin.get_concrete_function().structured_outputs,
        )
        self.advance = graph(advance, input_signature=[encoded_source, state, input_specs, number, number], **compiled)
        self._compiled: set[Hashable] = set()  # the shapes for which graphs were called
        self._lock = threading.Lock()
        rows, kept = tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, None], tf.int32)
        self.select = graph(select, input_signature=[encoded_source, state, input_specs, number, rows, kept])
        # Traced now rather than when called; otherwise TensorFlow would warn about each search unlike earlier ones.
        for function in (self.advance, self.select):
            function.get_concrete_function()

    def advance_batch(self, batch: Batch, until: int, interruptible: Interruptible) -> Batch:
        """Calls `advance` in parts, and returns the batch after it."""
        encoded_source, state, inputs = batch
        shapes = tuple(tuple(tensor.shape) for tensor in tf.nest.flatten((encoded_source, state.ids)))
        capacity = static_size(state.ids, 2)

        def advance(state: BeamState, steps: int) -> BeamState:
            return self.one_compilation_at_a_time(shapes, self.advance, encoded_source, state, inputs, until, steps)

        def is_over(state: BeamState) -> bool:
            return int(state.position) == capacity or int(np.sum(~state.done.numpy().all(1))) <= until

        return batch._replace(state=interruptible.run(advance, state, is_over))

    def one_compilation_at_a_time(self, shapes: Hashable, graph: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
        """Calls a graph, but compiles one at a time: parallel compilations are no faster and need much more memory."""
        if not self._xla_compile or shapes in self._compiled:
            return graph(*arguments)
        with self._lock:
            result = graph(*arguments)
        self._compiled.add(shapes)
        return result
