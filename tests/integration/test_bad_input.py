"""Each mistake ends with one line that names the problem and the remedy, and leaves the disk unchanged."""

import re
import shlex
import shutil

import pytest
from support.commands import start_process, with_flags

from t2t_lite.bin import decoder as decoder_command
from t2t_lite.bin import trainer as trainer_command
from t2t_lite.data.vocab import train_vocabulary
from t2t_lite.registry import HPARAMS

VOCABULARY = "vocab.grammar_ende.1600.subwords"


@pytest.fixture
def work(grammar_data, small_run, tmp_path):
    """A folder with copies of the small data and run, to damage."""
    shutil.copytree(grammar_data, tmp_path / "data")
    shutil.copytree(small_run, tmp_path / "run")
    (tmp_path / "in.txt").write_text("The dog sleeps.\n")
    return tmp_path


@pytest.fixture
def refused(command, process, snapshot, tmp_path):
    """Runs a command that must fail, checks its exit, and returns its one line of output.

    A fresh process also shows that C++ libraries print nothing.
    """

    def run(name, *flags, status=1, stdin=b"", fresh=False):
        before = snapshot(tmp_path)
        result = (process if fresh else command)(name, *flags, stdin=stdin)
        lines = [line for line in result.stderr.splitlines() if not line.startswith("using ")]
        assert "Traceback" not in result.stderr, result.stderr
        assert result.returncode == status, (result.stdout, result.stderr)
        assert len(lines) == 1, result.stderr
        assert lines[0].startswith(f"t2t-lite-{name}: error: ")
        assert "Errno" not in lines[0]
        assert snapshot(tmp_path) == before
        return lines[0].removeprefix(f"t2t-lite-{name}: error: ")

    return run


@pytest.fixture
def trainer(refused, small_flags, tmp_path):
    """Runs the trainer on the copies with further flags; it must fail."""

    def run(*flags, output_dir="run", data_dir="data", status=1, fresh=False):
        return refused(
            "trainer",
            *with_flags(
                small_flags, f"--data_dir={tmp_path / data_dir}", f"--output_dir={tmp_path / output_dir}", *flags
            ),
            status=status,
            fresh=fresh,
        )

    return run


@pytest.fixture
def decoder(refused, tmp_path):
    """Runs the decoder on the copy of the run with further flags; it must fail."""

    def run(*flags, status=1, stdin=b"The dog sleeps.\n", fresh=False):
        return refused("decoder", f"--output_dir={tmp_path / 'run'}", *flags, status=status, stdin=stdin, fresh=fresh)

    return run


# Wrong flags: detected without TensorFlow.


