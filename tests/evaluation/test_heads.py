"""What is measured of attention heads: planted heads are found, and the numbers are those of a count by hand."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

import t2t_lite as t2t
from t2t_lite.data.problem import Dependency, Problem
from t2t_lite.evaluation.heads import labelled_pairs, measure_heads
from t2t_lite.evaluation.stored_heads import read_heads
from t2t_lite.visualization.attention_map import attention_map, make_map
from t2t_lite.visualization.head_statistics import head_statistics

TIED = Path(__file__).resolve().parents[1] / "frozen/0.2/tied"
LINES = 60


class Colors(Problem):
    """In each line, "it" depends on the one word that begins with a capital; in half of them on the word before."""

    name = "colors"

    def dependencies(self, inputs, targets):
        found = []
        for side, text in (("inputs", inputs), ("targets", targets)):
            words = text.split()
            (head,) = [place for place, word in enumerate(words) if word[0].isupper()]
            found.append(Dependency("it -> its antecedent", side, words.index("it"), head))
        return found


def texts():
    """Lines of 8 words with "it" as the seventh and its antecedent 1 to 6 words before."""
    rng = np.random.default_rng(3)
    for line in range(LINES):
        words = [str(rng.choice(["red", "blue", "green"])) for _ in range(8)]
        words[6] = "it"
        # The best fixed distance is the same for lines of even and of odd number.
        words[5 if line % 4 < 2 else rng.integers(0, 5)] = "Box"
        yield " ".join(words)


class Planted:
    """A model whose head 1 of layer 1 finds antecedents, except in every fifth line; its tokens are halves of words."""

    attention_layers = {"encoder": 2, "decoder": 2, "cross": 1}

    def attention(self, lines, outputs, kind, layer):
        found = []
        for number, text in enumerate(outputs if kind == "decoder" else lines):
            tokens = [half for word in text.split() for half in (f" {word[:1]}", word[1:])]
            size = len(tokens) + 1
            weights = np.random.default_rng([number, layer]).random((2, size, size))
            if kind == "decoder":
                weights = np.tril(weights)
            antecedent = 2 * [word[0].isupper() for word in text.split()].index(True)
            # A decoder has read a token one place after it. In every fifth line another word is found.
            key = (antecedent if number % 5 else (antecedent + 2) % 12) + (kind == "decoder")
            if layer == 1 and kind != "cross":
                weights[1, 12:16] = 0.0
                weights[1, 12:16, key] = 1.0
                weights[1, 12:16, key + 1] = 0.5
                weights[1, 12, 12] = 2.0  # more on itself, which does not count
            found.append((weights / weights.sum(-1, keepdims=True), [*tokens, ""], [*tokens, ""]))
        return found


def test_a_planted_head_is_found_and_scored_on_the_other_half():
    lines = list(texts())
    pairs = labelled_pairs(Colors(), lines, lines, LINES)
    content = measure_heads(Planted(), pairs)
    assert content["lines"] == LINES
    inputs, targets = content["relations"]
    assert [each["relation"] for each in (inputs, targets)] == [
        "it -> its antecedent (inputs)",
        "it -> its antecedent (targets)",
    ]
    scored = [line for line in range(LINES) if line % 2]
    by_distance = sum(lines[line].split()[5] == "Box" for line in scored)
    for each, kind in ((inputs, "encoder"), (targets, "decoder")):
        assert each["head"] == {"kind": kind, "layer": 1, "head": 1}
        assert each["cases"] == len(scored)
        assert each["accuracy"] == sum(line % 5 != 0 for line in scored) / len(scored)
        assert (each["offset"], each["baseline"]) == (-1, pytest.approx(by_distance / len(scored), abs=1e-4))
        for name, share in (("interval", each["accuracy"]), ("baseline_interval", each["baseline"])):
            wilson = binomtest(round(share * len(scored)), len(scored)).proportion_ci(method="wilson")
            assert each[name] == pytest.approx(list(wilson), abs=1e-4)


def test_cases_of_a_line_that_are_right_together_count_as_about_one():
    class Twice(Colors):
        def dependencies(self, inputs, targets):
            return [new for each in super().dependencies(inputs, targets) for new in (each, each._replace(word=7))]

    lines = list(texts())
    inputs, _ = measure_heads(Planted(), labelled_pairs(Twice(), lines, lines, LINES))["relations"]
    scored = [line for line in range(LINES) if line % 2]
    assert inputs["cases"] == 2 * len(scored)
    wilson = binomtest(sum(line % 5 != 0 for line in scored), len(scored)).proportion_ci(method="wilson")
    assert inputs["interval"] == pytest.approx(list(wilson), abs=5e-3)


def test_layers_have_the_measures_of_their_maps():
    lines = list(texts())[:7]
    content = measure_heads(Planted(), labelled_pairs(Colors(), lines, lines, 99))
    assert content["relations"] == []  # of few cases nothing is said
    assert [(each["kind"], each["layer"]) for each in content["layers"]] == [
        ("encoder", 0),
        ("encoder", 1),
        ("decoder", 0),
        ("decoder", 1),
        ("cross", 0),
    ]
    for each in content["layers"]:
        found = Planted().attention(lines, lines, each["kind"], each["layer"])
        maps = [make_map(each["kind"], each["layer"], *of_line) for of_line in found]
        expected = head_statistics(maps)
        for name, values in each["heads"].items():
            assert values == pytest.approx(expected.heads[name], abs=1e-4)


def test_the_command_measures_once_and_answers_from_then_on(command, tmp_path):
    import shutil

    run = tmp_path / "run"
    shutil.copytree(TIED / "run", run)
    flags = f"--output_dir={run}", f"--data_dir={TIED / 'data'}", "--heads=30"
    first = command("eval", *flags)
    assert first.returncode == 0, first.stderr
    folder = run / "scores" / "heads.dev.average-300"
    assert first.stderr.endswith(f"wrote {folder}\n")
    assert (folder / "heads.md").read_text(encoding="utf-8") == first.stdout
    again = command("eval", *flags)
    assert (again.stdout, again.stderr) == (first.stdout, f"answered from {folder}\n")
    content = json.loads(command("eval", *flags, "--json").stdout)[0]
    assert content == json.loads((folder / "heads.json").read_text(encoding="utf-8"))
    translator = t2t.Translator.from_run_dir(run)
    sides = [
        (TIED / "data" / f"text_pairs-dev.{side}.txt").read_text(encoding="utf-8").splitlines()
        for side in ("inputs", "targets")
    ]
    for each in content["layers"]:
        pairs = zip(sides[0][:30], sides[1][:30])
        maps = [attention_map(translator, *pair, each["kind"], each["layer"]) for pair in pairs]
        for name, values in head_statistics(maps).heads.items():
            assert each["heads"][name] == pytest.approx(values, abs=2e-4)
    layers = sum(translator.attention_layers.values())
    assert first.stdout.count("| layer 0, head 0") >= len(translator.attention_layers)
    assert len(content["layers"]) == layers
    # Another number of lines is another question; so is an answer of another version, or a damaged one.
    assert "wrote" in command("eval", *flags[:2], "--heads=10").stderr
    stored = json.loads((folder / "heads.json").read_text(encoding="utf-8"))
    stored["measured_on"]["version"] = "0.0.1"
    (folder / "heads.json").write_text(json.dumps(stored), encoding="utf-8")
    assert "wrote" in command("eval", *flags[:2], "--heads=10").stderr
    for damaged in ("{", "[]", json.dumps(stored | {"format": 2}), json.dumps(stored | {"layers": [{}]})):
        (folder / "heads.json").write_text(damaged, encoding="utf-8")
        assert read_heads(folder) is None
    refused = command("eval", *flags, "--tune=alpha")
    assert refused.returncode == 2
    assert "--heads and --tune cannot be combined" in refused.stderr
