"""Every registered optimizer against NumPy (float64): steps, averages, skipped steps, clipping, loss scale, devices."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from support.commands import run_python

from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.registry import OPTIMIZERS
from t2t_lite.training.optimizers import LOSS_SCALE_GROWTH_STEPS, make_optimizer

RATE, DECAY = 0.02, 0.3
HPARAMS = HParams(hidden_size=16, num_heads=2, learning_rate=RATE, learning_rate_schedule="constant")
HPARAMS = HPARAMS.replace(learning_rate_warmup_steps=2, adam_epsilon=1e-3)
NAMES = OPTIMIZERS.names()
# A matrix and a vector, which does not decay.
START = [np.array([[1.0, -2.0, 0.5], [0.0, 3.0, -0.1]]), np.array([1.0, -1.0])]
GRADIENTS = [
    [np.array([[0.3, -0.01, 2.0], [0.1, -0.5, 0.2]]), np.array([0.5, 0.04])],
    [np.array([[-0.2, -0.02, 2.0], [0.3, 0.5, 0.7]]), np.array([-0.1, 0.03])],
    [np.array([[0.1, 0.04, -3.0], [-0.2, 0.1, 0.4]]), np.array([0.7, -0.09])],
]
DECAYS = [DECAY, 0.0]


def rate(step):
    return RATE * min(step / 2, 1.0)


def settings(name, **changes):
    return HPARAMS.replace(optimizer=name, weight_decay=0.0 if name == "adam" else DECAY, **changes)


def norm_of(gradients):
    return np.sqrt(sum((part**2).sum() for part in gradients))


def make(hparams):
    variables = [keras.Variable(value.astype("float32"), name=f"w{i}") for i, value in enumerate(START)]
    return variables, make_optimizer(variables, hparams)


def apply(optimizer, gradients, loss_scale=1.0):
    parts = [tf.constant((gradient * loss_scale).astype("float32")) for gradient in gradients]
    norm = tf.constant(norm_of(gradients), tf.float32)
    optimizer.apply(tf.distribute.get_strategy(), parts, tf.constant(loss_scale), norm)
    optimizer.count(tf.constant(True))


def arrays(variables):
    return [np.array(variable.value) for variable in variables]


def after_three_steps(hparams, loss_scale=1.0):
    variables, optimizer = make(hparams)
    for gradients in GRADIENTS:
        apply(optimizer, gradients, loss_scale)
    return arrays(variables)


def assert_close(found, expected):
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)


def in_numpy(update, gradients=GRADIENTS, decays=DECAYS):
    """The weights after steps of x - rate * decay * x, then update(x, gradient, step, state)."""
    results = []
    for index, start in enumerate(START):
        x, state = start.copy(), {"m": np.zeros_like(start), "v": np.zeros_like(start)}
        for step, parts in enumerate(gradients, start=1):
            x = x - rate(step) * decays[index] * x
            x = x + update(parts[index], step, state)
        results.append(x)
    return results


def adam(gradient, step, state):
    """Kingma and Ba 2015, with epsilon beside the root of the raw second moment, as in TensorFlow."""
    state["m"] = 0.9 * state["m"] + 0.1 * gradient
    state["v"] = 0.98 * state["v"] + 0.02 * gradient**2
    size = rate(step) * np.sqrt(1 - 0.98**step) / (1 - 0.9**step)
    return -size * state["m"] / (np.sqrt(state["v"]) + 1e-3)


def lion(gradient, step, state):
    """Chen et al. 2023, algorithm 2."""
    change = -rate(step) * np.sign(0.9 * state["m"] + 0.1 * gradient)
    state["m"] = 0.99 * state["m"] + 0.01 * gradient
    return change


def sgd(gradient, step, state):
    state["m"] = 0.9 * state["m"] - rate(step) * gradient
    return state["m"]


def adafactor_in_keras():
    """Keras' own optimizer, applied by Keras."""
    variables = [keras.Variable(value.astype("float32"), name=f"k{i}") for i, value in enumerate(START)]
    optimizer = keras.optimizers.Adafactor(learning_rate=1.0, weight_decay=DECAY, relative_step=False)
    optimizer.exclude_from_weight_decay(var_list=variables[1:])
    for step, gradients in enumerate(GRADIENTS, start=1):
        optimizer.learning_rate = rate(step)
        optimizer.apply([gradient.astype("float32") for gradient in gradients], variables)
    return arrays(variables)


REFERENCES = {
    "adam": lambda: in_numpy(adam, decays=(0.0, 0.0)),
    "adamw": lambda: in_numpy(adam),
    "lion": lambda: in_numpy(lion),
    "sgd": lambda: in_numpy(sgd),
    "adafactor": adafactor_in_keras,
}


