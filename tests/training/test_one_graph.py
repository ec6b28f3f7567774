"""A step as one graph makes the same updates as one of separate graphs, also where it must change nothing."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.models.transformer import Transformer
from t2t_lite.training.micro_batching import MicroBatches, distribute_batches
from t2t_lite.training.optimizers import make_optimizer
from t2t_lite.training.step import GradientPacks, OneGraph, TrainStep, build_model, step_report

HPARAMS = HParams(
    num_encoder_layers=1,
    num_decoder_layers=1,
    hidden_size=16,
    filter_size=24,
    num_heads=2,
    residual_dropout=0.3,
    attention_dropout=0.2,
    learning_rate_warmup_steps=40,
)
VOCAB, ROWS, LENGTH = 19, 12, 7
WHOLE = MicroBatches()
STRATEGY = tf.distribute.get_strategy()


def batches(micro, number):
    ids = np.random.default_rng(0).integers(3, VOCAB, (number, ROWS, LENGTH)).astype("int32")
    ids[:, ::3, -2:] = 0
    return distribute_batches(STRATEGY, tf.data.Dataset.from_tensor_slices({"inputs": ids, "targets": ids}), micro)


def one_graph_of(model, optimizer, micro=WHOLE):
    """A function of a batch that makes a step in one graph and returns its report."""
    graph = OneGraph(STRATEGY, model, optimizer, batches(micro, 1).element_spec, 5, False, "float32")
    return lambda batch: step_report(graph(batch, tf.constant([0.0, 1.0])).numpy())


def everything(model, optimizer):
    state = {name: np.array(value) for name, value in optimizer.state.items()}
    return {variable.path: np.array(variable) for variable in model.variables} | state


@pytest.mark.parametrize(
    ("changes", "max_tokens"),
    [
        ({"ema_decay": 0.5}, None),
        pytest.param({"optimizer": "adamw", "weight_decay": 0.1, "clip_norm": 0.1}, 3 * LENGTH, marks=pytest.mark.slow),
        pytest.param({"optimizer": "sgd", "clip_norm": 0.1}, 3 * LENGTH, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_it_makes_the_same_steps_as_separate_graphs(changes, max_tokens):
    hparams, micro = HPARAMS.replace(**changes), MicroBatches(max_tokens)
    results = []
    for is_one in (False, True):
        model, optimizer = build_model(hparams, VOCAB, STRATEGY, 1)
        separate = TrainStep(STRATEGY, model, optimizer, batches(micro, 1).element_spec, 5)
        step = (
            one_graph_of(model, optimizer, micro)
            if is_one
            else lambda batch, step=separate: step_report(step.start(batch, tf.constant([0.0, 1.0])).numpy())
        )
        reports = [step(batch) for batch in batches(micro, 3)]
        results.append((everything(model, optimizer), reports[-1]))
    (expected, report), (found, report_of_one) = results
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(report_of_one.sums, report.sums, rtol=1e-5)
    assert report_of_one.gradient_norm == pytest.approx(report.gradient_norm, rel=1e-4)
    assert report_of_one.requests.tolist() == report.requests.tolist() == [0.0, 1.0]
    assert report_of_one.finite and report_of_one.positions == ROWS * LENGTH


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{"ema_decay": 0.5, "clip_norm": 1.0}, {"optimizer": "adamw", "weight_decay": 0.1}, {"optimizer": "adafactor"}],
    ids=str,
)
def test_gradients_that_are_not_finite_change_nothing_but_the_count(changes):
    model, optimizer = build_model(HPARAMS.replace(**changes), VOCAB, STRATEGY, 1)
    step = one_graph_of(model, optimizer)
    first, second = batches(WHOLE, 2)
    assert step(first).finite
    norm = next(variable for variable in model.variables if variable.path.endswith("gamma"))
    good = np.array(norm)
    norm.assign(np.full_like(good, np.nan))
    before = everything(model, optimizer)
    report = step(second)
    assert not report.finite and np.isnan(report.gradient_norm)
    after = everything(model, optimizer)
    counts = {name for name in before if name.endswith((".iteration", ".skipped"))}
    assert len(counts) == 2 and all(after[name] == before[name] + 1 for name in counts)
    for name in before.keys() - counts:
        np.testing.assert_array_equal(after[name], before[name], err_msg=name)
    norm.assign(good)
    assert step(second).finite


def test_a_too_large_loss_scale_is_halved():
    model, optimizer = build_model(HPARAMS.replace(precision="mixed_float16"), VOCAB, STRATEGY, 1)
    step = one_graph_of(model, optimizer)
    optimizer.loss_scale.assign(2.0**40)
    finite = [step(batch).finite for batch in batches(WHOLE, 30)]
    first = finite.index(True)
    assert first > 0 and not any(finite[:first]) and finite[-1]
    assert int(optimizer.skipped) == finite.count(False)


def test_a_model_that_assigns_its_variables_is_refused():
    class Counting(Transformer):
        def build(self, *args):
            super().build(*args)
            self.calls = self.add_weight(name="calls", shape=(), trainable=False)

        def call(self, *args, **kwargs):
            self.calls.assign(self.calls + 1.0)
            return super().call(*args, **kwargs)

        def factors_of_logits(self, *args, **kwargs):
            return None  # the logits are those of `call`

    model = Counting(HPARAMS, VOCAB)
    model.build()
    with pytest.raises(UserError, match=r"assigns its variable .*calls"):
        one_graph_of(model, make_optimizer(model.trainable_variables, HPARAMS))


def test_packs_give_back_the_gradients(monkeypatch):
    monkeypatch.setattr("t2t_lite.training.step._PACK_BYTES", 4 * 10)
    shapes = [(2, 3), (5,), (), (3, 4), (1,)]
    gradients = [np.random.default_rng(0).normal(size=shape).astype("float32") for shape in shapes]
    packs = GradientPacks(shapes)
    packed = packs.pack(list(map(tf.constant, gradients)))
    assert [pack.shape.as_list() for pack in packed] == [[11], [13], [1]]
    for found, expected in zip(packs.unpack(packed), gradients, strict=True):
        np.testing.assert_array_equal(found, expected)
