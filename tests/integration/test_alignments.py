"""Word alignments of a trained model: the layer that aligns best is measured, stored, and used by runs and exports."""

import json
import random
import shutil

import numpy as np
import pytest

import t2t_lite as t2t

LETTERS = [chr(ord("a") + number) for number in range(26)]
SMALL = "hidden_size=64,filter_size=128,num_heads=2,batch_tokens=1000,learning_rate_warmup_steps=150,norm_position=pre"


def drawn(seed, number):
    """Yields (source, its translation by a dictionary, its links): neighbours change places, if first comes a..m."""
    draw = random.Random(seed)
    for _ in range(number):
        words = draw.choices(range(26), k=draw.randint(4, 8))
        order, place = list(range(len(words))), 0
        while place < len(words) - 1:
            if words[place] < 13 <= words[place + 1]:
                order[place : place + 2] = [place + 1, place]
                place += 1
            place += 1
        source = " ".join(f"{LETTERS[word]}o" for word in words)
        target = " ".join(f"{LETTERS[25 - words[place]]}u" for place in order)
        yield source, target, {f"{place}-{number}" for number, place in enumerate(order)}


@pytest.fixture(scope="module")
def run(tmp_path_factory, command):
    folder = tmp_path_factory.mktemp("dictionary")
    text = "".join(f"{source}\t{target}\n" for source, target, _ in drawn(1, 4000))
    (folder / "train.tsv").write_text(text)
    flags = (f"--train_tsv={folder / 'train.tsv'}", "--vocab_size=380", f"--data_dir={folder / 'data'}")
    assert command("datagen", "--problem=text_pairs", *flags).returncode == 0
    flags = ("--hparams_set=transformer_tiny", f"--hparams={SMALL}", "--train_steps=500", "--peak_tflops=1")
    flags += (f"--data_dir={folder / 'data'}", f"--output_dir={folder / 'run'}")
    result = command("trainer", "--problem=text_pairs", *flags)
    assert result.returncode == 0, result.stderr
    return folder / "run"


@pytest.mark.heavy
def test_the_layer_that_aligns_best_is_used_by_a_run_and_its_exports(run, command, tmp_path):
    sources, targets, gold = zip(*drawn(2, 200))

    def right(translator, layer=None):
        links = zip(translator.align(sources, targets, layer=layer), gold)
        return np.mean([link in expected for found, expected in links for link in found.split()])

    shares = [right(t2t.Translator.from_run_dir(run), layer) for layer in range(2)]
    layer = json.loads((run / "run.json").read_text())["alignment_layer"]
    assert shares[layer] == max(shares) >= 0.9, shares
    assert right(t2t.Translator.from_run_dir(run)) == shares[layer]
    for kind in ("ctranslate2", "keras"):
        export = t2t.export(run, tmp_path / kind, format=kind)
        assert export.content["alignment_layer"] == layer
        assert right(t2t.Translator.from_export(tmp_path / kind)) == pytest.approx(shares[layer], abs=0.01)
    t2t.import_model(tmp_path / "keras", tmp_path / "imported", kind="keras")
    assert json.loads((tmp_path / "imported" / "run.json").read_text())["alignment_layer"] == layer
    assert t2t.load_model(run).alignment_layer == layer
    # A run of an earlier version uses the second-to-last layer, and a resumed run keeps its layer until it ends.
    old = shutil.copytree(run, tmp_path / "old")
    content = json.loads((old / "run.json").read_text())
    (old / "run.json").write_text(json.dumps({name: content[name] for name in content if name != "alignment_layer"}))
    assert t2t.load_model(old).alignment_layer == 0
    (old / "run.json").write_text(json.dumps(content | {"alignment_layer": "x"}))
    with pytest.raises(t2t.UserError, match=r"run\.json is damaged: .*alignment_layer is 'x'"):
        t2t.load_model(old)
