"""Sizes of arrays: known ones as ints, others as few operations of a graph."""

import tensorflow as tf

from t2t_lite.layers.ops import dynamic_shape


def test_known_sizes_are_ints_and_unknown_ones_are_those_of_the_run():
    @tf.function(input_signature=[tf.TensorSpec([None, 4, None])], autograph=False)
    def sizes(x):
        batch, known, length = dynamic_shape(x)
        assert type(known) is int
        return batch, length

    assert [int(size) for size in sizes(tf.zeros([3, 4, 5]))] == [3, 5]
    assert list(dynamic_shape(tf.zeros([3, 4, 5]))) == [3, 4, 5]
    made = [node.op for node in sizes.get_concrete_function().graph.as_graph_def().node]
    assert sorted(set(made) - {"Placeholder", "Identity", "NoOp"}) == ["Shape", "Unpack"]
