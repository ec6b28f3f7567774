"""Each mistake ends with one line that names the problem and the remedy, and leaves the disk unchanged."""

import shlex
import shutil
from pathlib import Path

import pytest
from support.commands import start_process, with_flags

from t2t_lite.bin import decoder as decoder_command
from t2t_lite.bin import trainer as trainer_command
from t2t_lite.data.vocab import train_vocabulary
from t2t_lite.registry import HPARAMS

VOCABULARY = "vocab.grammar_ende.1600.subwords"


@pytest.fixture
def work(grammar_data, small_run, tmp_path, monkeypatch):
    """The working folder, with copies of the small data and run, to damage, and texts."""
    shutil.copytree(grammar_data, tmp_path / "data")
    shutil.copytree(small_run, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    for name in ("in.txt", "other", "text"):
        Path(name).write_text("The dog sleeps.\n")
    Path("link.txt").hardlink_to("in.txt")
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
    ("trainer --hparams=hidden_size=33", "num_heads=4 is out of range: it must be a divisor of hidden_size (33)"),
    ("trainer --train_steps=many", "--train_steps"),
    ("trainer --train_steps=0", "--train_steps: takes a whole number from 1 "),
    ("trainer --train_steps=²", "--train_steps: takes a whole number from 1 "),
    ("trainer --processes_per_host=--5", "--processes_per_host: takes a whole number from 1 "),
    ("trainer --save_checkpoints_steps=-1", "--save_checkpoints_steps"),
    ("trainer --random_seed=4294967296", "--random_seed"),
    ("trainer --virtual_devices=-1", "--virtual_devices"),
    ("trainer --problem=", "--problem is required"),
    ("trainer --hparams=num_heads=2 --hparams=num_heads=4", "--hparams: num_heads is given twice"),
    ("trainer --train_steps=1 --train_steps 2", "--train_steps is given twice; keep one of them"),
    ("trainer --t2t_usr_dir=a --t2t_usr_dir=b --t2t_usr_dir=c", "--t2t_usr_dir is given 3 times"),
    ("trainer --report --report", "--report is given twice"),
    ("trainer --eval_metric=bleu --schedule=eval --eval_wait_secs=3000", "--eval_metric=bleu needs --eval_decode"),
    ("decoder --decode_to_file=a --decode_to_file=b", "--decode_to_file is given twice"),
    ("decoder --output_dir=", "--output_dir"),
    ("decoder --decode_interactive --decode_from_file=x", "--decode_interactive and --decode_from_file"),
    ("decoder --score_file=x --decode_from_file=y", "--score_file and --decode_from_file"),
    ("decoder --decode_interactive --alignments=x", "--decode_interactive and --alignments cannot be combined"),
    ("decoder --decode_interactive --n_best_format=text", "--n_best_format and --decode_interactive"),
    ("decoder --n_best_format=moses", "takes json or text, not 'moses'"),
    ("decoder --score_file=x --terms=y", "--score_file and --terms cannot be combined"),
    ("decoder --score_file=x --prefix_file=y", "--score_file and --prefix_file cannot be combined"),
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
    (PAIRS, "pass --train_source=FILE and --train_target=FILE, --train_tsv"),
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


def test_a_flag_without_a_value_is_like_no_flag():
    empty = ("checkpoint_path", "prefix_file", "query", "runner", "draw_trees", "alignments")
    flags = ["--export_dir=e", *(f"--{name}=" for name in empty)]
    assert decoder_command.make_parser().parse_args(flags).export_dir == "e"


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


# Files that are missing, damaged, of another run, or to be overwritten.


def changed(path, content=None, size=None):
    """Returns a function that gives a file a content, or cuts it to a size."""
    return lambda: Path(path).write_bytes(Path(path).read_bytes()[:size] if content is None else content)


def with_an_empty_folder(name, file=""):
    """Returns a function that makes a folder, with a file if one is named."""

    def make():
        Path(name).mkdir()
        if file:
            Path(name, file).write_text("{}")

    return make


def without_checkpoints():
    for path in Path("run").glob("ckpt-*"):
        path.unlink()


def with_a_larger_filter():
    settings = Path("run/hparams.json")
    settings.write_text(settings.read_text().replace('"filter_size": 64', '"filter_size": 128'))


def other_vocabulary(folder):
    return lambda: train_vocabulary(["another text"] * 5, 100, Path(folder, VOCABULARY))


SHARD = "data/grammar_ende-train-00003-of-00010"
GENERATE = "generate it with: t2t-lite-datagen --problem=grammar_ende --data_dir="
TO_FILE = "decoder --decode_from_file=in.txt --decode_to_file="
SCORE = "score --hypothesis=in.txt --reference=text"
OTHER = "--hparams=hidden_size=64,num_heads=2,label_smoothing=0 --train_steps=7"
SAME = "is the same file as"
LONG = "x" * 300
# What is done to the folder, the command line, and what the error says, all in the folder.
SPOILT = [
    (None, "score --hypothesis=none --reference=in.txt", ["no such file: none"]),
    (changed("text", b"a\nb\n"), SCORE, ["in.txt has 1 lines but ", "text"]),
    (changed("text", b""), "score --hypothesis=text --reference=text", ["empty"]),
    (changed("text", b"caf\xe9\n"), SCORE, ["text, line 1: not UTF-8"]),
    (None, "score --hypothesis=data --reference=in.txt", ["data", "directory"]),
    (None, "decoder --decode_from_file=none", ["no such file: none"]),
    (changed("cut.gz", b"\x1f\x8b\x08\x00"), "decoder --decode_from_file=cut.gz", ["cut.gz"]),
    (with_an_empty_folder("tmp", "train.en.gz"), "datagen --problem=multi30k_ende --data_dir=new --tmp_dir=tmp",
     ["tmp/train.en.gz", "remove it"]),
    (None, "trainer --data_dir=none", ["--data_dir=none", GENERATE + "none"]),
    (None, "trainer --data_dir=in.txt", ["--data_dir=in.txt"]),
    (with_an_empty_folder("foreign", "manifest.other.json"), "trainer --data_dir=foreign", [GENERATE + "foreign"]),
    (changed(SHARD, size=-100), "trainer", [SHARD, "t2t-lite-datagen"]),
    (other_vocabulary("data"), "trainer", [f"data/{VOCABULARY}"]),
    (None, "trainer --hparams=max_length=1,hidden_size=32,num_heads=2", ["max_length"]),
    (None, f"trainer --output_dir=run {OTHER}",
     ["run", "pass another --output_dir", "hidden_size: 32, not 64", "label_smoothing: 0.1, not 0.0"]),
    (None, "trainer --output_dir=run --problem=grammar_ende_rev", ["'grammar_ende', not 'grammar_ende_rev'"]),
    (other_vocabulary("run"), f"{TO_FILE}out.txt", [f"run/{VOCABULARY}", "trained with"]),
    (without_checkpoints, "decoder", ["has no checkpoint yet; train first"]),
    (without_checkpoints, "avg --output_dir=run", ["has no checkpoint yet; train first"]),
    (None, "avg --output_dir=run --n=9", ["has 3 checkpoints (steps: 2, 4, 6), not 9; use --n=3"]),
    (None, "decoder --checkpoint_path=run/ckpt-5", ["--checkpoint_path=run/ckpt-5"]),
    (with_a_larger_filter, "decoder", ["run/ckpt-6", "does not fit"]),
    (None, "trainer --output_dir=in.txt", ["--output_dir=in.txt: in.txt is a file; pass a folder"]),
    (None, "trainer --output_dir=in.txt/run", ["in.txt is a file; pass a folder"]),
    (None, f"trainer --output_dir={LONG}", ["the name is too long; use a shorter one"]),
    (None, f"{TO_FILE}{LONG}", ["the name is too long"]),
    (None, f"decoder --decode_from_file={LONG}", ["the name is too long"]),
    (None, "decoder --output_dir=in.txt", ["--output_dir=in.txt is a file; pass the run directory"]),
    (with_an_empty_folder("empty"), "decoder --output_dir=empty", ["--output_dir=empty is empty, not a run directory"]),
    (None, "decoder --output_dir=none", ["--output_dir=none is not a run directory: it does not exist; check the"]),
    (None, "decoder --output_dir=data", ["--output_dir=data is not a run directory: it has no hparams.json; pass the"]),
    (None, "avg --output_dir=data", ["--output_dir=data is not a run directory: it has no hparams.json; pass the"]),
    (None, "trainer --schedule=eval --eval_wait_secs=0", ["no training has started there; start it, or"]),
    (None, f"{TO_FILE}data", ["--decode_to_file=data", "is a directory"]),
    (None, f"{TO_FILE}link.txt", [f"--decode_to_file=link.txt {SAME} --decode_from_file; use another name"]),
    (None, "decoder --score_file=in.txt --decode_to_file=link.txt", [f"--decode_to_file=link.txt {SAME} --score_file"]),
    (None, f"{TO_FILE}other --prefix_file=other", [f"--decode_to_file=other {SAME} --prefix_file"]),
    (None, f"{TO_FILE}other --constraint_file=other", [f"--decode_to_file=other {SAME} --constraint_file"]),
    (None, f"{TO_FILE}other --alignments=other", [f"--alignments=other {SAME} --decode_to_file"]),
    *[
        (None, f"{TO_FILE}run/{name}", [f"--decode_to_file=run/{name} {SAME} run/{name};"])
        for name in ("run.json", "hparams.json", VOCABULARY, "ckpt-6.index", "evaluations.json")
    ],
    (None, f"{TO_FILE}new/out", ["--decode_to_file=new/out: there is no folder new; create it first"]),
    (None, f"{TO_FILE}out --alignments=new/out", ["--alignments=new/out: there is no folder new; create it first"]),
    (None, "benchmark --training --problem=grammar_ende --data_dir=data --hparams_set=transformer_tiny "
     "--json_file=data/manifest.grammar_ende.json",
     [f"--json_file=data/manifest.grammar_ende.json {SAME} data/manifest.grammar_ende.json;"]),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "line", "said"), SPOILT, ids=[line for _, line, _ in SPOILT])