NEEDED = {
    "trainer": ("--problem=grammar_ende", "--hparams_set=transformer_tiny", "--data_dir=d", "--output_dir=r"),
    "decoder": ("--output_dir=nowhere",),
    "datagen": ("--data_dir=d",),
    "score": ("--hypothesis=h", "--reference=r"),
}
TRAINING = "benchmark --training --hparams_set=transformer_tiny"
PAIRS = "datagen --problem=text_pairs"
WRONG = [
    ("trainer --problem=grammar_edne", "unknown problem 'grammar_edne' (--problem); did you mean 'grammar_ende'"),
    ("trainer --problem=grammar_edne_rev", "unknown problem 'grammar_edne' (--problem); did you mean 'grammar_ende'"),
    ("trainer --hparams_set=transformer_tinny", "unknown hparam set 'transformer_tinny' (--hparams_set); did you mean"),
    ("trainer --model=transfromer", "unknown model 'transfromer' (--model); did you mean 'transformer'?"),
    ("trainer --trian_steps=5", "unknown flag --trian_steps; did you mean '--train_steps'"),
    ("trainer --train_step=5", "unknown flag --train_step; did you mean '--train_steps'"),
    ("trainer stray", "unrecognized arguments: stray"),
    ("trainer --hparams=hiden_size=5", "unknown name 'hiden_size'; did you mean 'hidden_size'"),
    ("trainer --hparams=hidden_size=wide", "hidden_size takes a whole number, not 'wide'"),
    ("trainer --hparams=hidden_size=33", "num_heads=4 is out of range: it must be a divisor of hidden_size (33)"),
    ("trainer --hparams=hidden_size", "'hidden_size' is not of the form name=value"),
    ("trainer --train_steps=many", "--train_steps"),
    ("trainer --train_steps=0", "--train_steps: takes a whole number from 1 "),
    ("trainer --save_checkpoints_steps=-1", "--save_checkpoints_steps"),
    ("trainer --random_seed=4294967296", "--random_seed"),
    ("trainer --virtual_devices=-1", "--virtual_devices"),
    ("trainer --problem=", "--problem is required"),
    ("trainer --hparams=num_heads=2 --hparams=num_heads=4", "--hparams: num_heads is given twice"),
    ("trainer --hparams=num_heads=2 --hparams=heads=4", "unknown name 'heads'"),
    ("trainer --train_steps=1 --train_steps 2", "--train_steps is given twice; keep one of them"),
    ("trainer --t2t_usr_dir=a --t2t_usr_dir=b --t2t_usr_dir=c", "--t2t_usr_dir is given 3 times"),
    ("trainer --report --report", "--report is given twice"),
    ("trainer --eval_metric=bleu --schedule=eval", "--eval_metric=bleu needs --eval_decode"),
    ("decoder --decode_to_file=a --decode_to_file=b", "--decode_to_file is given twice"),
    ("decoder --output_dir=", "--output_dir"),
    ("decoder --decode_interactive --decode_from_file=x", "--decode_interactive and --decode_from_file"),
    ("decoder --score_file=x --decode_from_file=y", "--score_file and --decode_from_file"),
    ("decoder --prefix_file=x", "--prefix_file needs --decode_from_file"),
    ("decoder --alignments=x", "--alignments needs --decode_from_file"),
    ("decoder --alignments=x --decode_from_file=y", "--alignments needs --decode_to_file"),
    ("decoder --score_file=x --prefix_file=y", "--score_file and --prefix_file cannot be combined"),
    ("decoder --constraint_file=x", "--constraint_file needs --decode_from_file"),
    ("decoder --decode_interactive --decode_to_file=x", "--decode_interactive and --decode_to_file"),
    ("decoder --xla_compile=perhaps", "takes True or False, not 'perhaps'"),
    ("decoder --runner=direct", "--runner needs --decode_from_file"),
    ("decoder --runner=direct --decode_from_file=a", "--runner needs --decode_to_file"),
    ("decoder --beam_options=--x", "--beam_options needs --runner"),
    ("decoder --decode_from_file=gs://b/a.txt", "gs://b/a.txt: pass --runner, with which Beam reads it"),
    ("decoder --score_file=s3://b/a.txt", "takes a path on this machine, not 's3://b/a.txt'; copy the files here"),
    ("decoder --runner=direct --decode_from_file=a --decode_to_file=b --alignments=c", "--runner and --alignments"),
    ("datagen --problem=multi30k_edne", "did you mean 'multi30k_ende'"),
    ("datagen --problme=grammar_ende", "did you mean '--problem'"),
    ("datagen --problem=grammar_ende --data_dir=", "--data_dir is required"),
    ("datagen --problem=grammar_ende --train_source=x", "unknown flag --train_source"),
    ("datagen --problem=grammar_ende --vocab_kind=letters", "--vocab_kind"),
    ("datagen --inspect", "--problem is required"),
    (f"{PAIRS} --held_out=5 --held_out=6", "--held_out is given twice"),
    (f"{PAIRS} --inspect=trian", "neither a file nor a split (train, dev, test)"),
    (PAIRS, "pass --train_source=FILE and --train_target=FILE, or"),
    (f"{PAIRS} --train_source=x", "--train_source needs --train_target"),
    (f"{PAIRS} --train_sorce=x", "did you mean '--train_source'"),
    ("avg --output_dir=r --n=0", "--n: takes a whole number from 1 "),
    ("score --metric=bleu --metric=chrf", "--metric is given twice"),
    ("score --lower", "did you mean '--lowercase'"),
    ("params --hparams_set=transformer_bse", "'transformer_base'"),
    ("params --hparams=hidden_size=4", "--hparams needs --hparams_set"),
    ("params --hparams_set=transformer_base --hparams=model=transfomer", "'transformer'"),
    ("params --plot_file=x.png", "--plot_file needs --hparams_set"),
    (f"params --plot_file=x.png --hparams_set={','.join(HPARAMS.names()[:9])}", "shows at most 8 sets, not 9"),
    ("benchmark", "--cost"),
    ("benchmark --layers --cost", "--cost"),
    ("benchmark --layers --neighborhood_size=3", "--neighborhood_size: takes an even number, not '3'"),
    ("benchmark --layers --max_length=64", "--max_length: takes a whole number from 128"),
    ("benchmark --cost --device=V1000", "P100, V100, T4"),
    ("benchmark --cost --step_seconds=nan", "--step_seconds"),
    ("benchmark --cost --target_length=0", "--target_length"),
    ("benchmark --cost --hparams=num_heads=0", "num_heads"),
    ("benchmark --decoding --output_dir=r", "--decoding needs --output_dir and --decode_from_file"),
    ("benchmark --training", "--training needs --hparams_set"),
    (f"{TRAINING} --precision=float32,float8", "float32, mixed_bfloat16, mixed_float16, not 'float8'"),
    (f"{TRAINING} --problem=grammar_ende", "--problem needs --data_dir"),
    (f"{TRAINING} --problem=grammar_ende --data_dir=d --vocab_size=9", "--vocab_size applies to random ids"),
    (f"{TRAINING} --target_length=2.5", "--target_length takes a whole number with --training"),
    ("benchmark --serving", "--serving was removed in 0.10: measure a server with a load generator"),
    ("benchmark --cost --url=http://localhost:8000", "--url was removed in 0.10: "),
    ("benchmark --costs --clients 3", "--clients was removed in 0.10: "),
    ("reproduce --table=5", "takes 1 or 2 or 3 or 4, not '5'"),
    ("reproduce --table=3 --rows=h2", "--rows=h2 is not a row of table 3; did you mean"),
    ("reproduce --table=4 --rows=parsing_semi", "--rows=parsing_semi: --scale=small has no data for it"),
    ("reproduce --table=1 --rows=base", "--rows is for tables 2, 3 and 4"),
    ("reproduce --table=3 --run", "--run only applies to --scale=paper"),
    ("reproduce --figure=3", "--figure needs --run_dir=RUN"),
    ("reproduce --figure=3 --table=1", "not allowed with argument"),
    ("reproduce --table=1 --word=x", "--word is for figures"),
    ("reproduce --figure=3 --run_dir=r --seeds=2", "--seeds is for tables"),
]


