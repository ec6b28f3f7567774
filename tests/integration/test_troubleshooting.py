"""docs/troubleshooting.md: its commands, run on text and models with its defects, print the messages that it quotes."""

import itertools
import re
import shlex
import subprocess
import unicodedata
from pathlib import Path

import pytest
from support.commands import with_flags

from t2t_lite.problems.grammar import GrammarEnde

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(?:sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The lines of the page's blocks, and its code in sentences, which may be broken into lines.
QUOTES = "".join(FENCE.findall(PAGE)).splitlines()
QUOTES += [" ".join(each.split()) for each in re.findall(r"`([^`]+)`", FENCE.sub("", PAGE))]
PAIRS = 2000


def quote(start):
    """What the page quotes with this start."""
    (found,) = {each.strip() for each in QUOTES if each.strip().startswith(start)}
    return found


def message(start):
    """A pattern for the message that the page quotes with this start, with any numbers in it."""
    parts = re.split(r"(\d(?:[\d,.]*\d)?)", quote(start))
    return "".join(r"\d[\d,.]*" if number % 2 else re.escape(part) for number, part in enumerate(parts))


def count(finding, report):
    """The number of pairs in the row of the text checks that the page quotes with this start."""
    (label,) = re.findall(r"^(.*?)  ", quote(finding))
    found = re.search(rf"^ {re.escape(label)} +(?:about )?([\d,]+) ", report, re.MULTILINE)
    return int(found[1].replace(",", ""))


@pytest.fixture(scope="module")
def texts():
    """The sides of 2,000 training pairs and of 200 others, as lists of lines."""
    pairs = itertools.islice(GrammarEnde().examples("train", {}), PAIRS + 200)
    sources, targets = map(list, zip(*pairs))
    return (sources[:PAIRS], targets[:PAIRS]), (sources[PAIRS:], targets[PAIRS:])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, in which the page's file names are relative."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def ran(command, folder):
    """Runs the command that the page quotes with this start, with more flags, and returns its output and messages."""

    def run(start, *flags, status=0):
        program, *own = shlex.split(quote(start))
        result = command(program.removeprefix("t2t-lite-"), *with_flags(own, *flags))
        assert result.returncode == status, result.stderr
        return result.stdout + result.stderr

    return run


@pytest.fixture
def checked(ran):
    """Generates the data of files by the page's command, and returns its report."""

    def generate(sources, targets, *flags):
        write("my.en", sources)
        write("my.de", targets)
        return ran("t2t-lite-datagen --problem=text_pairs --train_source", "--vocab_size=600", *flags)

    return generate


def write(name, lines):
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def test_copied_lines_are_counted_and_the_cure_removes_them(texts, checked, command):
    (sources, targets), _ = texts
    mixed = [pair[number % 10 < 7] for number, pair in enumerate(zip(sources, targets))]
    assert count("both sides are the same", checked(sources, mixed)) == 600
    subprocess.run(["bash", "-c", quote("paste my.en my.de | awk")], check=True)
    result = command("datagen", "--problem=text_pairs", quote("--train_tsv="), "--data_dir=new", "--vocab_size=600")
    assert result.returncode == 0, result.stderr
    assert count("both sides are the same", result.stdout) == 0
    assert len(Path("my.tsv").read_text().splitlines()) == 1400


def test_a_missing_line_is_reported_and_where_it_is_missing(texts, checked):
    (sources, targets), _ = texts
    report = checked(sources, targets[:1000] + targets[1001:])
    assert count("a line that the other file does not have", report) == 1
    assert re.search(message("The two files have different numbers of lines"), report)
    apart = re.search(message("Lines 10,001 to 19,844"), report)[0]
    assert apart.startswith("Lines 1,001 to ")


@pytest.mark.slow
def test_swapped_sides_are_reported_in_a_part_and_in_a_split_but_not_in_all(texts, checked):
    (sources, targets), others = texts
    write("dev.en", others[1])
    write("dev.de", others[0])
    pairs = [pair[::-1] if number % 5 == 0 else pair for number, pair in enumerate(zip(sources, targets))]
    report = checked(*zip(*pairs), "--dev_source=dev.en", "--dev_target=dev.de")
    assert 0.9 * PAIRS / 5 < count("the sides seem to be swapped", report) <= PAIRS / 5
    assert re.search(message("In most pairs of dev, the two languages seem to be swapped"), report)
    report = checked(targets, sources, "--data_dir=swapped", "--dev_source=dev.en", "--dev_target=dev.de")
    assert count("the sides seem to be swapped", report) == 0
    assert "the two languages" not in report


def test_a_dev_split_that_is_also_in_the_training_text_is_reported(texts, checked):
    (sources, targets), _ = texts
    write("dev.en", sources[:200])
    write("dev.de", targets[:200])
    report = checked(sources, targets, "--dev_source=dev.en", "--dev_target=dev.de")
    assert re.search(message("text_pairs: dev begins with the same 100 pairs as train"), report)


@pytest.mark.slow
def test_characters_that_the_vocabulary_lacks_are_shown_as_unknown(texts, checked, ran, grammar_data):
    train, (sources, targets) = texts
    write("test.en", [f"{line} 你好" for line in sources])
    write("test.de", targets)
    (vocabulary,) = grammar_data.glob("vocab.*")
    split = ("--test_source=test.en", "--test_target=test.de")
    inspect = "t2t-lite-datagen --inspect=test"
    for folder, flags in (("data", [f"--vocab_file={vocabulary}"]), ("new", [])):
        checked(*train, *split, *flags, f"--data_dir={folder}")
        shown = ran(inspect, f"--data_dir={folder}")
        assert quote("side     vocabulary").split() == re.search("^ side .*$", shown, re.MULTILINE)[0].split()
        unknown = dict(re.findall(r"^ (inputs|targets) .* ([\d.]+)% *$", shown, re.MULTILINE))
        assert (float(unknown["inputs"]) > 1) == ("⁇" in shown) == (folder == "data")
        assert float(unknown["targets"]) == 0


def test_references_of_another_length_or_in_another_form(texts, ran, folder):
    lines = texts[1][1]
    write("out.txt", lines)
    write("ref.txt", lines[:-1])
    score = "t2t-lite-score --hypothesis"
    assert re.search(message("t2t-lite-score: error: out.txt has"), ran(score, status=1))

    def bleu(references, *flags):
        write("ref.txt", references)
        return float(re.search(r"^BLEU\S* = ([\d.]+) ", ran(score, *flags), re.MULTILINE)[1])

    assert bleu(lines) == pytest.approx(100)
    assert bleu(lines[1:] + lines[:1]) < 2
    lower = [line.lower() for line in lines]
    assert bleu(lower) < 50 and bleu(lower, quote("--lowercase")) == pytest.approx(100)
    assert bleu([unicodedata.normalize("NFD", line) for line in lines]) < 90
    write("out.txt", [line.replace("en ", "@@ en ") for line in lines])
    assert bleu(lines) < 60
    cured = subprocess.run([*shlex.split(quote("sed 's/@@")), "out.txt"], capture_output=True, check=True).stdout
    assert cured.decode().splitlines() == lines


@pytest.mark.slow  # with the training of the small run
def test_a_truncated_input_is_reported(small_run, command):
    short = quote("--decode_hparams=max_input_length")
    result = command("decoder", f"--output_dir={small_run}", short, stdin=b"The old man sees a dog. " * 4 + b"\n")
    assert re.search(message("line 1 has 20 tokens and was cut"), result.stderr)


@pytest.mark.heavy
def test_a_loss_that_is_not_finite_ends_training_with_advice(grammar_data, small_flags, command, folder):
    flags = with_flags(small_flags, f"--data_dir={grammar_data}", "--output_dir=RUN", "--train_steps=20")
    result = command("trainer", *flags, quote("--hparams=learning_rate=1e30"), "--schedule=train")
    assert result.returncode == 1
    printed = result.stdout + result.stderr
    assert re.search(message("learning_rate=1e+30"), printed)
    saved = re.search(message("t2t-lite-trainer: error: 5 steps in a row"), printed)[0]
    assert Path(re.search(r"saved in (\S+\.npz)", saved)[1]).exists()


@pytest.mark.heavy
def test_outputs_of_a_model_after_few_steps_are_empty_only_with_min_length_0(
    texts, grammar_data, small_flags, command, folder
):
    flags = with_flags(small_flags, "--train_steps=20", "--save_checkpoints_steps=20", "--output_dir=RUN")
    settings = "--hparams=learning_rate=0.01,learning_rate_warmup_steps=10"
    result = command("trainer", *flags, settings, f"--data_dir={grammar_data}", "--schedule=train")
    assert result.returncode == 0, result.stderr
    lines = "".join(f"{line}\n" for line in texts[1][0][:20]).encode()

    def empty(*flags):
        outputs = command("decoder", "--output_dir=RUN", "--xla_compile=False", *flags, stdin=lines)
        assert len(outputs.stdout.splitlines()) == 20, outputs.stderr
        return outputs.stdout.splitlines().count("")

    assert empty() == 0
    assert empty(quote("--decode_hparams=min_length=0")) > 0
