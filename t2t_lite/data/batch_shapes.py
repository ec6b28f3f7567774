"""Batches with few shapes, because XLA compiles a step for each shape. Pairs go to the smallest shape that fits."""

import heapq
import itertools

import numpy as np

# Compiling a step takes about a minute per shape on a GPU; more shapes reduce padding.
MOST_SHAPES = 40
# At least this many batches per shape on average, because a shape's leftover pairs are padded to a larger shape.
_BATCHES_OF_SHAPE = 3
# Rows are a multiple of this, so that 2, 4 or 8 devices get equal shares; small batches may have any number.
_ROWS = 8


def learn_batch_shapes(lengths: np.ndarray, batch_tokens: int, longest: int, batches: int) -> np.ndarray:
    """Returns batch shapes in ascending order, int64 [shapes, 3]: inputs length, targets length, rows.

    The pairs are repeatedly divided in two by length, each time where this saves the most padding; each part gets a
    shape. A batch of any shape has about `batch_tokens` target tokens, without padding. The last shape fits the longest
    pairs. `lengths` are those of a sample of pairs, int64 [2, pairs]; `longest` is the longest side in all pairs.
    `batches` is the number per window of pairs; fewer batches get fewer shapes.
    """
    most = min(MOST_SHAPES - 1, max(batches // _BATCHES_OF_SHAPE, 1))
    numbers = itertools.count()  # breaks ties, so that arrays are never compared
    parts = [(-_division(lengths)[0], next(numbers), lengths)]
    while len(parts) < most and parts[0][0] < 0:
        part = heapq.heappop(parts)[2]
        is_short = _division(part)[1]
        for half in (part[:, is_short], part[:, ~is_short]):
            heapq.heappush(parts, (-_division(half)[0], next(numbers), half))
    boxes = {tuple(part.max(axis=1, initial=1).tolist()) for *_, part in parts} | {(longest, longest)}
    shapes = np.array(sorted(boxes, key=lambda box: (sum(box), box)))
    shape_of = smallest_shapes(lengths, shapes)
    tokens = np.bincount(shape_of, lengths[1], len(shapes))
    means = np.where(tokens > 0, tokens / np.maximum(np.bincount(shape_of, minlength=len(shapes)), 1), shapes[:, 1])
    rows = np.maximum(batch_tokens / means, 1)
    rows = np.where(rows < 4 * _ROWS, np.floor(rows), np.round(rows / _ROWS) * _ROWS)
    return np.concatenate([shapes, rows[:, None].astype(np.int64)], axis=1)


def _division(lengths: np.ndarray) -> tuple[int, np.ndarray]:
    """Returns (positions saved by the best division in two, mask of the pairs in the shorter part, bool [pairs])."""
    pairs = lengths.shape[1]
    best = (0, np.ones(pairs, bool))
    for side in lengths:
        order = np.argsort(side, kind="stable")
        ascending = lengths[:, order]
        short = np.maximum.accumulate(ascending, axis=1).sum(axis=0)
        long = np.maximum.accumulate(ascending[:, ::-1], axis=1)[:, ::-1].sum(axis=0)
        before = np.flatnonzero(np.diff(side[order]))  # the last pair of each length except the longest
        if not len(before):
            continue
        saved = short[-1] * pairs - short[before] * (before + 1) - long[before + 1] * (pairs - before - 1)
        if saved.max() > best[0]:
            best = (int(saved.max()), side <= side[order[before[saved.argmax()]]])
    return best


def smallest_shapes(lengths: np.ndarray, shapes: np.ndarray) -> np.ndarray:
    """Returns the index of the first shape that fits each pair, int64 [pairs]."""
    shape_of = np.full(lengths.shape[1], len(shapes) - 1)
    for index in reversed(range(len(shapes) - 1)):
        shape_of[(lengths[0] <= shapes[index, 0]) & (lengths[1] <= shapes[index, 1])] = index
    return shape_of


def fill_shapes(lengths: np.ndarray, draws: np.ndarray, shapes: np.ndarray) -> tuple[np.ndarray, ...]:
    """Returns (the order of pairs, the number of pairs in each batch, the index of each batch's shape), all int64.

    Each pair goes to the smallest shape that fits it. Pairs that do not fill a batch move on to the next larger shape,
    so only batches of the last shape may have fewer rows. `lengths` is int64 [2, pairs]; `draws`, int64 [pairs], orders
    the pairs of the same shape.
    """
    smallest = smallest_shapes(lengths, shapes)
    order = np.lexsort((draws, smallest))
    waiting = np.split(order, np.searchsorted(smallest[order], np.arange(1, len(shapes))))
    batches, shape_of = [], []
    for index, (inputs, targets, rows) in enumerate(shapes):
        pairs = waiting[index]
        larger = np.flatnonzero((shapes[:, 0] >= inputs) & (shapes[:, 1] >= targets))
        larger = larger[larger > index]
        number = len(pairs) // rows if len(larger) else -(-len(pairs) // rows)
        if len(larger):
            waiting[larger[0]] = np.concatenate([waiting[larger[0]], pairs[number * rows :]])
            pairs = pairs[: number * rows]
        batches += np.array_split(pairs, number) if number else []
        shape_of += [index] * number
    sizes = np.array([len(batch) for batch in batches], np.int64)
    return np.concatenate([np.zeros(0, np.int64), *batches]), sizes, np.array(shape_of, np.int64)
