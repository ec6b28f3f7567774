"""The code blocks of README.md and two pages, run one after the other in one folder with small settings."""

import dataclasses
import itertools
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
from support.commands import user_environment
from support.pages import blocks_of, command_lines, contents

import t2t_lite as t2t
from t2t_lite.metric import SummedStatistics
from t2t_lite.options import option
from t2t_lite.plugins import GROUP
from t2t_lite.problems.grammar import GrammarEnde
from t2t_lite.registry import POSITION_ENCODINGS, REGISTRIES

TINY = "hidden_size=32,filter_size=64,num_heads=2,num_encoder_layers=1,num_decoder_layers=1,max_length=64"
FEW = "t2t-lite-trainer --train_steps=2 --schedule=train --peak_tflops=1 "
# A small model and two steps, for commands without and with settings of their own.
TRAIN = {"t2t-lite-trainer ": f"{FEW}--hparams={TINY},batch_tokens=512 "}
EVALUATED = {key: value.replace("--schedule=train ", "") for key, value in TRAIN.items()}
TRAIN_WITH = {"t2t-lite-trainer ": FEW, "--hparams=": f"--hparams={TINY},"}
GREEDY = {"--decode_to": "--decode_hparams=beam_size=1,extra_length=9 --decode_to"}
# The example of docs/libretranslate.md with corpora that are here, and a small model.
MAKE_SMALL = r"""
python3 - <<'END'
import zipfile
words = "one two three four five six seven eight nine ten".split()
pairs = [("The " + a + " dog sees " + b + " cats.", "Mbwa " + b + " anaona paka " + a) for a in words for b in words]
with zipfile.ZipFile("one.zip", "w") as archive:
    for side, name in enumerate(("C.en-sw.en", "C.en-sw.sw")):
        archive.writestr(name, "".join(pair[side] + chr(10) for pair in pairs))
units = [("A small dog is there.", "Mbwa mdogo yupo hapa."), ("It is the same.", "It is the same.")]
form = '<tu><tuv xml:lang="en"><seg>{}</seg></tuv><tuv xml:lang="sw"><seg>{}</seg></tuv></tu>'
with open("two.tmx", "w") as file:
    file.write("<tmx><body>" + "".join(form.format(*unit) for unit in units) + "</body></tmx>")
END
sed -e 's,opus://Tatoeba,one.zip,; s,opus://wikimedia,two.tmx,; s/transformer_base/transformer_tiny/' \
  -e 's/vocab_size = 8000/vocab_size = 400/; s/^min_language.*//; s/train_steps = 50000/train_steps = 2/' \
  -e 's/^save_checkpoints_steps.*/hparams = {hidden_size = 32, num_heads = 2, batch_tokens = 512}/' \
  -e 's/^dir/"dir"/' < EXAMPLE > small.toml
""".replace("EXAMPLE", str(Path(__file__).parents[2] / "bin/run/examples/libretranslate.toml"))
# The files of the plug-in in docs/plugins.md, each with a text of its block. The constraint has a folder of its own:
# if a folder has an __init__.py, its other files are not loaded.
PLUG_IN = {
    "class DigitsInWords": "mine/digits.py",
    "def transformer_wide": "mine/wide.py",
    "class AverageAttention": "mine/average.py",
    "def rmsprop": "mine/learning.py",
    "class LengthError": "mine/length_error.py",
    "class NoNewDigits": "constraint/no_new_digits.py",
    "CONSTRAINTS.register_lazily": "constraint/__init__.py",
}


class Run(NamedTuple):
    """How a block runs, in the folder of the page's blocks before it.

    start: how the block begins. changes: what is replaced; each must occur, braces name fixtures. writes: the files
    that must be there then. prints: texts that it must print. before: commands that make what the page takes as given.
    """

    start: str
    changes: dict[str, str] = {}
    writes: tuple[str, ...] = ()
    prints: tuple[str, ...] = ()
    before: str = ""


def its_own_steps(changes):
    """Changes that leave a command its --train_steps."""
    return {key: value.replace("--train_steps=2 ", "") for key, value in changes.items()}


