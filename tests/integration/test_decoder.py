"""t2t-lite-decoder as a user runs it: files, pipes, interruptions, hostile text, and further options."""

import contextlib
import gzip
import json
import re
import signal
import subprocess
import time

import pytest
from support.commands import start_process

# Compiling takes seconds and changes no text (tests/decoding/search/test_searcher.py).
PLAIN = "--xla_compile=False"
SETTINGS = ("--decode_hparams=beam_size=2,extra_length=4", PLAIN)
SENTENCES = ["The dog sleeps.", "A man sees the small dog.", "She sings.", "I know the man who sleeps in the garden."]
# Content of files found in practice, as bytes of a line without its end.
HOSTILE = [
    b"The dog sleeps.",
    b"",
    b"   ",
    b"\t \t",
    b"A dog\tsleeps.",
    b"word " * 10_000,
    b"A \x01\x02 man \x7f \x1b[31mred",
    "שלום عليكم, the dog".encode(),
    "🐶 sees 😀 👨‍👩‍👧".encode(),
    b"bad \xff\xfe bytes \xc3",
    "\u2028one\u2029 line\x85\x0b\x0c still".encode(),
    b"a nul \x00 here",
    b"\r in the \r middle",
    b"The end",
]


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


@pytest.mark.heavy
def test_a_hostile_file_gives_one_output_line_per_input_line(small_run, command, tmp_path):
    (tmp_path / "in.txt").write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(HOSTILE))
    flags = (f"--output_dir={small_run}", *SETTINGS)
    files = (f"--decode_from_file={tmp_path / 'in.txt'}", f"--decode_to_file={tmp_path / 'out.txt'}")
    result = command("decoder", *flags, *files)
    assert result.returncode == 0, result.stderr
    outputs = lines_of(tmp_path / "out.txt")
    assert len(outputs) == len(HOSTILE)
    for source, output in zip(HOSTILE, outputs):
        assert bool(output) == bool(source.decode(errors="replace").strip())
    message = [line for line in result.stderr.splitlines() if "line" in line]
    not_utf8 = "line 10: not UTF-8 (invalid start byte at byte 4); invalid bytes become U+FFFD"
    assert f"{tmp_path / 'in.txt'}, {not_utf8}" in message
    assert any(
        re.fullmatch(r"line 6 has \d+ tokens and was cut to max_input_length=1024; .*", line) for line in message
    )
    # From a pipe, without line ends and byte-order mark, the result is the same.
    piped = command("decoder", *flags, stdin=b"\n".join(HOSTILE) + b"\n")
    assert piped.stdout.split("\n")[:-1] == outputs


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


@pytest.mark.slow
def test_two_halves_of_a_file_give_the_output_of_the_whole(corpus, whole, small_run, command, tmp_path):
    lines = corpus.read_bytes().splitlines(keepends=True)
    found = b""
    for half in (lines[:300], lines[300:]):
        (tmp_path / "half.txt.gz").write_bytes(gzip.compress(b"".join(half)))
        flags = (f"--decode_from_file={tmp_path / 'half.txt.gz'}", f"--decode_to_file={tmp_path / 'out.txt.gz'}")
        assert command("decoder", f"--output_dir={small_run}", *SETTINGS, *flags).returncode == 0
        found += gzip.decompress((tmp_path / "out.txt.gz").read_bytes())
    assert found == whole.read_bytes()


@pytest.mark.heavy
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_run_resumes_to_the_same_file(how, corpus, whole, small_run, start, command, tmp_path):
    target = tmp_path / "out.txt"
    flags = (f"--output_dir={small_run}", *SETTINGS, f"--decode_from_file={corpus}", f"--decode_to_file={target}")
    process = start(*flags, "--batch_lines=10")
    progress = tmp_path / "out.txt.progress"
    while not (progress.exists() and json.loads(progress.read_text())["lines"] >= 20):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)
    process.send_signal(how)
    process.wait()
    assert process.returncode != 0 and not target.exists()
    done = json.loads(progress.read_text())["lines"]
    assert 20 <= done < 600
    again = command("decoder", *flags, "--batch_lines=10")
    assert again.returncode == 0, again.stderr
    assert f"resuming after line {done:,}" in again.stderr
    assert target.read_bytes() == whole.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


