"""Parsing problems: reading and splitting treebanks, the model's view of a tree, and reports of malformed trees."""

import collections
import gzip
import itertools
import shutil

import pytest
from support.vocabularies import vocabulary_paths

from t2t_lite.data.generation.generate import GenerateOptions, generate
from t2t_lite.data.problem import SIDES, SPLITS, get_problem
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.errors import UserError
from t2t_lite.problems.parsing import HELD_OUT_SHARE
from t2t_lite.registry import HPARAMS
from t2t_lite.trees.linear import BRACKETS, TAGS

ALL_SECTIONS = [*range(25)]


def tree(word):
    return f"( (S \n    (NP-SBJ (DT the) (NN {word}) )\n    (VP (VBZ sleeps) (NP (-NONE- *)))\n    (. .) ))\n"


CLEAN = "(TOP (S (NP (DT the) (NN {word})) (VP (VBZ sleeps)) (. .)))"


def write_wsj(folder, sections, nested=True, files=2, trees=3):
    """Writes files of the Wall Street Journal with trees whose words name their position."""
    for section in sections:
        for number in range(files):
            name = f"wsj_{section:02}{number:02}.mrg"
            path = folder / f"{section:02}" / name if nested else folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n" + "".join(tree(f"w{section:02}.{number}.{place}") for place in range(trees)))
    return folder


def pairs(name, split, **options):
    return list(get_problem(name, **{flag: str(value) for flag, value in options.items()}).examples(split, {}))


def nouns(examples):
    return [example.inputs.split()[1] for example in examples]


@pytest.mark.parametrize("nested", [True, False])
def test_the_wall_street_journal_is_split_by_section(tmp_path, nested):
    write_wsj(tmp_path, ALL_SECTIONS, nested)
    expected = {"train": range(2, 22), "dev": [22], "test": [23]}
    for split, sections in expected.items():
        examples = pairs("wsj_parsing", split, treebank=tmp_path)
        words = [f"w{section:02}.{number}.{place}" for section in sections for number in range(2) for place in range(3)]
        assert nouns(examples) == words
        for word, example in zip(words, examples):
            assert example.inputs == f"the {word} sleeps ."
            assert example.targets == CLEAN.format(word=word)
    (message,) = get_problem("wsj_parsing", treebank=str(tmp_path)).notes({})
    assert message == "the trees are split by section: train 02-21, dev 22, test 23"


def test_with_missing_sections_trees_are_split_at_random_and_this_is_reported(tmp_path):
    write_wsj(tmp_path, [0, 1, *range(2, 20)], files=5, trees=10)
    found = {split: nouns(pairs("wsj_parsing", split, treebank=tmp_path)) for split in SPLITS}
    everything = [word for words in found.values() for word in words]
    assert len(everything) == len(set(everything)) == 1000
    for split, share in HELD_OUT_SHARE.items():
        # Binomial, 4 standard deviations.
        assert abs(len(found[split]) - 1000 * share) < 4 * (1000 * share * (1 - share)) ** 0.5
    assert found == {split: nouns(pairs("wsj_parsing", split, treebank=tmp_path)) for split in SPLITS}
    (message,) = get_problem("wsj_parsing", treebank=str(tmp_path)).notes({})
    assert message.startswith(
        "sections 20, 21, 22, 23 are missing, so the trees are split at random (seed 1): 5% to dev, 5% to test"
    )


@pytest.mark.slow
def test_every_tree_of_the_sample_is_in_a_split(wsj_dir):
    counts = {split: len(pairs("wsj_parsing", split, treebank=wsj_dir)) for split in SPLITS}
    assert sum(counts.values()) == 3669
    assert all(abs(counts[split] - 3669 * share) < 60 for split, share in HELD_OUT_SHARE.items())


def test_any_treebank_is_split_unless_splits_are_given(tmp_path):
    write_wsj(tmp_path / "a", [30], nested=False, files=20, trees=10)
    (tmp_path / "own.ptb").write_text("(ROOT (NP (DT the) (NN first)))\n\n(ROOT (NP (DT the) (NN second)))\n")
    with gzip.open(tmp_path / "dev.ptb.gz", "wt") as file:
        file.write("(TOP (NP (DT a) (NN third)))")
    alone = {split: nouns(pairs("treebank_parsing", split, treebank=tmp_path / "a")) for split in SPLITS}
    assert sorted(itertools.chain(*alone.values())) == sorted(
        f"w30.{file}.{place}" for file in range(20) for place in range(10)
    )
    flags = {"treebank": tmp_path / "a", "train_trees": tmp_path / "own.ptb", "dev_trees": tmp_path / "dev.ptb.gz"}
    both = {split: nouns(pairs("treebank_parsing", split, **flags)) for split in SPLITS}
    # --train_trees are added to train; --dev_trees replace the dev share of --treebank, which is not used.
    assert both == {"train": ["first", "second", *alone["train"]], "dev": ["third"], "test": alone["test"]}