# All blocks with commands, and the program of the README.
RUNS = {
    "README.md": [
        Run("t2t-lite-trainer", TRAIN, ("run/ckpt-2.index",), before="cp -r {grammar_data} data"),
        Run(
            "import datetime",
            {"8_000": "300", "train_steps=400": "train_steps=2", '"data"': '"dates"', '"run"': '"datesrun"'},
            ("datesrun/ckpt-2.index",),
            ("BLEU",),
        ),
    ],
    "docs/plugins.md": [
        Run("t2t-lite-trainer --t2t_usr_dir=mine --problem=digits", TRAIN, ("digits/run/ckpt-2.index",)),
        Run(
            "pip install",  # the fixture `example` does what the first line says, in a folder of its own
            {"pip install ./tests/example_plugin\n": "", "--generate_data": "--tmp_dir={multi30k_dir} --generate_data"}
            | TRAIN,
            ("captions/run/ckpt-2.index",),
        ),
        Run("t2t-lite-trainer --problem=labelled", EVALUATED, ("labels/run/ckpt-2.index",), ("dev exact_match",)),
        Run(
            "t2t-lite-trainer --t2t_usr_dir=mine --registry_help",
            TRAIN_WITH | {"--train_steps=400 ": ""},
            ("average/ckpt-2.index",),
            ("average_decay = 1.0",),
            "cp -r {grammar_data} data; mkdir runs; cp -r {grammar_data} runs/mine",
        ),
        Run(
            "t2t-lite-trainer --t2t_usr_dir=mine --problem=grammar_ende --hparams_set=transformer_tiny --train_steps=4",
            its_own_steps(TRAIN_WITH),
            ("runs/mine/rmsprop/ckpt-4.index",),
        ),
        Run(
            "t2t-lite-trainer --t2t_usr_dir=mine --problem=grammar_ende --hparams_set=transformer_tiny --train_steps=2",
            its_own_steps(EVALUATED),
            ("runs/mine/out.txt", "runs/mine/curve.png"),
            ("length error",),
        ),
        Run("t2t-lite-decoder", {"=mine": "=constraint"}),
    ],
    "docs/from-opus-mt.md": [
        Run(
            "t2t-lite-import",
            writes=("opus/ckpt-0.index",),
            prints=("Ein Mann schläft.",),
            before="cp -r {marian_dir}/huggingface MODEL",
        ),
        Run("# files.py", {"2_500": "450", "2_000": "400"}, ("my.en", "test.de")),
        Run("t2t-lite-decoder", GREEDY, prints=("BLEU",)),
        Run(
            "t2t-lite-trainer",
            GREEDY | {"--train_steps=300 --save_checkpoints_steps=100": "--train_steps=4 --save_checkpoints_steps=2"},
            ("mine/ckpt-4.index",),
            ("dev loss", "BLEU"),
        ),
        Run("t2t-lite-export", {"t2t-lite-serve --export_dir=mymodel --port=8000\n": ""}, ("mymodel/model.bin",)),
    ],
    "docs/run.md": [
        Run(
            "t2t-lite-run --example=text > en-de.toml",
            {"--config=en-de.toml": "--config=en-de.toml --dry_run"},
            ("en-de.toml",),
            ("t2t-lite-trainer --problem=text_pairs",),
        ),
    ],
    "docs/libretranslate.md": [
        Run(
            "t2t-lite-run --example=libretranslate",
            {"--config=en-sw.toml": "--config=small.toml"},
            (
                "en-sw/exports/argos/translate-en_sw-1_0.argosmodel",
                "en-sw/exports/ctranslate2/model.bin",
                "en-sw/data/dropped.text_mixture.md",
            ),
            ("data: done in", "en-sw/data/dropped.text_mixture.md"),
            before=MAKE_SMALL,
        ),
        Run(
            "t2t-lite-export --output_dir=en-sw/seed-1",
            writes=("package/translate-en_sw-1_1.argosmodel",),
        ),
    ],
    "docs/from-opennmt-tf.md": [
        Run(
            "t2t-lite-import run",
            writes=("ours/ckpt-2500.index",),
            prints=("--hparams=residual_dropout=0.1", "Ein Mann schläft."),
            before="cp -r {opennmt_dir}/. . && chmod -R u+w . && mv tiny run && mv run/data.yml .",
        ),
        Run(
            "t2t-lite-trainer",
            {"--train_steps=1000": "--train_steps=4 --save_checkpoints_steps=2"},
            ("mine/ckpt-4.index",),
            ("dev loss",),
            before="for i in 1 2 3 4 5 6 7 8; do cat run/in.txt >> my.en; cat run/ref.txt >> my.de; done",
        ),
        Run(
            "t2t-lite-import converted",
            writes=("test.out", "export/model.bin"),
            before="t2t-lite-export --output_dir=ours --format=ctranslate2 --export_dir=converted && "
            "rm converted/export.json && sed -i 's/<pad>/<s>/' converted/*.json && cp run/in.txt test.en",
        ),
    ],
}


