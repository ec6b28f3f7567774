"""The cost of any model, from the traced graph of a training step: the reference for `t2t_lite.cost`.

The graph uses placeholders for the weights, so nothing is allocated. Memory is simulated: operations run in graph
order, and a tensor lives until its last use. Two batch sizes are simulated, to separate the memory that grows with the
number of sentences from the memory that does not.
"""

import math
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import keras
import tensorflow as tf

from t2t_lite.arrays import Array
from t2t_lite.cost import FLOAT32, MIB, StepBytes
from t2t_lite.layers.cross_entropy import largest_chunk
from t2t_lite.layers.dropout import KerasSeeds
from t2t_lite.layers.ops import ops
from t2t_lite.models.base import Seq2SeqModel

# The numbers of sentences in the two graphs.
_ROWS = (2, 4)
# The memory of the graph and kernels of an operation and of a loop, measured on a CPU.
_BYTES_OF_AN_OPERATION = 32 * 1024
_BYTES_OF_A_LOOP = 8 * MIB
# The memory of a step without oneDNN, relative to the simulated tensors. For a plug-in's model, measured peaks were
# 1.25 to 1.6 times an estimate without this factor (20 steps, five processes on two processors); with oneDNN, they were
# 0.9 to 1.02 times the estimate.
_WITHOUT_ONEDNN = 1.5
# Processor features for which TensorFlow uses oneDNN, unless TF_ENABLE_ONEDNN_OPTS overrides it.
_ONEDNN_FEATURES = re.compile(r"\b(avx512_vnni|avx512_bf16|avx_vnni|amx_tile)\b")
# Operations whose outputs share the buffers of their inputs.
_ALIASES = frozenset({"Identity", "Reshape", "Squeeze", "ExpandDims", "StopGradient", "IdentityN", "Bitcast"})
_CALLS = {"PartitionedCall": "f", "StatefulPartitionedCall": "f"}
_LOOPS = ("While", "StatelessWhile")


def traced_step_flops(model: Seq2SeqModel, source_length: float, target_length: float) -> dict[str, float]:
    """Returns the number of operations per sentence pair in a training step, by top-level layer.

    Args:
      model: a built model; its variables may have no values.
      source_length, target_length: average tokens per sentence; tracing rounds them up.
    """
    rows = _ROWS[0]
    lengths = [max(math.ceil(length), 1) for length in (source_length, target_length)]
    parts: dict[str, float] = {}
    for name, products in _products(_trace(model, rows, *lengths, backward=False)[0]):
        part = _top_level_layer(name, model.name)
        parts[part] = parts.get(part, 0) + 3 * 2 * products / rows
    share = source_length + target_length  # undoes the rounding of the lengths
    return {part: count * share / sum(lengths) for part, count in parts.items()}


def traced_step_bytes(model: Seq2SeqModel, length: int) -> StepBytes:
    """Returns the memory of a training step, except weights and their gradients.

    Args:
      model: a built model; its variables may have no values.
      length: the number of tokens on each side of every sentence pair.
    """
    graphs, in_chunks = zip(*(_trace(model, rows, length, length, backward=True) for rows in _ROWS))
    peaks = [_peak_bytes(graph) for graph in graphs]
    per_row = (peaks[1] - peaks[0]) / (_ROWS[1] - _ROWS[0])
    operations = graphs[0].get_operations()
    loops = sum(operation.type in _LOOPS for operation in operations)
    of_chunk = largest_chunk(model.hparams.hidden_size) * model.vocab_size * 4 * FLOAT32 if in_chunks[0] else 0
    return StepBytes(
        kept=(1.0 if _has_onednn() else _WITHOUT_ONEDNN) * per_row / length,
        shared=max(peaks[0] - _ROWS[0] * per_row, 0.0) + of_chunk,
        graph=32 * MIB + len(operations) * _BYTES_OF_AN_OPERATION + loops * _BYTES_OF_A_LOOP,
    )


def _has_onednn() -> bool:
    """Returns whether TensorFlow computes with oneDNN on this processor."""
    if chosen := os.environ.get("TF_ENABLE_ONEDNN_OPTS"):
        return chosen != "0"
    try:
        return bool(_ONEDNN_FEATURES.search(Path("/proc/cpuinfo").read_text(encoding="utf-8")))
    except OSError:
        return False


def _trace(model: Seq2SeqModel, rows: int, source: int, target: int, backward: bool) -> tuple[tf.Graph, bool]:
    """Returns the graph of the loss, and of gradients if `backward`, for `rows` sentence pairs of these lengths.

    The graph with gradients has no logits if the model returns their factors. Also returns whether this is so.
    """
    # Created here, because a graph cannot create it.
    seeds = KerasSeeds(keras.random.SeedGenerator(1))
    variables = model.variables
    in_chunks = False

    def step(inputs: tf.Tensor, targets: tf.Tensor, *values: tf.Tensor) -> list[tf.Tensor]:
        nonlocal in_chunks
        trainable = [value for value, variable in zip(values, variables) if variable.trainable]
        with keras.StatelessScope(state_mapping=list(zip(variables, values))), tf.GradientTape() as tape:
            for value in trainable:
                tape.watch(value)
            factors = model.factors_of_logits(inputs, targets, seeds) if backward else None
            in_chunks = factors is not None
            if factors is None:
                loss = _loss(model(inputs, targets, seeds=seeds))
            else:  # stands for `linear_cross_entropy`, which has the logits of one chunk only
                loss = ops.sum(ops.cast(factors[0], "float32") * ops.mean(factors[1], axis=0))
        gradients = tape.gradient(loss, trainable) if backward else [loss]
        return [tf.convert_to_tensor(gradient) for gradient in gradients if gradient is not None]

    pairs = [tf.TensorSpec((rows, length), tf.int32) for length in (source, target)]
    weights = [tf.TensorSpec(variable.shape, variable.dtype) for variable in variables]
    return tf.function(step, autograph=False).get_concrete_function(*pairs, *weights).graph, in_chunks


