"""Models as Keras users know them: configs, saving, cloning, summaries, dtypes, `fit`, and what is refused."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from support.models import SMALL_MODEL

from t2t_lite.errors import UserError
from t2t_lite.losses import SmoothedCrossEntropy
from t2t_lite.models import HardAlignmentTransformer, Transformer
from t2t_lite.schedules import InverseSqrt
from t2t_lite.training.devices import make_strategy
from t2t_lite.training.micro_batching import distribute_batches
from t2t_lite.training.optimizers import make_optimizer
from t2t_lite.training.step import TrainStep

pytestmark = pytest.mark.slow

VOCAB = 13
INPUTS = np.array([[3, 4, 5, 6, 1], [7, 8, 1, 0, 0]], "int32")
TARGETS = np.array([[9, 2, 12, 1], [5, 1, 0, 0]], "int32")
# Batches with padding, of different shapes.
BATCHES = [
    (INPUTS, TARGETS),
    (np.array([[3, 4, 1], [5, 1, 0], [6, 1, 0]]), np.array([[3, 2, 4, 2, 1], [9, 7, 1, 0, 0], [1, 0, 0, 0, 0]])),
    (np.array([[8, 8, 2, 1]]), np.array([[4, 4, 1]])),
]


def make(kind=Transformer, **changes):
    model = kind(SMALL_MODEL.replace(**changes), VOCAB)
    model.build()
    return model


def batches():
    """The batches as `fit` takes them: ((inputs, targets), labels)."""
    ids = tf.TensorSpec((None, None), tf.int32)
    pairs = [((inputs, targets), targets) for inputs, targets in BATCHES]
    return tf.data.Dataset.from_generator(lambda: iter(pairs), output_signature=((ids, ids), ids))


def compiled(model, rate=None):
    schedule = InverseSqrt(model.hparams.hidden_size, warmup_steps=model.hparams.learning_rate_warmup_steps)
    adam = keras.optimizers.Adam(schedule if rate is None else rate, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    model.compile(adam, SmoothedCrossEntropy(0.1))
    return model


@pytest.fixture(scope="module")
def model(paper):
    model = make()
    paper.randomize(model)
    return model


@pytest.fixture(scope="module")
def fitted():
    """A model with much dropout that `fit` has trained with a learning rate of 0."""
    model = compiled(make(residual_dropout=0.5), rate=0.0)
    model.fit((INPUTS, TARGETS), TARGETS, verbose=0)
    return model


def assert_same(one, other, inputs=INPUTS, targets=TARGETS):
    np.testing.assert_array_equal(one(inputs, targets), other(inputs, targets))


@pytest.mark.parametrize("kind", [Transformer, HardAlignmentTransformer])
def test_a_config_makes_the_same_model(kind):
    model = kind(SMALL_MODEL.replace(hard_alignment_token=5 if kind is HardAlignmentTransformer else 0), VOCAB, 11)
    again = kind.from_config(model.get_config())
    assert type(again) is kind
    assert (again.hparams, again.vocab_size, again.inputs_vocab_size) == (model.hparams, VOCAB, 11)
    model.build()
    assert [variable.path for variable in again.variables] == [variable.path for variable in model.variables]
    assert keras.models.model_from_json(model.to_json()).get_config() == model.get_config()


def test_a_config_of_another_version_is_refused_in_one_line(model):
    config = model.get_config()
    config["hparams"] = config["hparams"] | {"hidden_sizes": 3}
    with pytest.raises(UserError, match="the config of the model does not contain settings of this version") as error:
        Transformer.from_config(config)
    assert "\n" not in str(error.value)


@pytest.mark.heavy
def test_a_saved_model_is_loaded_in_another_process(model, tmp_path):
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "batch.npz", inputs=INPUTS, targets=TARGETS, logits=model(INPUTS, TARGETS))
    program = f"""
import keras, numpy as np, t2t_lite.models
model, batch = keras.models.load_model("{tmp_path}/model.keras"), np.load("{tmp_path}/batch.npz")
assert np.array_equal(model(batch["inputs"], batch["targets"]), batch["logits"])
assert "tensorflow" in keras.backend.backend()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_compiled_model_is_loaded_with_loss_and_optimizer(fitted, tmp_path):
    fitted.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.loss.get_config() == fitted.loss.get_config()
    assert int(loaded.optimizer.iterations) == int(fitted.optimizer.iterations) > 0


@pytest.mark.parametrize("frozen", [False, True])
def test_weights_are_set_and_loaded_also_in_a_frozen_model(model, tmp_path, frozen):
    model.save_weights(tmp_path / "model.weights.h5")
    by_list, by_file = make(), make()
    for other in (by_list, by_file) if frozen else ():
        other.freeze()
    by_list.set_weights(model.get_weights())
    by_file.load_weights(tmp_path / "model.weights.h5")
    assert_same(by_list, model)
    assert_same(by_file, model)


