"""The same global batch on any devices, split in any way: commands on Multi30k with dropout."""

import json
import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from support.commands import free_addresses, run_python, start_process, with_flags

from t2t_lite.runs import checkpoints
from t2t_lite.runs.checkpoint_files import list_checkpoints
from t2t_lite.runs.evaluations import read_evaluations, read_log
from t2t_lite.training.cluster import make_tf_configs

# The learning rate rises fast enough that the compared parameters change, but not so fast that Adam amplifies the
# rounding errors of gradients that are nearly 0, which depends on the order of the data.
HPARAMS = (
    "hidden_size=32,filter_size=64,num_heads=2,num_encoder_layers=1,num_decoder_layers=1,batch_tokens=1024,batch_by=targets,"
    "learning_rate_warmup_steps=400,residual_dropout=0.1,attention_dropout=0.1,relu_dropout=0.1"
)
FLAGS = ("--problem=multi30k_ende", "--hparams_set=transformer_multi30k", "--train_steps=10", "--peak_tflops=1")
FLAGS += ("--save_checkpoints_steps=10", "--schedule=train", f"--hparams={HPARAMS}")
EVALUATING = "--schedule=train_and_evaluate"


def trainer(data_dir, output_dir, *flags):
    return ("trainer", *with_flags(FLAGS, f"--data_dir={data_dir}", f"--output_dir={output_dir}", *flags))


def start(*arguments, tf_config=None):
    """Starts the trainer in a separate process, because devices belong to a process."""
    return start_process(*trainer(*arguments), environment={"TF_CONFIG": tf_config} if tf_config else {})


def finish(*processes):
    outputs = [process.communicate(timeout=600)[0] for process in processes]
    for process, output in zip(processes, outputs):
        assert process.returncode == 0, output
    return outputs


def parameters(output_dir, step=10):
    return checkpoints.read(output_dir / f"ckpt-{step}", "model")


@pytest.fixture(scope="module")
def undivided(multi30k_data, command, shared_folders):
    """The run directory after ten steps and an evaluation on one device that holds the whole batch."""

    def make(output_dir):
        flags = ("--max_tokens_per_replica=100000", "--save_checkpoints_steps=5", EVALUATING)
        result = command(*trainer(multi30k_data, output_dir, *flags))
        assert result.returncode == 0, result.stderr
        assert "1 CPU," in result.stdout

    return shared_folders.get("one_device", make)


@pytest.fixture(scope="module")
def one_device(undivided):
    return parameters(undivided)


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5, err_msg=name)
    size = np.sqrt(sum(np.linalg.norm(array) ** 2 for array in expected.values()))
    distance = np.sqrt(sum(np.linalg.norm(found[name] - array) ** 2 for name, array in expected.items()))
    assert distance <= 1e-5 * size


@pytest.mark.slow
def test_the_compared_parameters_differ_clearly_from_earlier_ones(undivided, one_device):
    halfway = parameters(undivided, 5)
    moved = {name: np.abs(array - halfway[name]).max() for name, array in one_device.items()}
    assert min(moved.values()) > 5e-4


@pytest.mark.slow
def test_eight_devices_give_the_parameters_of_one(multi30k_data, one_device, tmp_path):
    (output,) = finish(start(multi30k_data, tmp_path, "--virtual_devices=8"))
    assert "8 virtual CPUs," in output
    assert_same(parameters(tmp_path), one_device)


ADAMW = (
    # A layer with a loop, in place of attention.
    ",self_attention_type=recurrent,norm_position=pre,norm_type=rms,feed_forward_type=swiglu"
    ",optimizer=adamw,weight_decay=0.1,clip_norm=1.0,learning_rate=0.002,learning_rate_warmup_steps=5,"
    "learning_rate_schedule=cosine,learning_rate_decay_steps=12"
)


@pytest.mark.heavy
def test_four_devices_and_accumulation_give_the_parameters_of_one_with_adamw_and_cosine(
    multi30k_data, command, tmp_path
):
    hparams = f"--hparams={HPARAMS.replace('learning_rate_warmup_steps=400,', '')}{ADAMW}"
    one, accumulating, four = tmp_path / "one", tmp_path / "accumulating", tmp_path / "four"
    process = start(multi30k_data, four, "--virtual_devices=4", "--steps_per_call=4", hparams)
    for output_dir, positions in ((one, 100_000), (accumulating, 280)):
        result = command(*trainer(multi30k_data, output_dir, f"--max_tokens_per_replica={positions}", hparams))
        assert result.returncode == 0, result.stderr
    (output,) = finish(process)
    assert "4 virtual CPUs," in output
    for output_dir in (accumulating, four):
        assert_same(parameters(output_dir), parameters(one))


