"""Measures time and memory of the layers of table 1, in a process of its own."""

import dataclasses
import gc
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import keras
import tensorflow as tf

from t2t_lite.arrays import Array
from t2t_lite.benchmark.layers import CASES, HEAD_SIZE, KERNEL_SIZE, LENGTHS, Case, Point
from t2t_lite.layers.attention import attend
from t2t_lite.layers.convolution import Convolution
from t2t_lite.layers.local_attention import LocalSelfAttention
from t2t_lite.layers.recurrent import Recurrent
from t2t_lite.layers.self_attention import SelfAttention
from t2t_lite.system.tensorflow import import_tensorflow

# A time is the minimum over calls that together take at least this long, because other processes only add time.
SECONDS_OF_CALLS = 0.4
MIN_CALLS = 3


def measure_points(
    name: str,
    neighborhood_size: int,
    by_length: Sequence[tuple[int, int]],
    by_width: Sequence[tuple[int, int]],
    whole: bool = False,
) -> list[Point]:
    """Measures points in the given order.

    Lengths must ascend, because memory that stays allocated after a longer sequence would count for a shorter one.
    """
    import_tensorflow()
    sizes = (*by_length, *by_width)
    _seconds(_make_call(CASES[name], LENGTHS[0], sizes[0][1], neighborhood_size, whole))  # one-time allocations
    gc.collect()
    at_start = _resident("VmRSS")
    points = []
    for length, hidden_size in sizes:
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        seconds = _seconds(_make_call(CASES[name], length, hidden_size, neighborhood_size, whole))
        points.append(Point(length, hidden_size, seconds, max(_resident("VmHWM") - at_start, 0)))
    # Time each point again later, because another process may slow down all calls for a point.
    again = [_seconds(_make_call(CASES[name], *size, neighborhood_size, whole)) for size in sizes]
    return [dataclasses.replace(point, seconds=min(point.seconds, other)) for point, other in zip(points, again)]


def _make_call(case: Case, length: int, hidden_size: int, neighborhood_size: int, whole: bool) -> Callable[[], None]:
    layer = make_layer(case.name, hidden_size, neighborhood_size)
    layer.build((None, None, hidden_size))
    x = keras.random.normal((case.batch, length, hidden_size), seed=1)
    mask = tf.ones((case.batch, 1, 1, length), tf.bool)
    if whole or case.name not in ("full", "local"):
        run = tf.function(lambda: layer(x, mask))
    else:
        queries, (keys, values) = layer.heads(x, tf.range(length))
        run = tf.function(lambda: attention_alone(layer, queries, keys, values, mask))
    return lambda: run().numpy()


def make_layer(name: str, hidden_size: int, neighborhood_size: int) -> keras.Layer:
    """Returns an unbuilt layer of table 1, for an encoder."""
    heads = max(hidden_size // HEAD_SIZE, 1)
    if name == "full":
        return SelfAttention(hidden_size, heads, causal=False)
    if name == "local":
        return LocalSelfAttention(hidden_size, heads, False, neighborhood_size)
    if name == "recurrent":
        return Recurrent(hidden_size, causal=False)
    return Convolution(hidden_size, False, KERNEL_SIZE, separable=name == "separable_convolution")


def attention_alone(layer: keras.Layer, queries: Array, keys: Array, values: Array, mask: Array) -> Array:
    """Returns the output of a layer's attention without projections, float [batch, heads, length, size]."""
    if isinstance(layer, LocalSelfAttention):
        return layer.attend_in_blocks(queries, keys, values, mask)
    return attend(queries, keys, values, mask)[0]


def _seconds(call: Callable[[], None]) -> float:
    call()  # traces the graph
    times = []
    while len(times) < MIN_CALLS or sum(times) < SECONDS_OF_CALLS:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def _resident(what: str) -> int:
    """Returns the resident memory of this process in bytes, current (VmRSS) or peak (VmHWM). Linux only."""
    match = re.search(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if match is None:
        raise ValueError(f"/proc/self/status has no {what}")
    return 1024 * int(match[1])