def test_files_that_cannot_be_used_are_errors(work, refused, small_flags, spoil, line, said):
    if spoil:
        spoil()
    name, *flags = shlex.split(line)
    if name == "trainer":
        flags = with_flags(small_flags, "--data_dir=data", "--output_dir=new", *flags)
    elif name == "decoder":
        flags = with_flags(["--output_dir=run"], *flags)
    message = refused(name, *flags, stdin=b"The dog sleeps.\n")
    assert [part for part in said if part not in message] == [] and len(message) < 300, message


@pytest.mark.heavy
def test_a_damaged_checkpoint_is_an_error_without_messages_of_tensorflow(work, refused):
    changed("run/ckpt-6.data-00000-of-00001", size=1000)()
    message = refused("decoder", "--output_dir=run", stdin=b"The dog sleeps.\n", fresh=True)
    assert "run/ckpt-6" in message and "damaged" in message


@pytest.mark.heavy
def test_a_shard_with_changed_bytes(work, process, small_flags, snapshot):
    content = bytearray(Path(SHARD).read_bytes())
    content[len(content) // 2] ^= 0xFF
    Path(SHARD).write_bytes(content)
    before = snapshot(work)
    # This is detected during training, after some files, such as event files, have been written.
    result = process("trainer", *with_flags(small_flags, "--data_dir=data", "--output_dir=run", "--train_steps=500"))
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("t2t-lite-trainer: error: ") and "data" in line and "t2t-lite-datagen" in line
    after = snapshot(work)
    checkpoints = [name for name in before if "ckpt" in name]
    assert [after[name] for name in checkpoints] == [before[name] for name in checkpoints]


def test_an_output_file_that_is_standard_input(work):
    with open("in.txt") as lines:
        process = start_process("decoder", "--output_dir=run", "--decode_to_file=in.txt", stdin=lines)
        output = process.communicate(timeout=600)[0]
    assert process.returncode == 1
    assert "--decode_to_file=in.txt is the same file as standard input" in output
    assert Path("in.txt").read_text() == "The dog sleeps.\n"


@pytest.mark.parametrize(("role", "side"), [("dev_source", "inputs"), ("dev_target", "targets")])
def test_source_text_that_the_data_would_overwrite(refused, tmp_path, role, side):
    (tmp_path / "data").mkdir()
    paths = {name: tmp_path / f"{name}.txt" for name in ("train_source", "train_target", "dev_source", "dev_target")}
    paths[role] = tmp_path / "data" / f"text_pairs-dev.{side}.txt"
    for name, path in paths.items():
        path.write_text("".join(f"{name} number {i} is here\n" for i in range(200)))
    flags = (f"--{name}={path}" for name, path in paths.items())
    message = refused("datagen", "--problem=text_pairs", f"--data_dir={tmp_path / 'data'}", *flags)
    assert message == f"{paths[role]} would be overwritten by the data made from it; use another --data_dir"
