"""Warm starts against the checkpoint's arrays, and against the tokens that SentencePiece reads from a vocabulary."""

import shutil

import keras
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.data.problem import get_problem
from t2t_lite.data.vocab import train_vocabulary
from t2t_lite.errors import UserError
from t2t_lite.registry import MODELS
from t2t_lite.runs import checkpoints
from t2t_lite.runs.run_dir import prepare_run_dir
from t2t_lite.runs.selection import average_checkpoints
from t2t_lite.training.warm_start import resolve, warm_start

TINY = HParams(num_encoder_layers=1, num_decoder_layers=1, hidden_size=16, filter_size=24, num_heads=2, max_length=20)
PARTS = ("embedding", "inputs_embedding", "projection")
EMBEDDING, INPUTS, PROJECTION = (f"transformer.{part}.weight" for part in PARTS)
NUMBERS = ["one", "two", "three", "four", "five", "six"]
ANIMALS = ["owl", "hen", "goat", "mouse", "horse", "otter"]
WORTE = ["Eule", "Henne", "Ziege", "Maus", "Stute", "Otter"]
SENTENCES = {
    "old": [f"{number} {animal}s see the {other}" for number in NUMBERS for animal, other in zip(ANIMALS, NUMBERS)],
    "new": [f"the {animal} hears {number} Ziegen" for number in NUMBERS for animal in ANIMALS],
    "german": [f"die {wort} hört {animal}" for wort in WORTE for animal in ANIMALS],
}


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory):
    """Three vocabularies, by name, that share some tokens under different ids."""
    directory = tmp_path_factory.mktemp("vocabularies")
    for (name, sentences), size in zip(SENTENCES.items(), (70, 90, 80)):
        train_vocabulary(sentences, size, directory / f"{name}.subwords")
    return {name: directory / f"{name}.subwords" for name in SENTENCES}


def tokens_of(path):
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [model.id_to_piece(number) for number in range(model.get_piece_size())]


def make(hparams, vocabulary, inputs_vocabulary=None, seed=2):
    keras.utils.set_random_seed(seed)
    sizes = [len(tokens_of(path)) for path in (vocabulary, inputs_vocabulary or vocabulary)]
    model = MODELS[hparams.model](hparams.replace(batch_by="both"), *sizes)  # as the run that has such a model
    model.build()
    return model


def values(model):
    return {variable.path.replace("/", "."): np.array(variable) for variable in model.variables}


def save(directory, step, model):
    """Writes a checkpoint of random weights with an optimizer state, and returns the weights."""
    rng = np.random.default_rng(step)
    for variable in model.variables:
        variable.assign(rng.normal(size=variable.shape).astype("float32"))
    weights = checkpoints.by_name(model.variables)
    slots = {f"momentum.{name}": tf.Variable(tf.zeros_like(variable)) for name, variable in weights.items()}
    optimizer = slots | {"iterations": tf.Variable(step)}
    checkpoints.write(directory / f"ckpt-{step}", model=weights, optimizer=optimizer)
    return values(model)


def train_run(directory, hparams, vocabulary, inputs_vocabulary=None):
    """Creates a run directory with checkpoints 100 and 200; returns the weights of the latter."""
    prepare_run_dir(directory, hparams, get_problem("grammar_ende"), vocabulary, inputs_vocabulary=inputs_vocabulary)
    model = make(hparams, vocabulary, inputs_vocabulary)
    save(directory, 100, model)
    return save(directory, 200, model)


@pytest.fixture
def run(tmp_path, vocabularies):
    """A run directory, and the weights of its last checkpoint."""
    return tmp_path / "run", train_run(tmp_path / "run", TINY, vocabularies["old"])


def started(hparams, path, vocabulary, inputs_vocabulary=None):
    """Returns (weights before, weights after, lines) of a warm start of a new model."""
    model = make(hparams, vocabulary, inputs_vocabulary)
    before = values(model)
    lines = warm_start(model, path, vocabulary, inputs_vocabulary or vocabulary)
    return before, values(model), lines


def assert_same(one, other, but=()):
    """Asserts that the weights of two models are equal, except for some."""
    assert one.keys() - set(but) == other.keys() - set(but)
    for name in one.keys() - set(but):
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def assert_rows_by_token(after, before, tokens, old_rows, old_tokens):
    """Asserts that every row was loaded from the same token's row, or is unchanged; returns how many were loaded."""
    shared = 0
    for number, token in enumerate(tokens):
        found = token in old_tokens
        expected = old_rows[old_tokens.index(token)] if found else before[number]
        np.testing.assert_array_equal(after[number], expected, err_msg=token)
        shared += found
    assert 3 < shared < len(tokens), "the case has nothing to tell apart"
    return shared


def test_a_run_with_the_same_settings_gives_every_weight_and_is_not_changed(run, vocabularies, snapshot):
    directory, old = run
    files = snapshot(directory)
    before, after, lines = started(TINY, directory, vocabularies["old"])
    assert_same(after, old)
    assert not np.array_equal(before[EMBEDDING], old[EMBEDDING])
    assert lines == [f"warm start from {directory}/ckpt-200: {len(old)} of {len(old)} weights loaded"]
    assert snapshot(directory) == files


