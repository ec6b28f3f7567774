"""One global batch on any devices: commands as a user gives them, on Multi30k without dropout."""

import json
import re
import signal
import socket
import time

import numpy as np
import pytest
from support.commands import start_process

from t2t_lite import checkpoint_files
from t2t_lite.run_dir import list_checkpoints

# The rate rises fast enough that the parameters that are compared have moved, and not so fast that Adam makes much of
# the rounding of gradients that are nearly 0.
HPARAMS = (
    "hidden_size=32,filter_size=64,num_heads=2,num_encoder_layers=1,num_decoder_layers=1,residual_dropout=0,"
    "batch_tokens=1024,learning_rate_warmup_steps=400"
)
FLAGS = (
    "--problem=multi30k_ende",
    "--hparams_set=transformer_multi30k",
    "--train_steps=10",
    "--save_checkpoints_steps=10",
    "--schedule=train",
    "--peak_tflops=1",
)


def trainer(data_dir, output_dir, *flags, hparams=HPARAMS):
    return ("trainer", *FLAGS, f"--hparams={hparams}", f"--data_dir={data_dir}", f"--output_dir={output_dir}", *flags)


def start(*arguments, tf_config=None):
    """Starts the trainer in a process, whose devices are its own."""
    return start_process(*trainer(*arguments), environment={"TF_CONFIG": tf_config} if tf_config else {})


def finish(*processes):
    outputs = [process.communicate(timeout=600)[0] for process in processes]
    for process, output in zip(processes, outputs):
        assert process.returncode == 0, output
    return outputs


def parameters(output_dir, step=10):
    return checkpoint_files.read(output_dir / f"ckpt-{step}", "model")


@pytest.fixture(scope="module")
def one_device(multi30k_data, command, shared_folders):
    """The parameters after ten steps on one device that holds the whole batch."""

    def make(output_dir):
        result = command(*trainer(multi30k_data, output_dir, "--max_tokens_per_replica=100000"))
        assert result.returncode == 0, result.stderr
        assert "1 device," in result.stdout

    return parameters(shared_folders.get("one_device", make))


@pytest.fixture(scope="module")
def at_first(multi30k_data, command, tmp_path_factory):
    """The parameters before the first step: after one whose rate is next to nothing."""
    output_dir = tmp_path_factory.mktemp("devices") / "first"
    hparams = HPARAMS + ",learning_rate_constant=1e-20"
    result = command(*trainer(multi30k_data, output_dir, "--train_steps=1", hparams=hparams))
    assert result.returncode == 0, result.stderr
    return parameters(output_dir, 1)


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5, err_msg=name)
    size = np.sqrt(sum(np.linalg.norm(array) ** 2 for array in expected.values()))
    distance = np.sqrt(sum(np.linalg.norm(found[name] - array) ** 2 for name, array in expected.items()))
    assert distance <= 1e-5 * size


@pytest.mark.slow
def test_the_parameters_that_are_compared_have_moved_far(one_device, at_first):
    moved = {name: np.abs(array - at_first[name]).max() for name, array in one_device.items()}
    assert min(moved.values()) > 1e-3


@pytest.mark.slow
def test_eight_devices_make_the_parameters_of_one(multi30k_data, one_device, tmp_path):
    (output,) = finish(start(multi30k_data, tmp_path, "--virtual_devices=8"))
    assert "8 devices," in output
    assert_same(parameters(tmp_path), one_device)


@pytest.mark.slow
def test_four_accumulation_steps_make_the_parameters_of_one(multi30k_data, one_device, command, tmp_path):
    result = command(*trainer(multi30k_data, tmp_path, "--max_tokens_per_replica=280"))
    assert result.returncode == 0, result.stderr
    assert_same(parameters(tmp_path), one_device)


@pytest.fixture
def tf_configs(command):
    """TF_CONFIG of two workers on this machine, as the trainer prints it."""
    addresses = []
    for _ in range(2):
        with socket.socket() as free:
            free.bind(("localhost", 0))
            addresses.append(f"localhost:{free.getsockname()[1]}")
    printed = command("trainer", f"--make_tf_config={','.join(addresses)}").stdout
    configs = re.findall(r"export TF_CONFIG='(.*)'", printed)
    assert [json.loads(config)["task"]["index"] for config in configs] == [0, 1]
    return configs


@pytest.mark.slow
def test_two_workers_of_two_devices_make_the_parameters_of_one(multi30k_data, one_device, tf_configs, tmp_path):
    outputs = finish(
        *(start(multi30k_data, tmp_path, "--virtual_devices=2", tf_config=config) for config in tf_configs)
    )
    assert "4 devices," in outputs[0]
    assert outputs[1] == ""  # the chief alone speaks, and writes
    assert_same(parameters(tmp_path), one_device)


@pytest.mark.slow
def test_a_signal_to_one_worker_stops_all_and_they_go_on(multi30k_data, one_device, tf_configs, tmp_path):
    flags = ("--save_checkpoints_steps=2", "--log_step_count_steps=1")
    workers = [start(multi30k_data, tmp_path, *flags, tf_config=config) for config in tf_configs]
    while not list_checkpoints(tmp_path):
        assert all(worker.poll() is None for worker in workers), [worker.communicate() for worker in workers]
        time.sleep(0.001)
    workers[1].send_signal(signal.SIGTERM)
    outputs = [worker.communicate(timeout=600)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [128 + signal.SIGTERM] * 2, outputs
    assert "stopped by a signal to another worker after step" in outputs[0]
    last = list_checkpoints(tmp_path)[-1][0]
    assert last < 10
    outputs = finish(*(start(multi30k_data, tmp_path, *flags, tf_config=config) for config in tf_configs))
    assert f"going on from {tmp_path / f'ckpt-{last}'}" in outputs[0]
    assert_same(parameters(tmp_path), one_device)
