import json
import re
import shutil

import pytest
from support.commands import run_python, with_flags

COMMANDS = ("datagen", "trainer", "avg", "decoder", "eval", "score", "params", "benchmark")

# Content of files found in practice, as bytes of a line without its end.
HOSTILE = [
    *(b"The dog sleeps.", b"", b"   ", b"\t \t", b"A dog\tsleeps.", b"word " * 10_000),
    b"A \x01\x02 man \x7f \x1b[31mred",
    "שלום عليكم, the dog".encode(),
    "🐶 sees 😀 👨‍👩‍👧 世界 шесть".encode(),
    b"bad \xff\xfe bytes \xc3",
    "\u2028one\u2029 line\x85\x0b\x0c still".encode(),
    *(b"a nul \x00 here", b"\r in the \r middle"),
]
# More than a block of standard input.
LINES = HOSTILE + [[b"The dog sleeps.", b"", b"A man sees the dog."][i % 3] for i in range(510)] + [b"The end"]
DECODE_HPARAMS = "--decode_hparams=beam_size=2,extra_length=3"
DECODE = (DECODE_HPARAMS, "--xla_compile=False")  # compiling takes seconds for each of many lengths


@pytest.fixture(scope="module")
def averaged(small_run, process, tmp_path_factory):
    """A copy of the small run with an average."""
    run_dir = shutil.copytree(small_run, tmp_path_factory.mktemp("commands") / "run")
    result = process("avg", f"--output_dir={run_dir}", "--n=3")
    assert (result.returncode, result.stderr) == (0, "")
    first, second, last = result.stdout.splitlines()
    assert first.startswith(f"{run_dir / 'average-6'}: average of 3 checkpoints (steps 2, 4, 6)")
    loss = json.loads((run_dir / "evaluations.json").read_text())["6"]["loss"]
    assert second.startswith(
        "decoder, eval and export use it from now on, unless --checkpoint_path=last asks for ckpt-6"
    )
    assert f", whose dev loss is {loss:.3f}; " in second and last == f"Next: t2t-lite-eval --output_dir={run_dir}"
    return run_dir


@pytest.fixture(scope="module")
def translated(averaged, command, tmp_path_factory):
    """(output, standard error) of the decoder for LINES, from file to file."""
    folder = tmp_path_factory.mktemp("decode")
    (folder / "in.txt").write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(LINES))
    files = (f"--decode_from_file={folder / 'in.txt'}", f"--decode_to_file={folder / 'out.txt'}")
    result = command("decoder", f"--output_dir={averaged}", *files, *DECODE)
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""
    assert sorted(path.name for path in folder.iterdir()) == ["in.txt", "out.txt"]
    return (folder / "out.txt").read_bytes().decode(), result.stderr


def test_help_errors_and_listings_do_not_import_tensorflow():
    runs = [(name, flags) for name in COMMANDS for flags in (["--help"], ["--version"], ["--no_such_flag"], [""])]
    runs += [("trainer", [f"--registry_help{name}"]) for name in ("", "=transformer_big", "=multi30k_ende_rev")]
    runs += [("trainer", [f"--registry_help={name}"]) for name in ("transformer", "no_such")]
    program = f"""
import importlib, sys
for name, flags in {runs}:
    status = importlib.import_module(f"t2t_lite.bin.{{name}}").main(flags)
    print("AFTER", name, *flags, {{"tensorflow", "keras", "numpy"}} & set(sys.modules) or "nothing", status, sep="|")
"""
    rows = [line.split("|") for line in run_python(program).stdout.splitlines() if line.startswith("AFTER|")]
    assert [(name, [flag]) for _, name, flag, _, _ in rows] == runs
    assert {(name, flag, heavy) for _, name, flag, heavy, _ in rows if heavy != "nothing"} == set()
    mistaken = {(name, flag) for _, name, flag, _, status in rows if status == "2"}
    assert {(name, "--no_such_flag") for name in COMMANDS} | {("trainer", "--registry_help=no_such")} <= mistaken
    assert not any(flag in ("--help", "--version") for _, flag in mistaken)


def test_a_run_directory_holds_checkpoints_settings_vocabulary_and_event_files(small_run, grammar_data):
    names = {path.name for path in small_run.iterdir()}
    checkpoints = {f"ckpt-{step}{end}" for step in (2, 4, 6) for end in (".index", ".data-00000-of-00001")}
    others = {"hparams.json", "run.json", "vocab.grammar_ende.1600.subwords", "train", "eval"}
    others |= {"log.jsonl", "evaluations.json"}
    assert names == checkpoints | others
    assert json.loads((small_run / "hparams.json").read_text())["hidden_size"] == 32
    assert json.loads((small_run / "run.json").read_text())["problem"] == "grammar_ende"
    vocabulary = "vocab.grammar_ende.1600.subwords"
    assert (small_run / vocabulary).read_bytes() == (grammar_data / vocabulary).read_bytes()
    assert list((small_run / "train").glob("events.out.tfevents.*"))