def test_every_block_of_commands_is_run():
    for page, runs in RUNS.items():
        starts = (*(run.start for run in runs), "bin/demo", "bin/test")  # which run all tests
        assert [block for block in contents(page, "sh") if not block.startswith(starts)] == []


@pytest.fixture
def forgotten():
    """Forgets at the end what the test has registered."""
    before = {id(registry): set(registry.names()) for registry in REGISTRIES}
    yield
    for registry in REGISTRIES:
        for name in set(registry.names()) - before[id(registry)]:
            registry.unregister(name)


@pytest.fixture
def folder(tmp_path, monkeypatch, small_run, example, forgotten):
    """The working folder, with the files and runs that the pages take as given, and the plug-in of docs/plugins.md."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(small_run, "RUN")
    pairs = [(pair.inputs, pair.targets) for pair in itertools.islice(GrammarEnde().examples("train", {}), 345)]
    texts = {"texts.tsv": [f"{text}\t{len(text) % 2}" for text, _ in pairs[:300]]}
    texts |= dict(zip(("in.txt", "ref.txt"), zip(*pairs[340:])))
    for name, lines in texts.items():
        Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for text, name in PLUG_IN.items():
        (block,) = contents("docs/plugins.md", "python", text)
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(block, encoding="utf-8")
    return tmp_path


@pytest.mark.heavy
@pytest.mark.parametrize("page", RUNS)
def test_the_blocks_of_a_page_run_one_after_the_other(page, folder, command, commands_environment, request):
    def filled(text):
        return re.sub(r"\{(\w+)\}", lambda name: str(request.getfixturevalue(name[1])), text)

    def in_a_process(words):
        environment = user_environment(**commands_environment)
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def run(line):
        source, _, last = line.rpartition(" | ")
        program, *flags = shlex.split(last)
        if not program.startswith("t2t-lite-") or ">" in flags:
            return in_a_process(["bash", "-c", line])
        stdin = in_a_process(["bash", "-c", source]).encode() if source else b""
        name = {"t2t-lite-import": "import_model"}.get(program, program.removeprefix("t2t-lite-"))
        done = command(name, *flags, stdin=stdin)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    for each in RUNS[page]:
        (content,) = [block.content for block in blocks_of(page) if block.content.startswith(each.start)]
        for old, new in each.changes.items():
            assert old in content, each
            content = content.replace(old, filled(new))
        if each.before:
            in_a_process(["bash", "-c", filled(each.before)])
        if content.startswith("t2t-lite-"):
            printed = "".join(run(line) for line in command_lines(content))
        else:
            printed = in_a_process([sys.executable, "-c", content])
        assert [text for text in each.prints if text not in printed] == [], printed
        assert [name for name in each.writes if not (folder / name).exists()] == [], printed


def test_the_entry_point_of_the_page_is_that_of_plug_ins():
    (block,) = contents("docs/plugins.md", "toml")
    (group,) = tomllib.loads(block)["project"]["entry-points"]
    assert group == GROUP


def test_the_resampled_metric_of_the_page_equals_the_metric(forgotten):
    names = {"__name__": "length_error", "SummedStatistics": SummedStatistics}
    for text in ("class LengthError", "def resampled"):
        exec(contents("docs/plugins.md", "python", text)[0], names)

    class OfLines(names["LengthError"]):
        resampled = names["resampled"]

        def counts_of_lines(self, hypotheses, references):
            pairs = [(len(ours.split()), len(theirs.split())) for ours, theirs in zip(hypotheses, references)]
            return [(abs(ours - theirs), theirs) for ours, theirs in pairs]

    texts = ["a b", "a b c"], ["a b c", "a b c d e"]
    statistics = OfLines().resampled()
    sums = [sum(numbers) for numbers in zip(*statistics.of_lines(*texts))]
    assert statistics.score_of_sums(sums) == OfLines().score(*texts) == 37.5


@pytest.mark.heavy
def test_the_encoding_and_the_model_of_the_page_can_be_registered(example, forgotten):
    from t2t_lite_example.positions import BinaryPositions

    names = {"dataclasses": dataclasses, "HParams": t2t.HParams, "MODELS": t2t.MODELS, "option": option}
    names |= {"BinaryPositions": BinaryPositions, "POSITION_ENCODINGS": POSITION_ENCODINGS}
    for text, name in (("class LengthHParams", "length_transformer"), ("def binary_positions", "binary")):
        (block,) = contents("docs/plugins.md", "python", text)
        assert f'"{name}"' in block
        exec(block.replace(f'"{name}"', f'"{name}_2"'), names)
    hparams = t2t.get_hparams("transformer_tiny")
    assert isinstance(POSITION_ENCODINGS["binary_2"](hparams), BinaryPositions)
    assert issubclass(t2t.MODELS["length_transformer_2"], t2t.models.Transformer)


@pytest.mark.heavy
def test_a_layer_of_the_documentation_with_a_setting_trains_resumes_decodes_and_is_exported(
    tmp_path, command, process, forgotten
):
    (tmp_path / "mine").mkdir()
    for name, part in (("problem.py", "PROBLEMS.register"), ("layer.py", "class AverageAttention")):
        (example,) = contents("docs/plugins.md", "python", part)
        (tmp_path / "mine" / name).write_text(example, encoding="utf-8")
    plug_in, run = f"--t2t_usr_dir={tmp_path / 'mine'}", f"--output_dir={tmp_path / 'run'}"

    def succeeded(name, *flags, **options):
        result = command(name, plug_in, *flags, **options)
        assert result.returncode == 0, result.stderr
        return result.stdout

    flags = ("--problem=digits_in_words", "--hparams_set=transformer_tiny", "--generate_data", "--peak_tflops=1")
    flags += ("--hparams=self_attention_type=average,average_decay=0.9", f"--data_dir={tmp_path / 'data'}", run)
    succeeded("trainer", *flags, "--train_steps=1")
    assert "resuming from" in succeeded("trainer", *flags, "--train_steps=2")
    assert json.loads((tmp_path / "run" / "hparams.json").read_text())["average_decay"] == 0.9
    decoded = succeeded("decoder", run, "--xla_compile=False", stdin=b"1706\n")
    assert len(decoded.splitlines()) == 1
    export = f"--export_dir={tmp_path / 'export'}"
    succeeded("export", run, export, "--format=keras")
    assert succeeded("decoder", export, "--xla_compile=False", stdin=b"1706\n") == decoded
    result = command("export", plug_in, run, f"{export}-2", "--format=ctranslate2")
    assert result.returncode == 1 and "CTranslate2 has no equivalent of self_attention_type=average" in result.stderr
    assert "\n  average_decay = 1.0  how much" in succeeded("trainer", "--registry_help=average")
    result = process("decoder", export, stdin=b"1706\n")
    assert result.returncode == 1 and "self_attention_type=average is out of range: it must be" in result.stderr
