"""From a folder of .mrg files to parsed sentences, scores and pictures, with the commands as a user runs them."""

import json
import random
import re
import xml.etree.ElementTree as ET

import nltk
import pytest

from t2t_lite.scoring.parseval import LabelledF1

pytestmark = pytest.mark.slow
SMALL = (
    "hidden_size=32,filter_size=64,num_heads=2,num_encoder_layers=1,num_decoder_layers=1,batch_tokens=600,"
    "learning_rate_warmup_steps=60,batch_by=targets"
)
NOUNS, VERBS = ("dog", "cat", "fox", "crow", "mouse"), ("sees", "hears", "likes")


def noun_phrase(lots):
    simple = f"(NP (DT the) (NN {lots.choice(NOUNS)}))"
    return f"(NP {simple} (PP (IN near) {noun_phrase(lots)}))" if lots.random() < 0.3 else simple


@pytest.fixture(scope="module")
def treebank(shared_folders):
    """A folder like that of the Penn Treebank, with sections 00 and 01 only."""

    def make(folder):
        lots = random.Random(0)
        for section in ("00", "01"):
            (folder / section).mkdir(parents=True)
            for number in range(10):
                verbs = [f"(VBZ {lots.choice(VERBS)})" for _ in range(30)]
                trees = "\n".join(f"( (S {noun_phrase(lots)} (VP {v} {noun_phrase(lots)}) (. .)))" for v in verbs)
                (folder / section / f"wsj_{section}{number:02}.mrg").write_text(f"\n{trees}\n")
        with open(folder / "00" / "wsj_0003.mrg", "a") as file:
            file.write("( (S (NP (DT the) (NN end))\n")

    return shared_folders.get("treebank", make)


@pytest.fixture(scope="module")
def made(treebank, command, shared_folders):
    """The results and outputs of datagen and the trainer: (data, run, datagen, trainer)."""

    def make(folder):
        folder.mkdir()
        task = ("--problem=wsj_parsing", f"--data_dir={folder / 'data'}")
        model = ("--hparams_set=transformer_parsing_small", f"--hparams={SMALL}", f"--output_dir={folder / 'run'}")
        scores = ("--eval_decode", "--eval_metric=f1", "--decode_hparams=beam_size=2")
        runs = {
            "datagen": (f"--treebank={treebank}", "--vocab_kind=words"),
            "trainer": (*model, *scores, "--train_steps=120", "--peak_tflops=1"),
        }
        for name, flags in runs.items():
            result = command(name, *task, *flags)
            assert result.returncode == 0, result.stderr
            (folder / name).write_text(result.stdout)

    folder = shared_folders.get("parsing", make)
    return folder / "data", folder / "run", *((folder / name).read_text() for name in ("datagen", "trainer"))


@pytest.fixture
def decode(made, command, tmp_path):
    """Parses the dev split: (finished process, trees)."""

    def decode(*flags, settings="beam_size=2", name="trees.txt"):
        source, output = made[0] / "wsj_parsing-dev.inputs.txt", tmp_path / name
        files = (f"--output_dir={made[1]}", f"--decode_from_file={source}", f"--decode_to_file={output}")
        finished = command("decoder", *files, f"--decode_hparams={settings}", "--xla_compile=False", *flags)
        assert finished.returncode == 0, finished.stderr
        return finished, output.read_text().splitlines()

    return decode


def sentences_of(data):
    return (data / "wsj_parsing-dev.inputs.txt").read_text().splitlines()


def test_datagen_reports_splits_and_malformed_trees_and_the_trainer_f1(made, treebank):
    _, run, datagen, trainer = made
    assert "sections 02, 03" in datagen and "5% to dev" in datagen
    assert f"malformed tree: {treebank}/00/wsj_0003.mrg, line 32: the bracket of 'S' is not closed" in datagen
    assert "dropped: 1 (a malformed tree)" in datagen
    assert "dev F1 " in trainer
    figures = json.loads((run / "evaluations.json").read_text())["120"]
    assert 0 < figures["f1"] <= 100 and "bleu" not in figures


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--eval_metric=bleu", "--eval_decode"], "'wsj_parsing' is scored by f1"),
        (["--eval_metric=f1"], "--eval_metric=f1 needs --eval_decode"),
        (["--decode_hparams=beam_size=1"], "--decode_hparams needs --eval_decode"),
        (["--eval_decode", "--decode_hparams=beam=1"], "unknown name 'beam'"),
    ],
)
def test_evaluations_that_a_problem_does_not_support_are_refused(made, command, flags, message):
    finished = command("trainer", "--schedule=eval", f"--data_dir={made[0]}", f"--output_dir={made[1]}", *flags)
    assert finished.returncode == 2 and message in finished.stderr


