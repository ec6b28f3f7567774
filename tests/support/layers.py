"""What tests of layers share: random inputs and weights, attention as loops, stepping, graphs of unknown length."""

import math

import numpy as np
import tensorflow as tf

from support.beams import descending_beams
from support.paper import PaperInNumpy
from t2t_lite.layers.beam_ancestry import compact_ancestry, grow_ancestry, initial_ancestry, next_ancestry


def random(*shape, seed=0):
    """Returns normally distributed float32 numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def built(layer, hidden_size):
    """Builds a layer for inputs of that width, gives it random weights, and returns it."""
    layer.build((None, None, hidden_size))
    PaperInNumpy.randomize(layer, seed=7)
    return layer


def attention_by_loops(layer, x, allowed, rotary=False, max_relative_position=0):
    """Returns attention with the layer's matrices for float64 [length, hidden]; `allowed` is bool [length, length].

    A position that may see nothing gets zeros. With relative positions, these are equations 3 and 4 of Shaw et al.
    2018: z_i = sum_j alpha_ij (x_j W^V + a^V_ij), where alpha is the softmax of x_i W^Q (x_j W^K + a^K_ij) / sqrt(d_z).
    """
    matrices = (layer.query, layer.key, layer.value, layer.output_projection)
    query, key, value, output = (np.array(matrix).astype(np.float64) for matrix in matrices)
    key_size, value_size = query.shape[1] // layer.num_heads, value.shape[1] // layer.num_heads
    far = max_relative_position
    of_distance = [np.zeros((2 * far + 1, size)) for size in (key_size, value_size)]
    if far:
        of_distance = [np.array(matrix).astype(np.float64) for matrix in (layer.relative_keys, layer.relative_values)]
    result = np.zeros_like(x)
    for head in range(layer.num_heads):
        of_keys = slice(head * key_size, (head + 1) * key_size)
        of_values = slice(head * value_size, (head + 1) * value_size)
        queries, keys, values = x @ query[:, of_keys], x @ key[:, of_keys], x @ value[:, of_values]
        if rotary:
            queries, keys = _turned(queries), _turned(keys)
        for i in range(len(x)):
            seen = np.flatnonzero(allowed[i])
            if seen.size:
                more_keys, more_values = (matrix[np.clip(seen - i, -far, far) + far] for matrix in of_distance)
                scores = np.exp((keys[seen] + more_keys) @ queries[i] / math.sqrt(key_size))
                result[i] += scores / scores.sum() @ (values[seen] + more_values) @ output[of_values]
    return result


def _turned(x):
    """Channels i and i + size / 2 as one complex number, turned by position * 10000^(-2i / size)."""
    half = x.shape[1] // 2
    turned = np.empty_like(x)
    for position, i in np.ndindex(len(x), half):
        angle = position * 10000.0 ** (-2 * i / x.shape[1])
        number = complex(x[position, i], x[position, i + half]) * complex(math.cos(angle), math.sin(angle))
        turned[position, i], turned[position, i + half] = number.real, number.imag
    return turned


def stepped(layer, x, room=0):
    """Returns the outputs of a causal layer's steps, [rows, length, hidden]; the cache has room for `room` more."""
    cache = layer.start_cache(len(x), 1, x.shape[1] + room)
    outputs = []
    for position, ancestry, _ in descending_beams(len(x), 1, x.shape[1], room=room):
        y, cache = layer.step(x[:, position : position + 1], tf.constant(position), cache, ancestry)
        outputs.append(tf.cast(y, "float32").numpy())
    return np.concatenate(outputs, axis=1)


def assert_follows_its_ancestors(layer, hidden_size, batch=2, beam_size=3, length=11):
    """Asserts that stepping with beams gives each hypothesis the same output as one pass over all its tokens.

    The cache grows twice during the steps; if the layer can, by leaving out the entries that no hypothesis needs.
    """
    vectors = np.random.default_rng(5).normal(size=(10, hidden_size)).astype("float32")
    for compacts in [False, True] if hasattr(layer, "compact_cache") else [False]:
        cache, ancestry, room = layer.start_cache(batch, beam_size, 4), initial_ancestry(batch, beam_size, 4), 4
        for position, full, histories in descending_beams(batch, beam_size, length):
            ancestry = next_ancestry(ancestry, full.parents, position)
            if position == room:
                room += 4
                if compacts:
                    kept = needed_entries(ancestry)
                    assert kept.shape[1] < int(ancestry.place)
                    kept = np.pad(kept, ((0, 0), (0, 4 * beam_size)), constant_values=-1)
                    ancestry = compact_ancestry(ancestry, position, kept, room)
                    cache = layer.compact_cache(cache, kept)
                else:
                    ancestry = grow_ancestry(ancestry, position, room)
                    cache = layer.grow_cache(cache, beam_size, room)
            y, cache = layer.step(vectors[histories[:, :, -1]], tf.constant(position), cache, ancestry)
            whole = layer(vectors[histories].reshape(batch * beam_size, position + 1, hidden_size))
            expected = np.array(whole)[:, -1].reshape(batch, beam_size, hidden_size)
            np.testing.assert_allclose(y, expected, atol=2e-5, err_msg=f"position {position}, {compacts=}")


def needed_entries(ancestry):
    """The entries before the current position that some hypothesis needs; the rest of a row are others, in order."""
    needed = np.array(ancestry.entries)[:, :, : int(ancestry.place)].any(1)
    count = needed.sum(1).max()
    rows = [sorted([*np.flatnonzero(row), *np.flatnonzero(~row)][:count]) for row in needed]
    return np.array(rows, "int32")


def traced(layer, hidden_size):
    """Returns a layer's call as a graph with unknown batch size and length."""
    ids, mask = tf.TensorSpec((None, None, hidden_size), tf.float32), tf.TensorSpec((None, 1, 1, None), tf.bool)
    return tf.function(lambda x, padding_mask: layer(x, padding_mask), input_signature=[ids, mask])
