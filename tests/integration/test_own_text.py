"""A user's own two files, from text to translation, with the three commands of the README; and inspection of shards."""

import gzip
import json
import random
import re

import pytest

DEFECTS = 5  # of each kind: 1% of 500 pairs
TINY = "--hparams=hidden_size=32,filter_size=64,num_heads=2,num_encoder_layers=1,num_decoder_layers=1,batch_tokens=512"
KINDS = {
    "an empty side": "dropped",
    "a line that is not UTF-8": "dropped",
    "a side of more than 2000 characters": "dropped",
    "one side more than 5 times as long as the other": "dropped",
    "a line that the other file does not have": "dropped",
    "a repeated pair": "kept",
    "both sides are the same": "kept",
    "the sides seem to be swapped": "kept",
}


@pytest.fixture(scope="module")
def own_text(multi30k_dir, tmp_path_factory):
    """Two files and, by kind of defect, the numbers of the lines that have it, from 1."""
    folder = tmp_path_factory.mktemp("own")
    sides = []
    for language in ("en", "de"):
        text = gzip.decompress((multi30k_dir / f"train.{language}.gz").read_bytes())
        sides.append(text.split(b"\n")[:500])
    inputs, targets = sides
    places = random.Random(3).sample(range(250, 490), DEFECTS * 7)
    of_kind = {
        kind: places[i * DEFECTS : (i + 1) * DEFECTS] for i, kind in enumerate(k for k in KINDS if "have" not in k)
    }
    for number, chosen in enumerate(of_kind.values()):
        for line in chosen:
            if number == 0:
                targets[line] = b" \t"
            elif number == 1:
                inputs[line] += b" caf\xe9"
            elif number == 2:
                inputs[line] = b"very " * 500
            elif number == 3:
                targets[line] *= 8
            elif number == 4:
                inputs[line], targets[line] = inputs[line - 250], targets[line - 250]
            elif number == 5:
                targets[line] = inputs[line]
            else:
                inputs[line], targets[line] = targets[line], inputs[line]
    of_kind["a line that the other file does not have"] = list(range(495, 500))
    (folder / "my.en").write_bytes(b"\n".join(inputs) + b"\n")
    (folder / "my.de").write_bytes(b"\r\n".join(targets[:495]) + b"\r\n")
    return folder, {kind: sorted(line + 1 for line in lines) for kind, lines in of_kind.items()}


@pytest.fixture(scope="module")
def generated(own_text, command):
    folder, _ = own_text
    flags = (
        f"--train_source={folder / 'my.en'}",
        f"--train_target={folder / 'my.de'}",
        f"--data_dir={folder / 'data'}",
        "--target_language=de",
    )
    result = command("datagen", "--problem=text_pairs", *flags)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_defect_is_reported_with_count_and_lines_without_an_error(own_text, generated, kind):
    _, lines = own_text
    shown = ", ".join(map(str, lines[kind]))
    assert re.search(rf"^ {re.escape(kind)} +{DEFECTS}  1\.00%  {KINDS[kind]} +{shown} *$", generated, re.MULTILINE)


def test_line_counts_are_compared_and_split_off_pairs_are_reported(generated):
    assert re.search(r"^ inputs +500 ", generated, re.MULTILINE)
    assert re.search(r"^ targets +495 ", generated, re.MULTILINE)
    assert "different numbers of lines" in generated
    assert generated.index("finding") < generated.index("learning")
    for split in ("dev", "test"):
        assert re.search(rf"no {split} files: 23 pairs of the training text become the {split} split", generated)


@pytest.mark.slow
def test_a_model_trains_on_own_text_and_translates(own_text, generated, command):
    folder, _ = own_text
    run = f"--output_dir={folder / 'run'}"
    flags = ("--problem=text_pairs", "--hparams_set=transformer_tiny", TINY, "--train_steps=3", "--peak_tflops=1")
    trained = command("trainer", *flags, f"--data_dir={folder / 'data'}", run)
    assert trained.returncode == 0, trained.stderr
    assert json.loads((folder / "run" / "run.json").read_text())["target_language"] == "de"  # as the data records
    decoded = command("decoder", run, "--xla_compile=False", stdin=b"A man.\nTwo dogs.\n")
    assert decoded.returncode == 0 and len(decoded.stdout.splitlines()) == 2


@pytest.mark.parametrize("which", ["split", "shard"])
def test_inspect_shows_examples_lengths_and_dropped_pairs(own_text, generated, command, which):
    data = own_text[0] / "data"
    if which == "split":
        result = command("datagen", "--inspect", "--problem=text_pairs", f"--data_dir={data}")
    else:
        result = command("datagen", f"--inspect={data / 'text_pairs-train-00003-of-00010'}")
    assert result.returncode == 0, result.stderr
    manifest = json.loads((data / "manifest.text_pairs.json").read_text())
    count = manifest["splits"]["train"]["examples"]
    if which == "split":
        assert f"text_pairs, train, 10 shards: {count:,} examples" in result.stdout
        for side in ("inputs", "targets"):
            lengths = {int(n): times for n, times in manifest["splits"]["train"]["lengths"][side].items()}
            tokens = sum(n * times for n, times in lengths.items())
            of_8000 = r"[\d,]+ \(vocab\.text_pairs\.8000\.subwords\)"
            row = rf"{side} +{of_8000} +{tokens:,} +{tokens / count:.1f} +\d+ +\d+ +{max(lengths)} "
            assert re.search(row, result.stdout)
    else:
        assert "text_pairs, train, text_pairs-train-00003-of-00010: " in result.stdout
    assert f"{DEFECTS} (a line that is not UTF-8)" in result.stdout
    assert re.search(r"because a side is too long: \d+ with max_length=64", result.stdout)
    assert result.stdout.count("  inputs   ") == result.stdout.count("  targets  ") == 3


@pytest.mark.heavy
def test_the_trainer_accepts_the_flags_of_own_text_only_with_generate_data(command, tmp_path):
    flags = ["--problem=text_pairs", "--hparams_set=transformer_tiny", TINY, "--train_steps=1", "--peak_tflops=1"]
    flags += [
        f"--train_tsv={tmp_path / 'my.tsv'}",
        f"--data_dir={tmp_path / 'data'}",
        f"--output_dir={tmp_path / 'run'}",
    ]
    (tmp_path / "my.tsv").write_text("".join(f"number {i}\tZahl {i}\n" for i in range(300)))
    refused = command("trainer", *flags)
    assert refused.returncode == 2 and "--train_tsv applies to data generation" in refused.stderr
    trained = command("trainer", *flags, "--generate_data")
    assert trained.returncode == 0, trained.stderr
    assert "finding" in trained.stdout