@pytest.mark.parametrize("name", NAMES)
def test_three_steps_equal_the_reference_with_any_loss_scale(name):
    assert_close(after_three_steps(settings(name)), REFERENCES[name]())
    assert_close(after_three_steps(settings(name, precision="mixed_float16"), 2.0**15), REFERENCES[name]())


@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
@pytest.mark.parametrize(("name", "update", "decays"), [("adam", adam, (0.0, 0.0)), ("sgd", sgd, DECAYS)])
def test_long_gradients_are_scaled_to_clip_norm_and_short_ones_stay(name, update, decays, precision):
    limit = 2.2
    norms = [norm_of(gradients) for gradients in GRADIENTS]
    assert min(norms) < limit < max(norms)
    clipped = [[part * min(1.0, limit / norm_of(gradients)) for part in gradients] for gradients in GRADIENTS]
    expected = in_numpy(update, clipped, decays)
    scale = 1.0 if precision == "float32" else 2.0**10
    found = after_three_steps(settings(name, clip_norm=limit, precision=precision), scale)
    assert_close(found, expected)
    whole = after_three_steps(settings(name))
    assert np.abs(found[0] - whole[0]).max() > 1e-3
    np.testing.assert_equal(after_three_steps(settings(name, clip_norm=100.0)), whole)  # a limit that none reaches


@pytest.mark.parametrize("name", NAMES)
def test_a_skipped_step_changes_only_its_counters_and_no_bias_correction(name):
    variables, optimizer = make(settings(name, learning_rate_warmup_steps=1))
    others, undisturbed = make(settings(name, learning_rate_warmup_steps=1))
    for step, gradients in enumerate(GRADIENTS):
        if step == 1:
            before = {key: np.array(value) for key, value in optimizer.state.items()}, arrays(variables)
            optimizer.count(tf.constant(False))
            changed = {key for key, value in before[0].items() if not np.array_equal(value, optimizer.state[key])}
            assert {key.rpartition(".")[2] for key in changed} == {"iteration", "skipped"}
            np.testing.assert_equal(arrays(variables), before[1])
        apply(optimizer, gradients)
        apply(undisturbed, gradients)
    np.testing.assert_equal(arrays(variables), arrays(others))  # the rate is constant, so nothing depends on the step
    assert (int(optimizer.iterations), int(optimizer.skipped)) == (4, 1)


@pytest.mark.parametrize("name", NAMES)
def test_the_state_is_complete_and_has_the_same_names_in_every_run(name):
    variables, optimizer = make(settings(name, ema_decay=0.9))
    apply(optimizer, GRADIENTS[0])
    others, resumed = make(settings(name, ema_decay=0.9))
    assert list(optimizer.state) == list(resumed.state)
    for key, variable in resumed.state.items():
        variable.assign(optimizer.state[key])
    for one, other in zip(others, variables):
        one.assign(other)
    for gradients in GRADIENTS[1:]:
        apply(optimizer, gradients)
        apply(resumed, gradients)
    np.testing.assert_equal(arrays(others), arrays(variables))
    for key, variable in optimizer.state.items():
        np.testing.assert_equal(np.array(resumed.state[key]), np.array(variable))


@pytest.mark.parametrize("name", NAMES)
def test_the_registered_number_of_moments_is_that_of_the_state(name):
    _, optimizer = make(settings(name))
    size = sum(np.array(value).size for value in optimizer.state.values())
    weights = sum(start.size for start in START)
    # Besides: counters, and Adafactor's sums of rows and columns, which are small for the matrices of real models.
    assert 0 <= size - weights * OPTIMIZERS.fact(name, "moments", 2) <= 10


@pytest.mark.parametrize("name", ["adam", "lion"])
def test_the_moving_average_follows_the_weights(name):
    variables, optimizer = make(settings(name, ema_decay=0.25))
    expected = START
    # Below ema_decay at first: (1 + t) / (10 + t) is 2/11, 3/12, 4/13.
    for gradients, decay in zip(GRADIENTS, (2 / 11, 0.25, 0.25)):
        apply(optimizer, gradients)
        expected = [decay * old + (1 - decay) * new for old, new in zip(expected, arrays(variables))]
    weights = arrays(variables)
    for _ in range(2):
        with optimizer.averages_in_place():
            assert_close(arrays(variables), expected)
        np.testing.assert_equal(arrays(variables), weights)


def test_the_moving_average_forgets_the_initial_weights():
    variables, optimizer = make(settings("adam", ema_decay=0.9999, learning_rate=0.0, learning_rate_constant=1e-20))
    optimizer.averages[0].assign(START[0] + 1.0)  # the weights stay, so the average shows how much of it remains
    for _ in range(100):
        apply(optimizer, GRADIENTS[0])
    remains = np.array(optimizer.averages[0]) - arrays(variables)[0]
    np.testing.assert_allclose(remains, np.prod([(1 + t) / (10 + t) for t in range(1, 101)]), atol=1e-6)
    assert remains.max() < 1e-6


