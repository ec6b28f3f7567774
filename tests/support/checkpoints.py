"""What is in checkpoints."""

import numpy as np
import tensorflow as tf


def everything(path):
    """The content of a checkpoint: weights, optimizer state and position in the data."""
    reader = tf.train.load_checkpoint(str(path))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map() if "OBJECT_GRAPH" not in name}


def assert_same_content(found, expected, tolerance=0.0):
    """Checks that two dicts of arrays, or the checkpoints at two paths, are the same, bit for bit or nearly."""
    found, expected = (each if isinstance(each, dict) else everything(each) for each in (found, expected))
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, atol=tolerance, rtol=tolerance, err_msg=name)
