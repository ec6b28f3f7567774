"""Packs gradients into a few long vectors, so that sums, norm and exchange between devices take few operations."""

import math
from collections.abc import Sequence

import tensorflow as tf

# The size is large enough that exchanging a vector takes much longer than starting the exchange.
_PACK_BYTES = 64 * 2**20


class GradientPacks:
    """Packs float32 gradients of given shapes into vectors of about 64 MiB, in order."""

    def __init__(self, shapes: Sequence[Sequence[int]]) -> None:
        self._shapes = [tuple(shape) for shape in shapes]
        self._sizes = [math.prod(shape) for shape in self._shapes]
        self._groups: list[range] = []
        start = size = 0
        for end, more in enumerate(self._sizes, start=1):
            size += 4 * more
            if size >= _PACK_BYTES or end == len(self._sizes):
                self._groups.append(range(start, end))
                start, size = end, 0

    def pack(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        return [tf.concat([tf.reshape(gradients[index], [-1]) for index in group], 0) for group in self._groups]

    def unpack(self, packs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        gradients = []
        for group, pack in zip(self._groups, packs):
            parts = tf.split(pack, [self._sizes[index] for index in group])
            gradients += [tf.reshape(part, self._shapes[index]) for index, part in zip(group, parts)]
        return gradients
