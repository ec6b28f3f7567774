"""Pictures of attention and the paper's figures: what is drawn, parsed back from the files, is what the model gives."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import t2t_lite as t2t
from t2t_lite.visualization.attention_map import attention_map
from t2t_lite.visualization.figures import MAX_SENTENCES

TIED = Path(__file__).resolve().parents[1] / "frozen/0.2/tied/run"
PARSING = Path(__file__).resolve().parents[1] / "frozen/0.2/hard_alignment/run"
LINE = "The old man gave a red apple to his clever daughter."
SVG = "http://www.w3.org/2000/svg"


@pytest.fixture(scope="module")
def translator():
    return t2t.Translator.from_run_dir(TIED)


def groups_of(file):
    """Returns {id: [(points, style)]} of the groups of an SVG file that have weights."""
    found = {}
    for group in ElementTree.parse(file).getroot().iter(f"{{{SVG}}}g"):
        if re.search(r"-layer\d+-head\d+", group.get("id", "")):
            paths = [(path.get("d"), path.get("style")) for path in group.findall(f".//{{{SVG}}}path")]
            found[group.get("id")] = [
                (np.array(re.findall(r"-?[\d.]+", points), float).reshape(-1, 2), style) for points, style in paths
            ]
    return found


def opacity(style, of):
    """Returns an opacity of a style; matplotlib leaves out 1."""
    match = re.search(rf"{of}-opacity: ([\d.]+)|[^-]opacity: ([\d.]+)", style)
    return float(next(filter(None, match.groups()))) if match else 1.0


def data_of(html):
    """The data of an HTML file, as text."""
    (content,) = re.findall(r'<script type="application/json" id="[^"]*">(.*?)</script>', html, flags=re.DOTALL)
    return content


def weights_of_lines(file, num_queries, num_keys):
    """Returns [heads, queries, keys], found by where lines begin and end."""
    lines = [
        (name, points, opacity(style, "stroke")) for name, all_ in groups_of(file).items() for points, style in all_
    ]
    # The rows of both columns: the places of what has lines, which are all tokens.
    starts, ends = (sorted({round(points[place][1], 2) for _, points, _ in lines}) for place in (0, 1))
    assert (len(starts), len(ends)) == (num_queries, num_keys)
    heads = 1 + max(int(re.search(r"head(\d+)", name).group(1)) for name, _, _ in lines)
    weights = np.zeros([heads, num_queries, num_keys])
    for name, points, weight in lines:
        head, query = (int(re.search(rf"{what}(\d+)", name).group(1)) for what in ("head", "query"))
        assert starts.index(round(points[0][1], 2)) == query
        weights[head, query, ends.index(round(points[1][1], 2))] = weight
    return weights


def check(drawn, weights, digits):
    """Checks that weights are equal to the printed digits, and that the rows sum to 1."""
    assert drawn.shape == weights.shape
    np.testing.assert_allclose(drawn, weights, atol=0.51 * 10.0**-digits, rtol=0)
    np.testing.assert_allclose(drawn.sum(-1), 1.0, atol=0.5 * 10.0**-digits * drawn.shape[-1])
    assert 0.05 < drawn.max() <= 1.0
    assert drawn.std() > 0.01  # not uniform


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_lines_in_svg_have_the_weights_of_the_model(translator, tmp_path, kind):
    output = translator.translate(LINE)
    t2t.draw_attention(translator, LINE, kinds=[kind], layers=[0], file=tmp_path / "a.svg")
    weights, queries, keys = translator.attention(LINE, output, kind, 0)
    check(weights_of_lines(tmp_path / "a.svg", len(queries), len(keys)), weights, 6)
    texts = [text.text for text in ElementTree.parse(tmp_path / "a.svg").getroot().iter(f"{{{SVG}}}text")]
    assert "<end>" in texts
    assert ("<start>" in texts) == (kind == "decoder")
    assert {"head 0", "head 1"} <= set(texts)


@pytest.mark.slow
def test_html_has_all_weights_and_no_reference_to_another_file(translator, tmp_path, command):
    lines = [LINE, "</script><img src=x onerror=alert(1)> The cat sleeps."]
    (tmp_path / "in.txt").write_text("\n".join([*lines, "", ""]), encoding="utf-8")
    file = tmp_path / "a.html"
    files = (f"--decode_from_file={tmp_path / 'in.txt'}", f"--decode_to_file={tmp_path / 'out.txt'}")
    result = command("decoder", f"--output_dir={TIED}", *files, f"--draw_attention={file}")
    assert result.returncode == 0, result.stderr
    assert f"drew the attention of 2 lines in {file}\n" in result.stderr
    html = file.read_text(encoding="utf-8")
    content = data_of(html)
    data = json.loads(content)
    outputs = (tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()
    assert [(each["input"], each["output"]) for each in data["sentences"]] == list(zip(lines, outputs))
    maps = {(each["kind"], each["layer"]): each for each in data["sentences"][0]["maps"]}
    assert {kind: len(layers) for kind, layers in data["layers"].items()} == translator.attention_layers
    assert len(maps) == sum(translator.attention_layers.values())
    for (kind, layer), each in maps.items():
        weights, queries, _ = translator.attention(lines[0], outputs[0], kind, layer)
        check(np.array(each["tokens"]["weights"]), weights, 4)
        assert len(each["tokens"]["queries"]) == len(queries)
    assert "<img" not in html
    assert re.findall(r"(?:src|href)\s*=|url\(|@import|https?://(?!www.w3.org)", html.replace(content, "")) == []


def test_given_translations_are_drawn(tmp_path, command, translator):
    pair = "The cat sleeps.", "Die Katze schläft."
    (tmp_path / "pairs.txt").write_text("\t".join(pair) + "\n", encoding="utf-8")
    file = tmp_path / "a.svg"
    flags = f"--output_dir={TIED}", f"--score_file={tmp_path / 'pairs.txt'}", f"--draw_attention={file}"
    result = command("decoder", *flags, "--kind=cross", "--layers=0")
    assert result.returncode == 0, result.stderr
    weights, queries, keys = translator.attention(*pair, "cross", 0)
    check(weights_of_lines(file, len(queries), len(keys)), weights, 6)


@pytest.mark.slow
def test_one_query_of_a_parser(tmp_path, command):
    file = tmp_path / "a.svg"
    flags = ("--query=dog", "--words", "--kind=encoder", "--layers=0")
    drawn = (f"--output_dir={PARSING}", f"--draw_attention={file}")
    result = command("decoder", *drawn, *flags, stdin=b"The dog runs .\n")
    assert result.returncode == 0, result.stderr
    parser = t2t.Parser.from_run_dir(PARSING)
    weights, queries, _ = parser.attention("The dog runs .", result.stdout.strip(), "encoder", 0)
    assert [text.strip() for text in queries] == ["⁇", "dog", "⁇", ".", ""]
    groups = groups_of(file)
    lines = {name: [opacity(style, "stroke") for _, style in paths] for name, paths in groups.items() if name[0] == "e"}
    assert set(lines) == {f"encoder-layer0-head{head}-query1" for head in range(len(weights))}
    for head in range(len(weights)):
        printed = [weight for weight in weights[head, 1] if weight >= 5e-7]
        np.testing.assert_allclose(lines[f"encoder-layer0-head{head}-query1"], printed, atol=1e-6)
        boxes = [opacity(style, "fill") for _, style in groups[f"box-encoder-layer0-head{head}-query1"]]
        np.testing.assert_allclose(boxes, printed, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "status", "said"),
    [
        ("--layers=1", 2, "--layers needs --draw_attention"),
        ("--draw_attention=a.html --layers=9", 2, "--layers: there is no layer 9; choose from 0 to"),
        ("--draw_attention=a.html --heads=9", 2, "--heads: there is no head 9; choose from 0 to"),
        ("--draw_attention=a.svg --query=zebra", 1, "--query=zebra is not one of: The"),
        ("--draw_attention=a.svg --kind=memory", 2, "argument --kind: takes encoder or decoder or cross"),
        ("--draw_attention=a.gif", 1, "unknown plot format; use a file name that ends in .html, .png, .svg, .pdf"),
        ("--draw_attention=none/a.html", 1, "there is no folder none"),
        ("--draw_attention=a.html --engine=ctranslate2", 1, "CTranslate2 returns no attention weights"),
        ("--draw_attention=a.html --decode_interactive", 2, "cannot be combined"),
        ("--export_dir={new} --draw_attention=a.html", 1, "returns no attention weights of single heads"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(tmp_path, command, monkeypatch, served_exports, flags, status, said):
    monkeypatch.chdir(tmp_path)
    model = [] if "--export_dir" in flags else [f"--output_dir={TIED}"]
    flags = flags.format(new=served_exports / "new").split()
    result = command("decoder", *model, *flags, stdin=b"The cat sleeps.\n")
    assert result.returncode == status
    assert said in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr
    # Only a word can be looked up after the translation.
    assert result.stdout == "" or "--query=zebra" in flags
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("what", ["best", "lists", "scores"])
def test_a_resumed_run_draws_what_a_whole_one_draws(tmp_path, command, stopped_after, what):
    """Also if the run before it was not asked for a picture, or was one of an earlier version."""
    pairs = [("The cat sleeps.", "Die Katze."), ("", ""), (LINE, "Der Mann."), *[("The dog sleeps.", "Der Hund.")] * 30]
    lines = ["\t".join(pair) if what == "scores" else pair[0] for pair in pairs]
    (tmp_path / "in.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings = "beam_size=2,extra_length=5,return_beams=" + str(what == "lists")

    def decode(name, *flags):
        source = "score_file" if what == "scores" else "decode_from_file"
        flags += (f"--{source}={tmp_path / 'in.txt'}", f"--decode_to_file={tmp_path / name}")
        flags += (f"--decode_hparams={settings}", "--batch_lines=3", "--xla_compile=False")
        return command("decoder", f"--output_dir={TIED}", *flags)

    whole = decode("whole.txt", f"--draw_attention={tmp_path / 'whole.html'}")
    with stopped_after(2):
        assert decode("out.txt").returncode == 130
    progress = tmp_path / "out.txt.progress"
    notes = {"notes": {"pairs": [["no", "nein"]], "num_pairs": 1}}
    progress.write_text(json.dumps(json.loads(progress.read_text()) | notes))
    resumed = decode("out.txt", f"--draw_attention={tmp_path / 'out.html'}")
    assert "resuming after line 6" in resumed.stderr
    assert resumed.stderr.splitlines()[-1] == whole.stderr.splitlines()[-1].replace("whole.html", "out.html")
    assert f"drew the attention of {MAX_SENTENCES} lines" in resumed.stderr
    assert "; 12 more are left out" in resumed.stderr
    assert (tmp_path / "out.txt").read_bytes() == (tmp_path / "whole.txt").read_bytes()
    assert (tmp_path / "out.html").read_bytes() == (tmp_path / "whole.html").read_bytes()


@pytest.fixture(scope="module")
def words(translator):
    """The attention of the sentence in words, of the layer that corresponds to the paper's."""
    layer = max(0, round(translator.attention_layers["encoder"] * 5 / 6) - 1)
    return attention_map(translator, LINE, translator.translate(LINE), "encoder", layer).in_words()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "flags", "word", "heads"),
    [
        (3, ["--word=gave"], "gave", None),
        (3, [], None, None),
        (4, [], "his", None),
        (4, ["--word=apple", "--heads=1,0"], "apple", [1, 0]),
        (5, ["--heads=0,1"], None, [0, 1]),
    ],
)
def test_figures_show_what_they_say(tmp_path, command, words, number, flags, word, heads):
    flags = f"--run_dir={TIED}", f"--output_dir={tmp_path}", f"--sentence={LINE}", *flags
    result = command("reproduce", f"--figure={number}", *flags)
    assert result.returncode == 0, result.stderr
    files = sorted(file.name for file in tmp_path.iterdir())
    assert files == [f"figure{number}{end}" for end in (".html", ".md", ".png", ".svg")]
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
        assert "entropy" in caption and "uniform" in caption
    data = json.loads(data_of((tmp_path / f"figure{number}.html").read_text(encoding="utf-8")))
    assert data["layers"] == {"encoder": [words.layer]}
    (shown,) = data["sentences"][0]["maps"]
    np.testing.assert_allclose(shown["words"]["weights"], words.weights, atol=0.51e-4)


def test_a_figure_that_cannot_be_written_is_refused_before_the_model_is_loaded(tmp_path, command):
    (tmp_path / "figure3.svg").mkdir()
    flags = f"--run_dir={TIED}", f"--output_dir={tmp_path}", f"--sentence={LINE}"
    result = command("reproduce", "--figure=3", *flags)
    assert (result.returncode, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert line.endswith(f"{tmp_path}: {tmp_path / 'figure3.svg'} is a folder; remove it, or pass another folder")
    assert [file.name for file in tmp_path.iterdir()] == ["figure3.svg"]
