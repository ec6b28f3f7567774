"""The choices of settings, from the registries: each one changes what the model computes."""

import itertools
import zlib

import keras
import numpy as np
import pytest
from support.models import SMALL_MODEL

from t2t_lite.config import HParams, choices
from t2t_lite.errors import UserError
from t2t_lite.layers.positions import NoPositions
from t2t_lite.models.building import make_model
from t2t_lite.registry import POSITION_ENCODINGS, REGISTRIES_OF_SETTINGS

SETTINGS = SMALL_MODEL.replace(neighborhood_size=2, max_length=16, num_encoder_layers=2, num_decoder_layers=2)
VOCAB = 11
IDS = np.array([[4, 9, 3, 5, 8, 2, 7, 1], [6, 3, 1, 0, 0, 0, 0, 0]], "int32")


def logits(hparams):
    """The logits of a model whose weights depend on nothing but their paths and shapes."""
    model = make_model(hparams, VOCAB)
    for variable in model.variables:
        seed = zlib.crc32(variable.path.encode())
        values = np.random.default_rng(seed).normal(size=variable.shape) * 0.3
        variable.assign(values + ("gamma" in variable.path or "scale" in variable.path))
    return np.array(keras.ops.cast(model(IDS, IDS), "float32"))


@pytest.mark.slow
@pytest.mark.parametrize("name", choices())
def test_every_two_choices_of_a_setting_give_different_logits(name):
    results = {word: logits(SETTINGS.replace(**{name: word})) for word in choices()[name]}
    for one, other in itertools.combinations(results, 2):
        difference = np.abs(results[one] - results[other])[IDS > 0]
        assert difference.max() > 1e-3, f"{name}={one} and {other} compute the same"
        assert np.isfinite(difference).all()


@pytest.mark.parametrize("name", [name for name in REGISTRIES_OF_SETTINGS if name != "model"])
def test_an_unknown_choice_is_refused_with_those_that_are_registered(name):
    with pytest.raises(UserError, match=f"{name}=nothing is out of range: it must be ") as caught:
        HParams().replace(**{name: "nothing"})
    assert caught.value.status == 2
    assert str(caught.value).endswith(" or ".join(REGISTRIES_OF_SETTINGS[name]))


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