@pytest.mark.heavy
def test_a_run_with_other_settings_starts_over(corpus, small_run, start, command, tmp_path):
    target = tmp_path / "out.txt"
    flags = (f"--output_dir={small_run}", f"--decode_from_file={corpus}", f"--decode_to_file={target}")
    process = start(*flags, *SETTINGS, "--batch_lines=10")
    while not (tmp_path / "out.txt.progress").exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)
    process.kill()
    process.wait()
    greedy = ("--decode_hparams=beam_size=1,extra_length=4", PLAIN)
    result = command("decoder", *flags, *greedy)
    assert result.returncode == 0 and "resumes" not in result.stderr
    expected = command("decoder", f"--output_dir={small_run}", *greedy, f"--decode_from_file={corpus}")
    assert target.read_text() == expected.stdout


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


@pytest.mark.slow
def test_interactive_lines_are_timed(small_run, command):
    result = command(
        "decoder",
        f"--output_dir={small_run}",
        *SETTINGS,
        "--decode_interactive",
        stdin=b"The dog sleeps.\nShe sings \xff.\n",
    )
    assert result.returncode == 0
    assert "standard input, line 2: not UTF-8" in result.stderr
    assert len(result.stdout.splitlines()) == 2
    times = re.findall(r"^  [\d.]+ s, score -[\d.]+, log-probability -[\d.]+$", result.stderr, re.MULTILINE)
    assert len(times) == 2


@pytest.mark.heavy
def test_all_hypotheses_of_a_line_are_written_as_one_line_of_json(small_run, command):
    flags = (f"--output_dir={small_run}", "--decode_hparams=beam_size=3,extra_length=2,return_beams=True", PLAIN)
    result = command("decoder", *flags, stdin="\n".join(SENTENCES[:2]).encode() + b"\n\n")
    first, second, empty = (json.loads(line) for line in result.stdout.splitlines())
    assert empty == [{"text": "", "score": 0.0, "log_prob": 0.0}]
    plain = command(
        "decoder",
        f"--output_dir={small_run}",
        "--decode_hparams=beam_size=3,extra_length=2",
        PLAIN,
        stdin="\n".join(SENTENCES[:2]).encode(),
    )
    for beams, best in zip((first, second), plain.stdout.splitlines()):
        assert len(beams) == 3 and beams[0]["text"] == best
        assert [beam["score"] for beam in beams] == sorted((beam["score"] for beam in beams), reverse=True)
        assert all(beam["log_prob"] < beam["score"] < 0 for beam in beams)


@pytest.mark.slow
def test_scores_of_given_pairs_equal_those_of_the_search(small_run, command, tmp_path):
    flags = (f"--output_dir={small_run}", "--decode_hparams=beam_size=2,extra_length=40,return_beams=True", PLAIN)
    result = command("decoder", *flags, stdin="\n".join(SENTENCES).encode())
    found = [json.loads(line) for line in result.stdout.splitlines()]
    pairs = [(line, beam) for line, beams in zip(SENTENCES, found) for beam in beams]
    (tmp_path / "pairs.txt").write_text("".join(f"{line}\t{beam['text']}\n" for line, beam in pairs))
    scored = command(
        "decoder",
        f"--output_dir={small_run}",
        f"--score_file={tmp_path / 'pairs.txt'}",
        f"--decode_to_file={tmp_path / 'scores.txt'}",
        PLAIN,
    )
    assert scored.returncode == 0, scored.stderr
    scores = [tuple(map(float, line.split("\t"))) for line in lines_of(tmp_path / "scores.txt")]
    assert len(scores) == len(pairs) == 8
    assert all(score[0] < score[1] < 0 for score in scores)
    # A model trained for six steps does not end by itself: the pairs include the end symbol, which costs extra.
    for (_, beam), (log_prob, _) in zip(pairs, scores):
        assert log_prob <= beam["log_prob"] + 1e-3
    (tmp_path / "pairs.txt").write_text("A dog.\n")
    refused = command("decoder", f"--output_dir={small_run}", f"--score_file={tmp_path / 'pairs.txt'}")
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[-1].endswith(
        "pairs.txt, line 1: found 0 tabs instead of 1; write each line as INPUT<tab>TRANSLATION"
    )


