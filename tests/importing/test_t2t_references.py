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

STORED = json.loads(gzip.decompress((Path(__file__).parent / "t2t_references.json.gz").read_bytes()))
NONE = -1e6  # the score of no output
INPUTS, TARGETS = zip(*STORED["pairs"])


@pytest.fixture(params=STORED["cases"])
def case(request, tmp_path):
    """A model as tensor2tensor stores it, imported: (the translator of the run, what tensor2tensor gave)."""
    case = STORED["cases"][request.param]
    source = tmp_path / "t2t"
    source.mkdir()
    tf.raw_ops.SaveV2(
        prefix=str(source / "model.ckpt-7"),
        tensor_names=[*case["variables"]],
        shape_and_slices=[""] * len(case["variables"]),
        tensors=[tf.constant(value_of(name, shape)) for name, shape in case["variables"].items()],
    )
    (source / "hparams.json").write_text(json.dumps(STORED["hparams"] | case["changes"]))
    names = ["inputs", "targets"] if request.param.startswith("two") else ["shared"]
    for name in names:
        lines = [f"'{subword}'\n" for subword in STORED["vocabularies"][name]]
        (source / f"vocab.{name}").write_text("".join(lines), encoding="utf-8")
    files = ",".join(str(source / f"vocab.{name}") for name in names)
    run = t2t.import_model(
        source, tmp_path / "run", vocab_file=files, target_space_id=STORED["target_space_id"]
    )  # fmt: skip
    return t2t.Translator.from_run_dir(run.path), case


def test_likelihoods_and_outputs_are_those_of_tensor2tensor(case):
    translator, expected = case
    scored = translator.score(INPUTS, TARGETS)
    lengths = [len(ids) for ids in translator.vocabulary.ids_of(TARGETS)]
    found = [-each.log_prob / length for each, length in zip(scored, lengths)]
    np.testing.assert_allclose(found, expected["nll"], atol=1e-5, rtol=0)
    searched = translator.n_best(INPUTS, beam_size=4, alpha=0.6, extra_length=20, min_length=0)
    for hypotheses, (outputs, scores) in zip(searched, expected["outputs"]):
        number = sum(score > NONE for score in scores)  # if some have ended at the limit, it gives only these
        assert [each.text for each in hypotheses[:number]] == translator.vocabulary.decode(outputs)[:number]
        if 1 in outputs[0]:  # where none has ended, it scores them otherwise
            np.testing.assert_allclose([each.score for each in hypotheses[:number]], scores[:number], atol=1e-4)