def test_an_unused_share_of_a_split_treebank_is_reported(tmp_path):
    write_wsj(tmp_path, [30], nested=False)
    options = {flag: str(tmp_path) for flag in ("treebank", "dev_trees")}
    shares, left = get_problem("treebank_parsing", **options).notes({})
    assert "5% to dev, 5% to test, the rest to train" in shares
    assert left == "`dev_trees` is the dev split; that split's share of `treebank` is not used"


def test_paths_may_be_several_and_relative(tmp_path, monkeypatch):
    write_wsj(tmp_path / "a", [1], nested=False)
    (tmp_path / "b.ptb").write_text("(NP (DT a) (NN b))")
    monkeypatch.chdir(tmp_path)
    flags = {"train_trees": "a,b.ptb", "dev_trees": "b.ptb", "test_trees": "b.ptb"}
    problem = get_problem("treebank_parsing", **flags)
    monkeypatch.chdir("/")
    assert nouns(problem.examples("train", {}))[-1] == "b"
    assert {source.path.name for source in problem.sources} == {"wsj_0100.mrg", "wsj_0101.mrg", "b.ptb"}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("wsj_parsing", {}, "`treebank=FOLDER`"),
        ("wsj_parsing", {"treebank": "nowhere"}, r"no such file or folder: .*nowhere"),
        ("treebank_parsing", {}, "`treebank=PATH` or `train_trees=PATH`"),
        ("treebank_parsing", {"dev_trees": "x"}, "`treebank=PATH` or `train_trees=PATH`"),
        ("treebank_parsing", {"train_trees": "x", "dev_trees": "y"}, "for the test split; pass `test_trees=PATH`"),
        ("wsj_parsing_semi", {"treebank": "x"}, "`high_confidence=PATH` or `berkeley_parser=PATH`"),
        ("wsj_parsing_rev", {}, "'wsj_parsing_rev'"),
        # Not the current folder.
        *(("treebank_parsing", {"treebank": path}, "is empty") for path in ("", "a.ptb,", ",a.ptb", "a.ptb, ,a.ptb")),
    ],
)
def test_missing_flags_and_files_are_errors_that_name_them(name, options, message):
    with pytest.raises(UserError, match=message):
        pairs(name, "train", **options)


def test_settings_are_the_papers():
    sizes = {"wsj_parsing": 16_000, "wsj_parsing_semi": 32_000, "treebank_parsing": 10_000}
    for name, size in sizes.items():
        settings = get_problem(name).decode_hparams
        assert (settings.beam_size, settings.alpha, settings.extra_length, settings.only_trees) == (21, 0.3, 300, False)
        assert get_problem(name).vocab_size == size
    base, parsing, semi = (HPARAMS[f"transformer_{kind}"]() for kind in ("base", "parsing", "parsing_semi"))
    layers = ["num_encoder_layers: 6, not 4", "num_decoder_layers: 6, not 4", "hidden_size: 512, not 1024"]
    assert {*base.difference(parsing)} == {*layers, "max_length: 256, not 512", "tied_embeddings: all, not decoder"}
    assert parsing.difference(semi) == ["train_steps: 100000, not 300000"]


@pytest.fixture
def made(tmp_path):
    """A data directory of a treebank with malformed trees, and the printed lines."""
    source = write_wsj(tmp_path / "trees", [3, 4], nested=False, files=10, trees=10)
    (source / "wsj_0305.mrg").write_text(tree("whole") + "( (S (NP (DT a) (NN dog) )\n" + tree("whole"))
    (source / "wsj_0405.mrg").write_text(tree("good") + "( (S (NP (DT a b)) ))\n" + "( (S (NN c)) ))\n" + tree("good"))
    said = []
    problem = get_problem("wsj_parsing", treebank=str(source))
    problem.vocab_size, problem.byte_fallback = 60, False
    manifest = generate(problem, tmp_path / "data", tmp_path / "none", said.append, GenerateOptions(num_workers=1))
    return problem, tmp_path / "data", manifest, said


def test_malformed_trees_are_counted_and_reported_by_file_and_line(made):
    _, _, manifest, said = made
    message = [line.split("malformed tree: ")[1] for line in said if "malformed tree: " in line]
    assert [line.split("/")[-1] for line in message] == [
        "wsj_0305.mrg, line 5: the bracket of 'S' is not closed",
        "wsj_0405.mrg, line 5: more than one word in the brackets of 'DT'",
        "wsj_0405.mrg, line 6: one closing bracket too many",
    ]
    dropped = sum(
        (collections.Counter(manifest.splits[split].get("dropped")) for split in SPLITS), start=collections.Counter()
    )
    assert dropped == {"a malformed tree": 3}
    assert sum(manifest.splits[split]["examples"] for split in SPLITS) == 18 * 10 + 4


