"""A small random model with its vocabularies, and its export for CTranslate2."""

import json

import numpy as np

from t2t_lite.config import DecodeHParams, HParams
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.decoding.ctranslate2_engine import CTranslate2Engine
from t2t_lite.decoding.options import EngineOptions
from t2t_lite.decoding.tensorflow_engine import TensorFlowEngine
from t2t_lite.decoding.translator import Translator
from t2t_lite.exporting import ctranslate2_model
from t2t_lite.models.building import make_model

WORDS = [f"w{number}" for number in range(27)]
SMALL = {"num_encoder_layers": 2, "num_decoder_layers": 2, "hidden_size": 16, "filter_size": 32, "num_heads": 2}
SMALL |= {"max_length": 64}


def random_model(vocab_size=30, inputs_vocab_size=None, seed=0, spread=1.0, **settings):
    """A model whose weights, norms and biases included, are random; larger ones with a larger `spread`."""
    model = make_model(HParams(**SMALL | settings), vocab_size, inputs_vocab_size, random_seed=seed)
    random = np.random.default_rng(seed)
    for variable in model.weights:
        noise = random.normal(size=variable.shape).astype("float32")
        variable.assign_add(spread * noise * max(variable.shape[:1]) ** -0.5)
    return model


def word_vocabulary(folder, words=WORDS):
    """A vocabulary of words."""
    path = folder / f"vocab.{len(words)}"
    path.write_text(json.dumps({"kind": "words", "pieces": list(words)}))
    return open_vocabulary(path)


def engines(model, vocabulary, folder, quantization=None):
    """The engines of both kinds with the same weights."""
    tokens = vocabulary.tokens()
    ctranslate2_model.write(model, tokens, tokens, folder, quantization)
    positions = model.max_positions or ctranslate2_model.POSITIONS
    of_both, options = (vocabulary, vocabulary), EngineOptions(warn=print, xla_compile=False, num_threads=1)
    return (
        TensorFlowEngine(model, options),
        CTranslate2Engine(folder, *of_both, positions, "the limit", model.alignment_layer, options),
    )


def translators(model, vocabulary, folder, **settings):
    """Translators with both engines."""
    decode_hparams = DecodeHParams(**settings)
    return [Translator(engine, vocabulary, decode_hparams, warn=print) for engine in engines(model, vocabulary, folder)]
