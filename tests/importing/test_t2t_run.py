"""Models of tensor2tensor give its own scores and outputs, which it has stored; other files are refused in one line."""

import json
import pickle
import shutil

import numpy as np
import pytest
import tensorflow as tf

import t2t_lite as t2t
from t2t_lite.errors import UserError

KINDS = ("v1", "v3")  # post-norm and pre-norm


@pytest.fixture(scope="module")
def imported(t2t_dir, tmp_path_factory):
    """The run directories of both models."""
    folder = tmp_path_factory.mktemp("imported")
    for kind in KINDS:
        found = t2t.import_model(t2t_dir / kind, folder / kind, data_dir=t2t_dir / "data")
        assert found.checkpoint == folder / kind / "ckpt-600"
    return {kind: folder / kind for kind in KINDS}


@pytest.fixture(scope="module")
def translators(imported):
    return {kind: t2t.Translator.from_run_dir(imported[kind]) for kind in KINDS}


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_have_the_likelihoods_that_tensor2tensor_gave_them(translators, t2t_dir, kind):
    inputs, targets = zip(*(line.split("\t") for line in lines_of(t2t_dir / "pairs.tsv")))
    scored = translators[kind].score(inputs, targets)
    lengths = [len(ids) for ids in translators[kind].vocabulary.ids_of(targets)]
    found = [-each.log_prob / length for each, length in zip(scored, lengths)]
    expected = [float(line) for line in lines_of(t2t_dir / kind / "scores.txt")]
    assert len(expected) == 40
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_searches_have_the_outputs_and_scores_of_tensor2tensor(translators, t2t_dir, kind):
    lines, translator = lines_of(t2t_dir / "in.txt"), translators[kind]
    found = translator.n_best(lines, beam_size=4, alpha=0.6, extra_length=50)
    best, all_of_them = (lines_of(t2t_dir / kind / name) for name in ("beam4.txt", "nbest.txt"))
    assert len(best) == len(found) == 40
    num_cut, extra_lengths = 0, extra_lengths_of_batches(lines, translator.vocabulary)
    for line, extra_length, ours, theirs, listed in zip(lines, extra_lengths, found, best, all_of_them):
        if any(hypothesis.is_cut for hypothesis in ours):
            num_cut += 1
            (ours,) = translator.n_best([line], beam_size=4, alpha=0.6, extra_length=extra_length)
        texts, scores = listed.split("\t")[::2], [float(score) for score in listed.split("\t")[1::2]]
        assert [hypothesis.text for hypothesis in ours] == texts and theirs == texts[0]
        if not any(hypothesis.is_cut for hypothesis in ours):  # it scores those otherwise
            np.testing.assert_allclose([hypothesis.score for hypothesis in ours], scores, atol=0.01)
    assert num_cut == {"v1": 0, "v3": 2}[kind]


def extra_lengths_of_batches(lines, vocabulary, batch_size=8, extra_length=50):
    """tensor2tensor sorts lines by words, and limits outputs by the longest line of a batch: our extra_length."""
    lengths = [len(ids) for ids in vocabulary.ids_of(lines)]
    order = sorted(range(len(lines)), key=lambda number: -len(lines[number].split()))
    longest = {}
    for start in range(0, len(lines), batch_size):
        batch = order[start : start + batch_size]
        longest |= dict.fromkeys(batch, max(lengths[number] for number in batch))
    return [longest[number] - length + extra_length for number, length in enumerate(lengths)]


def copied(t2t_dir, folder, **changes):
    """A copy of the first model; `changes` are those of its hparams."""
    shutil.copytree(t2t_dir / "v1", folder, copy_function=shutil.copyfile)
    folder.chmod(0o755)
    hparams = json.loads((folder / "hparams.json").read_text()) | changes
    (folder / "hparams.json").write_text(json.dumps(hparams))
    return folder


def weights_of(model):
    """The variables in a model's checkpoint, without those of the optimizer."""
    stored = tf.train.load_checkpoint(str(model / "model.ckpt-600"))
    return {name: stored.get_tensor(name) for name in stored.get_variable_to_shape_map() if "Adam" not in name}


def save(model, values):
    """Replaces a model's checkpoint."""
    tf.raw_ops.SaveV2(
        prefix=str(model / "model.ckpt-600"),
        tensor_names=[*values],
        shape_and_slices=[""] * len(values),
        tensors=[tf.constant(value) for value in values.values()],
    )


