"""Writes t2t_references.json.gz: what tensor2tensor 1.15.7 itself makes of small models with random weights.

It runs with tensor2tensor on TensorFlow 2.13, not with this package. There, empty modules must take the place of those
that tensor2tensor imports and a translation does not need (gym, cv2, tensorflow_gan and so on). It reads pairs of texts
separated by a tab:

    PYTHONPATH=tests python tests/importing/make_t2t_references.py pairs.tsv tests/importing/t2t_references.json.gz
"""

import collections
import gzip
import json
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from support.t2t_values import value_of
from tensorflow.python.framework import ops

ops.IndexedSlices = tf.IndexedSlices
tf.disable_v2_behavior()

from tensor2tensor.data_generators import text_encoder, text_problems, tokenizer  # noqa: E402
from tensor2tensor.models import transformer  # noqa: E402

SMALL = {"hidden_size": 16, "filter_size": 24, "num_heads": 2, "num_hidden_layers": 2, "num_encoder_layers": 1}
RELATIVE = {"self_attention_type": "dot_product_relative", "max_relative_position": 3, "pos": None}
POST_NORM = {"layer_preprocess_sequence": "none", "layer_postprocess_sequence": "dan"}
CASES = {
    "relative": RELATIVE,
    "learned": {"pos": "emb", "max_length": 64},
    "heads": {"attention_key_channels": 8, "attention_value_channels": 24},
    "separate": {"shared_embedding_and_softmax_weights": False},
    "separate_softmax": {"shared_embedding_and_softmax_weights": False, "shared_embedding": True},
    "two_vocabularies": {},
    "two_vocabularies_separate": {"shared_embedding_and_softmax_weights": False, "use_target_space_embedding": False},
    "no_target_space": {"use_target_space_embedding": False},
    "variables_3d": {"attention_variables_3d": True, "attention_key_channels": 8},
    "relative_3d": RELATIVE | POST_NORM | {"attention_variables_3d": True},
    "unscaled": {"multiply_embedding_mode": "none", "ffn_layer": "conv_hidden_relu"},
    "unscaled_shared": {"multiply_embedding_mode": "none", "use_target_space_embedding": False},
    "without_dropout": POST_NORM | {"layer_postprocess_sequence": "an", "symbol_modality_num_shards": 1},
}
TARGET_SPACE = 4
SIDES = ("inputs", "targets")


class Pairs(text_problems.Text2TextProblem):
    """A problem with given vocabularies."""

    encoders = {}

    def feature_encoders(self, data_dir):
        return dict(self.encoders)


def load(session) -> dict[str, list[int]]:
    """Sets the values of all variables, and returns their shapes."""
    session.run(tf.global_variables_initializer())
    shapes = {each.op.name: each.shape.as_list() for each in tf.trainable_variables()}
    for variable in tf.trainable_variables():
        variable.load(value_of(variable.op.name, shapes[variable.op.name]), session)
    return shapes


def make(changes, encoders, pairs):
    """Returns the variables of a model, and its likelihoods of the pairs and searches."""
    hparams = transformer.transformer_base()
    for name, value in {**SMALL, **changes}.items():
        setattr(hparams, name, value)
    Pairs.encoders, hparams.data_dir = encoders, ""
    hparams.problem = Pairs()
    hparams.problem_hparams = hparams.problem.get_hparams(hparams)
    ids = [[[*encoders[side].encode(text), 1] for side, text in zip(SIDES, pair)] for pair in pairs]
    with tf.Graph().as_default(), tf.Session() as session:
        inputs, targets = (tf.placeholder(tf.int32, [None, None]) for _ in SIDES)
        features = dict(zip(SIDES, (side[:, :, None, None] for side in (inputs, targets))))
        features["target_space_id"] = tf.constant(TARGET_SPACE)
        logits, _ = transformer.Transformer(hparams, tf.estimator.ModeKeys.EVAL, hparams.problem_hparams)(features)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=tf.squeeze(logits, [2, 3]))
        shapes = load(session)
        # One batch with padding, as in a training.
        rows = [np.array([row + [0] * (max(map(len, side)) - len(row)) for row in side]) for side in zip(*ids)]
        found = session.run(losses, {inputs: rows[0], targets: rows[1]})
        nll = [float(row[: len(pair[1])].mean()) for row, pair in zip(found, ids)]
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = tf.placeholder(tf.int32, [None, None])
        features = {"inputs": inputs[:, :, None, None], "target_space_id": tf.constant(TARGET_SPACE)}
        model = transformer.Transformer(hparams, tf.estimator.ModeKeys.PREDICT, hparams.problem_hparams)
        found = model.infer(features, decode_length=20, beam_size=4, top_beams=4, alpha=0.6)
        found = [found["outputs"], found["scores"]]
        assert load(session) == shapes
        beams = [[np.squeeze(each).tolist() for each in session.run(found, {inputs: [pair[0]]})] for pair in ids]
    return {"changes": changes, "variables": shapes, "nll": nll, "outputs": beams}


def learn(texts, size):
    """Returns a subword vocabulary of about `size` subwords."""
    counts = collections.Counter(token for text in texts for token in tokenizer.encode(text))
    return text_encoder.SubwordTextEncoder.build_to_target_size(size, counts, 1, 20)


def main(source: str, path: str) -> None:
    """Writes the file."""
    with open(source, encoding="utf-8") as lines:
        pairs = [line.rstrip("\n").split("\t") for line in lines][:8]
    inputs, targets = zip(*pairs)
    vocabularies = {"shared": learn(inputs + targets, 120), "inputs": learn(inputs, 80), "targets": learn(targets, 100)}
    hparams = transformer.transformer_base()
    for name, value in SMALL.items():
        setattr(hparams, name, value)
    content = {
        "pairs": pairs,
        "target_space_id": TARGET_SPACE,
        "hparams": json.loads(hparams.to_json()) | SMALL,
        "vocabularies": {name: list(each._all_subtoken_strings) for name, each in vocabularies.items()},
        "cases": {},
    }
    for name, changes in CASES.items():
        encoders = {side: vocabularies[side if name.startswith("two") else "shared"] for side in SIDES}
        content["cases"][name] = case = make(changes, encoders, pairs)
        print(name, np.mean(case["nll"]), [len(row) for row in case["outputs"][0][0]], case["outputs"][0][1])
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        file.write(json.dumps(content, ensure_ascii=False).encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
