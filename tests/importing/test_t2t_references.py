"""Models with other settings of tensor2tensor give the likelihoods and outputs that it gave itself.

`make_t2t_references.py` has run tensor2tensor 1.15.7 on small models with the values of `value_of`, and stored what it
computed in t2t_references.json.gz.
"""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from support.t2t_values import value_of

import t2t_lite as t2t
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.runs.run_dir import open_run_dir

STORED = json.loads(gzip.decompress((Path(__file__).parent / "t2t_references.json.gz").read_bytes()))
NONE = -1e6  # the score of no output
INPUTS, TARGETS = zip(*STORED["pairs"])


def import_case(name, folder):
    """Writes a model as tensor2tensor stores it, and returns the path of the imported run."""
    case = STORED["cases"][name]
    source = folder / "t2t"
    source.mkdir()
    tf.raw_ops.SaveV2(
        prefix=str(source / "model.ckpt-7"),
        tensor_names=[*case["variables"]],
        shape_and_slices=[""] * len(case["variables"]),
        tensors=[tf.constant(value_of(name, shape)) for name, shape in case["variables"].items()],
    )
    (source / "hparams.json").write_text(json.dumps(STORED["hparams"] | case["changes"]))
    names = ["inputs", "targets"] if name.startswith("two") else ["shared"]
    for each in names:
        lines = [f"'{subword}'\n" for subword in STORED["vocabularies"][each]]
        (source / f"vocab.{each}").write_text("".join(lines), encoding="utf-8")
    files = ",".join(str(source / f"vocab.{each}") for each in names)
    space = STORED["target_space_id"]
    return t2t.import_model(source, folder / "run", vocab_file=files, target_space_id=space).path


@pytest.mark.parametrize("name", STORED["cases"])
def test_likelihoods_are_those_of_tensor2tensor(name, tmp_path):
    run = open_run_dir(import_case(name, tmp_path))
    inputs, targets = (
        tf.ragged.constant(open_vocabulary(path).ids_of(texts), tf.int32).to_tensor()
        for path, texts in ((run.inputs_vocabulary, INPUTS), (run.vocabulary, TARGETS))
    )
    log_probs = tf.nn.log_softmax(t2t.load_model(run.path)(inputs, targets))
    of_targets = tf.gather(log_probs, targets, batch_dims=2).numpy()
    found = [-row[ids > 0].mean() for row, ids in zip(of_targets, targets.numpy())]
    np.testing.assert_allclose(found, STORED["cases"][name]["nll"], atol=1e-5, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["relative", "learned", "heads", "unscaled", "two_vocabularies_separate"])
def test_searches_have_the_outputs_of_tensor2tensor(name, tmp_path):
    translator = t2t.Translator.from_run_dir(import_case(name, tmp_path))
    searched = translator.n_best(INPUTS, beam_size=4, alpha=0.6, extra_length=20, min_length=0)
    for hypotheses, (outputs, scores) in zip(searched, STORED["cases"][name]["outputs"], strict=True):
        number = sum(score > NONE for score in scores)  # if some have ended at the limit, it gives only these
        assert [each.text for each in hypotheses[:number]] == translator.vocabulary.decode(outputs)[:number]
        if 1 in outputs[0]:  # where none has ended, it scores them otherwise
            np.testing.assert_allclose([each.score for each in hypotheses[:number]], scores[:number], atol=1e-4)


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["learned", "relative_3d", "two_vocabularies", "unscaled_shared"])
def test_exports_translate_alike(name, tmp_path):
    run = import_case(name, tmp_path)
    expected = t2t.Translator.from_run_dir(run).translate(INPUTS, extra_length=5)
    t2t.export(run, tmp_path / "ct2", format="ctranslate2")
    t2t.export(run, tmp_path / "saved", format="saved_model", decode_hparams={"extra_length": 5})
    assert t2t.Translator.from_export(tmp_path / "ct2").translate(INPUTS, extra_length=5) == expected
    outputs = tf.saved_model.load(str(tmp_path / "saved")).signatures["serving_default"](tf.constant(INPUTS))["outputs"]
    assert [text.decode() for text in outputs.numpy()[:, 0]] == expected
