"""The whole model: forward passes in NumPy, stepping with hard alignment, precision, what subclasses may do."""

import numpy as np
import pytest
import tensorflow as tf
from support.beams import descending_beams
from support.paper import PaperInNumpy

from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.layers.beam_ancestry import initial_ancestry, next_ancestry
from t2t_lite.layers.positions import NoPositions, PositionEncoding
from t2t_lite.layers.self_attention import SelfAttention
from t2t_lite.models.hard_alignment import HardAlignmentTransformer
from t2t_lite.models.sublayers import encoder_layer
from t2t_lite.models.transformer import Transformer
from t2t_lite.registry import POSITION_ENCODINGS

VOCAB = 13
SMALL = HParams(num_encoder_layers=2, num_decoder_layers=3, hidden_size=16, filter_size=24, num_heads=4)
INPUTS = np.array([[3, 4, 5, 6, 1], [7, 8, 1, 0, 0]], "int32")
TARGETS = np.array([[9, 2, 12, 1, 0, 0], [5, 5, 3, 4, 6, 1]], "int32")


def make(hparams=SMALL, kind=Transformer):
    model = kind(hparams, VOCAB)
    model.build()
    PaperInNumpy.randomize(model)
    return model


@pytest.fixture(scope="module")
def model():
    return make()


def tokens(ids):
    """The ids without the padding at their end."""
    return [int(token) for token in ids if token != 0]


def test_logits_equal_a_numpy_forward_pass_of_each_sentence(model):
    logits = np.array(model(INPUTS, TARGETS))
    assert logits.shape == (*TARGETS.shape, VOCAB)
    for row in range(len(INPUTS)):
        expected = PaperInNumpy.logits(model, tokens(INPUTS[row]), tokens(TARGETS[row]))
        np.testing.assert_allclose(logits[row, : len(expected)], expected, atol=1e-4)


# Words of one token or of several tokens: each begins with token 7. One word has no other token.
SUBWORDS = np.array([[7, 4, 7, 5, 6, 7, 7, 2, 1], [7, 3, 8, 1, 0, 0, 0, 0, 0]], "int32")


@pytest.mark.parametrize(("inputs", "word_token"), [(INPUTS, None), (SUBWORDS, 7)], ids=["words", "subwords"])
def test_hard_alignment_adds_the_encoder_output_of_the_next_source_word(inputs, word_token):
    hparams = SMALL.replace(hard_alignment_token=5, source_word_token=word_token or 0)
    model = make(hparams, HardAlignmentTransformer)
    logits = np.array(model(inputs, TARGETS))
    for row in range(len(inputs)):
        source = tokens(inputs[row])
        expected = PaperInNumpy.logits(model, source, tokens(TARGETS[row]), counted=5, word_token=word_token)
        np.testing.assert_allclose(logits[row, : len(expected)], expected, atol=1e-5)
        without = PaperInNumpy.logits(model, source, tokens(TARGETS[row]))
        assert abs(without - expected).max() > 1e-3


def test_the_decoder_sees_the_innermost_open_bracket():
    model = make(
        SMALL.replace(hard_alignment_token=4, hard_alignment_count=2, bracket_labels=2), HardAlignmentTransformer
    )
    targets = np.array([[6, 4, 7, 5, 9, 4, 8, 1], [7, 7, 4, 8, 8, 8, 6, 1]], "int32")
    logits = np.array(model(INPUTS, targets))
    for row in range(len(INPUTS)):
        source, written = tokens(INPUTS[row]), tokens(targets[row])
        expected = PaperInNumpy.logits(model, source, written, counted=[4, 5], brackets={6: 1, 7: 2, 8: 0, 9: 0})
        np.testing.assert_allclose(logits[row], expected, atol=1e-5)
        assert abs(PaperInNumpy.logits(model, source, written, counted=[4, 5]) - expected).max() > 1e-3


def test_attention_to_words_of_several_tokens_is_attention_to_their_first_tokens():
    model = make(SMALL.replace(hard_alignment_token=5, source_word_token=7), HardAlignmentTransformer)
    length, firsts = SUBWORDS.shape[1], [[0, 2, 5, 6, 8], [0, 3]]
    of_word = [[0, 0, 1, 1, 1, 2, 3, 3, 4], [0, 0, 0, 1]]  # the word of each token
    cross = np.array(model.attention(SUBWORDS, TARGETS, "cross", 1))
    encoder = np.array(model.attention(SUBWORDS, TARGETS, "encoder", 1))
    assert cross.shape == (2, 4, TARGETS.shape[1], length) and encoder.shape == (2, 4, length, length)
    for row in range(2):
        np.testing.assert_allclose(cross[row].sum(-1), 1.0, rtol=1e-5)
        np.testing.assert_allclose(encoder[row].sum(-1), 1.0, rtol=1e-5)
        others = np.setdiff1d(np.arange(length), firsts[row])
        assert not cross[row][..., others].any() and not encoder[row][..., others].any()
        for token, word in enumerate(of_word[row]):
            np.testing.assert_array_equal(encoder[row][:, token], encoder[row][:, firsts[row][word]])
    encoded_source, state = model.start_decoding(SUBWORDS, 1, 6)
    ancestry = next_ancestry(initial_ancestry(2, 1, 6), np.zeros((2, 1), "int32"), 0)
    _, _, stepped = model.decode_step(np.zeros((2, 1), "int32"), 0, encoded_source, state, ancestry)
    layer = np.array(model.attention(SUBWORDS, TARGETS, "cross", model.alignment_layer)).mean(1)
    np.testing.assert_allclose(np.array(stepped)[:, 0], layer[:, 0], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("room", "inputs", "settings"),
    [(0, INPUTS, {}), (3, INPUTS, {"bracket_labels": 3}), (3, SUBWORDS, {"source_word_token": 7})],
    ids=str,
)
def test_hard_alignment_and_brackets_follow_the_beam_ancestry(room, inputs, settings):
    hparams = SMALL.replace(hard_alignment_token=5, **settings)
    model = make(hparams, HardAlignmentTransformer)
    encoded_source, state = model.start_decoding(inputs, 3, 6 + room)
    for position, ancestry, histories in descending_beams(2, 3, 6, VOCAB, room):
        logits, state, _ = model.decode_step(histories[:, :, -1], position, encoded_source, state, ancestry)
        expected = after(model, inputs, histories)
        np.testing.assert_allclose(np.array(logits), expected, atol=1e-4)


