"""Indexes of frozen checkpoints, read without TensorFlow, against what TensorFlow reads."""

import math
import shutil
from pathlib import Path

import pytest
import tensorflow as tf

import t2t_lite as t2t
from t2t_lite.runs import checkpoints
from t2t_lite.runs.checkpoint_files import best_checkpoint
from t2t_lite.runs.index_file import members_of_average, num_parameters, read_index

FROZEN = Path(__file__).resolve().parents[1] / "frozen"
CHECKPOINTS = sorted(path.with_suffix("") for path in FROZEN.glob("*/*/run/*.index"))


@pytest.mark.parametrize("path", CHECKPOINTS, ids=lambda path: str(path.relative_to(FROZEN)))
def test_names_shapes_and_members_are_tensorflows(path):
    shapes = tf.train.load_checkpoint(str(path)).get_variable_to_shape_map()
    found = read_index(path)
    assert {name: list(tensor.shape) for name, tensor in found.items()} == shapes
    assert num_parameters(path) == sum(math.prod(array.shape) for array in checkpoints.read(path, "model").values())
    assert members_of_average(path) == checkpoints.average_members(path)


def test_an_average_says_its_members(tmp_path, command):
    run = shutil.copytree(FROZEN / "0.2/tied/run", tmp_path / "run")
    assert command("avg", f"--output_dir={run}", "--n=2").returncode == 0
    assert members_of_average(best_checkpoint(run)) == [200, 300]


def test_members_of_more_than_a_mebibyte_are_damage_and_not_read(tmp_path):
    weights = {"weight": tf.Variable([1.0])}
    for members, is_read in ((2**17, True), (2**17 + 1, False)):  # of 8 bytes
        path = checkpoints.write_average(tmp_path / f"average-{members}", weights, range(members))
        if is_read:
            assert members_of_average(path) == list(range(members))
        else:
            with pytest.raises(t2t.UserError, match="is damaged"):
                members_of_average(path)


@pytest.mark.parametrize("keep", [0, 10, 200, -1])
def test_a_damaged_file_is_an_error_of_one_line(keep, tmp_path):
    index = Path(f"{CHECKPOINTS[0]}.index").read_bytes()
    (tmp_path / "ckpt-1.index").write_bytes(index[:keep])
    with pytest.raises(t2t.UserError, match="ckpt-1 is damaged"):
        read_index(tmp_path / "ckpt-1")
    with pytest.raises(t2t.UserError, match="ckpt-2 is damaged"):
        read_index(tmp_path / "ckpt-2")
    noise = bytes(index[:-48]).replace(b"model", b"\xff\xff\xff\xff\xff") + index[-48:]
    (tmp_path / "ckpt-1.index").write_bytes(noise)
    with pytest.raises(t2t.UserError, match="is damaged"):
        read_index(tmp_path / "ckpt-1")