# Runs steps of two models on virtual devices, one after the other as in a notebook; prints the number of collectives
# of the last one.
COLLECTIVES = """
import numpy as np
import tensorflow as tf
from t2t_lite.config import HParams
from t2t_lite.plugins import load_all
from t2t_lite.training.micro_batching import distribute_batches
from t2t_lite.training.step import TrainStep
from t2t_lite.training.devices import make_strategy
from t2t_lite.training.step import build_model

load_all()
for size in (16, 24):
    strategy = make_strategy(virtual_devices=4)
    hparams = HParams(num_encoder_layers=2, num_decoder_layers=2, hidden_size=size, filter_size=24, num_heads=2)
    model, optimizer = build_model(hparams, 19, strategy, 1)
    ids = np.ones([1, 8, 5], "int32")
    batches = distribute_batches(strategy, tf.data.Dataset.from_tensor_slices({"inputs": ids, "targets": ids}))
    step = TrainStep(strategy, model, optimizer, batches.element_spec, random_seed=1)
    step(next(iter(batches)))
graphs = [function.graph.as_graph_def() for function in step._graphs._graph._list_all_concrete_functions()]
nodes = [node for graph in graphs for node in graph.node]
nodes += [node for graph in graphs for function in graph.library.function for node in function.node_def]
print(sum("Collective" in node.op and "Reduce" in node.op for node in nodes), len(model.trainable_variables))
"""


@pytest.mark.heavy
def test_gradients_are_reduced_together_and_a_process_can_train_twice():
    collectives, variables = map(int, run_python(COLLECTIVES).stdout.split())
    assert variables > 40
    # For each of the four devices, one collective for all gradients and one for the figures.
    assert 4 <= collectives <= 8


@pytest.fixture
def tf_configs(command):
    """TF_CONFIG for two workers on this machine, as printed by the trainer."""
    printed = command("trainer", f"--make_tf_config={','.join(free_addresses(2))}").stdout
    configs = re.findall(r"export TF_CONFIG='(.*)'", printed)
    assert [json.loads(config)["task"]["index"] for config in configs] == [0, 1]
    return configs


