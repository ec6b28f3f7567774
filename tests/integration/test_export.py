"""t2t-lite-export, and what reads its directories: the decoder, programs with TensorFlow alone, CTranslate2."""

import json
import re
import shutil
import subprocess
import sys

import pytest
from support.commands import run_python

import t2t_lite as t2t
from t2t_lite.decoding.export_dir import open_export
from t2t_lite.decoding.loading import open_model
from t2t_lite.errors import UserError

pytestmark = pytest.mark.slow

SENTENCES = ["The dog sleeps.", "", "A man sees the small dog.", "I know the man who sleeps in the garden."]
SEARCH = "--decode_hparams=beam_size=2,extra_length=4"
PLAIN = "--xla_compile=False"
# Ten lines of a program that knows nothing of this package.
PROGRAM = """
import sys
import tensorflow as tf
import tensorflow_text
model = tf.saved_model.load(sys.argv[1])
translate = model.signatures["serving_default"]
lines = sys.stdin.read().splitlines()
found = translate(inputs=tf.constant(lines))
for outputs in found["outputs"].numpy():
    print(outputs[0].decode())
assert not any(name.startswith("t2t_lite") for name in sys.modules)
"""


@pytest.fixture(scope="module")
def exports(small_run, command, shared_folders):
    """The folder with an export of `small_run` in each format, written by the command."""

    def make(folder):
        folder.mkdir()
        for format in ("saved_model", "ctranslate2", "keras"):
            flags = (f"--export_dir={folder / format}", f"--format={format}", SEARCH)
            result = command("export", f"--output_dir={small_run}", *flags)
            assert result.returncode == 0 and result.stdout.startswith(f"{folder / format}: {format}, "), result.stderr
            following = f"Next: t2t-lite-serve --export_dir={folder / format}\n"
            assert result.stdout.endswith(following) == (format != "saved_model")

    return shared_folders.get("exports", make)


@pytest.fixture
def source(tmp_path):
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in SENTENCES))
    return tmp_path / "in.txt"


@pytest.fixture(scope="module")
def expected(small_run):
    translator = t2t.Translator.from_run_dir(small_run, "beam_size=2,extra_length=4", xla_compile=False)
    return translator.translate(SENTENCES)


@pytest.mark.parametrize("format", ["ctranslate2", "keras"])
def test_the_decoder_reads_an_export_that_was_moved(exports, command, source, expected, tmp_path, format):
    moved, target = shutil.copytree(exports / format, tmp_path / "elsewhere"), tmp_path / "out.txt"
    files = (f"--decode_from_file={source}", f"--decode_to_file={target}")
    result = command("decoder", f"--export_dir={moved}", *files, PLAIN)
    assert result.returncode == 0, result.stderr
    assert target.read_text().split("\n")[:-1] == expected
    assert f"using {moved} (ckpt-6, " in result.stderr


def test_with_ctranslate2_tensorflow_is_never_imported(exports, small_run, process, source, expected, tmp_path):
    program = (
        "import sys\nfrom t2t_lite.bin.decoder import main\n"
        f"status = main(['--export_dir={exports / 'ctranslate2'}', '--decode_from_file={source}', *sys.argv[1:]])\n"
        "heavy = [name for name in sys.modules if name.split('.')[0] in ('tensorflow', 'tensorflow_text', 'keras')]\n"
        "print(heavy, file=sys.stderr)\nsys.exit(status)"
    )
    for flags in ([], ["--decode_hparams=return_beams=True"], [f"--prefix_file={source}"]):
        done = run_python(program, *flags)
        assert done.stderr.splitlines()[-1] == "[]", done.stderr
        if not flags:
            assert done.stdout.split("\n")[:-1] == expected


def test_a_run_is_exported_once_for_the_engine_and_again_when_its_checkpoint_changes(
    small_run, command, source, expected, tmp_path
):
    run = shutil.copytree(small_run, tmp_path / "run")
    flags = (f"--output_dir={run}", "--engine=ctranslate2", f"--decode_from_file={source}", SEARCH)
    first, second = command("decoder", *flags), command("decoder", *flags)
    assert first.stdout.split("\n")[:-1] == second.stdout.split("\n")[:-1] == expected
    assert "exporting" in first.stderr and "exporting" not in second.stderr
    assert [path.name for path in (run / "exports").iterdir()] == ["ctranslate2.ckpt-6"]
    # A damaged export is made again.
    (run / "exports" / "ctranslate2.ckpt-6" / "model.bin").write_bytes(b"")
    third = command("decoder", *flags)
    assert "exporting" in third.stderr and third.stdout == first.stdout
    # Another checkpoint of the same name.
    for suffix in ("index", "data-00000-of-00001"):
        shutil.copy(run / f"ckpt-4.{suffix}", run / f"ckpt-6.{suffix}")
    assert "exporting" in command("decoder", *flags).stderr