@pytest.mark.parametrize(("line", "said"), WRONG)
def test_a_wrong_command_line_is_refused(refused, monkeypatch, tmp_path, line, said):
    monkeypatch.chdir(tmp_path)
    name, *flags = shlex.split(line)
    given = {flag.partition("=")[0] for flag in flags}
    needed = [flag for flag in NEEDED.get(name, ()) if flag.partition("=")[0] not in given]
    assert said in refused(name, *needed, *flags, status=2)


def test_lists_of_settings_and_files_given_again_add_up(refused, command, tmp_path):
    given = trainer_command.make_parser().parse_args(["--hparams=num_heads=2", "--hparams", "max_length=9"])
    assert given.hparams == "num_heads=2,max_length=9"
    given = decoder_command.make_parser().parse_args(["--output_dir=a,b", "--output_dir=c", "--decode_hparams=alpha=1"])
    assert (given.output_dir, given.decode_hparams) == (["a", "b", "c"], "alpha=1")
    for name in "ab":
        (tmp_path / f"{name}.tsv").write_text("".join(f"{name} {i}\t{name}{name} {i}\n" for i in range(20)))
    files = [f"--train_tsv={tmp_path / name}.tsv" for name in "ab"]
    result = command("datagen", "--problem=text_pairs", f"--data_dir={tmp_path / 'd'}", *files, "--held_out=5")
    assert "train: 30 pairs" in result.stdout, result.stderr


def test_debug_shows_the_traceback(process, tmp_path):
    result = process("datagen", "--problem=nonsense", f"--data_dir={tmp_path}", "--debug")
    assert result.returncode != 0
    assert result.stderr.startswith("Traceback") and "unknown problem 'nonsense'" in result.stderr


# Unreadable text: reported before TensorFlow is loaded.


@pytest.mark.parametrize(
    "hypothesis, reference, said",
    [
        (b"a\nb\n", b"a\n", "hypothesis has 2 lines but "),
        (b"", b"", "empty"),
        (b"a\n", b"caf\xe9\n", "reference, line 1: not UTF-8"),
        (None, b"a\n", "no such file"),
        ("folder", b"a\n", "directory"),
    ],
)
def test_files_that_cannot_be_scored_are_errors(refused, tmp_path, hypothesis, reference, said):
    for name, content in (("hypothesis", hypothesis), ("reference", reference)):
        if content == "folder":
            (tmp_path / name).mkdir()
        elif content is not None:
            (tmp_path / name).write_bytes(content)
    message = refused("score", f"--hypothesis={tmp_path / 'hypothesis'}", f"--reference={tmp_path / 'reference'}")
    assert said in message
    assert "empty" in said or str(tmp_path) in message


