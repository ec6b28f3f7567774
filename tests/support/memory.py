"""The peak memory of a training process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Trains like the trainer, and prints the growth of its peak memory since before the model was built.
TRAIN = """
import json, sys
from t2t_lite.system.tensorflow import import_tensorflow
import_tensorflow()
import numpy as np, tensorflow as tf
from t2t_lite.config import HParams
from t2t_lite.plugins import load_all
from t2t_lite.training.micro_batching import MicroBatches, distribute_batches
from t2t_lite.training.step import TrainStep
from t2t_lite.training.devices import make_strategy
from t2t_lite.training.step import build_model

def status(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))

load_all()
case = json.loads(sys.argv[1])
strategy = make_strategy()
tf.matmul(tf.ones((512, 512)), tf.ones((512, 512)))  # loads the libraries that are loaded late
before = status("VmRSS")
vocab_size = case["vocab_size"]
hparams = HParams.class_for(case["hparams"])(**case["hparams"])
model, optimizer = build_model(hparams, vocab_size, strategy, 1, vocab_size)
rows = np.random.default_rng(1).integers(3, vocab_size, (1, case["rows"], case["length"])).astype("int32")
batches = tf.data.Dataset.from_tensor_slices({"inputs": rows, "targets": rows}).repeat(case["steps"])
batches = distribute_batches(strategy, batches, MicroBatches(case["max_tokens"], num_parallel=case["num_parallel"]))
train_step = TrainStep(strategy, model, optimizer, batches.element_spec, 1, num_parallel=case["num_parallel"])
for batch in batches:
    train_step(batch)
print(json.dumps({"peak": status("VmHWM") - before, "micro_batches": batch["targets"].shape[0]}))
"""


def peak_memory(hparams, vocab_size, rows, length, max_tokens, steps=2, num_parallel=1, **environment):
    """Trains some steps in a process; returns its peak memory in bytes and the number of micro-batches."""
    if not Path("/proc/self/status").exists():
        pytest.skip("measures with /proc/self/status, which is not there")
    case = {"hparams": json.loads(hparams.to_json()), "vocab_size": vocab_size, "rows": rows, "length": length}
    case |= {"max_tokens": max_tokens, "steps": steps, "num_parallel": num_parallel}
    program = [sys.executable, "-c", TRAIN, json.dumps(case)]
    done = subprocess.run(program, capture_output=True, text=True, check=False, env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