def test_a_keras_export_computes_in_the_precision_that_is_asked_for(exports, small_run):
    lines = ["A man sees the small dog."] * 2
    scores = []
    for load, path in ((t2t.Translator.from_export, exports / "keras"), (t2t.Translator.from_run_dir, small_run)):
        for precision in ("float32", "mixed_bfloat16"):
            translator = load(path, {"precision": precision}, xla_compile=False)
            scores.append(translator.score(lines, lines)[0].log_prob)
    assert scores[:2] == scores[2:] and scores[0] != scores[1]


@pytest.mark.heavy
def test_a_program_of_ten_lines_serves_a_saved_model(exports, source, expected, tmp_path):
    shutil.copytree(exports / "saved_model", tmp_path / "model")
    run = [sys.executable, "-c", PROGRAM, str(tmp_path / "model")]
    done = subprocess.run(run, input=source.read_text(), capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == expected


def test_an_export_describes_itself(exports, small_run):
    for format in ("saved_model", "ctranslate2", "keras"):
        export = open_export(exports / format)
        content = export.content
        assert content["problem"] == "grammar_ende" and content["checkpoint"]["name"] == "ckpt-6"
        assert content["decode_hparams"]["beam_size"] == 2 and export.decode_hparams.extra_length == 4
        assert export.vocabulary.read_bytes() == next(small_run.glob("vocab.*")).read_bytes()
        files = {str(path.relative_to(export.path)) for path in export.path.rglob("*") if path.is_file()}
        assert files == {"export.json", *content["files"]}
        card = (export.path / "README.md").read_text()
        assert "grammar_ende" in card and f"- format: {format}" in card and f"{content['parameters']:,} par" in card


def flip_a_bit(path):
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def rewritten(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def renamed(folder, name):
    """Moves the vocabulary's entry in export.json, with its checksum, to another name."""
    content = json.loads((folder / "export.json").read_text())
    content["files"][name] = content["files"].pop(content["vocabulary"])
    rewritten(folder / "export.json", files=content["files"], vocabulary=name, inputs_vocabulary=name)


# What the error says, and what was done to the folder.
DAMAGE = {
    "has [0-9,]+ bytes instead of [0-9,]+": lambda folder: (folder / "model.bin").write_bytes(b"short"),
    "was changed since the export": lambda folder: flip_a_bit(folder / "model.bin"),
    "lacks": lambda folder: (folder / "shared_vocabulary.json").unlink(),
    "damaged": lambda folder: (folder / "export.json").write_text("{"),
    "not an export directory": lambda folder: (folder / "export.json").unlink(),
    "unknown format": lambda folder: rewritten(folder / "export.json", format="onnx"),
    "names ../vocab, which is not in the export": lambda folder: renamed(folder, "../vocab"),
    "names /vocab, which is not in the export": lambda folder: renamed(folder, "/vocab"),
    "has no checksum of export.json": lambda folder: rewritten(folder / "export.json", vocabulary="export.json"),
}


@pytest.mark.parametrize("said", DAMAGE)
def test_a_damaged_export_is_refused_in_one_line(exports, command, source, tmp_path, said):
    folder = shutil.copytree(exports / "ctranslate2", tmp_path / "export")
    DAMAGE[said](folder)
    result = command("decoder", f"--export_dir={folder}", f"--decode_from_file={source}")
    assert result.returncode == 1 and result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert re.search(said, line) and str(folder) in line


def test_what_exists_is_not_harmed_unless_it_is_an_export_that_may_be_replaced(
    exports, small_run, command, tmp_path, snapshot
):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    export = shutil.copytree(exports / "ctranslate2", tmp_path / "export")
    before = snapshot(tmp_path)
    flags = (f"--output_dir={small_run}", "--format=ctranslate2")
    for target, more in (("mine", ()), ("mine", ("--overwrite",)), ("export", ())):
        result = command("export", *flags, f"--export_dir={tmp_path / target}", *more)
        assert result.returncode == 1 and len(result.stderr.splitlines()) == 1
        assert f"--export_dir={tmp_path / target}" in result.stderr
    assert snapshot(tmp_path) == before
    result = command("export", *flags, f"--export_dir={export}", "--overwrite", "--quantization=int8")
    assert result.returncode == 0 and open_export(export).content["quantization"] == "int8"
    assert {path.name for path in tmp_path.iterdir()} == {"mine", "export"}
    # A file of the user's in it is no part of an export.
    (export / "notes.txt").write_text("mine")
    before = snapshot(tmp_path)
    result = command("export", *flags, f"--export_dir={export}", "--overwrite")
    assert result.returncode == 1 and "notes.txt, which is not part of the export" in result.stderr
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--engine=tensorflow"], "was exported for ctranslate2"),
        (["--checkpoint_path=last"], "cannot be combined"),
        (["--decode_hparams=coverage_penalty=0.2"], "does not support coverage_penalty=0.2"),
        (["--decode_hparams=beem_size=2"], "beam_size"),
        (["--draw_trees=t.svg", "--decode_to_file=o"], "writes no trees"),
    ],
)
def test_what_an_export_cannot_do_is_said_before_it_starts(exports, command, source, flags, message):
    result = command("decoder", f"--export_dir={exports / 'ctranslate2'}", f"--decode_from_file={source}", *flags)
    assert result.returncode in (1, 2) and result.stdout == "" and message in result.stderr
    assert "using" not in result.stderr