def refused(model, tmp_path, **options):
    """The message of an import that fails and leaves nothing."""
    with pytest.raises(UserError) as caught:
        t2t.import_model(model, tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        *({"ffn_layer": "sru"}, {"norm_type": "batch"}, {"proximity_bias": True}),
        *({"self_attention_type": "local_mask_right"}, {"layer_preprocess_sequence": "dn"}, {"pos": None}),
        *({"top": {"targets": "x"}}, {"vocab_divisor": 128}, {"weight_dtype": "bfloat16"}, {"num_heads": 0}),
    ],
)
def test_settings_without_an_equivalent_are_refused_by_name(t2t_dir, tmp_path, changes):
    model = copied(t2t_dir, tmp_path / "model", **changes)
    (name,) = changes
    assert f"{name}=" in refused(model, tmp_path, data_dir=t2t_dir / "data")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": 1}, "lacks 30 of the checkpoint's weights, such as transformer/body/decoder/layer_1/"),
        ({"num_encoder_layers": 1}, "lacks 12 of the checkpoint's weights, such as transformer/body/encoder/layer_1/"),
        ({"num_hidden_layers": 3}, "has no variable transformer/body/encoder/layer_2/"),
        ({"hidden_size": 10**9}, "query has the shape (1000000000, 1000000000) there but (64, 64) in the checkpoint"),
        ({"filter_size": 10**30}, "there but (64, 128) in the checkpoint"),
        ({"attention_key_channels": 10**9}, "there but (64, 64) in the checkpoint"),
        ({"pos": "emb", "max_length": 10**12}, "has no variable transformer/body/inputs_positional_embedding"),
    ],
)
def test_settings_of_another_size_than_the_weights_are_refused(t2t_dir, tmp_path, changes, message):
    model = copied(t2t_dir, tmp_path / "model", **changes)
    assert message in refused(model, tmp_path, data_dir=t2t_dir / "data")


def test_only_the_variables_of_an_optimizer_are_left_out(imported, t2t_dir, tmp_path):
    model, values = copied(t2t_dir, tmp_path / "model"), weights_of(t2t_dir / "v1")
    values |= {f"{name}/{slot}": value for name, value in values.items() for slot in ("Adam", "Adam_1")}
    save(model, values)
    found = t2t.import_model(model, tmp_path / "kept", data_dir=t2t_dir / "data")
    for one, other in zip(t2t.load_model(found.path).variables, t2t.load_model(imported["v1"]).variables, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    save(model, values | {"transformer/body/decoder/layer_0/memory": np.zeros(3, np.float32)})
    message = refused(model, tmp_path, data_dir=t2t_dir / "data")
    assert "lacks 1 of the checkpoint's weights, such as transformer/body/decoder/layer_0/memory; copy both" in message


def test_bad_input_is_refused_in_one_line(t2t_dir, tmp_path):
    data_dir = t2t_dir / "data"
    model = copied(t2t_dir, tmp_path / "model")
    assert "2,054 tokens" in refused(model, tmp_path)  # no vocabulary where the training had it
    wrong = tmp_path / "vocab.few.subwords"
    wrong.write_text("'<pad>_'\n'<EOS>_'\n" + "".join(f"'{each}'\n" for each in "\\_u;0123456789<pad>EOS"))
    assert "24 tokens, but the model's vocabulary has 2,054" in refused(model, tmp_path, vocab_file=str(wrong))
    for content in (b"", b"\x00\xff\x80", b'model_checkpoint_path: ""'):
        (model / "checkpoint").write_bytes(content)
        assert "model/checkpoint is damaged: it does not name" in refused(model, tmp_path, data_dir=data_dir)
    (model / "checkpoint").unlink()
    for other in ("universal_transformer", "lstm_seq2seq"):
        (model / "flags_t2t.txt").write_text(f"--model={other}\n")
        assert f"is a checkpoint of {other}; only" in refused(model, tmp_path, data_dir=data_dir)
    (model / "flags_t2t.txt").unlink()
    (model / "hparams.json").write_bytes(pickle.dumps({"hidden_size": 64}))
    assert "hparams.json is not a tensor2tensor" in refused(model, tmp_path, data_dir=data_dir)
    (model / "hparams.json").unlink()
    assert "has no hparams.json" in refused(model, tmp_path, data_dir=data_dir)
    assert "has no checkpoint (" in refused(data_dir, tmp_path)


def test_the_vocabularies_of_a_model_with_two_are_asked_for(t2t_dir, tmp_path):
    model = copied(t2t_dir, tmp_path / "model")
    values = weights_of(t2t_dir / "v1")
    values |= {name.replace("_2054_", "_1000_"): value for name, value in values.items() if "_2054_" in name}
    save(model, values)
    message = refused(model, tmp_path, data_dir=t2t_dir / "data")
    assert "2 vocabularies (1,000 and 2,054 tokens); pass both with `vocab_file=INPUTS,TARGETS`" in message
    (one,) = (t2t_dir / "data").glob("vocab.*")
    assert "names only the one with 2,054; pass" in refused(model, tmp_path, vocab_file=str(one))
    assert "names 3 files" in refused(model, tmp_path, vocab_file=f"{one},{one},{one}")


def test_a_truncated_checkpoint_is_refused(t2t_dir, tmp_path):
    model = copied(t2t_dir, tmp_path / "model")
    for shard in model.glob("*.data-*"):
        shard.write_bytes(shard.read_bytes()[: shard.stat().st_size // 2])
    assert "cannot be read" in refused(model, tmp_path, data_dir=t2t_dir / "data")