@pytest.mark.heavy
def test_a_run_resumes_from_the_last_checkpoint_and_does_nothing_at_its_last_step(
    small_run, grammar_data, process, command, small_flags, snapshot, tmp_path
):
    run_dir = shutil.copytree(small_run, tmp_path / "run")
    before = snapshot(run_dir)
    flags = [*small_flags, f"--data_dir={grammar_data}", f"--output_dir={run_dir}"]
    result = process("trainer", *flags)
    assert (result.returncode, result.stderr) == (0, "")
    assert f"resuming from {run_dir / 'ckpt-6'}" in result.stdout and "already trained for 6 steps" in result.stdout
    assert not re.search(r"^step \d", result.stdout, flags=re.MULTILINE)
    after = snapshot(run_dir)
    kept = [name for name in before if name.startswith(("ckpt", "vocab"))]
    assert [after[name] for name in kept] == [before[name] for name in kept]
    assert {name for name in after if "/" not in name} == {name for name in before if "/" not in name}
    more = ("--train_steps=8", "--keep_checkpoint_max=2", "--log_step_count_steps=1", "--generate_data")
    result = command("trainer", *with_flags(flags, *more))
    assert (result.returncode, result.stderr) == (0, "")
    assert "nothing to do" in result.stdout and f"resuming from {run_dir / 'ckpt-6'}" in result.stdout
    report = (
        r"^step (\d+)/8  epoch 1  loss [\d.]+ \(without label smoothing [\d.]+\)  "
        r"gradient norm [\d.]+  learning rate [\de.-]+  [\d.]+ steps/s  "
        r"[\d,]+ target tokens/s \([\d,]+ padded\)  (?:utilisation \d+%  )?"
        r"input wait [\d.]+%  [\d.]+ GiB  (?:up to )?\S+ left$"
    )
    assert re.findall(report, result.stdout, flags=re.MULTILINE) == ["7", "8"]
    dev = r"^step 8: dev loss [\d.]+ \(without label smoothing [\d.]+\), dev perplexity [\d.]+ per token, token "
    assert re.search(rf"{dev}accuracy [\d.]+%$", result.stdout, flags=re.MULTILINE)
    assert sorted(path.name for path in run_dir.glob("ckpt-*.index")) == ["ckpt-6.index", "ckpt-8.index"]
    assert not re.search(r"BLEU|\x1b", result.stdout)


def test_the_decoder_writes_one_line_per_input_line_in_order(translated):
    lines = translated[0].split("\n")
    assert len(lines) == len(LINES) + 1 and lines[-1] == ""
    translations = {}
    for source, translation in zip(LINES, lines):
        assert bool(translation) == bool(source.decode(errors="replace").strip())
        assert translations.setdefault(source, translation) == translation


def test_the_decoder_reports_only_the_checkpoint_odd_lines_and_speed(translated, averaged):
    patterns = (
        re.escape(f"using {averaged / 'average-6'}"),
        r".*in\.txt, line 10: not UTF-8 \(invalid start byte at byte 4\); invalid bytes become U\+FFFD",
        r"line 6 has \d+ tokens and was cut to max_input_length=1024; raise it in --decode_hparams",
        r"524 lines in [\d.]+ s, [\d.]+ lines/s",
        rf"Next: t2t-lite-export --output_dir={re.escape(str(averaged))} --format=\w+ --export_dir=EXPORT",
    )
    for pattern, line in zip(patterns, translated[1].splitlines(), strict=True):
        assert re.fullmatch(pattern, line)


def test_standard_input_and_output_give_the_same_text_as_files(translated, averaged, process):
    # Without a byte-order mark; and a non-UTF-8 output encoding must not matter: a terminal may lack characters.
    source = b"\n".join(LINES) + b"\n"
    result = process("decoder", f"--output_dir={averaged}", *DECODE, stdin=source, PYTHONIOENCODING="latin-1")
    assert result.returncode == 0, result.stderr
    assert result.stdout == translated[0]
    assert len(result.stderr.splitlines()) == 3


@pytest.mark.slow
def test_a_checkpoint_can_be_chosen_and_crlf_is_not_part_of_the_text(averaged, command):
    flags = (f"--output_dir={averaged}", f"--checkpoint_path={averaged / 'ckpt-2'}", DECODE_HPARAMS)
    result = command("decoder", *flags, stdin=b"The dog sleeps.\r\n\r\nThe dog sleeps.")
    assert (result.returncode, result.stderr) == (0, f"using {averaged / 'ckpt-2'}\n")
    first, second, third, end = result.stdout.split("\n")
    assert (second, end) == ("", "") and first == third


@pytest.mark.heavy
def test_datagen_generates_a_built_in_problem_and_a_second_run_does_nothing(process, tmp_path, snapshot):
    flags = ("--problem=algorithmic_copy", "--max_cases=300", f"--data_dir={tmp_path / 'data'}")
    result = process("datagen", *flags)
    assert (result.returncode, result.stderr) == (0, "")
    pairs = re.findall(r"algorithmic_copy: (\w+): (\d+) pairs", result.stdout)
    assert pairs == [("train", "300"), ("dev", "500"), ("test", "500")]
    before = snapshot(tmp_path)
    assert f"{tmp_path}" not in before and not [name for name in before if ".spill" in name or "incomplete" in name]
    again = process("datagen", *flags)
    assert (again.returncode, again.stderr) == (0, "")
    said, following = again.stdout.splitlines()
    assert said == f"algorithmic_copy: already in {tmp_path / 'data'}, nothing to do"
    train = f"--problem=algorithmic_copy --hparams_set=transformer_tiny --data_dir={tmp_path / 'data'} --output_dir=RUN"
    assert following == f"Next: t2t-lite-trainer {train}"
    assert snapshot(tmp_path) == before