@pytest.mark.parametrize("tied", ["all", "none"])
def test_with_other_vocabularies_rows_follow_their_tokens(tmp_path, vocabularies, tied):
    hparams, directory = TINY.replace(tied_embeddings=tied), tmp_path / "run"
    # The vocabularies of the run and of the new model, by table.
    tables = {EMBEDDING: ("old", "new")}
    if tied == "none":
        tables |= {PROJECTION: ("old", "new"), INPUTS: ("german", "old")}
    (then, now), inputs = tables[EMBEDDING], tables.get(INPUTS, (None, None))
    old = train_run(directory, hparams, vocabularies[then], vocabularies.get(inputs[0]))
    before, after, lines = started(hparams, directory, vocabularies[now], vocabularies.get(inputs[1]))
    assert_same(after, old, but=tables)
    parts = set()
    for name, (then, now) in tables.items():
        old_tokens, tokens = tokens_of(vocabularies[then]), tokens_of(vocabularies[now])
        shared = assert_rows_by_token(after[name], before[name], tokens, old[name], old_tokens)
        parts.add(f"  in part: {name}: {shared} of {len(tokens)} tokens")
    loaded = f"{len(old) - len(tables)} of {len(old)} weights loaded, {len(tables)} in part"
    assert lines[0] == f"warm start from {directory}/ckpt-200: {loaded}" and set(lines[1:]) == parts


def test_weights_of_another_filter_size_keep_their_initial_values_and_are_reported(run, vocabularies):
    directory, old = run
    before, after, lines = started(TINY.replace(filter_size=40), directory, vocabularies["old"])
    changed = [name for name in after if after[name].shape != old[name].shape]
    assert len(changed) == 6  # two kernels and a bias in each layer
    assert_same(after, old, but=changed)
    for name in changed:
        np.testing.assert_array_equal(after[name], before[name], err_msg=name)
        assert f"  not loaded: {name}: {old[name].shape} in the checkpoint, {after[name].shape} in this model" in lines
    assert lines[0].endswith(f"{len(old) - 6} of {len(old)} weights loaded, 6 not loaded")
    assert lines[-1] == "  settings of that run: filter_size: 24, not 40"


@pytest.mark.parametrize("there, here", [(1, 2), (2, 1)])
def test_with_another_number_of_layers_the_common_ones_are_loaded(tmp_path, vocabularies, there, here):
    old = train_run(tmp_path / "run", TINY.replace(num_decoder_layers=there), vocabularies["old"])
    before, after, lines = started(TINY.replace(num_decoder_layers=here), tmp_path / "run", vocabularies["old"])
    added, left_over = after.keys() - old.keys(), old.keys() - after.keys()
    assert_same(after, old, but=added | left_over)
    assert_same({name: before[name] for name in added}, {name: after[name] for name in added})
    (number,) = {len(added), len(left_over)} - {0}
    kind, where = ("not loaded", "the checkpoint") if added else ("unused", "this model")
    assert f"  {kind}: transformer.decoder_1 ({number} weights): not in {where}" in lines
    whole = f"{len(after)} weights loaded, {number} in the checkpoint unused"
    assert lines[0].endswith(f"{number} not loaded" if added else whole)


def test_mirrored_weights_are_loaded_on_their_devices(run, vocabularies):
    directory, old = run
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = make(TINY, vocabularies["old"])
    assert isinstance(model.variables[0].value, tf.distribute.DistributedValues)
    warm_start(model, directory, vocabularies["old"], vocabularies["old"])
    assert_same(values(model), old)


def test_a_run_stands_for_its_last_checkpoint_and_an_average_is_refused_whatever_its_name(run):
    directory, _ = run
    path, _ = average_checkpoints(directory, 2)
    assert resolve(directory)[1] == directory / "ckpt-200"
    for ending in (".index", ".data-00000-of-00001"):
        shutil.copy(f"{path}{ending}", f"{directory / 'ckpt-900'}{ending}")
    for name in ("average-200", "ckpt-900"):
        said = r"average of the checkpoints of steps 100, 200.* such as ckpt-200"
        with pytest.raises(UserError, match=said) as error:
            resolve(directory / name)
        assert f"`warm_start_from={directory / name}`" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "path, said",
    [
        *((path, "neither a run directory nor a checkpoint") for path in ("nowhere", ".", "loose/ckpt-200")),
        ("run/ckpt-300", "no such checkpoint; use one in .*run, such as ckpt-100, ckpt-200"),
        ("run/run.json", "no such checkpoint"),
        ("empty", "no checkpoint yet"),
    ],
)
def test_a_path_that_is_not_a_checkpoint_of_a_run_is_refused(run, vocabularies, tmp_path, path, said):
    prepare_run_dir(tmp_path / "empty", TINY, get_problem("grammar_ende"), vocabularies["old"])
    (tmp_path / "loose").mkdir()
    for file in run[0].glob("ckpt-200.*"):
        (tmp_path / "loose" / file.name).write_bytes(file.read_bytes())
    with pytest.raises(UserError, match=said) as caught:
        resolve(tmp_path / path)
    assert str(tmp_path / path) in str(caught.value) and "\n" not in str(caught.value)


def test_if_no_weight_fits_the_model_is_not_changed(run, vocabularies):
    model = make(TINY.replace(hidden_size=32), vocabularies["old"])
    before = values(model)
    with pytest.raises(UserError, match="hidden_size: 16, not 32") as caught:
        warm_start(model, run[0], vocabularies["old"], vocabularies["old"])
    assert str(run[0] / "ckpt-200") in str(caught.value) and "\n" not in str(caught.value)
    assert_same(values(model), before)