@pytest.mark.heavy
def test_the_loss_scale_is_halved_by_skips_and_doubled_after_many_good_steps():
    _, optimizer = make(settings("adam", precision="mixed_float16"))
    assert float(optimizer.loss_scale) == 2.0**15
    optimizer.count(tf.constant(False))
    assert float(optimizer.loss_scale) == 2.0**14
    count = tf.function(optimizer.count)
    for _ in range(LOSS_SCALE_GROWTH_STEPS - 1):
        count(tf.constant(True))
    assert float(optimizer.loss_scale) == 2.0**14
    count(tf.constant(True))
    assert float(optimizer.loss_scale) == 2.0**15
    for _ in range(30):
        count(tf.constant(False))
    assert float(optimizer.loss_scale) == 1.0


# One update on four virtual devices, in a graph, for each optimizer. Prints the largest difference between the devices
# and one device, and how far the weights moved.
DEVICES = """
import json, sys
import keras
import numpy as np
import tensorflow as tf
sys.path.insert(0, sys.argv[1])
from training.test_registered import GRADIENTS, NAMES, START, norm_of, settings
from t2t_lite.plugins import load_all
from t2t_lite.training.optimizers import LOSS_SCALE_GROWTH_STEPS, make_optimizer
from t2t_lite.training.devices import make_strategy

load_all()
four = make_strategy(virtual_devices=4)

def weights(strategy, name):
    with strategy.scope():
        variables = [keras.Variable(value.astype("float32"), name=f"w{i}") for i, value in enumerate(START)]
        optimizer = make_optimizer(variables, settings(name, clip_norm=1.0, ema_decay=0.5))
    @tf.function
    def step(parts, norm, good):
        replicas = strategy.num_replicas_in_sync
        parts = strategy.run(lambda *parts: [part / replicas for part in parts], args=parts)
        parts = strategy.extended.batch_reduce_to("SUM", list(zip(parts, optimizer.variables)))
        tf.cond(good, lambda: [optimizer.apply(strategy, parts, tf.constant(1.0), norm), 0][1], lambda: 0)
        optimizer.count(good)
    for number, gradients in enumerate([*GRADIENTS, GRADIENTS[0]]):
        parts = tuple(tf.constant(part.astype("float32")) for part in gradients)
        step(parts, tf.constant(norm_of(gradients), tf.float32), tf.constant(number != 1))
    kept = [*optimizer.variables, *optimizer.state.values()]
    return [[part.numpy().tolist() for part in strategy.experimental_local_results(each)] for each in kept]

found = {name: (weights(tf.distribute.get_strategy(), name), weights(four, name)) for name in NAMES}
print(json.dumps(found))
"""


@pytest.mark.heavy
def test_four_devices_update_weights_and_state_as_one():
    results = json.loads(run_python(DEVICES, Path(__file__).resolve().parents[1]).stdout.splitlines()[-1])
    assert sorted(results) == NAMES
    for name, (one, four) in results.items():
        assert np.abs(np.array(one[0][0]) - START[0]).max() > 1e-2, name
        for (alone,), replicas in zip(one, four):
            assert len(replicas) in (1, 4)  # Adafactor has constants that need no copies
            for replica in replicas:
                np.testing.assert_allclose(replica, alone, rtol=1e-6, atol=1e-7, err_msg=name)


def test_a_plug_in_brings_an_optimizer_of_keras(registered):
    def rms(hparams):
        return keras.optimizers.RMSprop(rho=0.9, epsilon=1e-7, weight_decay=hparams.weight_decay)

    registered(OPTIMIZERS, "rms", rms, moments=1)

    def reference(gradient, step, state):
        state["v"] = 0.9 * state["v"] + 0.1 * gradient**2
        return -rate(step) * gradient / np.sqrt(state["v"] + 1e-7)

    assert_close(after_three_steps(settings("rms")), in_numpy(reference))


class _Own(keras.optimizers.SGD):
    def apply(self, grads, trainable_variables=None):
        super().apply(grads, trainable_variables)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda hparams: 0.1, "the optimizer 'own' is float, not a keras.optimizers.Optimizer; register a function"),
        (lambda hparams: keras.optimizers.SGD(clipnorm=1.0), "Keras' argument clipnorm.*set `hparams=clip_norm`"),
        (lambda hparams: keras.optimizers.Adam(use_ema=True), "Keras' argument use_ema.*set `hparams=ema_decay`"),
        (lambda hparams: keras.optimizers.Nadam(), "is of type Nadam, which does not update each variable separately"),
        (lambda hparams: _Own(), "is of type _Own, which does not update each variable separately"),
    ],
)
def test_an_optimizer_that_training_cannot_use_is_refused(registered, rule, message):
    registered(OPTIMIZERS, "own", rule)
    with pytest.raises(UserError, match=message):
        make(settings("own"))
