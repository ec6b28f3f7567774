"""t2t-lite-run: reads what its file says, does what is not done yet, and nothing twice."""

import functools
import shlex
import shutil

import pytest

from t2t_lite.files import file_sha256

GRAMMAR = """
problem = "grammar_ende"
hparams_set = "transformer_tiny"
dir = "made"
[data]
max_cases = 200
[train]
train_steps = 4
save_checkpoints_steps = 2
[train.hparams]
hidden_size = 32
num_heads = 2
batch_tokens = 512
[decode]
beam_size = 2
[evaluate]
splits = ["dev"]
[export]
formats = ["ctranslate2", "keras"]
quantization = "int8"
"""
# Mistakes, with the line that each has in a file and what the message says.
MISTAKES = [
    ('dirr = "x"', 1, "dirr: unknown key; did you mean 'dir'?"),
    ('dir = ["a", ["b"]]', 1, "dir: takes a value or a list of values, not"),
    ('problem = "text_pair"', 1, "problem: unknown problem 'text_pair'; did you mean 'text_pairs'"),
    ('problem = "grammar_ende_rev"\\nreverse = true', 1, "problem: write grammar_ende"),
    ('hparams_set = "transformer_bas"', 1, "hparams_set: unknown hparam set 'transformer_bas'; did you mean"),
    ('languages = "english"', 1, "languages: languages must be SOURCE-TARGET"),
    ("seeds = 2", 1, "seeds: takes a list, such as [1, 2]"),
    ("seeds = [1, 1]", 1, "seeds: takes different numbers, not 1,1"),
    ('reverse = "yes"', 1, "reverse: takes true or false, not 'yes'"),
    ("data = 5", 1, "data: unknown key; it is a table, [data]"),
    ('[data]\\nvocab_size = "many"', 2, "[data] vocab_size: takes a whole number from 1"),
    ("[data]\\nvocab_sise = 5", 2, "[data] vocab_sise: unknown key; did you mean 'vocab_size'"),
    ('[data]\\ndata_dir = "x"', 2, "[data] data_dir: unknown key; t2t-lite-run chooses it"),
    ("[train]\\nseeds = [2]", 2, "[train] seeds: unknown key; write it at the top"),
    ("[train]\\nrandom_seed = 2", 2, "[train] random_seed: unknown key; write seeds at the top"),
    ("train = 5", 1, "train: unknown key; it is a table, [train]"),
    ("dir = 'a,b'", 1, "dir: takes a folder without commas, not a,b"),
    ("[evaluate]\\nreferences = 'no.txt'", 2, "[evaluate] references: there is no no.txt"),
    ("[back_translation]\\ntarget_texts = 3", 2, "[back_translation] target_texts: needs target_texts, a file"),
    (
        "[[data.parts]]\\ntrain_tsv = 'a'\\n[[data.parts]]\\ntrain_tvs = 'b'",
        3,
        "[data.parts] part 2: problem 'text_pairs' has",
    ),
    ("[train]\\nhidden_size = 2", 2, "[train] hidden_size: unknown key; write it in [train.hparams]"),
    ("[export]\\nbeam_size = 2", 2, "[export] beam_size: unknown key; write it in [decode]"),
    ("[hparams]\\nhidden_size = 2", 1, "[hparams] unknown table; did you mean 'train.hparams'?"),
    ("[data]\\n[data.train_source]\\na = 1", 1, "[data] train_source: takes a value or a list of values"),
    ("[train]\\ntrain_steps = -5", 2, "[train] train_steps: takes a whole number from 1"),
    ("[train]\\neval_decode = 1", 2, "[train] eval_decode: takes true or false, not 1"),
    ('[train]\\nstrategy = "one"', 2, "[train] strategy: "),
    ("[train]\\nearly_stopping_patience = 2\\neval_metric = 'bleu'", 1, "[train] "),
    ("[train]\\nhparams = 5", 2, "[train] hparams: takes a table, [train.hparams]"),
    ("[train.hparams]\\nhidden_sise = 5", 2, "[train.hparams] hidden_sise: unknown setting 'hidden_sise'"),
    ("[train.hparams]\\nhidden_size = 36", 2, "[train.hparams] hidden_size: num_heads=8 is out of range"),
    ("[train.hparams]\\nhidden_size = 24\\nnum_heads = 16", 1, "[train.hparams] num_heads=16 is out of range"),
    ("[decode]\\nbeam_size = 0", 2, "[decode] beam_size: beam_size=0 is out of range"),
    ('[evaluate]\\nsplits = ["tes"]', 2, "[evaluate] splits: takes dev or test, not 'tes'"),
    (
        '[export]\\nformats = "kera"',
        2,
        "[export] formats: takes saved_model or ctranslate2 or keras or argos, not",
    ),
    (
        '[export]\\nformats = ["keras"]\\nquantization = "int8"',
        1,
        "[export] quantization=int8 needs format=",
    ),
    ("[exprt]\\na = 1", 1, "[exprt] unknown table; did you mean 'export'?"),
    ("[back_translation]\\nbeam_size = 1", 1, "[back_translation] needs target_texts"),
]


