"""t2t-lite-eval on a small run: its figures against sacreBLEU and forced scores, what it keeps, and what it refuses."""

import json
import math
import shutil

import pytest
import sacrebleu
from support.commands import with_flags

import t2t_lite as t2t

pytestmark = pytest.mark.slow

SEARCH = "beam_size=1,extra_length=3"
QUICK = (f"--decode_hparams={SEARCH}", "--xla_compile=False")


@pytest.fixture(scope="module")
def run(small_run, tmp_path_factory):
    """A copy of the small run."""
    return shutil.copytree(small_run, tmp_path_factory.mktemp("eval") / "run")


@pytest.fixture(scope="module")
def evaluated(run, command):
    """(the folder, scores.json, printed) of the first evaluation of ckpt-6 on the dev split."""
    result = command("eval", f"--output_dir={run}", "--checkpoint_path=last", *QUICK)
    assert result.returncode == 0, result.stderr
    folder = run / "scores" / "dev.ckpt-6.beam_size=1.alpha=0.6.extra_length=3"
    assert result.stderr.splitlines()[:2] == [f"using {run / 'ckpt-6'}", f"wrote {folder}"]
    return folder, json.loads((folder / "scores.json").read_text()), result.stdout


def lines_of(path):
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def figure(content, name):
    (found,) = [each for each in content["figures"] if each["name"] == name]
    return found


