"""t2t-lite-decoder as a user runs it: files, pipes, interruptions, and further options."""

import bz2
import contextlib
import gzip
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from support.commands import start_process

# Compiling takes seconds and changes no text (tests/decoding/search/test_searcher.py).
PLAIN = "--xla_compile=False"
SEARCH = "--decode_hparams=beam_size=2,extra_length=4"
SETTINGS = (SEARCH, PLAIN)
SENTENCES = ["The dog sleeps.", "A man sees the small dog.", "She sings.", "I know the man who sleeps in the garden."]


@pytest.fixture
def start(commands_environment):
    """Starts a decoder with binary pipes; it is killed at the end of the test."""
    with contextlib.ExitStack() as stack:

        def run(*flags):
            pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
            process = start_process("decoder", *flags, environment=commands_environment, text=False, **pipes)
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield run


def lines_of(path):
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rb") as file:
        content = file.read().decode()
    assert content.endswith("\n")
    return content.split("\n")[:-1]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A file of 600 lines of many lengths."""
    path = tmp_path_factory.mktemp("corpus") / "in.txt"
    path.write_text("".join(f"{SENTENCES[i % 4]} {'dog ' * (i % 7)}{i}\n" for i in range(600)))
    return path


@pytest.fixture(scope="module")
def whole(corpus, small_run, command):
    """The corpus, translated in one run."""
    target = corpus.with_name("whole.txt")
    flags = (f"--output_dir={small_run}", *SETTINGS, f"--decode_from_file={corpus}", f"--decode_to_file={target}")
    result = command("decoder", *flags)
    assert result.returncode == 0, result.stderr
    assert re.search(r"^600 lines in [\d.]+ s, [\d.]+ lines/s$", result.stderr, re.MULTILINE)
    assert len(lines_of(target)) == 600
    return target


@pytest.mark.heavy
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_run_resumes_to_the_same_file(how, corpus, whole, small_run, start, command, tmp_path):
    target, progress = tmp_path / "out.txt", tmp_path / "out.txt.progress"
    flags = (f"--output_dir={small_run}", f"--decode_from_file={corpus}", f"--decode_to_file={target}")
    process = start(*flags, *SETTINGS, "--batch_lines=10")
    while not (progress.exists() and json.loads(progress.read_text())["lines"] >= 20):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)
    process.send_signal(how)
    process.wait()
    assert process.returncode != 0 and not target.exists()
    done = json.loads(progress.read_text())["lines"]
    assert 20 <= done < 600
    other = shutil.copytree(tmp_path, f"{tmp_path}-other")
    again = command("decoder", *flags, *SETTINGS, "--batch_lines=10")
    assert again.returncode == 0, again.stderr
    assert f"resuming after line {done:,}" in again.stderr
    assert target.read_bytes() == whole.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]
    if how == signal.SIGTERM:  # with other settings it starts over
        greedy = (*flags[:2], "--decode_hparams=beam_size=1,extra_length=4", PLAIN)
        result = command("decoder", *greedy, f"--decode_to_file={other}/out.txt")
        assert result.returncode == 0 and "resuming" not in result.stderr
        assert Path(other, "out.txt").read_text() == command("decoder", *greedy).stdout


@pytest.mark.heavy
def test_a_line_of_a_pipe_is_answered_before_the_next_is_written(small_run, start, command):
    process = start(f"--output_dir={small_run}", *SETTINGS, "--batch_lines=1")
    write_outputs = []
    for line in (*SENTENCES, ""):
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()
        write_outputs.append(process.stdout.readline().decode())  # blocks forever if the decoder waits for more lines
    process.stdin.close()
    assert process.wait() == 0 and process.stdout.read() == b""
    assert all(answer.strip() for answer in write_outputs[:4]) and write_outputs[4] == "\n"
    # Lines that arrive together are answered together, with the same texts.
    together = "\n".join([*SENTENCES, ""]).encode() + b"\n"
    assert command("decoder", f"--output_dir={small_run}", *SETTINGS, stdin=together).stdout == "".join(write_outputs)


@pytest.fixture
def decode(small_run, command, tmp_path):
    """A function of flags that decodes SENTENCES from a file, in the folder of which it runs."""
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in SENTENCES))

    def run(*flags, **options):
        with contextlib.chdir(tmp_path):
            return command("decoder", f"--output_dir={small_run}", PLAIN, *flags, **options)

    return run


FILE = "--decode_from_file=in.txt"


@pytest.mark.slow
def test_interactive_lines_are_timed(decode):
    result = decode(SEARCH, "--decode_interactive", stdin=b"The dog sleeps.\nShe sings \xff.\n")
    assert result.returncode == 0
    assert "standard input, line 2: not UTF-8" in result.stderr
    assert len(result.stdout.splitlines()) == 2
    times = re.findall(r"^  [\d.]+ s, score -[\d.]+, log-probability -[\d.]+$", result.stderr, re.MULTILINE)
    assert len(times) == 2


@pytest.mark.heavy
def test_a_terminal_is_asked_line_by_line_until_its_input_ends(small_run, commands_environment):
    ours, theirs = pty.openpty()
    flags = (f"--output_dir={small_run}", SEARCH, PLAIN, "--decode_interactive")
    pipes = {"stdin": theirs, "stderr": subprocess.PIPE}
    with start_process("decoder", *flags, environment=commands_environment, **pipes) as process:
        os.write(ours, b"The dog sleeps.\nShe sings.\n\x04")
        shown, report = process.communicate(timeout=600)
    assert process.returncode == 0, report
    assert len(shown.split("> ")) == 4 and report.count("log-probability") == 2


@pytest.mark.heavy
def test_hypotheses_are_written_as_json_and_given_pairs_have_scores_of_their_own(decode, tmp_path):
    settings = "--decode_hparams=beam_size=2,extra_length=40"
    plain = decode(settings, FILE).stdout.splitlines()
    found = [json.loads(line) for line in decode(f"{settings},return_beams=True", FILE).stdout.splitlines()]
    for beams, best in zip(found, plain, strict=True):
        assert len(beams) == 2 and beams[0]["text"] == best
        assert beams[0]["score"] >= beams[1]["score"]
        assert all(beam["log_prob"] < beam["score"] < 0 for beam in beams)
    empty = decode(f"{settings},return_beams=True", stdin=b"\n")
    assert json.loads(empty.stdout) == [{"text": "", "score": 0.0, "log_prob": 0.0}]

    pairs = [(line, beam) for line, beams in zip(SENTENCES, found) for beam in beams]
    (tmp_path / "pairs.txt").write_text("".join(f"{line}\t{beam['text']}\n" for line, beam in pairs))
    scored = decode("--score_file=pairs.txt", "--decode_to_file=scores.txt")
    assert scored.returncode == 0, scored.stderr
    scores = [tuple(map(float, line.split("\t"))) for line in lines_of(tmp_path / "scores.txt")]
    # A model trained for six steps does not end by itself: the pairs include the end symbol, which costs extra.
    for (_, beam), (log_prob, score) in zip(pairs, scores, strict=True):
        assert log_prob <= beam["log_prob"] + 1e-3 and log_prob < score < 0


@pytest.mark.slow
def test_translations_begin_with_their_prefixes_and_every_word_is_linked(decode, tmp_path):
    prefixes = ["Der ", "", "Ein Hund 😀 schl", "Sie"]
    (tmp_path / "prefixes.txt").write_text("\n".join(prefixes) + "\n")
    files = ("--decode_to_file=out.txt", "--alignments=links.txt", "--alignment_layer=0")
    result = decode(SEARCH, FILE, "--prefix_file=prefixes.txt", *files)
    assert result.returncode == 0, result.stderr
    outputs, links = (lines_of(tmp_path / name) for name in ("out.txt", "links.txt"))
    for source, prefix, output, line in zip(SENTENCES, prefixes, outputs, links, strict=True):
        assert output.startswith(prefix) and len(output) > len(prefix)
        pairs = [tuple(map(int, link.split("-"))) for link in line.split()]
        assert [j for _, j in pairs] == list(range(len(output.split())))
        assert all(0 <= i < len(source.split()) for i, _ in pairs)


@pytest.mark.heavy
def test_translations_contain_the_phrases_of_a_file(decode, tmp_path):
    phrases = [["Hund", "alte Mann"], [], ["schläft"], ["die Frau"]]
    (tmp_path / "phrases.txt").write_text("\n".join(map("\t".join, phrases)) + "\n")
    search = ("--decode_hparams=extra_length=10", FILE)
    result = decode(*search, "--constraint_file=phrases.txt")
    assert result.returncode == 0, result.stderr
    outputs = result.stdout.splitlines()
    assert outputs[1] == decode(*search).stdout.splitlines()[1]
    for each, output in zip(phrases, outputs, strict=True):
        assert all(f" {phrase} " in f" {output} " for phrase in each)
    written = decode(*search, "--constraint_file=phrases.txt", "--decode_to_file=out.txt")
    assert written.returncode == 0 and lines_of(tmp_path / "out.txt") == outputs
    run = next(flag for flag in written.args[1:] if flag.startswith("--output_dir="))
    # CTranslate2 has no phrases.
    assert written.stderr.endswith(f"\nNext: t2t-lite-export {run} --format=keras --export_dir=EXPORT\n")


@pytest.mark.slow
@pytest.mark.parametrize("packed", [bytes, gzip.compress, bz2.compress])
def test_pipes_take_phrases_terms_and_alignments_as_files_do(decode, tmp_path, packed):
    (tmp_path / "terms.tsv").write_text("dog\tHund\nman\tFrau\n")
    (tmp_path / "phrases.txt").write_text("Katze\n" + "\n" * 3)
    flags = ("--decode_hparams=extra_length=10", "--terms=terms.tsv", "--constraint_file=phrases.txt")
    with_files = decode(*flags, FILE, "--decode_to_file=out.txt", "--alignments=links.txt")
    assert with_files.returncode == 0, with_files.stderr
    outputs = lines_of(tmp_path / "out.txt")
    wanted = [["Hund", "Katze"], ["Hund", "Frau"], [], ["Frau"]]
    for words, output in zip(wanted, outputs, strict=True):
        assert all(f" {word} " in f" {output.replace('.', ' .')} " for word in words), output
    content = packed((tmp_path / "in.txt").read_bytes())
    piped = decode(*flags, "--alignments=piped.txt", stdin=content)
    assert piped.stdout.splitlines() == outputs and lines_of(tmp_path / "piped.txt") == lines_of(tmp_path / "links.txt")
    assert decode(*flags, FILE, "--alignments=third.txt").stdout == piped.stdout
    short = decode(*flags, stdin=b"The dog sleeps.\n")
    assert short.returncode == 1
    assert "standard input ends before line 2; it must have a line for each" in short.stderr.splitlines()[-1]


@pytest.mark.slow
def test_n_best_lists_are_written_as_text(decode):
    settings = "--decode_hparams=beam_size=2,extra_length=4,return_beams=True"
    lists = [json.loads(line) for line in decode(settings, FILE).stdout.splitlines()]
    lines = [f"{row} ||| {each['text']} ||| {each['score']:.6f}" for row, beams in enumerate(lists) for each in beams]
    assert decode(settings, FILE, "--n_best_format=text").stdout.splitlines() == lines


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ["--score_file=short.txt"],
            "short.txt, line 1: found 0 tabs instead of 1; write each line as INPUT<tab>TRANS",
        ),
        ([FILE, "--prefix_file=short.txt"], "short.txt ends before line 2; it must have a line for each line of"),
        ([FILE, "--constraint_file=short.txt"], "short.txt ends before line 2"),
        (
            [FILE, "--constraint_file=in.txt", "--decode_hparams=sampling_method=random"],
            "sampling_method=random in --d",
        ),
        ([FILE, "--decode_to_file=out", "--alignments=links", "--alignment_layer=7"], "there is no layer 7"),
        ([FILE, "--terms=short.txt"], "short.txt, line 1: found 0 tabs instead of 1; write TERM<tab>TRANSLATION"),
        ([FILE, "--terms=nothing.tsv"], "no such file: nothing.tsv"),
        ([FILE, "--terms=short.txt", "--engine=ctranslate2"], "the engine ctranslate2 does not support phrases"),
        (
            ["--decode_from_file=text.zst"],
            "text.zst is compressed, but not with gzip, bzip2 or xz; unpack it first: zst",
        ),
    ],
)
def test_files_beside_the_input_that_do_not_fit_are_errors(decode, tmp_path, flags, said):
    (tmp_path / "short.txt").write_text("Der\n")
    (tmp_path / "text.zst").write_bytes(b"\x28\xb5\x2f\xfd12345")
    result = decode(*flags)
    assert result.returncode == 1 and said in result.stderr.splitlines()[-1]


@pytest.mark.heavy
def test_run_directories_with_the_same_vocabulary_form_an_ensemble(small_run, command):
    alone, twice = (
        command("decoder", f"--output_dir={runs}", *SETTINGS, stdin=SENTENCES[0].encode())
        for runs in (small_run, f"{small_run},{small_run}")
    )
    assert twice.returncode == 0 and twice.stdout == alone.stdout
    assert twice.stderr.count("ckpt-6") == 2