def test_every_variable_is_trainable_with_a_unique_path_that_is_the_same_in_every_model(model):
    paths = [variable.path for variable in model.variables]
    assert len(paths) == len(set(paths)) == len(model.trainable_variables)
    assert paths == [variable.path for variable in make().variables]


def after(model, inputs, histories):
    """The next-token logits after each history, int [batch, beam, length] that begins with 0, from one full pass."""
    batch, beam_size, length = histories.shape
    targets = np.concatenate([histories[:, :, 1:], np.ones((batch, beam_size, 1), "int32")], axis=2)
    whole = model(inputs.repeat(beam_size, axis=0), targets.reshape(batch * beam_size, length))
    return np.array(whole)[:, -1].reshape(batch, beam_size, -1)


class RampPositions(PositionEncoding):
    def encode(self, positions):
        return tf.cast(positions, "float32")[:, None] * tf.ones([self.hidden_size])


def test_a_new_encoding_needs_a_class_and_its_name_only(registered):
    registered(POSITION_ENCODINGS, "ramp", lambda hparams, **options: RampPositions(hparams.hidden_size, **options))
    model = make(SMALL.replace(position_encoding="ramp"))
    embedded = np.array(model._embed(np.array([[5, 5, 5]], "int32"), "inputs", None))
    np.testing.assert_allclose(embedded[0, 2] - embedded[0, 0], 2.0, rtol=1e-5)
    # Stepping adds it, too.
    encoded_source, state = model.start_decoding(INPUTS, 1, 6)
    for position, ancestry, histories in descending_beams(2, 1, 6, VOCAB):
        logits, state, _ = model.decode_step(histories[:, :, -1], position, encoded_source, state, ancestry)
        np.testing.assert_allclose(np.array(logits), after(model, INPUTS, histories), atol=1e-4)


def test_an_entry_says_which_other_settings_it_requires(registered):
    registered(
        POSITION_ENCODINGS,
        "picky",
        lambda hparams, **options: NoPositions(hparams.hidden_size, **options),
        requires={"feed_forward_type": ("swiglu",)},
    )
    assert HParams(position_encoding="picky", feed_forward_type="swiglu").position_encoding == "picky"
    with pytest.raises(UserError, match=r"feed_forward_type=relu .* must be swiglu with position_encoding=picky"):
        HParams(position_encoding="picky")


def test_a_model_of_an_earlier_version_is_refused_with_the_new_names():
    class Old(Transformer):
        def grow_caches(self, caches, beam_size, max_length):
            return caches

    with pytest.raises(UserError, match=r"model Old: since version 0\.2, the method grow_caches is called grow_state"):
        Old(SMALL, VOCAB)


class WithoutCrossAttention(Transformer):
    """A subclass whose decoder looks at what it has written only."""

    def __init__(self, hparams, *sizes, **kwargs):
        super().__init__(hparams, *sizes, **kwargs)
        self.decoder_layers = [encoder_layer(hparams, i, self.dtype_policy) for i in range(hparams.num_decoder_layers)]


@pytest.mark.parametrize(
    ("kind", "changes", "expected"),
    [
        (Transformer, {}, {"encoder": 2, "decoder": 3, "cross": 3}),
        (Transformer, {"self_attention_type": "convolution"}, {"cross": 3}),
        (WithoutCrossAttention, {}, {"encoder": 2, "decoder": 3}),
    ],
)
def test_a_model_says_which_of_its_layers_have_attention_weights(kind, changes, expected):
    assert kind(SMALL.replace(**changes), VOCAB).attention_layers() == expected


def test_a_self_attention_with_its_own_step_is_compacted_only_if_it_says_so():
    class OwnStep(SelfAttention):
        def step(self, *arguments):
            return super().step(*arguments)

    class OwnCompact(OwnStep):
        def compact_cache(self, cache, kept):
            return super().compact_cache(cache, kept)

    changed = make()
    assert changed.can_compact
    for kind, expected in ((OwnStep, False), (OwnCompact, True)):
        # Keras refuses new layers in a built one.
        object.__setattr__(changed.decoder_layers[0], "self_attention", kind(8, 2, causal=True))
        assert changed.can_compact is expected