def as_json(command, *flags):
    result = command("eval", *flags, *QUICK, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_the_texts_are_those_of_the_data_and_of_the_decoder(evaluated, run, grammar_data):
    folder, content, _ = evaluated
    assert {path.name for path in folder.iterdir()} == {
        *("inputs.txt", "hypotheses.txt", "references.txt", "scores.json", "report.md", "examples.json")
    }
    for name in ("inputs", "targets"):
        stored = lines_of(folder / ("references.txt" if name == "targets" else "inputs.txt"))
        assert stored == lines_of(grammar_data / f"grammar_ende-dev.{name}.txt")
    translator = t2t.Translator.from_run_dir(run, SEARCH, checkpoint_path="ckpt-6", xla_compile=False)
    assert lines_of(folder / "hypotheses.txt") == translator.translate(lines_of(folder / "inputs.txt"))
    assert content["lines"] == 20 and content["checkpoint"]["members"] == []


def test_the_figures_are_sacrebleus(evaluated):
    folder, content, printed = evaluated
    ours, theirs = lines_of(folder / "hypotheses.txt"), [lines_of(folder / "references.txt")]
    for name, metric in (("bleu", sacrebleu.BLEU()), ("chrf", sacrebleu.CHRF()), ("ter", sacrebleu.TER())):
        expected = metric.corpus_score(ours, theirs, n_bootstrap=1000)
        found = figure(content, name)
        assert found["score"] == pytest.approx(expected.score, abs=1e-9)
        assert found["signature"] == metric.get_signature().format().replace("bs:1000|seed:12345|", "")
        assert found["low"] <= found["score"] + 1e-3 and found["score"] <= found["high"] + 1e-3
    assert [each["name"] for each in content["figures"]][:3] == ["bleu", "chrf", "ter"]
    assert "Vaswani" not in printed
    assert printed == (folder / "report.md").read_text()


def test_perplexities_are_those_of_forced_scores(evaluated, run):
    folder, content, _ = evaluated
    inputs, targets = lines_of(folder / "inputs.txt"), lines_of(folder / "references.txt")
    translator = t2t.Translator.from_run_dir(run, checkpoint_path="last")
    nats = -sum(each.log_prob for each in translator.score(inputs, targets))
    tokens = sum(len(translator.vocabulary.encode_all([line]).to_list()[0]) for line in targets)
    words = sum(len(line.split()) + 1 for line in targets)
    assert figure(content, "perplexity")["score"] == pytest.approx(math.exp(nats / tokens), rel=1e-4)
    assert figure(content, "perplexity_per_word")["score"] == pytest.approx(math.exp(nats / words), rel=1e-4)
    assert content["tokens"]["tokens"] == tokens


def test_the_second_call_answers_from_the_folder(evaluated, run, snapshot, command):
    folder, _, printed = evaluated
    before = snapshot(folder)
    done = command("eval", f"--output_dir={run}", "--checkpoint_path=last", *QUICK)
    told, following = done.stderr.splitlines()[-2:]
    assert done.stdout == printed and told == f"answered from {folder}"
    assert following == f"Next: t2t-lite-decoder --output_dir={run} --decode_from_file=IN.txt --decode_to_file=OUT.txt"
    assert snapshot(folder) == before


def test_further_metrics_and_references_need_no_decoding(evaluated, run, command, tmp_path):
    folder, content, _ = evaluated
    mine = shutil.copytree(run, tmp_path / "run")
    flags = (f"--output_dir={mine}", "--checkpoint_path=last")
    (found,) = as_json(command, *flags, "--metric=exact_match")["runs"]
    equal = map(str.__eq__, *(lines_of(folder / f"{name}.txt") for name in ("hypotheses", "references")))
    assert figure(found, "exact_match")["score"] == 100 * sum(equal) / 20
    assert not found["decoded_now"] and figure(found, "bleu") == figure(content, "bleu")
    shutil.copy(folder / "hypotheses.txt", tmp_path / "more.txt")
    (found,) = as_json(command, *flags, f"--references={tmp_path / 'more.txt'}")["runs"]
    assert not found["decoded_now"] and figure(found, "bleu")["score"] == pytest.approx(100)
    assert figure(found, "bleu")["signature"].startswith("nrefs:2|")
    assert "exact_match" in [each["name"] for each in found["figures"]]
    (found,) = as_json(command, *flags)["runs"]
    assert not found["decoded_now"] and figure(found, "bleu") == figure(content, "bleu")
    assert not list((mine / "scores").glob("*/references.2.txt")) and len(list((mine / "scores").iterdir())) == 1


@pytest.mark.heavy
def test_another_checkpoint_or_again_decodes(evaluated, run, command, tmp_path, monkeypatch):
    mine = shutil.copytree(run, tmp_path / "run")
    for ending in (".index", ".data-00000-of-00001"):
        shutil.copy(mine / f"ckpt-2{ending}", mine / f"ckpt-6{ending}")
    flags = (f"--output_dir={mine}", "--checkpoint_path=ckpt-6")
    (found,) = as_json(command, *flags)["runs"]
    assert found["decoded_now"]
    assert not as_json(command, *flags)["runs"][0]["decoded_now"]
    assert as_json(command, *flags, "--again")["runs"][0]["decoded_now"]
    scores = t2t.score_split(mine, checkpoint_path="ckpt-6", decode_hparams=SEARCH)
    assert not scores.decoded_now and scores.scores["bleu"] == figure(found, "bleu")["score"]
    assert scores.intervals["bleu"] == (figure(found, "bleu")["low"], figure(found, "bleu")["high"])
    assert len(scores.hypotheses) == len(scores.inputs) == len(scores.references[0]) == 20


@pytest.mark.heavy
def test_runs_are_compared_with_the_first(evaluated, run, small_flags, grammar_data, command, tmp_path):
    other = tmp_path / "other"
    changes = ("--random_seed=2", "--train_steps=2", f"--data_dir={grammar_data}", f"--output_dir={other}")
    assert command("trainer", *with_flags(small_flags, *changes)).returncode == 0
    flags = (f"--output_dir={run},{other}", "--checkpoint_path=last")
    found = as_json(command, *flags)
    first, second = found["runs"]
    systems = found["comparison"]["metrics"]["bleu"]
    assert [each["name"] for each in systems] == ["run", "other"]
    bleus = [figure(each, "bleu")["score"] for each in (first, second)]
    assert [each["score"] for each in systems] == pytest.approx(bleus)
    assert systems[0]["p_bootstrap"] is None and 0 < systems[1]["p_bootstrap"] <= 1
    assert 0 < systems[1]["p_randomisation"] <= 1
    changes = found["comparison"]["changes"]["other"]
    assert changes and all(change["first"] != change["other"] for change in changes)
    result = command("eval", *flags, *QUICK)
    assert "# other compared with run" in result.stdout and "Lines that changed most" in result.stdout
    report = next((other / "scores").glob("*/comparison.md")).read_text()
    assert report in result.stdout


@pytest.mark.heavy
def test_checkpoints_of_a_run_are_compared_and_all_checks_come_first(evaluated, run, command, tmp_path):
    mine = shutil.copytree(run, tmp_path / "run")
    found = as_json(command, f"--output_dir={mine}", "--checkpoint_path=ckpt-2,last")
    assert [each["checkpoint"]["path"].rpartition("/")[2] for each in found["runs"]] == ["ckpt-2", "ckpt-6"]
    assert found["comparison"]["first"] == "ckpt-2" and found["runs"][1]["digest"] == evaluated[1]["digest"]
    assert [each["name"] for each in found["comparison"]["metrics"]["bleu"]] == ["ckpt-2", "ckpt-6"]
    other = shutil.copytree(mine, tmp_path / "other", ignore=shutil.ignore_patterns("scores"))
    about = json.loads((other / "run.json").read_text())
    data = shutil.copytree(about["data_dir"], tmp_path / "data")
    (data / "grammar_ende-dev.targets.txt").write_text("anders\n" * 500)
    (other / "run.json").write_text(json.dumps(about | {"data_dir": str(data)}))
    for flags, message in (
        ((f"--output_dir={other},{mine}",), "have different references for the split 'dev'; compare runs on the same"),
        (
            (f"--output_dir={other},{mine}", "--checkpoint_path=ckpt-2,last"),
            "several checkpoints can be compared in one",
        ),
        ((f"--output_dir={other}", "--checkpoint_path=ckpt-6,last"), "is given twice; a comparison needs different"),
        ((f"--output_dir={other}", "--checkpoint_path=last,ckpt-7"), "--checkpoint_path=ckpt-7: no such checkpoint"),
    ):
        refused = command("eval", *flags, *QUICK)
        assert refused.returncode in (1, 2) and message in refused.stderr.splitlines()[-1]
        assert not (other / "scores").exists()


@pytest.mark.parametrize(
    ("flags", "about", "said"),
    [
        ("--split=train", {}, "--split: takes dev or test, not 'train'"),
        ("--checkpoint_path=ckpt-5", {}, "--checkpoint_path=ckpt-5: no such checkpoint; "),
        ("--checkpoint_path=best:chrf", {}, "the best checkpoint by chrf is unknown"),
        ("--metric=f1", {}, "--metric=f1: 'grammar_ende' is scored by bleu"),
        ("--metric=bleuu", {}, "--metric=bleuu is unknown; did you mean 'bleu'"),
        ("--decode_hparams=only_trees=True", {}, "only_trees=True is for parsing"),
        ("--references=nothing", {}, "--references: no such file: nothing"),
        ("--references={short}", {}, "has 1 lines, but "),
        ("--data_dir={empty}", {}, "has no complete data for 'grammar_ende'"),
        ("", {"data_dir": "/no/such"}, "is no longer in /no/such; pass its folder with --data_dir"),
        ("", {"data_dir": None}, "does not record where its data is"),
    ],
)
def test_mistakes_are_one_line(run, command, tmp_path, flags, about, said):
    mine = shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("scores"))
    stored = json.loads((mine / "run.json").read_text())
    (mine / "run.json").write_text(json.dumps(stored | about))
    (tmp_path / "empty").mkdir()
    (tmp_path / "short").write_text("one line\n")
    flags = flags.format(empty=tmp_path / "empty", short=tmp_path / "short").split()
    result = command("eval", f"--output_dir={mine}", "--xla_compile=False", *flags)
    lines = [line for line in result.stderr.splitlines() if not line.startswith("using ")]
    assert result.returncode in (1, 2) and not result.stdout and len(lines) == 1, result.stderr
    assert said in lines[0]
    assert not (mine / "scores").exists() or not list((mine / "scores").iterdir())


