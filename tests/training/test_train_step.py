"""One training step, as separate graphs or as one: micro-batches, memory checks, skipped steps."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.models.transformer import Transformer
from t2t_lite.registry import MODELS
from t2t_lite.training.evaluation import EvalSums
from t2t_lite.training.micro_batching import MicroBatches, distribute_batches
from t2t_lite.training.step import GradientPacks, TrainStep, build_model, step_report

TINY = HParams(num_encoder_layers=1, num_decoder_layers=1, hidden_size=16, filter_size=24, num_heads=2)
TINY = TINY.replace(residual_dropout=0.0, learning_rate_warmup_steps=40)
DROPOUT = TINY.replace(residual_dropout=0.5, attention_dropout=0.2, relu_dropout=0.2)
VOCAB = 19
ROWS = 10


def batch_of(lengths=(7, 6), seed=0):
    rng = np.random.default_rng(seed)
    sides = {}
    for name, length in zip(("inputs", "targets"), lengths):
        ids = rng.integers(3, VOCAB, (ROWS, length)).astype("int32")
        for row in range(ROWS):
            ids[row, rng.integers(2, length + 1) :] = 0
        sides[name] = ids[None]
    return sides


WHOLE = MicroBatches()


def step_of(hparams, micro=WHOLE, xla_compile=False, in_graph=False):
    """Returns (model, optimizer, a function of a seed that makes a step on its `batch_of`)."""
    strategy = tf.distribute.get_strategy()
    model, optimizer = build_model(hparams, VOCAB, strategy, 1)

    def shared(**arguments):
        return distribute_batches(strategy, tf.data.Dataset.from_tensor_slices(batch_of(**arguments)), micro)

    spec = shared().element_spec
    step = TrainStep(strategy, model, optimizer, spec, 5, xla_compile, micro.num_parallel, in_graph=in_graph)

    def make(is_memory_check=False, **arguments):
        batch = next(iter(shared(**arguments)))
        if is_memory_check:
            return step.check_memory(batch)
        return step_report(step.start(batch, tf.constant([0.0, 1.0])).numpy())

    return model, optimizer, make


def weights(model):
    return {variable.path: np.array(variable) for variable in model.variables}


def everything(model, optimizer):
    return weights(model) | {name: np.array(value) for name, value in optimizer.state.items()}


def assert_close(found, expected, atol):
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, atol=atol, err_msg=name)


@functools.cache
def whole():
    """(weights after three steps on whole batches, the last step's report)."""
    model, _, step = step_of(TINY)
    reports = [step(seed=seed) for seed in range(3)]
    return weights(model), reports[-1]


@functools.cache
def with_dropout(feed_forward_type, micro=WHOLE):
    """(weights after two steps with dropout in all places, the reports)."""
    sizes = {"parameter_heads": 2, "parameter_head_size": 8, "parameter_pairs": 9}
    model, _, step = step_of(DROPOUT.replace(feed_forward_type=feed_forward_type, **sizes), micro)
    reports = [step(seed=seed) for seed in range(2)]
    return weights(model), reports


@pytest.mark.slow
@pytest.mark.parametrize(
    ("max_tokens", "num_parallel", "feed_forward_type"),
    [*((tokens, 1, "relu") for tokens in (35, 21, 7)), (None, 2, "relu"), (14, 2, "relu"), (21, 1, "attention")],
    ids=["2", "4", "10", "2 at once", "2 of 10 at once", "4 with attention to parameters"],
)
def test_micro_batches_give_the_same_step_as_the_whole_batch_with_dropout(max_tokens, num_parallel, feed_forward_type):
    micro = MicroBatches(max_tokens=max_tokens, num_parallel=num_parallel)
    expected, whole_reports = with_dropout(feed_forward_type)
    found, reports = with_dropout(feed_forward_type, micro)
    assert_close(found, expected, atol=2e-6)
    for seed, (one, other) in enumerate(zip(reports, whole_reports)):
        np.testing.assert_allclose(one.sums, other.sums, rtol=1e-5)
        assert one.gradient_norm == pytest.approx(other.gradient_norm, rel=1e-4)
        assert one.sums.tokens == np.count_nonzero(batch_of(seed=seed)["targets"])
        assert other.positions == ROWS * 6 <= one.positions


@pytest.mark.parametrize("xla_compile", [False, pytest.param(True, marks=pytest.mark.heavy)])
def test_static_shapes_give_the_same_weights_compiled_or_not(xla_compile):
    expected, _ = whole()
    model, _, step = step_of(TINY, MicroBatches(max_tokens=999, static_tokens=24), xla_compile)
    for seed in range(3):
        step(seed=seed)
    assert_close(weights(model), expected, atol=1e-5 if xla_compile else 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_check_memory_changes_no_weights_and_no_optimizer_state(dropout):
    model, optimizer, step = step_of(TINY.replace(residual_dropout=dropout, precision="mixed_float16", ema_decay=0.5))
    step(seed=1)
    before = everything(model, optimizer)
    step(seed=2, is_memory_check=True)
    np.testing.assert_equal(everything(model, optimizer), before)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "in_graph"),
    [({"ema_decay": 0.5, "clip_norm": 1.0}, in_graph) for in_graph in (False, True)]
    + [({"optimizer": "adafactor"}, in_graph) for in_graph in (False, True)]
    + [({"optimizer": "adamw", "weight_decay": 0.1}, True)],
    ids=str,
)
def test_gradients_that_are_not_finite_change_nothing_but_the_counts(changes, in_graph):
    model, optimizer, step = step_of(DROPOUT.replace(**changes), in_graph=in_graph)
    assert step(seed=0).finite
    norm = next(variable for variable in model.variables if variable.path.endswith("gamma"))
    good = np.array(norm)
    norm.assign(np.full_like(good, np.nan))
    before = everything(model, optimizer)
    report = step(seed=1)
    assert not report.finite and np.isnan(report.gradient_norm)
    after = everything(model, optimizer)
    counts = {name for name in before if name.endswith((".iteration", ".skipped"))}
    assert len(counts) == 2 and all(after[name] == before[name] + 1 for name in counts)
    for name in before.keys() - counts:
        np.testing.assert_array_equal(after[name], before[name], err_msg=name)
    norm.assign(good)
    assert step(seed=1).finite
    assert (int(optimizer.iterations), int(optimizer.skipped)) == (3, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "atol"), [("mixed_bfloat16", 3e-2), ("mixed_float16", 3e-2)])
