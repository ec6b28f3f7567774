"""The paper's estimates to their printed digits; the count against the operations of the model's graph."""

import math

import pytest
import tensorflow as tf

from t2t_lite.config import HParams, choices
from t2t_lite.hparams.paper_figures import PAPER_FIGURES
from t2t_lite.models.transformer import Transformer
from t2t_lite.registry import HPARAMS
from t2t_lite.training.cost import SUSTAINED_TFLOPS, estimated_flops, forward_flops, training_step_flops

VOCAB = 23
# All sizes differ, so that none can be confused; lengths are multiples of all blocks of `local`.
SOURCE_LENGTH, TARGET_LENGTH = 12, 8
SMALL = HParams(
    num_encoder_layers=2,
    num_decoder_layers=3,
    hidden_size=16,
    filter_size=22,
    num_heads=2,
    attention_key_size=6,
    attention_value_size=10,
    neighborhood_size=4,
    kernel_size=5,
    parameter_heads=3,
    parameter_head_size=14,
    parameter_pairs=7,
)
CHANGES = [
    *({name: word} for name, words in choices().items() if name != "precision" for word in words),
    {"self_attention_type": "local", "position_encoding": "rotary"},
    {"self_attention_type": "convolution", "dilation_growth": 2},
    {"attention_key_size": 0, "attention_value_size": 0},
]


@pytest.mark.parametrize(("hparams_set", "days", "printed"), [("base", 0.5, "3.3e+18"), ("big", 3.5, "2.3e+19")])
def test_estimates_match_table_2_to_the_printed_digit(hparams_set, days, printed):
    assert f"{estimated_flops(days * 24 * 3600, 8, SUSTAINED_TFLOPS['P100']):.1e}" == printed
    figures = PAPER_FIGURES[f"transformer_{hparams_set}"]
    assert (figures.training_hours, f"{figures.training_flops:.1e}") == (days * 24, printed)


def test_the_step_time_is_rounded_in_the_paper_and_gives_another_estimate():
    base, big = (PAPER_FIGURES[f"transformer_{name}"] for name in ("base", "big"))
    for figures in (base, big):
        assert round(figures.training_hours * 3600 / figures.train_steps, 1) == figures.step_seconds
    assert f"{estimated_flops(base.step_seconds * base.train_steps, 8, SUSTAINED_TFLOPS['P100']):.1e}" == "3.0e+18"


def product_flops(operation):
    """Operations of one node of a graph: two for each product of two numbers; None if it has no such products."""
    shapes = [tensor.shape for tensor in operation.inputs]
    made = operation.outputs[0].shape.num_elements() if operation.outputs else None
    if operation.type == "MatMul":
        return 2 * made * shapes[0][0 if operation.get_attr("transpose_a") else 1]
    if operation.type in ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"):
        return 2 * made * shapes[0][-2 if operation.get_attr("adj_x") else -1]
    if operation.type == "Conv2D":
        return 2 * made * math.prod(shapes[1][:3])  # a kernel is [height, width, channels in, channels out]
    if operation.type == "DepthwiseConv2dNative":
        return 2 * made * math.prod(shapes[1][:2])  # [height, width, channels, multiplier]
    return None


UNCOUNTED_PRODUCTS = ("Einsum", "Conv3D", "XlaDot", "XlaDotV2", "SparseMatMul", "Conv", "XlaConvV2")


def rounds_of(loop):
    """The number of iterations of a loop that takes one token of a tensor at a time."""
    tokens = {tensor.op.inputs[0].shape[0] for tensor in loop.inputs if tensor.op.type == "TensorListFromTensor"}
    (rounds,) = tokens
    return rounds


def graph_flops(graph, find):
    """Sums the products of a graph; the body of a loop counts once per iteration."""
    total = 0
    for operation in graph.get_operations():
        assert operation.type not in UNCOUNTED_PRODUCTS
        if operation.type in ("While", "StatelessWhile"):
            total += rounds_of(operation) * graph_flops(find(operation.get_attr("body").name), find)
        elif operation.type in ("PartitionedCall", "StatefulPartitionedCall"):
            total += graph_flops(find(operation.get_attr("f").name), find)
        else:
            total += product_flops(operation) or 0
    return total


def traced_flops(hparams):
    """Operations of the forward pass of one pair, in the graph of a built model."""
    model = Transformer(hparams, VOCAB)
    model.build()
    lengths = (SOURCE_LENGTH, TARGET_LENGTH)
    graph = tf.function(model).get_concrete_function(*(tf.TensorSpec([1, n], tf.int32) for n in lengths)).graph
    return graph_flops(graph, lambda name: graph._get_function(name).graph)


@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: ",".join(f"{k}={v}" for k, v in changes.items()))
def test_counted_flops_equal_those_of_the_traced_graph(changes):
    hparams = SMALL.replace(**changes)
    assert sum(forward_flops(hparams, VOCAB, SOURCE_LENGTH, TARGET_LENGTH).values()) == traced_flops(hparams)


def test_local_attention_is_counted_in_whole_blocks():
    hparams = SMALL.replace(self_attention_type="local")
    whole, part = (forward_flops(hparams, VOCAB, length, length)["decoder self-attention"] for length in (8, 7))
    projections = hparams.num_decoder_layers * 2 * 2 * SMALL.hidden_size * SMALL.num_heads * (6 + 10)
    assert whole - part == projections  # of one position: its scores are computed for the whole block


def test_local_attention_saves_work_on_long_sequences():
    full, local = (SMALL.replace(self_attention_type=word) for word in ("full", "local"))
    parts = [forward_flops(hparams, VOCAB, 800, 800) for hparams in (full, local)]
    for part in ("encoder self-attention", "decoder self-attention"):
        assert parts[1][part] < parts[0][part] / 10
    for part in ("decoder cross-attention", "logits"):
        assert parts[1][part] == parts[0][part]


def test_a_step_is_three_forward_passes_of_all_its_pairs():
    hparams = SMALL.replace(batch_tokens=800)
    forward = forward_flops(hparams, VOCAB, SOURCE_LENGTH, TARGET_LENGTH)
    step = training_step_flops(hparams, VOCAB, SOURCE_LENGTH, TARGET_LENGTH)
    assert step == {part: 3 * 100 * count for part, count in forward.items()}  # 100 pairs of 8 target tokens


def test_the_base_model_needs_about_six_operations_per_parameter_and_token():
    # Every parameter needs one multiply-add forward and two backward per token.
    hparams = HPARAMS["transformer_base"]()
    matrices = 37_000 * 512 + 6 * (12 * 512 * 512 + 4 * 512 * 2048)
    counted = sum(training_step_flops(hparams, 37_000, 28, 28).values())
    assert 1.0 < counted / (6 * matrices * 25_000) < 1.02