def test_the_data_holds_words_and_symbols_and_the_text_files_hold_trees(made):
    problem, data_dir, manifest, _ = made
    inputs, targets = ((data_dir / problem.text_filename("dev", side)).read_text().splitlines() for side in SIDES)
    assert len(inputs) == manifest.splits["dev"]["examples"]
    for line, answer in zip(inputs, targets, strict=True):
        assert answer == CLEAN.format(word=line.split()[1])
    symbols = open_vocabulary(vocabulary_paths(data_dir, problem)[1])
    assert symbols.tokens()[3] == "XX"
    assert sorted(symbols.tokens()[3:]) == sorted(["XX", "(S", ")S", "(NP", ")NP", "(VP", ")VP"])


def test_parsed_corpora_are_mixed_once_with_the_treebank(tmp_path):
    write_wsj(tmp_path / "wsj", ALL_SECTIONS)
    (tmp_path / "agreed.ptb").write_text("".join(f"(S1 (NP (DT the) (NN agreed{n})))\n" for n in range(300)))
    (tmp_path / "parsed.ptb").write_text("".join(f"(TOP (NP (DT the) (NN parsed{n})))\n" for n in range(70)))
    files = {"high_confidence": tmp_path / "agreed.ptb", "berkeley_parser": tmp_path / "parsed.ptb"}
    gold = {split: nouns(pairs("wsj_parsing", split, treebank=tmp_path / "wsj")) for split in SPLITS}
    both = {split: nouns(pairs("wsj_parsing_semi", split, treebank=tmp_path / "wsj", **files)) for split in SPLITS}
    assert (both["dev"], both["test"]) == (gold["dev"], gold["test"])
    expected = gold["train"] + [f"agreed{n}" for n in range(300)] + [f"parsed{n}" for n in range(70)]
    assert sorted(both["train"]) == sorted(expected)
    one = nouns(pairs("wsj_parsing_semi", "train", treebank=tmp_path / "wsj", berkeley_parser=files["berkeley_parser"]))
    assert sorted(one) == sorted(gold["train"] + [f"parsed{n}" for n in range(70)])
    flags = {"treebank": str(tmp_path / "wsj"), "high_confidence": str(files["high_confidence"])}
    assert len(get_problem("wsj_parsing_semi", **flags).sources) == 51


def test_changed_trees_are_not_mixed_with_existing_data(made, tmp_path):
    problem, data_dir, _, _ = made
    shutil.copy(tmp_path / "trees" / "wsj_0300.mrg", tmp_path / "trees" / "wsj_0399.mrg")
    (data_dir / problem.shard_filename("dev", 0)).unlink()
    again = get_problem("wsj_parsing", treebank=str(tmp_path / "trees"))
    again.vocab_size, again.byte_fallback = 60, False
    with pytest.raises(UserError, match=r"was not made from .*wsj_0399\.mrg"):
        generate(again, data_dir, tmp_path / "none", lambda line: None)


def test_a_vocabulary_file_may_be_given_for_the_source_side_alone(made, tmp_path):
    problem, data_dir, _, _ = made
    given, learned = vocabulary_paths(data_dir, problem)
    again = get_problem("wsj_parsing", treebank=str(tmp_path / "trees"))
    again.vocab_file = f"{given},"
    generate(again, tmp_path / "again", tmp_path / "none", lambda line: None, GenerateOptions(num_workers=1))
    inputs, targets = vocabulary_paths(tmp_path / "again", again)
    assert (inputs.read_bytes(), targets.read_bytes()) == (given.read_bytes(), learned.read_bytes())


def test_tagged_parsing_writes_tags_and_bpe_tokens(tmp_path):
    (tmp_path / "a.ptb").write_text(50 * CLEAN.format(word="dog").replace("NP", "NML", 2))
    problem = get_problem("tagged_treebank_parsing", treebank=str(tmp_path))
    problem.vocab_size, problem.byte_fallback = 110, False
    options = GenerateOptions(num_workers=1)
    manifest = generate(problem, tmp_path / "data", tmp_path / "none", lambda line: None, options)
    inputs, targets = (open_vocabulary(path) for path in vocabulary_paths(tmp_path / "data", problem))
    assert inputs.bytes_of(3) == b" "
    assert targets.tokens()[3:] == ["XX", *TAGS, *BRACKETS, "(NML", ")NML"]
    (example,) = itertools.islice(problem.examples("train", {}), 1)
    assert problem.for_model(example).targets == "(S (NML DT NN )NML (VP VBZ )VP . )S"
    hparams = HPARAMS["transformer_parsing_tagged"]()
    problem.check_data(hparams, manifest.settings, vocabulary_paths(tmp_path / "data", problem))
