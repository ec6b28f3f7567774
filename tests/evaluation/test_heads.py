"""`t2t-lite-eval --heads`: the measures of every head of a run, printed as tables or JSON."""

import json
from pathlib import Path

import pytest

import t2t_lite as t2t
from t2t_lite.visualization.attention_map import attention_map, head_statistics

TIED = Path(__file__).resolve().parents[1] / "frozen/0.2/tied"
FLAGS = f"--output_dir={TIED / 'run'}", f"--data_dir={TIED / 'data'}", "--heads=3"


@pytest.mark.slow
def test_the_command_prints_the_measures_of_every_head(command):
    (content,) = json.loads(command("eval", *FLAGS, "--json").stdout)
    assert (content["run"], content["checkpoint"], content["split"]) == ("run", "average-300", "dev")
    translator = t2t.Translator.from_run_dir(TIED / "run")
    sides = [
        (TIED / "data" / f"text_pairs-dev.{side}.txt").read_text(encoding="utf-8").splitlines()
        for side in ("inputs", "targets")
    ]
    assert content["lines"] == 3
    assert len(content["layers"]) == sum(translator.attention_layers.values())
    for each in content["layers"]:
        maps = [attention_map(translator, *pair, each["kind"], each["layer"]) for pair in list(zip(*sides))[:3]]
        for name, values in head_statistics(maps).heads.items():
            assert each["heads"][name] == pytest.approx(values, abs=2e-4)

    shown = command("eval", *FLAGS).stdout
    assert shown == t2t.measure_heads(TIED / "run", data_dir=TIED / "data", lines=3).report()
    for kind, layers in translator.attention_layers.items():
        table = shown.partition(f"All heads, {kind}:")[2].partition("\n\nAll")[0]
        (first, *_) = (each for each in content["layers"] if each["kind"] == kind)
        assert table.count("| layer ") == layers * len(first["heads"]["entropy"])
        assert f"{first['heads']['entropy'][0]:.2f}" in table
        sharpest = min(min(each["heads"]["entropy"]) for each in content["layers"] if each["kind"] == kind)
        assert f"| {kind}: least entropy" in shown and f"{sharpest:.2f}" in shown


def test_flags_of_scores_are_refused(command):
    refused = command("eval", *FLAGS, "--tune=alpha")
    assert refused.returncode == 2
    assert "--heads and --tune cannot be combined" in refused.stderr
