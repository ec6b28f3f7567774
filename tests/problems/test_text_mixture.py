"""Mixtures of the user's own corpora, described in a file: parts, weights, tags, held-out pairs, mistakes."""

import collections
import json
import re

import pytest
from support.vocabularies import vocabulary_paths

from t2t_lite.data.problem import SPLITS, get_problem
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.errors import UserError


@pytest.fixture
def write(tmp_path):
    """Writes numbered pairs of a word to two files, and returns the lines that name them in a mixture."""

    def write(word, count, split="train"):
        for side, text in (("source", word), ("target", word.upper())):
            (tmp_path / f"{word}.{split}.{side}").write_text("".join(f"{text} {each}\n" for each in range(count)))
        return "\n".join(f'{split}_{side} = "{tmp_path}/{word}.{split}.{side}"' for side in ("source", "target"))

    return write


@pytest.fixture
def datagen(tmp_path, command):
    def datagen(text, statuses=(0,)):
        (tmp_path / "mixture.toml").write_text(text)
        flags = (f"--mixture={tmp_path}/mixture.toml", f"--data_dir={tmp_path}/data", f"--tmp_dir={tmp_path}/tmp")
        result = command("datagen", "--problem=text_mixture", *flags, "--vocab_size=320")
        assert result.returncode in statuses, result.stderr
        return result

    return datagen


def test_parts_have_tags_weights_and_splits_of_their_own(tmp_path, write, datagen):
    """German has its own dev; Latin, which needs no tag, holds pairs out; the back-translations only train."""
    datagen(
        f"""\ufeff
        [[parts]]
        tag = "<2de>"
        weight = 2
        max_ratio = 9
        {write("german", 300)}
        {write("germandev", 4, "dev")}
        [[parts]]
        weight = 1
        held_out = 20
        {write("latin", 100)}
        [[parts]]
        name = "back"
        tag = "<2de>"
        weight = 0.5
        train_only = true
        {write("back", 10)}
        """
    )
    problem = get_problem("text_mixture", mixture=str(tmp_path / "mixture.toml"))
    pairs = {split: list(problem.examples(split, {})) for split in SPLITS}
    found = {
        split: collections.Counter((*pair.inputs.split()[:-1], pair.targets.split()[0]) for pair in pairs[split])
        for split in SPLITS
    }
    # Of the German pairs, 15 are held out for test; of the Latin ones, 20 each for dev and test.
    german, latin, back = ("<2de>", "german", "GERMAN"), ("latin", "LATIN"), ("<2de>", "back", "BACK")
    assert found["train"] == {german: 285, latin: 142, back: 71}
    assert found["dev"] == {("<2de>", "germandev", "GERMANDEV"): 4, latin: 20}
    assert found["test"] == {german: 15, latin: 20}
    assert len({pair for pair in pairs["train"] if "back" in pair.inputs}) == 10
    vocabulary = open_vocabulary(vocabulary_paths(tmp_path / "data", get_problem("text_mixture"))[0])
    assert "<2de>" in vocabulary.tokens()
    manifest = json.loads((tmp_path / "data" / "manifest.text_mixture.json").read_text())
    assert {f"{tmp_path}/mixture.toml", f"{tmp_path}/back.train.source"} <= set(map(str, manifest["sources"]))


def test_sources_of_parts_with_different_tags_are_compared_without_the_tags(tmp_path, write, datagen):
    pairs = write("word", 100)
    tagged = "[[parts]]\ntag = '{}'\ntrain_only = {}\n" + pairs + "\n"
    said = datagen(tagged.format("<a>", "false") + tagged.format("<b>", "true")).stdout
    for split in ("dev", "test"):
        assert f"text_mixture: train: the sources of 5 pairs are also in {split}\n" in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[parts", "mixture.toml is not a TOML file: "),
        ("parts = [1]", "mixture.toml must have one table [[parts]] for each part, and nothing else"),
        ("[[parts]]\nproblem='text_mixture'", "mixture.toml, part 1: a part cannot be a text_mixture; list its parts"),
        ("parts = 3", "mixture.toml must have one table [[parts]] for each part, and nothing else"),
        ("tag = 'x'\n[[parts]]", "mixture.toml must have one table [[parts]] for each part, and nothing else"),
        ("[[parts]]\nproblem='grammar_ende'\nweight=nan", "'text_mixture': set a weight above 0 for all parts or "),
        ("[[parts]]\nproblem='multi30k_ende'\nweight='2'", "mixture.toml, part 1: weight must be a number, not '2'"),
        ("[[parts]]\ntrain_only=1", "mixture.toml, part 1: train_only must be true or false, not 1"),
        ("[[parts]]\ntrain_source=[1]", "mixture.toml, part 1: train_source must be a text or a number, not [1]"),
        ("[[parts]]\nname='old'\ntrian_tsv='a'", "part 1 (old): problem 'text_pairs' has no option 'trian"),
        *(
            (f"[[parts]]\ntag={tag}\ntrain_tsv='a'", "mixture.toml, part 1: the tag ")
            for tag in ("' <2de>'", "'<2de> '", "'<2  de>'", '"<2\\nde>"')
        ),
        ("[[parts]]\nproblem='multi30k_endd'", "mixture.toml, part 1: unknown problem 'multi30k_endd'"),
        ("[[parts]]\ntrain_source='a'", "mixture.toml, part 1: --train_source needs --train_target; pass both"),
        ("[[parts]]\nname='x'", "mixture.toml, part 1 (x): problem 'text_pairs' needs your text; pass --train_source"),
    ],
)
def test_a_mistake_in_the_file_is_an_error_of_one_line_that_names_the_part(datagen, text, message):
    said = datagen(text, statuses=(1, 2)).stderr
    assert message in said and said.count("\n") == 1