def test_unreadable_text_to_decode_is_an_error(work, decoder):
    missing = work / "none.txt"
    assert decoder(f"--decode_from_file={missing}") == f"no such file: {missing}"
    (work / "cut.txt.gz").write_bytes(b"\x1f\x8b\x08\x00")
    assert str(work / "cut.txt.gz") in decoder(f"--decode_from_file={work / 'cut.txt.gz'}")


# Sources.


def test_a_source_with_a_wrong_checksum(refused, tmp_path):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "train.en.gz").write_bytes(b"something else")
    message = refused(
        "datagen", "--problem=multi30k_ende", f"--data_dir={tmp_path / 'data'}", f"--tmp_dir={tmp_path / 'tmp'}"
    )
    assert str(tmp_path / "tmp" / "train.en.gz") in message and "remove it" in message


# Data.


@pytest.mark.parametrize("kind", ["missing", "a file", "foreign"])
def test_a_data_dir_without_data_of_the_problem_is_an_error(work, trainer, kind):
    data_dir = work / kind
    if kind == "a file":
        data_dir.write_text("")
    elif kind == "foreign":
        data_dir.mkdir()
        (data_dir / "manifest.other.json").write_text("{}")
    message = trainer(data_dir=kind, output_dir="new")
    assert f"--data_dir={data_dir}" in message
    if kind != "a file":
        assert f"generate it with: t2t-lite-datagen --problem=grammar_ende --data_dir={data_dir}" in message


def test_a_damaged_shard(work, trainer):
    shard = work / "data" / "grammar_ende-train-00003-of-00010"
    shard.write_bytes(shard.read_bytes()[:-100])
    message = trainer(output_dir="new", fresh=True)
    assert str(shard) in message and "t2t-lite-datagen" in message


@pytest.mark.heavy
def test_a_shard_with_changed_bytes(work, process, small_flags, snapshot):
    shard = work / "data" / "grammar_ende-train-00003-of-00010"
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 0xFF
    shard.write_bytes(content)
    before = snapshot(work)
    # This is detected during training, after some files, such as event files, have been written.
    flags = (f"--data_dir={work / 'data'}", f"--output_dir={work / 'run'}", "--train_steps=500")
    result = process("trainer", *with_flags(small_flags, *flags))
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("t2t-lite-trainer: error: ")
    assert str(work / "data") in line and "t2t-lite-datagen" in line
    after = snapshot(work)
    assert {name: after[name] for name in before if "ckpt" in name} == {
        name: before[name] for name in before if "ckpt" in name
    }


def test_a_vocabulary_that_does_not_match_the_data(work, trainer):
    train_vocabulary(["another text"] * 5, 100, work / "data" / VOCABULARY)
    message = trainer(output_dir="new")
    assert str(work / "data" / VOCABULARY) in message and str(work / "data") in message


def test_settings_that_drop_every_pair(work, trainer):
    assert "max_length" in trainer("--hparams=max_length=1,hidden_size=32,num_heads=2", output_dir="new")


# Run directories.


def test_a_run_directory_made_with_other_settings(work, trainer):
    message = trainer("--hparams=hidden_size=64,num_heads=2,label_smoothing=0", "--train_steps=7")
    assert str(work / "run") in message and "pass another --output_dir" in message
    assert "hidden_size: 32, not 64" in message and "label_smoothing: 0.1, not 0.0" in message
    assert "train_steps" not in message


def test_a_run_directory_made_with_another_problem(work, trainer):
    message = trainer("--problem=grammar_ende_rev")
    assert "'grammar_ende', not 'grammar_ende_rev'" in message


def test_a_vocabulary_that_does_not_match_the_checkpoint(work, decoder):
    train_vocabulary(["another text"] * 5, 100, work / "run" / VOCABULARY)
    message = decoder(f"--decode_from_file={work / 'in.txt'}", f"--decode_to_file={work / 'out.txt'}")
    assert str(work / "run" / VOCABULARY) in message and "trained with" in message


def test_a_run_without_a_checkpoint(work, decoder, refused):
    for path in (work / "run").glob("ckpt-*"):
        path.unlink()
    assert "has no checkpoint yet; train first" in decoder()
    assert "has no checkpoint yet; train first" in refused("avg", f"--output_dir={work / 'run'}")


def test_fewer_checkpoints_than_requested(work, refused):
    message = refused("avg", f"--output_dir={work / 'run'}", "--n=9")
    assert re.search(r"has 3 checkpoints \(steps: 2, 4, 6\), not 9; use --n=3", message)