def test_mixed_precision_steps_are_close_to_float32(precision, atol):
    expected, report = whole()
    model, _, step = step_of(TINY.replace(precision=precision))
    reports = [step(seed=seed) for seed in range(3)]
    assert all(report.finite for report in reports) and {each.dtype for each in model.variables} == {"float32"}
    assert reports[-1].sums.smoothed == pytest.approx(report.sums.smoothed, rel=2e-2)
    assert reports[-1].gradient_norm == pytest.approx(report.gradient_norm, rel=0.1)
    assert_close(weights(model), expected, atol)


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "in_graph"), [("adam", False), ("sgd", False), ("adam", True)])
def test_a_too_large_loss_scale_is_halved_until_steps_are_finite(name, in_graph):
    _, optimizer, step = step_of(TINY.replace(precision="mixed_float16", optimizer=name), in_graph=in_graph)
    optimizer.loss_scale.assign(2.0**40)
    finite = [step(seed=seed).finite for seed in range(30)]
    first = finite.index(True)
    assert first > 0 and not any(finite[:first]) and finite[-1]
    assert int(optimizer.skipped) == finite.count(False)


@pytest.mark.slow
def test_evaluation_in_micro_batches_gives_the_same_sums():
    strategy = tf.distribute.get_strategy()
    model, _ = build_model(DROPOUT, VOCAB, strategy, 1)
    results = []
    for micro in (MicroBatches(), MicroBatches(max_tokens=7), MicroBatches(max_tokens=14, num_parallel=2)):
        batches = [batch_of(seed=seed) for seed in range(3)]
        whole = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
        data = distribute_batches(strategy, tf.data.Dataset.from_tensor_slices(whole), micro)
        results.append(EvalSums(strategy, model, data.element_spec, micro.num_parallel)(data))
    np.testing.assert_allclose(results, [results[0]] * 3, rtol=1e-5)
    assert results[0].tokens == np.count_nonzero(whole["targets"])
    correct = 0
    for inputs, targets in zip(whole["inputs"], whole["targets"]):
        best = np.argmax(model(inputs, targets).numpy(), axis=-1)
        correct += np.count_nonzero((best == targets) & (targets != 0))
    assert 0 < results[0].correct == correct


@pytest.mark.parametrize(
    ("changes", "max_tokens"),
    [
        ({"ema_decay": 0.5}, None),
        pytest.param({"optimizer": "adamw", "weight_decay": 0.1, "clip_norm": 0.1}, 21, marks=pytest.mark.slow),
        pytest.param({"optimizer": "sgd", "clip_norm": 0.1}, 21, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_one_graph_makes_the_same_steps_as_separate_graphs(changes, max_tokens):
    results = []
    for in_graph in (False, True):
        model, optimizer, step = step_of(DROPOUT.replace(**changes), MicroBatches(max_tokens), in_graph=in_graph)
        reports = [step(seed=seed) for seed in range(3)]
        results.append((everything(model, optimizer), reports[-1]))
    (expected, report), (found, report_of_one) = results
    assert found.keys() == expected.keys()
    assert_close(found, expected, atol=1e-6)
    np.testing.assert_allclose(report_of_one.sums, report.sums, rtol=1e-5)
    assert report_of_one.gradient_norm == pytest.approx(report.gradient_norm, rel=1e-4)
    assert report_of_one.requests.tolist() == report.requests.tolist() == [0.0, 1.0]
    assert report_of_one.finite and report_of_one.positions == report.positions


def test_a_model_that_assigns_its_variables_is_refused(registered):
    class Counting(Transformer):
        def build(self, *args):
            super().build(*args)
            self.calls = self.add_weight(name="calls", shape=(), trainable=False)

        def call(self, *args, **kwargs):
            self.calls.assign(self.calls + 1.0)
            return super().call(*args, **kwargs)

        def factors_of_logits(self, *args, **kwargs):
            return None  # the logits are those of `call`

    registered(MODELS, "counting", Counting)
    with pytest.raises(UserError, match=r"assigns its variable .*calls"):
        step_of(TINY.replace(model="counting"), in_graph=True)


def test_packs_give_back_the_gradients(monkeypatch):
    monkeypatch.setattr("t2t_lite.training.step._PACK_BYTES", 4 * 10)
    shapes = [(2, 3), (5,), (), (3, 4), (1,)]
    gradients = [np.random.default_rng(0).normal(size=shape).astype("float32") for shape in shapes]
    packs = GradientPacks(shapes)
    packed = packs.pack(list(map(tf.constant, gradients)))
    assert [pack.shape.as_list() for pack in packed] == [[11], [13], [1]]
    for found, expected in zip(packs.unpack(packed), gradients, strict=True):
        np.testing.assert_array_equal(found, expected)
