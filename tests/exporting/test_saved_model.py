"""A SavedModel gives what a translator gives: tokens, search and texts are in its graph."""

import numpy as np
import pytest
import tensorflow as tf
from support.exported import SMALL, WORDS, random_model, word_vocabulary

from t2t_lite.config import DecodeHParams, choices
from t2t_lite.data.vocab import open_vocabulary, train_vocabulary
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.exporting import saved_model
from t2t_lite.registry import HPARAMS

LINES = ["w1 w2 w3", "", " \t\u00a0", " ".join(WORDS), " ".join(2 * WORDS), "  w5  w6", "Ünknown 🐶 w9\tw8", "w7"]
# A kind of vocabulary, settings of the model, and settings of the search.
KINDS = {
    "words": ({"spread": 1.5}, {"beam_size": 4, "max_input_length": 40}),
    "bpe": (
        {"norm_position": "pre", "position_encoding": "rotary"},
        {"beam_size": 2, "coverage_penalty": 0.3, "min_length": 3},
    ),
    "wordpiece": ({"self_attention_type": "local", "neighborhood_size": 4}, {"beam_size": 3, "min_length_ratio": 1.2}),
    "characters": ({"position_encoding": "learned", "max_length": 40}, {"beam_size": 1, "no_repeat_ngram_size": 2}),
    "bytes": ({"self_attention_type": "recurrent"}, {"beam_size": 4, "diverse_beam_groups": 2, "allow_unk": True}),
}


def rows_of(found):
    return [
        [(text.decode(), float(score), float(log_prob)) for text, score, log_prob in zip(*row) if score > -1e8]
        for row in zip(*(found[name].numpy() for name in ("outputs", "scores", "log_probs")))
    ]


def assert_same(found, expected):
    for row, beams in zip(rows_of(found), expected, strict=True):
        texts = [text for text, *_ in row]  # a translator has each text once
        row = [each for place, each in enumerate(row) if each[0] not in texts[:place]]
        assert [text for text, *_ in row] == [each.text for each in beams]
        np.testing.assert_allclose([each[1:] for each in row], [each[1:] for each in beams], atol=1e-4)


# A graph takes ten seconds to trace, to save and to load.
@pytest.mark.heavy
@pytest.mark.parametrize("kind", KINDS)
def test_strings_and_ids_give_the_texts_and_scores_of_a_translator(tmp_path, kind):
    sizes = {"words": 30, "bpe": 90, "wordpiece": 330, "characters": 290, "bytes": 259}
    train_vocabulary(LINES * 3, sizes[kind], tmp_path / "vocab", kind)
    vocabulary = open_vocabulary(tmp_path / "vocab")
    settings, search = KINDS[kind]
    model = random_model(vocabulary.size, **settings)
    decode_hparams = DecodeHParams(extra_length=30).replace(**search)
    saved_model.write(model, vocabulary, vocabulary, decode_hparams, tmp_path / "saved")
    # A server may have been built without XLA.
    assert b"Xla" not in (tmp_path / "saved" / "saved_model.pb").read_bytes()
    signatures = tf.saved_model.load(str(tmp_path / "saved")).signatures
    translator = Translator(model, vocabulary, decode_hparams, warn=lambda line: None, xla_compile=False)
    assert_same(signatures["serving_default"](inputs=tf.constant(LINES)), translator.n_best(LINES))
    # Alone, a line is not padded.
    (alone,) = rows_of(signatures["serving_default"](inputs=tf.constant(LINES[3:4])))
    np.testing.assert_allclose(alone[0][1], translator.n_best(LINES[3:4])[0][0].score, atol=1e-4)
    found = signatures["with_alpha"](inputs=tf.constant(LINES[3:6]), alpha=tf.constant(1.7))
    assert_same(found, translator.n_best(LINES[3:6], alpha=1.7))
    ids = tf.ragged.constant(vocabulary.ids_of(LINES[5:]), tf.int32).to_tensor()
    found = signatures["token_ids"](inputs=ids)
    assert [vocabulary.decode(row)[0] for row in found["ids"].numpy()] == translator.translate(LINES[5:])


def kinds_of_models():
    """The settings that choose layers, of sets of the registry that together have every choice of its sets."""
    kinds, seen = {}, set()
    for name in HPARAMS:
        hparams = HPARAMS[name]()
        chosen = {field: getattr(hparams, field) for field in (*choices(), "hard_alignment_token")}
        if not seen >= chosen.items():
            kinds[name] = chosen
        seen |= chosen.items()
    return kinds


@pytest.mark.heavy
@pytest.mark.parametrize("name", kinds_of_models())
def test_every_choice_of_layers_in_the_registry_has_the_log_probabilities_of_the_keras_model(tmp_path, name):
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1, "parameter_heads": 2, "parameter_pairs": 8}
    settings = kinds_of_models()[name] | layers | {"precision": "float32", "neighborhood_size": 4}
    model, vocabulary = random_model(30, **SMALL | settings), word_vocabulary(tmp_path)
    search = DecodeHParams(beam_size=2, extra_length=6)
    saved_model.write(model, vocabulary, vocabulary, search, tmp_path / "saved")
    ids = tf.ragged.constant(vocabulary.ids_of(LINES[3:6]), tf.int32).to_tensor()
    found = tf.saved_model.load(str(tmp_path / "saved")).signatures["token_ids"](inputs=ids)
    for source, targets, log_probs in zip(ids, found["ids"].numpy(), found["log_probs"].numpy(), strict=True):
        logits = model(tf.stack([source, source]), tf.constant(targets))
        of_tokens = tf.gather(tf.nn.log_softmax(logits), targets, batch_dims=2).numpy()
        np.testing.assert_allclose((of_tokens * (targets != 0)).sum(1), log_probs, atol=1e-4)
        assert log_probs.max() < -0.1


@pytest.mark.parametrize(
    ("settings", "has_inputs", "message"),
    [
        ({"sampling_method": "random"}, True, "sampling_method"),
        ({"constraints": "no_repeat"}, True, "constraints"),
        ({"precision": "mixed_bfloat16"}, True, "precision"),
        ({}, False, "needs inputs"),
    ],
)
def test_what_a_graph_cannot_have_is_refused_by_name(settings, has_inputs, message):
    with pytest.raises(UserError, match=message):
        saved_model.check(DecodeHParams().replace(**settings), has_inputs=has_inputs)