def test_a_checkpoint_path_that_does_not_exist(work, decoder):
    assert f"--checkpoint_path={work / 'run' / 'ckpt-5'}" in decoder(f"--checkpoint_path={work / 'run' / 'ckpt-5'}")


def test_a_checkpoint_that_does_not_fit_the_settings(work, decoder):
    text = (work / "run" / "hparams.json").read_text()
    (work / "run" / "hparams.json").write_text(text.replace('"filter_size": 64', '"filter_size": 128'))
    message = decoder()
    assert str(work / "run" / "ckpt-6") in message and "does not fit" in message


@pytest.mark.heavy
def test_a_damaged_checkpoint(work, decoder):
    data = work / "run" / "ckpt-6.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:1000])
    message = decoder(fresh=True)
    assert str(work / "run" / "ckpt-6") in message and "damaged" in message


def test_an_output_file_that_cannot_be_written(work, decoder):
    (work / "out").mkdir()
    message = decoder(f"--decode_from_file={work / 'in.txt'}", f"--decode_to_file={work / 'out'}")
    assert str(work / "out") in message


@pytest.mark.parametrize("flag", ["decode_from_file", "score_file", "prefix_file", "constraint_file", "alignments"])
def test_an_output_file_that_is_also_another_file_of_the_command(work, decoder, flag):
    (work / "link.txt").hardlink_to(work / "in.txt")
    flags = {"decode_to_file": work / "link.txt", flag: work / "in.txt"}
    if flag not in ("decode_from_file", "score_file"):
        (work / "other.txt").write_text("The dog sleeps.\n")
        flags["decode_from_file"] = work / "other.txt"
    message = decoder(*(f"--{name}={path}" for name, path in flags.items()))
    first, second = ("decode_to_file", flag) if flag != "alignments" else ("alignments", "decode_to_file")
    assert message == f"--{first}={flags[first]} is the same file as --{second}; use another name"
    assert (work / "in.txt").read_text() == "The dog sleeps.\n"


@pytest.mark.parametrize("name", ["run.json", "hparams.json", VOCABULARY, "ckpt-6.index", "evaluations.json"])
def test_an_output_file_that_belongs_to_the_run(work, decoder, name):
    message = decoder(f"--decode_from_file={work / 'in.txt'}", f"--decode_to_file={work / 'run' / name}")
    assert f"--decode_to_file={work / 'run' / name} is the same file as {work / 'run' / name};" in message


def test_a_benchmark_does_not_overwrite_its_data(work, refused):
    file = work / "data" / "manifest.grammar_ende.json"
    flags = ("--training", "--problem=grammar_ende", f"--data_dir={work / 'data'}", "--hparams_set=transformer_tiny")
    assert f"--json_file={file} is the same file as {file};" in refused("benchmark", *flags, f"--json_file={file}")


def test_an_output_file_that_is_standard_input(work):
    with open(work / "in.txt") as lines:
        flags = (f"--output_dir={work / 'run'}", f"--decode_to_file={work / 'in.txt'}")
        process = start_process("decoder", *flags, stdin=lines)
        output = process.communicate(timeout=600)[0]
    assert process.returncode == 1
    assert f"--decode_to_file={work / 'in.txt'} is the same file as standard input" in output
    assert (work / "in.txt").read_text() == "The dog sleeps.\n"


@pytest.mark.parametrize("flag", ["decode_to_file", "alignments"])
def test_an_output_file_in_a_missing_folder(work, decoder, flag):
    flags = {"decode_to_file": work / "out.txt", flag: work / "new" / "out.txt"}
    message = decoder(f"--decode_from_file={work / 'in.txt'}", *(f"--{name}={path}" for name, path in flags.items()))
    assert message == f"--{flag}={work / 'new' / 'out.txt'}: there is no folder {work / 'new'}; create it first"


@pytest.mark.parametrize("role", ["dev_source", "dev_target"])
def test_source_text_that_the_data_would_overwrite(refused, tmp_path, role):
    data = tmp_path / "data"
    data.mkdir()
    side = {"dev_source": "inputs", "dev_target": "targets"}[role]
    paths = {name: tmp_path / f"{name}.txt" for name in ("train_source", "train_target", "dev_source", "dev_target")}
    paths[role] = data / f"text_pairs-dev.{side}.txt"
    for name, path in paths.items():
        path.write_text("".join(f"{name} number {i} is here\n" for i in range(200)))
    flags = (f"--{name}={path}" for name, path in paths.items())
    message = refused("datagen", "--problem=text_pairs", f"--data_dir={data}", *flags)
    assert message == f"{paths[role]} would be overwritten by the data made from it; use another --data_dir"