@pytest.mark.parametrize("changes", [{}, {"position_encoding": "learned", "norm_position": "pre"}])
def test_the_summary_has_shapes_and_counts_of_every_part(changes):
    model, lines = make(tied_embeddings="none", **changes), []
    model.summary(print_fn=lambda text, line_break=True: lines.append(text), line_length=120)
    (table,) = lines
    rows = [line for line in table.splitlines() if line.startswith("│")]
    assert len(rows) == len(model.layers)
    assert all(f"(None, None, {SMALL_MODEL.hidden_size})" in row for row in rows)
    assert not any("unbuilt" in row for row in rows)
    assert f"Total params: {sum(int(np.prod(v.shape)) for v in model.variables):,} " in table


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", keras.DTypePolicy("mixed_bfloat16")])
def test_the_argument_dtype_overrides_the_precision_of_the_settings(dtype):
    model = Transformer(SMALL_MODEL, VOCAB, dtype=dtype)
    assert (model.hparams.precision, model.compute_dtype) == ("mixed_bfloat16", "bfloat16")
    assert model(INPUTS, TARGETS).dtype == "bfloat16"
    again = Transformer.from_config(model.get_config())
    assert again.dtype_policy == model.dtype_policy
    assert Transformer(model.hparams, VOCAB, dtype="float32").hparams == SMALL_MODEL


def test_three_steps_of_fit_equal_three_of_the_trainer():
    # Adam divides by a gradient's size. Where that is nearly 0, as in one of 24 random starts, it magnifies rounding.
    keras.utils.set_random_seed(1)
    changes = dict.fromkeys(("residual_dropout", "attention_dropout", "relu_dropout"), 0.0)
    ours = make(learning_rate_warmup_steps=16, **changes)
    keras_model = keras.models.clone_model(ours)
    keras_model.set_weights(ours.get_weights())
    before = ours.get_weights()
    compiled(keras_model).fit(batches(), verbose=0)
    strategy = make_strategy()
    parts = batches().map(lambda pair, labels: {"inputs": pair[0], "targets": pair[1]})
    distributed = distribute_batches(strategy, parts)
    optimizer = make_optimizer(ours.trainable_variables, ours.hparams)
    step = TrainStep(strategy, ours, optimizer, distributed.element_spec, 1)
    for batch in distributed:
        step(batch)
    worst, moved = 0.0, np.inf
    for one, other, old in zip(ours.get_weights(), keras_model.get_weights(), before):
        worst, moved = max(worst, np.abs(one - other).max()), min(moved, np.abs(one - old).max())
    print(f"largest difference {worst:.1e}; the weight that moves least moves by {moved:.1e}")
    assert worst < 1e-5
    assert moved > 1e-2


def test_fit_has_new_dropout_masks_in_each_step_and_evaluate_none(fitted):
    batch = (INPUTS, TARGETS), TARGETS
    trained = [float(fitted.train_on_batch(*batch)) for _ in range(3)]  # the learning rate is 0
    assert len(set(trained)) == 3
    evaluated = fitted.evaluate(*batch, verbose=0)
    assert evaluated == pytest.approx(float(fitted.loss(TARGETS, fitted(INPUTS, TARGETS))), abs=1e-5)
    assert min(abs(loss - evaluated) for loss in trained) > 1e-4
    logits = fitted.predict((INPUTS, TARGETS), verbose=0)
    np.testing.assert_allclose(logits, fitted(INPUTS, TARGETS), atol=1e-5)


class WithoutTraining(Transformer):
    def call(self, inputs, targets, seeds=None):
        return super().call(inputs, targets, seeds)


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda model: model(INPUTS), "takes inputs and targets, or the pair .inputs, targets., not one ndarray"),
        (lambda model: model((INPUTS, TARGETS, TARGETS)), "not one tuple"),
        (lambda model: model.predict(INPUTS, verbose=0), "the model takes inputs and targets"),
        (lambda model: model.export("folder"), "export.. is not supported; save the model with save"),
        (lambda model: model.quantize("int8"), "quantize.. is not supported"),
        (lambda model: model.save("model.h5"), "save it to a .keras file"),
        (lambda model: Transformer(SMALL_MODEL, VOCAB, dtype="float64"), "dtype='float64' is not supported .* float32"),
        (
            lambda model: compiled(make(WithoutTraining)).fit((INPUTS, TARGETS), TARGETS, verbose=0),
            "WithoutTraining.call has no argument `training`",
        ),
    ],
)
def test_what_is_not_offered_is_refused_in_one_line(model, attempt, message):
    with pytest.raises(UserError, match=message) as error:
        attempt(model)
    assert "\n" not in str(error.value)
