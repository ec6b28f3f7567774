"""When steps are compiled, and which batches a new run has then."""

import pytest
import tensorflow as tf

from t2t_lite.bin.trainer import make_parser
from t2t_lite.training.devices import compiles, default_batch_by, may_compile
from t2t_lite.training.options import TrainOptions


@pytest.mark.parametrize(
    ("has_gpus", "xla_compile", "of_new_run", "with_both"),
    [(True, None, "shapes", False), (False, None, "both", False), (True, False, "both", False)]
    + [(has_gpus, True, "shapes", True) for has_gpus in (False, True)],
)
def test_compilation_and_few_shapes_go_together(monkeypatch, has_gpus, xla_compile, of_new_run, with_both):
    monkeypatch.setattr("t2t_lite.training.devices.has_gpus", lambda strategy: has_gpus)
    may = may_compile(tf.distribute.get_strategy(), xla_compile)
    assert default_batch_by(may) == of_new_run
    assert compiles(may, xla_compile, "both") == with_both
    assert compiles(may, xla_compile, "shapes") == (of_new_run == "shapes")


def test_every_option_of_a_training_is_a_flag():
    flags = {flag for action in make_parser()._actions for flag in action.option_strings}
    assert {f"--{TrainOptions.option(name).flag or name}" for name in TrainOptions.declared()} <= flags


@pytest.mark.parametrize(
    ("flags", "value"), [([], None), (["--xla_compile"], True), (["--xla_compile=False"], False)], ids=str
)
def test_xla_compile_by_itself_means_yes(flags, value):
    assert make_parser().parse_args(flags).xla_compile is value