@pytest.mark.parametrize(("text", "line", "message"), MISTAKES)
def test_a_mistake_is_one_line_with_its_place(command, tmp_path, text, line, message):
    file = tmp_path / "mine.toml"
    text = text.replace("\\n", "\n")
    file.write_text(text if "[train" in text or "[data" in text else f"{text}\n")
    done = command("run", f"--config={file}")
    lines = [each.replace("t2t-lite-run: error: ", "") for each in done.stderr.splitlines()]
    assert done.returncode == 2 and f"mine.toml, line {line}: {message}" in lines[0], lines
    assert len(lines) == 1 and [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


def test_all_mistakes_are_told_at_once(command, tmp_path):
    texts = ["dirr = 1", "languages = 'english'", "[data]\nvocab_size = 0", "[train]\nhparams = 5", "[exprt]\na = 1"]
    (tmp_path / "mine.toml").write_text("\n".join(texts))
    done = command("run", f"--config={tmp_path}/mine.toml")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 5
    for flags, message in (
        (["--config=nix.toml"], "there is no "),
        ([], "--config is required; --example prints such a file"),
        ([f"--config={tmp_path}"], "there is no "),
    ):
        assert message in command("run", *flags).stderr
    (tmp_path / "mine.toml").write_text("a = ")
    assert "is not a TOML file" in command("run", f"--config={tmp_path}/mine.toml").stderr


@pytest.mark.parametrize("name", ["text", "libretranslate", "multi30k", "wmt_ende", "parsing", "grammar"])
def test_the_examples_are_correct(command, tmp_path, name):
    text = command("run", f"--example={name}").stdout
    (tmp_path / "example.toml").write_text(text)
    done = command("run", f"--config={tmp_path}/example.toml", "--dry_run")
    assert done.returncode == 0, done.stderr
    head, *commands = [line for line in done.stdout.splitlines() if line[0] != "#"]
    assert head == f"cd {tmp_path}"
    steps = [line.split()[0] for line in commands]
    assert steps[:2] == ["t2t-lite-datagen", "t2t-lite-trainer"] and steps[-2:] == [
        "t2t-lite-export",
        "t2t-lite-report",
    ]


def test_dry_run_prints_the_commands_of_back_translation(command, tmp_path):
    (tmp_path / "mine.toml").write_text(
        'languages = "en-de"\nseeds = [1, 2]\n[data]\nvocab_size = 9\n[[data.parts]]\ntrain_source = ["a.en", "b.en"]\n'
        'train_target = ["a.de", "b.de"]\n[back_translation]\ntarget_texts = "mono.de"\nsampling_method = "random"\n'
    )
    (tmp_path / "mono.de").write_text("Ein Satz.\n")
    done = command("run", f"--config={tmp_path}/mine.toml", "--dry_run", "--until=evaluate")
    commands = [shlex.split(line) for line in done.stdout.splitlines()[2::2]]
    assert [line[0].removeprefix("t2t-lite-") for line in commands] == [
        "datagen", "trainer", "avg", "eval", "eval", "decoder", "datagen", *["trainer", "avg"] * 2, "eval", "eval",
    ]  # fmt: skip
    assert commands[0][1:3] == ["--problem=text_mixture", "--data_dir=mine/data"]
    assert "--mixture=mine/mixture.t2t-lite-run.toml" in commands[0] and "--languages=en-de" in commands[0]
    assert commands[5][1:3] == ["--output_dir=mine/reverse/seed-1", "--decode_from_file=mono.de"]
    assert commands[5][3].startswith("--decode_to_file=mine/back_translation/sources.")
    assert commands[5][4:] == ["--decode_hparams=sampling_method=random"]
    back = (tmp_path / "mine/back_translation/mixture.t2t-lite-run.toml").read_text()
    assert 'train_source = ["../../a.en", "../../b.en"]' in back and 'train_target = ["../../mono.de"]' in back
    assert "--output_dir=mine/seed-1,mine/seed-2" in commands[-1]
    done = command("run", f"--config={tmp_path}/mine.toml", "--dry_run", "--until=back_translate")
    assert len(done.stdout.splitlines()) == 13 and "t2t-lite-decoder" in done.stdout.splitlines()[-1]
    text = (tmp_path / "mine.toml").read_text()
    (tmp_path / "mine.toml").write_text(f"{text}[train.hparams]\naverage_checkpoints = 1\n")
    for flag in ("--redo=average", "--until=average"):
        done = command("run", f"--config={tmp_path}/mine.toml", "--dry_run", flag)
        assert (
            done.returncode == 1 and f"{flag}: mine.toml has no such step; it has data, train, evaluate" in done.stderr
        )


@pytest.mark.heavy
def test_a_run_goes_on_and_does_nothing_twice(command, tmp_path):
    pytest.importorskip("ctranslate2")
    file = tmp_path / "mine.toml"
    file.write_text(GRAMMAR)
    until = command("run", f"--config={file}", "--until=train")
    assert until.returncode == 0 and not (tmp_path / "made/exports").exists(), until.stderr
    done = command("run", f"--config={file}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("already done") == 2 and "report: done in" in done.stdout
    made = {path: file_sha256(path) for path in (tmp_path / "made").rglob("*") if path.is_file()}
    assert {"report.html", "model.bin", "model.keras", "average-4.index"} <= {path.name for path in made}
    again = command("run", f"--config={file}")
    titles = [line.partition(":")[0] for line in again.stdout.splitlines() if "already done" in line]
    assert titles == ["data", "train", "average", "evaluate (dev)", "export (ctranslate2)", "export (keras)"]
    changed = [path.name for path, digest in made.items() if file_sha256(path) != digest]
    assert {*changed} <= {"report.html", "report.log"}
    # More steps: training goes on, and what depends on it is done again.
    file.write_text(GRAMMAR.replace("train_steps = 4", "train_steps = 6"))
    more = command("run", f"--config={file}")
    assert more.stdout.count("already done") == 1 and (tmp_path / "made/seed-1/ckpt-6.index").exists(), more.stderr
    # Only what one setting belongs to.
    file.write_text(GRAMMAR.replace("train_steps = 4", "train_steps = 6").replace("int8", "int16"))
    titles = [line for line in command("run", f"--config={file}").stdout.splitlines() if "done in" in line]
    assert len(titles) == 2 and titles[0].startswith("export (ctranslate2): done in")
    # What one step made, and what depends on it; the score is said.
    redone = command("run", f"--config={file}", "--redo=average").stdout
    titles = [line.partition(":")[0] for line in redone.splitlines() if "done in" in line]
    assert titles == ["average", "evaluate (dev)", "export (ctranslate2)", "export (keras)", "report"]
    assert "beam_size=2.alpha=0.6 (BLEU " in redone and (tmp_path / "made/seed-1/ckpt-6.index").exists()
    # Another model, or other data: refused, because a training would be lost, unless asked for.
    file.write_text(GRAMMAR.replace("hidden_size = 32", "hidden_size = 64"))
    refused = command("run", f"--config={file}")
    assert refused.returncode == 1 and "was made with other settings (hidden_size: 32, not 64)" in refused.stderr
    assert "--redo=train trains again, and removes what is in made/seed-1" in refused.stderr
    file.write_text(GRAMMAR.replace("max_cases = 200", "max_cases = 100"))
    refused = command("run", f"--config={file}")
    assert refused.returncode == 1 and "pass --redo=data to make it again, and to lose the training" in refused.stderr
    assert (tmp_path / "made/seed-1/ckpt-6.index").exists()
    shutil.rmtree(tmp_path / "made/seed-1")
    assert command("run", f"--config={file}", "--until=data").returncode == 0  # nothing is lost


BACK = """
languages = "en-de"
dir = "made"
hparams_set = "transformer_tiny"
[train]
train_steps = 2
[train.hparams]
hidden_size = 32
num_heads = 2
batch_tokens = 512
average_checkpoints = 1
[data]
vocab_size = 400
[[data.parts]]
train_source = "text.en"
train_target = "text.de"
[evaluate]
splits = ["dev"]
[export]
formats = ["keras"]
[back_translation]
target_texts = "mono.de"
beam_size = 1
"""


@pytest.mark.heavy
def test_what_depends_on_back_translations_is_not_lost_unasked(command, tmp_path):
    from t2t_lite.problems.grammar import GrammarEnde

    pairs = [pair for pair, _ in zip(GrammarEnde().examples("train", {}), range(400))]
    for side, name in ((0, "text.en"), (1, "text.de")):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in pairs[:300]))
    (tmp_path / "mono.de").write_text("".join(f"{pair.targets}\n" for pair in pairs[300:]))
    file = tmp_path / "mine.toml"
    file.write_text(BACK)
    run = functools.partial(command, "run", f"--config={file}")
    done = run()
    assert done.returncode == 0, done.stderr
    (texts,) = (tmp_path / "made/back_translation").glob("sources.*.txt")
    assert len(texts.read_text().splitlines()) == 100
    assert run().stdout.count("already done") == 8
    trained = {path: path.read_bytes() for path in (tmp_path / "made").rglob("ckpt-*.index")}
    assert len(trained) == 2
    # Another search, another model, other texts, another tag: refused, with what would be lost and how to ask for it.
    for before, after in (
        ("beam_size = 1", "beam_size = 2"),
        ("train_steps = 2", "train_steps = 4"),
        ('"mono.de"', '"text.de"'),
    ):
        file.write_text(BACK.replace(before, after))
        refused = run()
        assert refused.returncode == 1, after
        assert "pass --redo=back_translate to make it again, and to lose the training in made/seed-1" in refused.stderr
        assert "made/reverse" not in refused.stderr
    file.write_text(f"{BACK}tag = '<x>'\n")
    assert "--redo='data (with back-translations)' to make it again, and to lose" in run().stderr
    assert trained == {path: path.read_bytes() for path in trained}
    # Asked for: the model that depends on it is trained again, the other one is not.
    file.write_text(BACK.replace("beam_size = 1", "beam_size = 2"))
    redone = run("--redo=back_translate")
    assert redone.returncode == 0, redone.stderr
    titles = [line.partition(":")[0] for line in redone.stdout.splitlines() if "done in" in line]
    assert titles == [
        "back_translate",
        "data (with back-translations)",
        "train",
        "evaluate (dev)",
        "export (keras)",
        "report",
    ]
    # One of several seeds.
    file.write_text(
        BACK.partition("[back_translation]")[0].replace("dir =", "seeds = [1, 2]\ndir =").replace("made", "two")
    )
    assert run("--until=train").returncode == 0
    redone = run("--redo=train (seed 2)", "--until=train").stdout
    assert "train (seed 1): already done" in redone and "train (seed 2): removing two/seed-2" in redone