@pytest.mark.heavy
def test_two_workers_with_unequal_memory_give_the_parameters_of_one_device(
    multi30k_data, undivided, one_device, tf_configs, tmp_path
):
    flags = ("--virtual_devices=2", "--steps_per_call=3", EVALUATING)
    bounds = [f"--max_tokens_per_replica={bound}" for bound in (180, 80)]
    rows = zip(bounds, tf_configs)
    outputs = finish(*(start(multi30k_data, tmp_path, *flags, bound, tf_config=config) for bound, config in rows))
    assert "4 virtual CPUs on 2 workers," in outputs[0] and outputs[1] == ""  # only the chief prints and writes
    assert_same(parameters(tmp_path), one_device)
    found, expected = (read_evaluations(directory)[10] for directory in (tmp_path, undivided))
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.heavy
@pytest.mark.parametrize("signalled, decodes", [(1, False), pytest.param(0, True, marks=pytest.mark.heavy)])
def test_a_signal_to_one_worker_stops_all_and_they_resume(
    multi30k_data, one_device, tf_configs, tmp_path, signalled, decodes
):
    flags = ("--save_checkpoints_steps=2", "--log_step_count_steps=1")
    evaluating = (EVALUATING, "--eval_decode") if decodes else ()
    workers = [start(multi30k_data, tmp_path, *flags, *evaluating, tf_config=config) for config in tf_configs]
    while not list_checkpoints(tmp_path):
        assert all(worker.poll() is None for worker in workers), [worker.communicate() for worker in workers]
        time.sleep(0.001)
    if decodes:
        time.sleep(5.0)  # the chief decodes a thousand lines, and the other worker waits for it
    workers[signalled].send_signal(signal.SIGTERM)
    outputs = [worker.communicate(timeout=600)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [128 + signal.SIGTERM] * 2, outputs
    last = list_checkpoints(tmp_path)[-1][0]
    where = "during the evaluation of" if decodes else "after"
    assert f"stopped by {'another worker' if signalled else 'SIGTERM'} {where} step {last}, which" in outputs[0]
    assert last == 2 if decodes else last < 10
    outputs = finish(*(start(multi30k_data, tmp_path, *flags, tf_config=config) for config in tf_configs))
    assert f"resuming from {tmp_path / f'ckpt-{last}'}" in outputs[0]
    assert_same(parameters(tmp_path), one_device)


@pytest.mark.heavy
@pytest.mark.parametrize("decodes", [False, True])
def test_a_killed_worker_process_is_started_again_and_the_parameters_are_those_of_one_device(
    multi30k_data, one_device, tmp_path, decodes
):
    flags = ("--processes_per_host=2", "--max_restarts=1", "--log_step_count_steps=1")
    flags += (EVALUATING, "--eval_decode", "--eval_lines=300") if decodes else ("--save_checkpoints_steps=2",)
    launcher = start(multi30k_data, tmp_path, *flags)
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
    while len(children.read_text().split()) < 2:
        assert launcher.poll() is None, launcher.communicate()
        time.sleep(0.01)
    worker = int(children.read_text().split()[1])
    # It runs for 10 ms at a time, so that the ten steps cannot end before this process has seen the first checkpoint.
    while os.kill(worker, signal.SIGSTOP) is None and not list_checkpoints(tmp_path):
        assert launcher.poll() is None, launcher.communicate()
        os.kill(worker, signal.SIGCONT)
        time.sleep(0.01)
    if decodes:
        time.sleep(3.0)  # the chief decodes, and the other worker would wait for it
    os.kill(worker, signal.SIGKILL)
    (output,) = finish(launcher)
    assert "2 CPUs on 2 workers," in output and "Traceback" not in output
    assert "worker 1 of 2 on this machine ended with signal SIGKILL" in output
    assert "another worker ended or cannot be reached; restart all workers" in output
    assert "starting all workers again; 0 more restarts are allowed" in output
    assert f"resuming from {tmp_path}/ckpt-" in output
    assert_same(parameters(tmp_path), one_device)
    if decodes:
        assert list(read_evaluations(tmp_path)) == [10]
        return
    # Worker 1 has a log of its own; the chief's log names the worker that waited longest.
    last = json.loads((tmp_path / "workers" / "worker-1.jsonl").read_text().splitlines()[-1])
    assert (last["part"], last["step"]) == ("train", 10)
    assert {line["slowest_worker"] for line in read_log(tmp_path).lines if line["part"] == "train"} <= {0.0, 1.0}


@pytest.mark.slow
def test_workers_that_do_not_come_are_named(multi30k_data, tmp_path):
    addresses = free_addresses(3)
    process = start(multi30k_data, tmp_path, "--worker_timeout=2", tf_config=make_tf_configs(addresses)[2])
    (output, _) = process.communicate(timeout=600)
    assert process.returncode == 1
    missing = f"0 ({addresses[0]}), 1 ({addresses[1]})"
    assert f"error: workers {missing} have not come within 2 s; check that the same command runs there" in output


@pytest.mark.heavy
def test_a_chief_trains_and_an_evaluator_evaluates_its_checkpoints(multi30k_data, one_device, tmp_path):
    # What Kubeflow's training operator sets.
    job = {"cluster": {"chief": free_addresses(1)}, "environment": "cloud"}
    tasks = [json.dumps(job | {"task": {"type": kind, "index": 0}}) for kind in ("chief", "evaluator")]
    each = "--save_checkpoints_steps=5"
    outputs = finish(*(start(multi30k_data, tmp_path, each, tf_config=task) for task in tasks))
    assert "step 10: saved" in outputs[0] and "dev loss" not in outputs[0]
    assert "step 10: dev loss" in outputs[1]
    assert 10 in read_evaluations(tmp_path)
    assert_same(parameters(tmp_path), one_device)
    refused = start(multi30k_data, tmp_path, EVALUATING, tf_config=tasks[1])
    assert "pass --schedule=train to all tasks" in refused.communicate(timeout=600)[0] and refused.returncode == 2


# Prints the threads of an operation, 0 for all cores, and how many micro-batches run at once.
CORES = """
import os, sys
from t2t_lite.system.tensorflow import prepare_process
if "command" in sys.argv:
    prepare_process()
if "one_core" in sys.argv:
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
if "served" in sys.argv:
    from t2t_lite.system.machine import use_one_thread_per_operation
    use_one_thread_per_operation()
import tensorflow as tf
from t2t_lite.training.devices import make_strategy, num_parallel_micro_batches
kind = "multi_worker" if "TF_CONFIG" in os.environ else "auto"
strategy = make_strategy(kind, None, 2 * ("virtual" in sys.argv), "compiled" in sys.argv)
print(tf.config.threading.get_intra_op_parallelism_threads(), num_parallel_micro_batches(strategy))
"""


ONE_WORKER = json.dumps({"cluster": {"worker": ["localhost:0"]}, "task": {"type": "worker", "index": 0}})


@pytest.mark.heavy
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
@pytest.mark.parametrize(
    ("arguments", "environment", "divided", "num_parallel"),
    [
        (["command"], {}, True, 2),
        ([], {}, False, 2),
        (["served"], {}, False, 2),  # a program that has served a model
        (["command"], {"TF_NUM_INTRAOP_THREADS": "1", "T2T_LITE_SETS_THREADS": "1"}, True, 2),  # started by such a one
        (["command", "one_core"], {}, False, 1),
        (["command", "virtual"], {}, False, 1),
        (["command", "compiled"], {}, False, 2),  # `bound_micro_batches` makes it one
        (["command"], {"TF_CONFIG": ONE_WORKER}, False, 1),
        (["command"], {"TF_NUM_INTRAOP_THREADS": "1"}, False, 1),
    ],
)
def test_a_cpu_computes_two_micro_batches_at_once_and_a_command_divides_its_cores(
    arguments, environment, divided, num_parallel, monkeypatch
):
    for name in [name for name in os.environ if name.startswith(("TF_NUM_", "T2T_LITE_"))]:
        monkeypatch.delenv(name)
    threads = len(os.sched_getaffinity(0)) // 2 if divided else 0
    assert run_python(CORES, *arguments, **environment).stdout.split() == [str(threads), str(num_parallel)]
