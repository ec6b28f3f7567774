"""t2t-lite-reproduce --figure: the paper's figures of attention, from a stored run."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from support.attention_svg import groups_of, opacity

import t2t_lite as t2t
from t2t_lite.visualization.attention_map import attention_map

TIED = Path(__file__).resolve().parents[1] / "frozen/0.2/tied/run"
LINE = "The old man gave a red apple to his clever daughter."


@pytest.fixture(scope="module")
def words():
    """The attention of the sentence in words, of the layer that corresponds to the paper's."""
    translator = t2t.Translator.from_run_dir(TIED)
    layers = translator.attention_layers["encoder"]
    return attention_map(
        translator, LINE, translator.translate(LINE), "encoder", max(0, round(layers * 5 / 6) - 1)
    ).in_words()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "flags", "word", "heads"),
    [
        (3, ["--word=gave"], "gave", None),
        pytest.param(3, [], None, None, marks=pytest.mark.slow),
        (4, [], "his", None),
        pytest.param(4, ["--word=apple", "--heads=1,0"], "apple", [1, 0], marks=pytest.mark.slow),
        (5, ["--heads=0,1"], None, [0, 1]),
    ],
)
def test_figures_show_what_they_say(tmp_path, command, words, number, flags, word, heads):
    flags = f"--run_dir={TIED}", f"--output_dir={tmp_path}", f"--sentence={LINE}", *flags
    result = command("reproduce", f"--figure={number}", *flags)
    assert result.returncode == 0, result.stderr
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        f"figure{number}{end}" for end in (".html", ".md", ".png", ".svg")
    ]
    caption = (tmp_path / f"figure{number}.md").read_text(encoding="utf-8")
    assert caption.strip().split("\n")[-1] in result.stdout
    groups = {name: paths for name, paths in groups_of(tmp_path / f"figure{number}.svg").items() if name[0] != "b"}
    drawn = {}
    for name, paths in groups.items():
        layer, head, query = map(int, re.fullmatch(r"encoder-layer(\d+)-head(\d+)-query(\d+)", name).groups())
        assert layer == words.layer
        printed = [weight for weight in words.weights[head, query] if weight >= 5e-7]
        np.testing.assert_allclose([opacity(style, "stroke") for _, style in paths][: len(printed)], printed, atol=1e-6)
        drawn.setdefault(head, set()).add(query)
    everything = set(range(len(words.queries)))
    chosen = heads or sorted(drawn)
    assert f"heads {', '.join(map(str, heads))}" in caption if heads else True
    if number == 3:
        (query,) = drawn[0]
        assert word is None or words.queries.labels[query] == word
        assert f"“{words.queries.labels[query]}”" in caption
        assert drawn == {head: {query} for head in range(words.num_heads)}
    elif number == 4:
        assert f"“{word}” attends to" in caption
        first = int(re.search(r"First head (\d)", caption).group(1))
        query = words.queries.labels.index(word)
        assert drawn == {head: everything if head == first else {query} for head in chosen}
    else:
        assert drawn == dict.fromkeys(chosen, everything)
        assert "entropy" in caption
        assert "uniform" in caption
    html = (tmp_path / f"figure{number}.html").read_text(encoding="utf-8")
    data = json.loads(
        re.search(r'<script type="application/json" id="[^"]*">(.*?)</script>', html, flags=re.DOTALL).group(1)
    )
    assert data["layers"] == {"encoder": [words.layer]}
    (shown,) = data["sentences"][0]["maps"]
    np.testing.assert_allclose(shown["words"]["weights"], words.weights, atol=0.51e-4)


def test_a_figure_that_cannot_be_written_is_refused_before_the_model_is_loaded(tmp_path, command):
    (tmp_path / "figure3.svg").mkdir()
    flags = f"--run_dir={TIED}", f"--output_dir={tmp_path}", f"--sentence={LINE}"
    result = command("reproduce", "--figure=3", *flags)
    assert (result.returncode, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert line.endswith(
        f"--output_dir={tmp_path}: {tmp_path / 'figure3.svg'} is a folder; remove it, or pass another folder"
    )
    assert [file.name for file in tmp_path.iterdir()] == ["figure3.svg"]
