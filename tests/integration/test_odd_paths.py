"""Every path that the file system allows works in all commands, or is refused before anything is done."""

import os
import shutil

import pytest
from support.server import SENTENCES, Server

import t2t_lite as t2t
from t2t_lite.files import split_paths

TINY = "hidden_size=16,filter_size=32,num_heads=2,num_encoder_layers=1,num_decoder_layers=1,batch_tokens=256"
# Nested into each other in two groups, because a model for each of them would take minutes.
NAMES = {
    "patterns": ["lr=[0.1]", "[x] y", "a\\b", "*", "?", "[!a]", "[", "]", "{a,b}", "a*b"],
    "lists": ["pc,d", ",", "a,b,c", "a, b", "x=1,y=2", "=", "a=b", ";", "a:b", "|"],
    "shells": ["$HOME", "${PATH}", "`id`", "~", "~root", "&", "(a)", "<b>", "!", "#", "'", '"', "a'b", "^"],
    "formats": ["%s", "%(x)s", "{}", "{0}", "%20", "\\n", "--debug", "-", "@file", "+"],
    "blanks": [" a", "a ", "a  b", "tab\there", "new\nline", "\u00a0", "\u200b", "...", ".hidden", "x" * 200],
    "ours": ["ckpt-5", "average-3.index", "best", "last", "run.json", "x.incomplete", "incomplete-ckpt-1", "a.gz"],
    "letters": ["ünï", "e\u0301", "日本語", "🙂", "\u202eabc", "Ⅷ", "ẞ", "\ufeffx"],
}


@pytest.fixture(params=["patterns,lists,shells", "formats,blanks,ours,letters"])
def folder(request, tmp_path):
    """A folder whose path consists of the odd names of several kinds."""
    path = tmp_path.joinpath(*(name for kind in request.param.split(",") for name in NAMES[kind]))
    path.mkdir(parents=True)
    return path


@pytest.fixture
def run(command):
    def good(name, *flags, **options):
        result = command(name, *flags, **options)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return good


