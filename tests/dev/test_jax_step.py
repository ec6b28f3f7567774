"""Steps under JAX against those of the trainer; JAX runs in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from t2t_lite.registry import HPARAMS

pytest.importorskip("jax", reason="needs jax (pip install -e '.[dev]')")

STEPS = 10
SIZES = {"num_encoder_layers": 1, "num_decoder_layers": 2, "hidden_size": 32, "filter_size": 64, "num_heads": 2}


def settings(rate):
    return HPARAMS["transformer_tiny"]().replace(**SIZES, residual_dropout=rate, attention_dropout=rate)


def under_jax(folder, devices):
    """Runs this file under JAX, which reads and writes files of the folder, and loads no TensorFlow."""
    environment = os.environ | {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    environment["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
    environment["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    command = [sys.executable, __file__, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "no-tensorflow"


def real_batches(multi30k_data, folder):
    """Batches of Multi30k in the file that a machine without TensorFlow reads."""
    from dev.accelerator.stored_batches import read_batches, write_batches

    file = folder / "batches.npz"
    write_batches("multi30k_ende", Path(multi30k_data), file, number=STEPS, rows=16)
    batches = read_batches(file)
    ends = (batches.targets == 1).sum(axis=2)
    assert (ends == 1).all()  # a pair a row, with its end symbol
    # The trainer cuts off columns of padding, and the numbers of dropout depend on the width.
    batches.inputs[:, 0] = batches.targets[:, 0] = 7
    return batches


def trained_with_tensorflow(rate, batches):
    """Returns the weights before and after the steps, by path, and the losses."""
    import tensorflow as tf

    from t2t_lite.training.devices import make_strategy
    from t2t_lite.training.micro_batching import MicroBatches, distribute_batches
    from t2t_lite.training.step import TrainStep, build_model

    strategy = make_strategy()
    model, optimizer = build_model(settings(rate), batches.vocab_size, strategy, 1, batches.vocab_size)

    def weights():
        return {variable.path: variable.numpy() for variable in model.trainable_variables}

    before = weights()
    data = tf.data.Dataset.from_tensor_slices({"inputs": batches.inputs, "targets": batches.targets})
    data = distribute_batches(strategy, data, MicroBatches(10_000, num_parallel=1))
    step = TrainStep(strategy, model, optimizer, data.element_spec, 1)
    sums = [step(batch).sums for batch in data]
    return before, weights(), [float(each.smoothed / each.tokens) for each in sums]


@pytest.mark.heavy
def test_ten_steps_of_multi30k_give_the_weights_of_the_trainer(multi30k_data, tmp_path):
    rate, batches = 0.1, real_batches(multi30k_data, tmp_path)
    assert batches.inputs.shape == batches.targets.shape == (STEPS, 16, 32)
    before, after, losses = trained_with_tensorflow(rate, batches)
    np.savez(tmp_path / "before.npz", **before)
    np.savez(tmp_path / "given.npz", inputs=batches.inputs, targets=batches.targets, vocab_size=batches.vocab_size)
    (tmp_path / "rate").write_text(str(rate))
    under_jax(tmp_path, devices=4)
    with np.load(tmp_path / "after.npz") as found:
        assert max(np.abs(after[path] - before[path]).max() for path in after) > 3e-4  # they have moved
        for path in after:
            np.testing.assert_allclose(found[path], after[path], atol=1e-5)
        np.testing.assert_allclose(found["losses"], losses, rtol=1e-5)


def _steps(folder):
    """Under JAX: the steps of the folder's batches from its weights."""
    from dev.accelerator.jax_training import Steps
    from t2t_lite.models.building import make_model

    with np.load(folder / "given.npz") as given:
        inputs, targets, size = given["inputs"], given["targets"], int(given["vocab_size"])
    model = make_model(settings(float((folder / "rate").read_text())), size, size)
    with np.load(folder / "before.npz") as before:
        for variable in model.trainable_variables:
            variable.assign(before[variable.path])
    steps = Steps(model, 1, max_chunk=100)
    state, first = steps(steps.start(), inputs[:4], targets[:4])  # a call of four steps, and one of six
    state, second = steps(state, inputs[4:], targets[4:])
    weights = {variable.path: weight for variable, weight in zip(model.trainable_variables, state.weights)}
    np.savez(folder / "after.npz", losses=np.concatenate([first, second])[:, 0], **weights)


if __name__ == "__main__":
    from t2t_lite.plugins import load_all

    load_all()
    _steps(Path(sys.argv[1]))
    print("tensorflow" if "tensorflow" in sys.modules else "no-tensorflow")
