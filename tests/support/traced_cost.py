"""The operations of any model, from the traced graph of a forward pass: the reference for `t2t_lite.cost`.

The graph uses placeholders for the weights, so nothing is allocated.
"""

import math

import keras
import tensorflow as tf

from t2t_lite.layers.dropout import KerasSeeds
from t2t_lite.models.base import Seq2SeqModel

_ROWS = 2  # the number of sentences in the graph
_CALLS = {"PartitionedCall": "f", "StatefulPartitionedCall": "f"}
_LOOPS = ("While", "StatelessWhile")


def traced_step_flops(model: Seq2SeqModel, source_length: int, target_length: int) -> float:
    """Returns the number of operations per sentence pair in a training step of a built model, even without values."""
    return 3 * 2 * _products(_trace(model, source_length, target_length)) / _ROWS


def _trace(model: Seq2SeqModel, source: int, target: int) -> tf.Graph:
    """Returns the graph of the logits for `_ROWS` sentence pairs of these lengths."""
    # Created here, because a graph cannot create it.
    seeds = KerasSeeds(keras.random.SeedGenerator(1))
    variables = model.variables

    def forward(inputs: tf.Tensor, targets: tf.Tensor, *values: tf.Tensor) -> tf.Tensor:
        with keras.StatelessScope(state_mapping=list(zip(variables, values))):
            return model(inputs, targets, seeds=seeds)

    pairs = [tf.TensorSpec((_ROWS, length), tf.int32) for length in (source, target)]
    weights = [tf.TensorSpec(variable.shape, variable.dtype) for variable in variables]
    return tf.function(forward, autograph=False).get_concrete_function(*pairs, *weights).graph


def _products(graph: tf.Graph) -> float:
    """Returns the number of multiplications; a loop's body counts once per iteration."""
    total = 0.0
    for operation in graph.get_operations():
        if operation.type in _LOOPS:
            body = _function(graph, operation.get_attr("body").name)
            total += _rounds(operation) * _products(body)
        elif operation.type in _CALLS:
            total += _products(_function(graph, operation.get_attr(_CALLS[operation.type]).name))
        else:
            total += _count_products(operation)
    return total


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
