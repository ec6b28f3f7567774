"""One training step: micro-batches, memory checks, skipped steps."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.training.evaluation import EvalSums
from t2t_lite.training.micro_batching import MicroBatches, distribute_batches
from t2t_lite.training.step import TrainStep, build_model

TINY = HParams(
    num_encoder_layers=1,
    num_decoder_layers=1,
    hidden_size=16,
    filter_size=24,
    num_heads=2,
    residual_dropout=0.0,
    learning_rate_warmup_steps=40,
)
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


def step_of(hparams, micro=WHOLE, xla_compile=False):
    """Returns (model, optimizer, a function of a seed that makes a step on its `batch_of`)."""
    strategy = tf.distribute.get_strategy()
    model, optimizer = build_model(hparams, VOCAB, strategy, 1)

    def shared(**arguments):
        return distribute_batches(strategy, tf.data.Dataset.from_tensor_slices(batch_of(**arguments)), micro)

    step = TrainStep(strategy, model, optimizer, shared().element_spec, 5, xla_compile, micro.num_parallel)

    def make(is_memory_check=False, **arguments):
        batch = next(iter(shared(**arguments)))
        return step.check_memory(batch) if is_memory_check else step(batch)

    return model, optimizer, make


def weights(model):
    return {variable.path: np.array(variable) for variable in model.variables}


def assert_close(found, expected, atol):
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, atol=atol, err_msg=name)


@functools.cache
def whole():
    """(weights after three steps on whole batches, the last step's report)."""
    model, _, step = step_of(TINY)
    reports = [step(seed=seed) for seed in range(3)]
    return weights(model), reports[-1]


@pytest.mark.parametrize(
    "micro",
    [
        MicroBatches(max_tokens=21),
        MicroBatches(max_tokens=7),
        MicroBatches(max_tokens=999, static_tokens=24),
        MicroBatches(num_parallel=2),
        MicroBatches(max_tokens=14, num_parallel=2),
    ],
    ids=["4 micro-batches", "10 micro-batches", "static shapes", "2 at once", "2 of 10 at once"],
)
def test_micro_batches_give_the_same_step_as_the_whole_batch(micro):
    expected, report = whole()
    model, _, step = step_of(TINY, micro)
    reports = [step(seed=seed) for seed in range(3)]
    assert_close(weights(model), expected, atol=1e-6)
    np.testing.assert_allclose(reports[-1].sums, report.sums, rtol=1e-5)
    assert reports[-1].gradient_norm == pytest.approx(report.gradient_norm, rel=1e-4)
    assert report.sums.tokens == np.count_nonzero(batch_of(seed=2)["targets"])
    assert report.positions == ROWS * 6 <= reports[-1].positions


@pytest.mark.heavy
def test_a_compiled_step_gives_the_same_weights():
    expected, _ = whole()
    model, _, step = step_of(TINY, MicroBatches(max_tokens=999, static_tokens=24), xla_compile=True)
    for seed in range(3):
        step(seed=seed)
    assert_close(weights(model), expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_check_memory_changes_no_weights_and_no_optimizer_state(dropout):
    model, optimizer, step = step_of(TINY.replace(residual_dropout=dropout, precision="mixed_float16", ema_decay=0.5))
    step(seed=1)
    before = weights(model), {name: np.array(value) for name, value in optimizer.state.items()}
    step(seed=2, is_memory_check=True)
    np.testing.assert_equal(weights(model), before[0])
    np.testing.assert_equal({name: np.array(value) for name, value in optimizer.state.items()}, before[1])


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "weight"), [("adam", "adam.t"), ("adafactor", "adafactor.t")])
def test_a_step_with_a_nan_loss_is_skipped_and_counted(name, weight):
    model, optimizer, step = step_of(TINY.replace(optimizer=name))
    step(seed=0)
    norm = next(variable for variable in model.variables if variable.path.endswith("gamma"))
    good = np.array(norm)
    norm.assign(np.full_like(good, np.nan))
    before = weights(model), {name: np.array(value) for name, value in optimizer.state.items() if weight in name}
    report = step(seed=1)
    assert not report.finite
    np.testing.assert_equal(weights(model), before[0])
    assert before[1]
    np.testing.assert_equal({name: np.array(optimizer.state[name]) for name in before[1]}, before[1])
    assert (int(optimizer.iterations), int(optimizer.skipped)) == (2, 1)
    norm.assign(good)
    assert step(seed=1).finite
    assert (int(optimizer.iterations), int(optimizer.skipped)) == (3, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "atol"), [("mixed_bfloat16", 3e-2), ("mixed_float16", 3e-2)])
def test_mixed_precision_steps_are_close_to_float32(precision, atol):
    expected, report = whole()
    model, _, step = step_of(TINY.replace(precision=precision))
    reports = [step(seed=seed) for seed in range(3)]
    assert all(report.finite for report in reports)
    assert all(variable.dtype == "float32" for variable in model.variables)
    assert reports[-1].sums.smoothed == pytest.approx(report.sums.smoothed, rel=2e-2)
    assert reports[-1].gradient_norm == pytest.approx(report.gradient_norm, rel=0.1)
    assert_close(weights(model), expected, atol)


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_a_too_large_loss_scale_is_halved_until_steps_are_finite(name):
    _, optimizer, step = step_of(TINY.replace(precision="mixed_float16", optimizer=name))
    optimizer.loss_scale.assign(2.0**40)
    finite = [step(seed=seed).finite for seed in range(30)]
    assert not finite[0]
    assert finite[-1]
    first = finite.index(True)
    assert not any(finite[:first])
    assert int(optimizer.skipped) == finite.count(False)


DROPOUT = TINY.replace(residual_dropout=0.5, attention_dropout=0.2, relu_dropout=0.2)


@functools.cache
def with_dropout(feed_forward_type, max_tokens, num_parallel=1):
    """(weights after two steps with dropout in all places, the reports), in micro-batches of at most `max_tokens`."""
    sizes = {"parameter_heads": 2, "parameter_head_size": 8, "parameter_pairs": 9}
    model, _, step = step_of(
        DROPOUT.replace(feed_forward_type=feed_forward_type, **sizes),
        MicroBatches(max_tokens=max_tokens, num_parallel=num_parallel),
    )
    reports = [step(seed=seed) for seed in range(2)]
    return weights(model), reports


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("feed_forward_type", "max_tokens", "num_parallel"),
    [("relu", 35, 1), ("relu", 21, 1), ("relu", 7, 1), ("relu", None, 2), ("attention", 21, 1)],
)
def test_dropout_is_the_same_for_any_micro_batch_limit(max_tokens, feed_forward_type, num_parallel):
    expected, whole_reports = with_dropout(feed_forward_type, None)
    found, reports = with_dropout(feed_forward_type, max_tokens, num_parallel)
    assert_close(found, expected, atol=2e-6)
    for one, other in zip(reports, whole_reports):
        assert one.sums.smoothed == pytest.approx(other.sums.smoothed, rel=1e-5)


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