def test_a_saved_model_has_its_own_search_which_is_said_without_tensorflow(exports, source):
    program = "import sys; sys.modules['tensorflow'] = None; from t2t_lite.bin.decoder import main; sys.exit(main())"
    flags = (f"--export_dir={exports / 'saved_model'}", f"--decode_from_file={source}")
    result = run_python(program, *flags, status=1)
    assert "is a SavedModel, which t2t-lite does not load" in result.stderr


def test_an_imported_export_decodes_as_its_run_does(exports, small_run, tmp_path, command):
    result = command("import_model", "--from=keras", exports / "keras", f"--output_dir={tmp_path}/run")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(f"{tmp_path}/run/ckpt-6: ")
    assert result.stdout.endswith(" parameters, problem grammar_ende\n")
    lines = ["The old man sees a dog.", "a b c"]
    given = [t2t.Translator.from_run_dir(path).n_best(lines, beam_size=2) for path in (small_run, tmp_path / "run")]
    assert given[0] == given[1]
    # The export has the settings, in float32.
    hparams = [json.loads((path / "hparams.json").read_text()) for path in (small_run, tmp_path / "run")]
    assert hparams[1] == hparams[0] | {"precision": "float32"}


def test_an_import_may_name_the_languages(exports, tmp_path):
    options = {"kind": "keras", "problem": "text_pairs_rev", "languages": "en:pt-BR"}
    t2t.import_model(exports / "keras", tmp_path / "run", **options)
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (about["source_language"], about["target_language"]) == ("pt-BR", "en")  # of the forward problem
    source = open_model(tmp_path / "run")
    assert (source.source_language, source.target_language) == ("en", "pt-BR")
    exported = t2t.export(tmp_path / "run", tmp_path / "export", format="keras")
    assert "- languages: en to pt-BR" in (exported.path / "README.md").read_text()
    t2t.import_model(exported.path, tmp_path / "again", kind="keras", problem="text_pairs")  # as the export names them
    assert open_model(tmp_path / "again").target_language == "pt-BR"


def test_what_cannot_be_imported_is_refused_in_one_line(exports, tmp_path):
    export = exports / "keras"

    def refused(source=export, **options):
        with pytest.raises(UserError) as error:
            t2t.import_model(source, tmp_path / "run", **{"kind": "keras"} | options)
        assert not (tmp_path / "run").exists()
        return str(error.value)

    assert refused(vocab_file="bytes") == "`vocab_file` does not apply to `kind=keras`; remove it"
    assert refused(problem="grammar").startswith("unknown problem 'grammar'")
    assert refused(languages="german") == "`languages` must be SOURCE-TARGET, such as en-de, not 'german'"
    assert refused(languages="en-fr") == "`languages=en-fr`: the problem 'grammar_ende' is en-de; omit it"
    kinds = "t2t or keras or marian or huggingface or opennmt_tf or ctranslate2"
    assert refused(kind="npz") == f"`kind` takes {kinds}, not 'npz'"
    assert refused(tmp_path).startswith(f"{tmp_path} is not an export directory: it has no export.json; create one wi")
    other = shutil.copytree(export, tmp_path / "other")
    content = json.loads((export / "export.json").read_text()) | {"format": "saved_model"}
    (other / "export.json").write_text(json.dumps(content))
    assert refused(other) == f"{other} has the format saved_model; export the run with --format=keras"