def test_the_file_is_needed_to_generate_data_only(command, tmp_path):
    result = command("datagen", "--problem=text_mixture", f"--data_dir={tmp_path}")
    assert result.returncode == 2 and "needs --mixture=FILE, a list of its parts" in result.stderr
    assert get_problem("text_mixture").symbols == ()
    with pytest.raises(UserError, match=r"cannot read .*/absent: No such file or directory"):
        get_problem("text_mixture", mixture="absent")


def test_symbols_of_own_text_are_single_tokens(tmp_path, command, write):
    source, target = (line.split('"')[1] for line in write("<2de> word", 400).splitlines())
    flags = (f"--train_source={source}", f"--train_target={target}", f"--data_dir={tmp_path}/data", "--vocab_size=300")
    assert command("datagen", "--problem=text_pairs", "--symbols=<2de>, <2fr>", *flags).returncode == 0
    vocabulary = open_vocabulary(vocabulary_paths(tmp_path / "data", get_problem("text_pairs"))[0])
    assert {"<2de>", "<2fr>"} <= set(vocabulary.tokens())
    (ids,) = vocabulary.ids_of(["<2de>"])
    assert "<2de>" in vocabulary.tokens_of(ids)


def test_each_source_has_its_filters_and_says_what_they_drop(command, tmp_path):
    pytest.importorskip("py3langid")
    english = [f"The {word} dog number {number} sleeps in it." for number in range(40) for word in ("old", "red")]
    german = [f"Der alte Hund mit der Nummer {line.split()[4]} schläft im großen Garten." for line in english]
    pairs = [*zip(english, german)]
    sources = {
        "same": [*pairs[:10], ("Berlin", "Berlin"), ("x y", " x y ")],
        "short": [*pairs[10:20], ("Yes.", "Ja."), ("a " * 60 + ".", "b " * 60 + ".")],
        "numbers": [*pairs[20:30], ("It is 5 or 6.", "Es ist 6 oder 5."), ("It is 7.", "Es ist 8.")],
        "signs": [*pairs[30:40], ("-- 12 / 34 --", "-- 12 / 34 +")],
        "tongue": [
            *pairs[40:50],
            ("This is an English sentence on both sides.", "This is an English sentence as well, my friend."),
        ],
        "cut": [*pairs[50:], *pairs[:5]],
    }
    for name, content in sources.items():
        text = "".join(f"{left}\t{right}\n" for left, right in content)
        (tmp_path / f"{name}.tsv").write_text(text, encoding="utf-8")
    options = {
        "same": "drop_identical = true",
        "short": "min_words = 2\nmax_words = 50",
        "numbers": "drop_other_numbers = true",
        "signs": "min_letters = 0.5",
        "tongue": "min_language = 0.1",
        "cut": "first = 33\nsample = 12",
    }
    tables = [
        f'[[parts]]\nname = "{name}"\ntrain_only = true\ntrain_corpus = "{name}.tsv"\n{each}\n'
        for name, each in options.items()
    ]
    held = [("A held sentence.", "Ein Satz."), pairs[0], ("Another one.", "Noch einer.")]
    for split in ("dev", "test"):
        (tmp_path / f"{split}.tsv").write_text("".join(f"{left}\t{right}\n" for left, right in held))
    tables.append('[[parts]]\nname = "own"\ntrain_corpus = "same.tsv"\ndev_tsv = "dev.tsv"\ntest_tsv = "test.tsv"\n')
    (tmp_path / "mixture.toml").write_text("\n".join(tables), encoding="utf-8")
    flags = f"--mixture={tmp_path}/mixture.toml", f"--data_dir={tmp_path}/data", f"--tmp_dir={tmp_path}/tmp"
    done = command(
        "datagen", "--problem=text_mixture", *flags, "--vocab_size=400", "--languages=en-de", "--drop_duplicates"
    )
    assert done.returncode == 0, done.stderr
    lines = [line.partition("): dropped: ") for line in done.stdout.splitlines()]
    said = {before.rpartition("(")[2]: after for before, middle, after in lines if middle}
    reasons = {
        "same": "1 (its source is also in test), 2 (both sides are the same)",
        "short": "1 (a side of fewer than 2 words), 1 (a side of more than 50 words)",
        "numbers": "1 (different numbers on the two sides)",
        "signs": "1 (a side with less than 50% letters)",
        "tongue": "1 (a side that is less likely than 0.1 to be in its language)",
        "own": "1 (its source is also in test), 9 (a repeated pair)",
    }
    assert {name: said[name] for name in reasons} == reasons
    manifest = json.loads((tmp_path / "data/manifest.text_mixture.json").read_text())
    # 49 of the first five, one more of "numbers", two of the last one, and those of the sample that no other part has.
    repeated = sum(map(int, re.findall(r"(\d+) \(", said.get("cut", ""))))
    assert manifest["splits"]["train"]["examples"] == 49 + 1 + 2 + 12 - repeated
    report = (tmp_path / "data/dropped.text_mixture.md").read_text()
    assert "It is 7. | Es ist 8." in report and report.count("## ") == 7