def test_parsed_lines_are_trees_over_their_words_and_repairs_are_reported(made, decode, command, tmp_path):
    finished, trees = decode()
    assert [nltk.Tree.fromstring(tree).leaves() for tree in trees] == [line.split() for line in sentences_of(made[0])]
    assert all(tree.startswith("(TOP ") for tree in trees)
    (message,) = [line for line in finished.stderr.splitlines() if "needed repair" in line]
    assert f" of {len(trees)} trees (" in message
    files = (f"--hypothesis={tmp_path / 'trees.txt'}", f"--reference={made[0] / 'wsj_parsing-dev.targets.txt'}")
    score = command("score", "--metric=parseval", *files, "--per_sentence")
    assert score.returncode == 0, score.stderr
    assert score.stdout.splitlines()[len(trees) + 6].startswith("all sentences")
    assert f"all sentences: {len(trees)} ({len(trees)} scored, 0 errors" in score.stdout
    assert "labelled F1" in score.stdout and "no parts of speech" in score.stdout


@pytest.mark.heavy
def test_an_evaluation_has_the_f1_of_free_searches_and_of_those_among_trees_only(made, decode, command):
    data, run, _, _ = made
    flags = ("--split=dev", "--decode_hparams=beam_size=2", "--xla_compile=False", "--json")
    result = command("eval", f"--output_dir={run}", *flags)
    assert result.returncode == 0, result.stderr
    (found,) = json.loads(result.stdout)["runs"]
    figures = {figure["name"]: figure["score"] for figure in found["figures"]}
    assert {"f1", "f1_only_trees", "perplexity"} <= set(figures) and "perplexity_per_word" not in figures
    _, references = (list(lines.read_text().splitlines()) for lines in sorted(data.glob("*-dev.*.txt")))
    for name, settings in (("f1", "beam_size=2"), ("f1_only_trees", "beam_size=2,only_trees=True")):
        expected = LabelledF1().score(decode(settings=settings)[1], references)
        assert figures[name] == pytest.approx(expected), name
    assert {row["length_ratio"] for row in found["by_length"]} == {None}
    result = command("eval", f"--output_dir={run}", *flags[:-1])
    assert "| F1 among well-formed trees only |" in result.stdout and "answered from" in result.stderr


def test_trees_are_drawn_as_svg_and_text(made, decode, tmp_path):
    finished, trees = decode(f"--draw_trees={tmp_path / 'trees.svg'}")
    assert f"drew {len(trees)} trees in {tmp_path / 'trees.svg'}" in finished.stderr
    texts = ["".join(text.itertext()) for text in ET.parse(tmp_path / "trees.svg").iter() if text.tag.endswith("text")]
    for line in sentences_of(made[0]):
        assert any(line in text for text in texts)
    decode(f"--draw_trees={tmp_path / 'trees.txt.art'}", name="again.txt")
    art = (tmp_path / "trees.txt.art").read_text()
    assert "│" in art and all(line in art for line in sentences_of(made[0]))


def test_plain_text_is_tokenised_as_in_the_treebank(made, command):
    plain = b"The dog doesn't (really) see the cat.\n\n"
    finished = command("decoder", f"--output_dir={made[1]}", "--tokenizer=treebank", "--xla_compile=False", stdin=plain)
    assert finished.returncode == 0, finished.stderr
    tree, empty = finished.stdout.split("\n")[:2]
    assert " ".join(nltk.Tree.fromstring(tree).leaves()) == "The dog does n't -LRB- really -RRB- see the cat ."
    assert empty == ""


def test_all_hypotheses_and_scores_of_given_trees_are_written(made, command, tmp_path):
    decoder, pairs = ("decoder", f"--output_dir={made[1]}"), tmp_path / "pairs.tsv"
    settings = ("--decode_hparams=beam_size=3,return_beams=True,only_trees=True", "--xla_compile=False")
    assert command(*decoder, *settings, stdin=b"the dog sees the cat .\n").stdout.count("(TOP ") == 3
    tree = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT the) (NN cat))) (. .)))"
    pairs.write_text(f"the dog sees the cat .\t{tree}\n")
    scored = command(*decoder, f"--score_file={pairs}")
    assert scored.returncode == 0 and float(scored.stdout.split("\t")[0]) < 0
    pairs.write_text("the dog sees the cat .\t(TOP (S\n")
    refused = command(*decoder, f"--score_file={pairs}")
    assert refused.returncode == 1 and "line 1" in refused.stderr and "not a tree" in refused.stderr


def test_a_resumed_run_reports_the_repairs_of_the_lines_that_it_parsed(made, tmp_path, command, stopped_after):
    (tmp_path / "in.txt").write_text("\n".join(sentences_of(made[0])[:9]) + "\n")

    def parse(name):
        flags = (f"--output_dir={made[1]}", f"--decode_from_file={tmp_path / 'in.txt'}", "--batch_lines=2")
        flags += ("--decode_hparams=beam_size=1", "--xla_compile=False", f"--decode_to_file={tmp_path / name}")
        said = command("decoder", *flags).stderr.splitlines()
        return said[-2] if said[-1].startswith("Next: t2t-lite-export ") else said[-1]

    whole = re.fullmatch(r"(\d) of 9 trees .* needed repair.*", parse("whole.txt"))
    assert int(whole[1]) > 0  # otherwise the test would show nothing
    with stopped_after(3):
        assert parse("halves.txt").endswith("interrupted")
    of_rest = re.fullmatch(r"after line 6: (\d) of 3 trees .* needed repair.*", parse("halves.txt"))
    assert int(of_rest[1]) <= int(whole[1])
    assert (tmp_path / "halves.txt").read_bytes() == (tmp_path / "whole.txt").read_bytes()