def test_score_takes_the_stored_outputs_of_runs(evaluated, run, command, tmp_path):
    folder, content, _ = evaluated
    flags = (f"--output_dir={run}", "--checkpoint_path=last", "--metric=bleu,paper_bleu,exact_match", "--json")
    result = command("score", *flags)
    assert result.returncode == 0, result.stderr
    found = {each["name"]: each for each in json.loads(result.stdout)["metrics"]}
    assert found["bleu"]["score"] == pytest.approx(figure(content, "bleu")["score"])
    assert "|lang:de|" in found["paper_bleu"]["signature"]  # the language of the problem
    other = shutil.copytree(run, tmp_path / "other")
    compared = json.loads(command("score", f"--output_dir={run},{other}", *flags[1:]).stdout)
    assert compared["hypotheses"][1] == str(other / "scores" / folder.name / "hypotheses.txt")
    missing = command("score", f"--output_dir={run}", "--checkpoint_path=ckpt-2")
    assert missing.returncode == 1 and "has no scores of ckpt-2 on dev; run t2t-lite-eval --output" in missing.stderr
    both = command("score", f"--output_dir={run}", f"--hypothesis={folder / 'hypotheses.txt'}")
    assert both.returncode == 2 and "--output_dir and --hypothesis cannot be combined" in both.stderr