@pytest.mark.slow
def test_translations_begin_with_their_prefixes(small_run, command, tmp_path):
    prefixes = ["Der ", "", "Ein Hund 😀 schl", "Sie"]
    (tmp_path / "in.txt").write_text("\n".join(SENTENCES) + "\n")
    (tmp_path / "prefixes.txt").write_text("\n".join(prefixes) + "\n")
    flags = (f"--output_dir={small_run}", *SETTINGS, f"--decode_from_file={tmp_path / 'in.txt'}")
    result = command("decoder", *flags, f"--prefix_file={tmp_path / 'prefixes.txt'}")
    assert result.returncode == 0, result.stderr
    for prefix, output in zip(prefixes, result.stdout.splitlines()):
        assert output.startswith(prefix) and len(output) > len(prefix)
    (tmp_path / "prefixes.txt").write_text("Der\n")
    refused = command("decoder", *flags, f"--prefix_file={tmp_path / 'prefixes.txt'}")
    assert refused.returncode == 1
    assert "prefixes.txt ends before line 2; it must have a line for each line of" in refused.stderr


@pytest.mark.heavy
def test_translations_contain_the_phrases_of_a_file(small_run, command, tmp_path):
    phrases = [["Hund", "alte Mann"], [], ["schläft"], ["die Frau"]]
    (tmp_path / "in.txt").write_text("\n".join(SENTENCES) + "\n")
    (tmp_path / "phrases.txt").write_text("\n".join(map("\t".join, phrases)) + "\n")
    flags = (f"--output_dir={small_run}", "--xla_compile=False", f"--decode_from_file={tmp_path / 'in.txt'}")
    search = "--decode_hparams=extra_length=10"
    plain = command("decoder", *flags, search).stdout.splitlines()
    result = command("decoder", *flags, search, f"--constraint_file={tmp_path / 'phrases.txt'}")
    assert result.returncode == 0, result.stderr
    outputs = result.stdout.splitlines()
    assert outputs[1] == plain[1]
    for each, output in zip(phrases, outputs, strict=True):
        assert all(f" {phrase} " in f" {output} " for phrase in each)
    to_file = (f"--decode_to_file={tmp_path / 'out.txt'}", f"--constraint_file={tmp_path / 'phrases.txt'}")
    assert command("decoder", *flags, search, *to_file).returncode == 0
    assert lines_of(tmp_path / "out.txt") == outputs
    sampled = command("decoder", *flags, "--decode_hparams=sampling_method=random", *to_file)
    assert sampled.returncode == 1 and "sampling_method=random in --decode_hparams does not work" in sampled.stderr
    (tmp_path / "phrases.txt").write_text("Hund\n")
    short = command("decoder", *flags, f"--constraint_file={tmp_path / 'phrases.txt'}")
    assert short.returncode == 1 and "phrases.txt ends before line 2" in short.stderr


@pytest.mark.slow
def test_alignments_link_every_word(small_run, command, tmp_path):
    (tmp_path / "in.txt").write_text("\n".join([*SENTENCES, ""]) + "\n")
    flags = (f"--output_dir={small_run}", *SETTINGS, f"--decode_from_file={tmp_path / 'in.txt'}")
    files = (f"--decode_to_file={tmp_path / 'out.txt'}", f"--alignments={tmp_path / 'links.txt'}")
    result = command("decoder", *flags, *files, "--alignment_layer=0")
    assert result.returncode == 0, result.stderr
    links = lines_of(tmp_path / "links.txt")
    for source, output, line in zip([*SENTENCES, ""], lines_of(tmp_path / "out.txt"), links, strict=True):
        pairs = [tuple(map(int, link.split("-"))) for link in line.split()]
        assert [j for _, j in pairs] == list(range(len(output.split())))
        assert all(0 <= i < len(source.split()) for i, _ in pairs)
    refused = command("decoder", *flags, *files, "--alignment_layer=7")
    assert refused.returncode == 1 and "there is no layer 7" in refused.stderr


@pytest.mark.heavy
def test_run_directories_with_the_same_vocabulary_form_an_ensemble(small_run, command, tmp_path):
    alone = command("decoder", f"--output_dir={small_run}", *SETTINGS, stdin=SENTENCES[0].encode())
    twice = command("decoder", f"--output_dir={small_run},{small_run}", *SETTINGS, stdin=SENTENCES[0].encode())
    assert twice.returncode == 0 and twice.stdout == alone.stdout
    assert twice.stderr.count("ckpt-6") == 2