@pytest.mark.heavy
def test_all_commands_work_in_folders_with_odd_names(run, process, folder, t2t_dir):
    text, other, data, model = (folder / name for name in ("text", "other", "data", "run"))
    for path in (text, other):
        path.with_suffix(".en").write_text("".join(f"the {word} sleeps {i}\n" for i in range(20) for word in "abc"))
        path.with_suffix(".de").write_text("".join(f"{word} schläft {i}\n" for i in range(20) for word in "abc"))
    run(
        *("datagen", "--problem=text_pairs", f"--data_dir={data}", "--vocab_size=300", "--num_shards=2"),
        *(f"--train_source={text}.en,{other}.en", f"--train_target={text}.de", f"--train_target={other}.de"),
        "--held_out=5",
    )
    assert "inputs" in run("datagen", "--problem=text_pairs", f"--data_dir={data}", "--inspect")
    trainer = ("trainer", "--problem=text_pairs", "--hparams_set=transformer_tiny", "--peak_tflops=1", "--report")
    run(*trainer, f"--hparams={TINY}", f"--data_dir={data}", f"--output_dir={model}", "--train_steps=2")
    resumed = run(*trainer, f"--hparams={TINY}", f"--data_dir={data}", f"--output_dir={model}", "--train_steps=4")
    assert "2" in resumed and (model / "ckpt-4.index").exists()
    run("trainer", "--schedule=eval", f"--data_dir={data}", f"--output_dir={model}")
    warm = ("trainer", "--problem=text_pairs", f"--data_dir={data}", f"--output_dir={folder}/warm", "--train_steps=1")
    run(*warm, f"--warm_start_from={model}", "--peak_tflops=1")
    run("avg", f"--output_dir={model}", "--n=2")
    lines, outputs = f"{text}.en", folder / "out"
    decode = (f"--decode_from_file={lines}", "--decode_hparams=beam_size=1", "--xla_compile=False")
    run("decoder", f"--output_dir={model}", *decode, f"--decode_to_file={outputs}")
    expected = outputs.read_text()
    assert len(expected.splitlines()) == 60
    run("decoder", f"--output_dir={model},{model}", *decode, f"--decode_to_file={outputs}")
    assert outputs.read_text() == expected
    assert "bleu" in run("eval", f"--output_dir={model}", f"--data_dir={data}", "--split=dev").lower()
    assert "bleu" in run("score", f"--hypothesis={outputs}", f"--reference={text}.de").lower()
    assert "bleu" in run("score", f"--output_dir={model}", "--split=dev").lower()
    for kind in ("ctranslate2", "keras"):
        run("export", f"--output_dir={model}", f"--export_dir={folder / kind}", f"--format={kind}")
        run("decoder", f"--export_dir={folder / kind}", *decode, f"--decode_to_file={outputs}")
        assert outputs.read_text() == expected
    run("import_model", "--from=keras", str(folder / "keras"), f"--output_dir={folder / 'imported'}")
    shutil.copytree(t2t_dir / "v1", folder / "v1")
    run(
        "import_model", "--from=t2t", str(folder / "v1"), f"--output_dir={folder / 't2t'}", f"--data_dir={t2t_dir}/data"
    )
    run("report", f"--output_dir={model},{model}", f"--report_file={folder / 'report.html'}")
    run("benchmark", "--curve", f"--output_dir={model}", f"--plot_file={folder / 'plot.svg'}")
    run("reproduce", "--figure=3", f"--run_dir={model}", f"--output_dir={folder}", "--sentence=the a sleeps .")
    (folder / "plugin").mkdir()
    plugin = "from t2t_lite.registry import SCORERS\nSCORERS.register(print, name='x')"
    (folder / "plugin" / "mine.py").write_text(plugin)
    params = ("params", f"--hparams={TINY}", "--hparams_set=transformer_tiny", f"--t2t_usr_dir={folder / 'plugin'}")
    assert process(*params).returncode == 0
    trees = folder / "trees.mrg"
    trees.write_text("(TOP (S (NP (NN a)) (VP (VB b))))\n" * 9)
    run(
        *("datagen", "--problem=treebank_parsing", f"--data_dir={folder / 'trees'}", f"--train_trees={trees},{trees}"),
        *(f"--dev_trees={trees}", f"--test_trees={folder / 'trees.mrg'}"),
    )
    with Server(f"--export_dir={folder / 'ctranslate2'}") as server:
        assert server.post("/v1/translate", {"inputs": SENTENCES[:1]}).status == 200


@pytest.mark.parametrize("name", [name for names in NAMES.values() for name in names])
def test_lists_of_files_may_have_any_existing_path(tmp_path, name):
    path = str(tmp_path / name)
    os.mkdir(path)
    assert split_paths(path) == [path]
    assert split_paths(f"{path},{path}") == [path, path]
    assert split_paths(f"{path},none,{path}") == [path, "none", path]


def test_lists_of_files_may_be_long(tmp_path):
    names = [f"{tmp_path}/shard-{number:05d}.txt" for number in range(1000)]
    (tmp_path / "text").write_text("".join(f"a {number} b\n" for number in range(20)))
    for name in names[:200]:
        os.symlink(tmp_path / "text", name)
    assert split_paths(",".join(names)) == names
    assert split_paths("a,,b") == ["a", "", "b"]
    files = {f"train_{side}": names[:200] for side in ("source", "target")}
    assert t2t.generate_data("text_pairs", tmp_path / "data", held_out=2, vocab_size=300, **files).pairs["dev"] == 2


def test_what_tensorflow_could_not_load_is_not_exported(command, small_run, tmp_path):
    result = command("export", f"--output_dir={small_run}", f"--export_dir={tmp_path}/[x]/e", "--format=saved_model")
    assert result.returncode == 1 and "TensorFlow cannot load a SavedModel from this folder" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_is_not_utf_8_is_refused(command, tmp_path):
    name = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    os.mkdir(name)
    result = command("trainer", "--problem=grammar_ende", "--hparams_set=transformer_tiny", f"--data_dir={name}")
    assert result.returncode == 2 and "takes a path in UTF-8" in result.stderr and "\n" not in result.stderr.strip()
