"""Packages for Argos Translate: what it reads in them, and what it does with them, imitated by its own libraries."""

import json
import zipfile

import pytest

import t2t_lite as t2t
from t2t_lite.errors import UserError

ctranslate2 = pytest.importorskip("ctranslate2")
sentencepiece = pytest.importorskip("sentencepiece")
SEARCH = {"beam_size": 4, "length_penalty": 0.2, "replace_unknowns": True, "max_decoding_length": 256}


def unpacked(export, folder):
    (package,) = export.glob("*.argosmodel")
    with zipfile.ZipFile(package) as content:
        assert {name.split("/")[0] for name in content.namelist()} == {package.stem}  # one folder
        content.extractall(folder)
    return folder / package.stem


@pytest.mark.slow
def test_a_package_translates_as_argos_translate_reads_it(command, small_run, grammar_data, tmp_path):
    for split in ("dev", "test"):
        assert command("eval", f"--output_dir={small_run}", f"--split={split}").returncode == 0
    flags = f"--output_dir={small_run}", "--format=argos", "--license=CC BY 4.0"
    for name, version in (("one", "1.0"), ("again", "1.0"), ("two", "1.2rc1")):
        done = command("export", *flags, f"--export_dir={tmp_path / name}", f"--package_version={version}")
        assert done.returncode == 0, done.stderr
        assert "Next" not in done.stdout
    one, again, two = (next((tmp_path / name).glob("*.argosmodel")) for name in ("one", "again", "two"))
    assert one.name == "translate-en_de-1_0.argosmodel" and two.name == "translate-en_de-1_2rc1.argosmodel"
    assert one.read_bytes() == again.read_bytes()
    package = unpacked(tmp_path / "one", tmp_path / "packages")
    assert json.loads((package / "metadata.json").read_text()) == {
        "package_version": "1.0",
        "argos_version": "1.9.0",
        "from_code": "en",
        "from_name": "English",
        "to_code": "de",
        "to_name": "German",
    }
    card = (package / "README.md").read_text()
    assert "- licence: CC BY 4.0" in card and "With these settings, the BLEU on test is " in card

    # Argos Translate cuts a sentence, translates, and joins the pieces of all sentences. Our engine adds the end symbol
    # of inputs itself, and appends nothing else.
    processor = sentencepiece.SentencePieceProcessor(model_file=str(package / "sentencepiece.model"))
    theirs = ctranslate2.Translator(str(package / "model"))
    exported = t2t.export(small_run, tmp_path / "own", format="ctranslate2", quantization="int8")
    ours = ctranslate2.Translator(str(exported.path))
    lines = (grammar_data / "grammar_ende-dev.inputs.txt").read_text().splitlines()
    pieces = [processor.encode(line, out_type=str) for line in lines]
    found = [each.hypotheses[0] for each in theirs.translate_batch(pieces, **SEARCH)]
    assert found == [
        each.hypotheses[0] for each in ours.translate_batch([[*each, "</s>"] for each in pieces], **SEARCH)
    ]
    assert processor.decode_pieces([*processor.encode("A man sleeps.", out_type=str)] * 2).count(". A") == 1

    # t2t-lite does not load it, and says who does.
    for name, more in (("decoder", ()), ("serve", ())):
        done = command(name, f"--export_dir={tmp_path / 'one'}", *more, stdin=b"")
        assert done.returncode == 1 and "is an Argos package, which t2t-lite does not load" in done.stderr


@pytest.mark.slow
def test_what_argos_translate_would_read_otherwise_is_refused(command, small_run, tmp_path):
    def refused(run, **options):
        with pytest.raises(UserError) as error:
            t2t.export(run, tmp_path / "export", format="argos", **options)
        assert not (tmp_path / "export").exists()
        return str(error.value)

    assert "takes a version such as 1.2, not 'new'" in refused(small_run, package_version="new")
    text = "".join(
        f"the {word} sees the {other}\t{word} sieht {other}\n" for word in "abcdef" for other in "ghijklmnop"
    )
    (tmp_path / "text.tsv").write_text(text)
    flags = f"--train_tsv={tmp_path / 'text.tsv'}", "--problem=text_pairs", "--vocab_size=300"
    kinds = {"wordpiece": "need tokens by SentencePiece", "": "need the languages of the model"}
    for kind, message in kinds.items():
        data, run = tmp_path / f"data{kind}", tmp_path / f"run{kind}"
        more = [f"--vocab_kind={kind}", "--languages=en:pt-BR"] if kind else []
        made = command("datagen", *flags, f"--data_dir={data}", *more)
        assert made.returncode == 0, made.stderr
        hparams = "--hparams=hidden_size=32,filter_size=32,num_heads=2,batch_tokens=256"
        sizes = "--hparams_set=transformer_tiny", hparams, "--train_steps=1"
        trained = command("trainer", "--problem=text_pairs", *sizes, f"--data_dir={data}", f"--output_dir={run}")
        assert trained.returncode == 0, trained.stderr
        assert message in refused(run)