@ops.custom_gradient
def _loss(logits: Array) -> tuple[Array, Callable[..., Array]]:
    """Returns a sum whose graph has the same tensors as the training loss, but other values."""
    softmax = ops.softmax(ops.cast(logits, "float32"))

    def grad(*upstream: Array) -> Array:
        scaled = (softmax - 0.1) * upstream[0]
        return ops.cast(scaled - softmax, logits.dtype)

    return ops.sum(ops.log(ops.max(softmax, axis=-1))), grad


# Operations.


def _products(graph: tf.Graph, times: int = 1, name: str = "") -> Iterable[tuple[str, float]]:
    """Yields (name of the operation, multiplications); a loop's body counts once per iteration."""
    for operation in graph.get_operations():
        called = name or operation.name
        if operation.type in _LOOPS:
            body = _function(graph, operation.get_attr("body").name)
            yield from _products(body, times * _rounds(operation), called)
        elif operation.type in _CALLS:
            yield from _products(_function(graph, operation.get_attr(_CALLS[operation.type]).name), times, called)
        elif products := _count_products(operation):
            yield called, times * products


def _count_products(operation: tf.Operation) -> float:
    shapes = [[size or 0 for size in tensor.shape.as_list()] for tensor in operation.inputs if tensor.shape.rank]
    made = (operation.outputs[0].shape.num_elements() if operation.outputs else 0) or 0
    if operation.type == "MatMul":
        return made * shapes[0][0 if operation.get_attr("transpose_a") else 1]
    if operation.type in ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"):
        return made * shapes[0][-2 if operation.get_attr("adj_x") else -1]
    if operation.type == "Conv2D":
        return made * math.prod(shapes[1][:3])  # a kernel is [height, width, channels in, channels out]
    if operation.type == "DepthwiseConv2dNative":
        return made * math.prod(shapes[1][:2])
    if operation.type == "Einsum":
        labels = operation.get_attr("equation").decode().partition("->")[0].split(",")
        sizes = {label: size for word, shape in zip(labels, shapes) for label, size in zip(word, shape)}
        return math.prod(sizes.values())
    return 0


def _function(graph: tf.Graph, name: str) -> tf.Graph:
    # TensorFlow has no public function for this; tests/training/test_cost.py covers it.
    return graph._get_function(name).graph  # pyright: ignore[reportAttributeAccessIssue]


def _rounds(loop: tf.Operation) -> int:
    """Returns the number of iterations of a loop that reads a tensor one entry at a time."""
    sizes = [tensor.op.inputs[0].shape[0] for tensor in loop.inputs if tensor.op.type == "TensorListFromTensor"]
    return sizes[0] if sizes and sizes[0] else 1


def _top_level_layer(name: str, model_name: str) -> str:
    """Returns the top-level layer of an operation, without its number."""
    parts = [re.sub(r"(_\d+)+$", "", part) for part in name.split("/")]
    inside = parts[parts.index(model_name) + 1 : -1] if model_name in parts else []
    return inside[0] if inside else model_name


# Memory.


def _peak_bytes(graph: tf.Graph) -> int:
    """Returns the largest sum of live tensors, except the arguments and results of the graph."""
    operations = _in_order(graph)
    root: dict[str, str] = {}
    last_use: dict[str, int] = {}
    for index, operation in enumerate(operations):
        sources = [root[tensor.name] for tensor in operation.inputs]
        for source in sources:
            last_use[source] = index
        for number, tensor in enumerate(operation.outputs):
            aliased = operation.type in _ALIASES and number < len(sources)
            root[tensor.name] = sources[number] if aliased else tensor.name
    uncounted = {root[tensor.name] for tensor in (*graph.inputs, *graph.outputs)}
    ending: dict[int, list[int]] = {}
    live = peak = 0
    for index, operation in enumerate(operations):
        for tensor in operation.outputs:
            if root[tensor.name] == tensor.name and tensor.name not in uncounted and operation.type != "Const":
                size = _size(tensor)
                live += size
                ending.setdefault(last_use.get(tensor.name, index), []).append(size)
        peak = max(peak, live)
        live -= sum(ending.pop(index, ()))
    return peak


def _in_order(graph: tf.Graph) -> list[tf.Operation]:
    """Returns the operations in creation order, but each after its inputs, which a loop may get after its creation."""
    ordered, done = [], set()
    for operation in graph.get_operations():
        stack = [operation]
        while stack:
            missing = [tensor.op for tensor in stack[-1].inputs if tensor.op.name not in done]
            if missing:
                stack += missing
                continue
            last = stack.pop()
            if last.name not in done:
                done.add(last.name)
                ordered.append(last)
    return ordered


def _size(tensor: tf.Tensor) -> int:
    """Returns the bytes of a tensor; for a list that a loop collects, the bytes of its entries."""
    if tensor.dtype.is_numpy_compatible and tensor.shape.rank is not None:
        return (tensor.shape.num_elements() or 0) * tensor.dtype.size
    if tensor.op.type not in _LOOPS:
        return 0
    body = _function(tensor.graph, tensor.op.get_attr("body").name)
    pushed = body.outputs[tensor.value_index].op
    if pushed.type not in ("TensorListPushBack", "TensorListSetItem"):
        return 0
    return _rounds(tensor.op) * _size(pushed.inputs[-1])
