"""The worst and best lines of evaluations of frozen runs, and the measures of their heads (`t2t-lite-eval --heads`)."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import sacrebleu

import t2t_lite as t2t
from t2t_lite.evaluation.examples import read_examples
from t2t_lite.metric import Metric
from t2t_lite.registry import METRICS, PROBLEMS
from t2t_lite.scoring.parseval import LabelledF1
from t2t_lite.visualization.attention_map import attention_map, head_statistics

pytestmark = pytest.mark.slow

FROZEN = Path(__file__).resolve().parents[1] / "frozen"
SEARCH = "beam_size=1"


def evaluated(frozen, folder, command):
    """(the run, the folder of its scores, examples.json) of an evaluation of a copy of a frozen run on dev."""
    run = shutil.copytree(FROZEN / frozen / "run", folder / "run")
    flags = (f"--data_dir={FROZEN / frozen / 'data'}", f"--decode_hparams={SEARCH}", "--xla_compile=False")
    result = command("eval", f"--output_dir={run}", "--split=dev", *flags)
    assert result.returncode == 0, result.stderr
    (scores,) = (run / "scores").iterdir()
    return run, scores, json.loads((scores / "examples.json").read_text(encoding="utf-8"))


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines()


def test_translations_are_ranked_by_chrf_and_each_has_its_alignment(tmp_path, command):
    run, folder, examples = evaluated("0.2/tied", tmp_path, command)
    inputs, outputs, references = (lines_of(folder / f"{name}.txt") for name in ("inputs", "hypotheses", "references"))
    scores = [sacrebleu.sentence_chrf(ours, [theirs]).score for ours, theirs in zip(outputs, references)]
    assert (examples["metric"], examples["label"]) == ("chrf", "chrF2")
    worst, best = ([line["line"] for line in examples[name]] for name in ("worst", "best"))
    assert sorted(worst + best) == list(range(1, len(inputs) + 1)) and len(worst) == len(best) == 3
    ranked = [scores[line - 1] for line in [*worst, *best[::-1]]]
    assert ranked == sorted(scores)
    translator = t2t.Translator.from_run_dir(run, SEARCH, xla_compile=False)
    for line in [*examples["worst"], *examples["best"]]:
        row = line["line"] - 1
        assert line["score"] == pytest.approx(scores[row])
        assert line["alignment"] == translator.align(inputs[row], outputs[row])
    pairs = [(each["input"], each["output"]) for each in examples["attention"]["sentences"]]
    assert len(set(pairs)) == 3 and set(pairs) <= set(zip(inputs, outputs))
    for kind, layers in translator.attention_layers.items():
        for layer in range(layers):
            maps = examples["attention"]["sentences"][0]["maps"]
            (drawn,) = [each for each in maps if (each["kind"], each["layer"]) == (kind, layer)]
            weights, _, _ = translator.attention(*pairs[0], kind, layer)
            np.testing.assert_allclose(drawn["tokens"]["weights"], weights, atol=6e-5)


@pytest.mark.heavy
def test_trees_are_ranked_by_their_f1_and_have_no_alignments(tmp_path, command):
    _, folder, examples = evaluated("0.1/parsing", tmp_path, command)
    outputs, references = (lines_of(folder / f"{name}.txt") for name in ("hypotheses", "references"))
    f1 = LabelledF1().line_scores(outputs, references)
    assert examples["label"] == "F1" and len(outputs) == 7
    chosen = [*examples["worst"], *examples["best"]]
    assert [line["score"] for line in chosen] == [f1[line["line"] - 1] for line in chosen]
    assert len(examples["worst"]) == 4 and {line["alignment"] for line in chosen} == {None}


def test_outputs_are_kept_if_a_metric_fails_on_single_lines(tmp_path, command, registered):
    class FailingOnLines(Metric):
        def score(self, hypotheses, *references):
            return 1.0

        def line_scores(self, hypotheses, *references):
            return [1 / len(line.split()[:0]) for line in hypotheses]

    registered(METRICS, "fails_on_lines", FailingOnLines)
    registered(PROBLEMS, "mine", type("Mine", (type(t2t.get_problem("text_pairs")),), {"metric": "fails_on_lines"}))
    copy = shutil.copytree(FROZEN / "0.2/tied", tmp_path / "tied")
    for path in list(copy.glob("*/*")):
        if path.suffix == ".json":
            path.write_text(path.read_text(encoding="utf-8").replace("text_pairs", "mine"), encoding="utf-8")
        path.rename(path.with_name(path.name.replace("text_pairs", "mine")))
    flags = (f"--data_dir={copy / 'data'}", f"--decode_hparams={SEARCH}", "--xla_compile=False")
    result = command("eval", f"--output_dir={copy / 'run'}", "--split=dev", *flags)
    assert result.returncode == 0, result.stderr
    assert "could not select the worst and best lines (ZeroDivisionError: division by zero)" in result.stderr
    (folder,) = (copy / "run" / "scores").iterdir()
    assert len(lines_of(folder / "hypotheses.txt")) == len(lines_of(copy / "data" / "mine-dev.inputs.txt"))
    assert read_examples(folder) is None


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"format": 2}', '{"format": 1, "worst": [{}], "best": []}', "[" * 10**5]
)
def test_what_this_version_cannot_read_is_none(text, tmp_path):
    assert read_examples(tmp_path) is None
    (tmp_path / "examples.json").write_text(text)
    assert read_examples(tmp_path) is None


def test_the_command_prints_the_measures_of_every_head(command):
    tied = FROZEN / "0.2/tied"
    flags = f"--output_dir={tied / 'run'}", f"--data_dir={tied / 'data'}", "--heads=3"
    refused = command("eval", *flags, "--tune=alpha")
    assert refused.returncode == 2 and "--heads and --tune cannot be combined" in refused.stderr
    (content,) = json.loads(command("eval", *flags, "--json").stdout)
    assert (content["run"], content["checkpoint"], content["split"]) == ("run", "average-300", "dev")
    translator = t2t.Translator.from_run_dir(tied / "run")
    sides = [lines_of(tied / "data" / f"text_pairs-dev.{side}.txt") for side in ("inputs", "targets")]
    assert content["lines"] == 3
    assert len(content["layers"]) == sum(translator.attention_layers.values())
    for each in content["layers"]:
        maps = [attention_map(translator, *pair, each["kind"], each["layer"]) for pair in list(zip(*sides))[:3]]
        for name, values in head_statistics(maps).heads.items():
            assert each["heads"][name] == pytest.approx(values, abs=2e-4)

    shown = command("eval", *flags).stdout
    assert shown == t2t.measure_heads(tied / "run", data_dir=tied / "data", lines=3).report()
    for kind, layers in translator.attention_layers.items():
        table = shown.partition(f"All heads, {kind}:")[2].partition("\n\nAll")[0]
        (first, *_) = (each for each in content["layers"] if each["kind"] == kind)
        assert table.count("| layer ") == layers * len(first["heads"]["entropy"])
        assert f"{first['heads']['entropy'][0]:.2f}" in table
        sharpest = min(min(each["heads"]["entropy"]) for each in content["layers"] if each["kind"] == kind)
        assert f"| {kind}: least entropy" in shown and f"{sharpest:.2f}" in shown
