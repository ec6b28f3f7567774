"""What depends on the device: whether there is a GPU, when steps are compiled, and which batches a new run has then."""

import pytest
import tensorflow as tf

from t2t_lite.bin.trainer import make_parser
from t2t_lite.config import HParams
from t2t_lite.system.machine import has_gpu
from t2t_lite.training.devices import resolve_auto
from t2t_lite.training.options import TrainOptions

VISIBLE = {None: True, "0,1": True, "": False, "-1": False}


@pytest.mark.parametrize(
    ("device", "visible", "found"),
    # The last one is the driver's, and no GPU.
    [*(("nvidia0", *row) for row in VISIBLE.items()), (None, None, False), ("nvidiactl", None, False)],
)
def test_a_gpu_is_seen_by_its_device_file_unless_it_is_hidden(tmp_path, monkeypatch, device, visible, found):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    (tmp_path / "dev").mkdir()
    if device:
        (tmp_path / "dev" / device).touch()
    assert has_gpu(tmp_path) == found


@pytest.mark.parametrize(
    ("has_gpus", "xla_compile", "of_new_run", "with_both"),
    [(True, None, "shapes", False), (False, None, "both", False), (True, False, "both", False)]
    + [(has_gpus, True, "shapes", True) for has_gpus in (False, True)],
)
def test_compilation_and_few_shapes_go_together(monkeypatch, has_gpus, xla_compile, of_new_run, with_both):
    def settled(batch_by, of_run=None):
        strategy, hparams = tf.distribute.get_strategy(), HParams(batch_by=batch_by)
        hparams, compiles, why = resolve_auto(strategy, hparams, xla_compile, of_run or {})
        assert why == ""
        return hparams.batch_by, compiles

    monkeypatch.setattr("t2t_lite.training.devices.has_gpus", lambda strategy: has_gpus)
    assert settled("auto") == (of_new_run, of_new_run == "shapes")
    for batch_by, compiles in (("both", with_both), ("shapes", of_new_run == "shapes")):
        assert settled(batch_by) == settled("auto", of_run={"batch_by": batch_by}) == (batch_by, compiles)


def test_every_option_of_a_training_is_a_flag_and_xla_compile_by_itself_means_yes():
    parser = make_parser()
    flags = {flag for action in parser._actions for flag in action.option_strings}
    assert {f"--{TrainOptions.option(name).flag or name}" for name in TrainOptions.declared()} <= flags
    for given, value in (([], None), (["--xla_compile"], True), (["--xla_compile=False"], False)):
        assert parser.parse_args(given).xla_compile is value
