"""The page of t2t-lite-serve without a browser: its policy, its files; and what it asks of /v1."""

import json
import re
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
import uvicorn
from support.server import SENTENCES, Server

import t2t_lite as t2t
from t2t_lite.decoding.loading import open_model
from t2t_lite.serving.app import loaded_app
from t2t_lite.serving.models import Place
from t2t_lite.serving.options import ServingOptions
from t2t_lite.visualization.attention_map import attention_map, head_statistics

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def server(served_exports, tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys.txt"
    keys.write_text("k3y\n", encoding="utf-8")
    with Server(f"--export_dir={served_exports / 'new'}", "--languages=en-de", f"--api_keys={keys}") as running:
        yield running


def test_the_page_and_its_files_need_no_key_and_nothing_else(server):
    page = server.get("/")
    assert page.status == 200 and page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert page.headers["x-content-type-options"] == "nosniff" and page.headers["cache-control"] == "no-store"
    named = re.findall(r'(?:src|href)="([^"]+)"', page.content)
    files = [name for name in named if not name.startswith("data:")]
    static = [f"static/{name}" for name in ("attention.css", "attention.js", "page.css", "page.js", "style.css")]
    assert sorted(files) == ["docs", *static]
    for file in files:
        found = server.get(f"/{file}")
        assert found.status == 200, file
        if file.startswith("static"):
            assert found.headers["cache-control"] == "no-cache"
    assert server.get("/static/../app.py").status == server.get("/static/").status == 404
    assert page.content.count("<noscript><p>This page needs JavaScript.") == 1
    scripts = re.findall(r"<script(?![^>]*(?:src=|application/json))", page.content)
    assert scripts == [] and "onclick" not in page.content and " style=" not in page.content


@pytest.fixture(scope="module")
def answers(page_exports):
    """A function that asks an application with both Keras models, in this process: (status, answer)."""
    places = [Place(open_model(export_dir=page_exports / name)) for name in ("tied", "trees")]
    app = loaded_app(places, ServingOptions(max_beam_size=2))
    running = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=running.run)
    thread.start()
    while not running.started:
        assert thread.is_alive()
        time.sleep(0.01)
    url = f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}"

    def ask(path, content=None):
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request) as answer:
                content = answer.read().decode()
                return answer.status, json.loads(content) if content[0] in "[{" else content
        except urllib.error.HTTPError as refused:
            return refused.code, json.loads(refused.read())

    yield ask
    running.should_exit = True
    thread.join()


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_attention_of_a_pair(answers, page_exports, kind):
    translator = t2t.Translator.from_export(page_exports / "tied")
    pair = SENTENCES[0], "Der Hund sieht den Baum."
    asked = {"inputs": pair[0], "targets": pair[1], "model": "tied", "kind": kind, "layer": 0}
    status, answer = answers("/v1/attention", asked)
    assert status == 200, answer
    each = attention_map(translator, *pair, kind, 0)
    for view, expected_map in (("tokens", each), ("words", each.in_words())):
        np.testing.assert_allclose(answer["map"][view]["weights"], expected_map.weights, atol=1e-6)
        assert answer["map"][view]["queries"] == expected_map.queries.labels
        assert answer["map"][view]["keys"] == expected_map.keys.labels
    assert answer["statistics"]["uniform"] == pytest.approx(head_statistics([each]).uniform, abs=1e-4)
    assert (answer["map"]["kind"], answer["map"]["layer"]) == (kind, 0)


def test_attention_of_a_tree_and_what_a_model_says_of_itself(answers, page_exports):
    asked = {"inputs": ["The dog runs."], "model": "trees", "tokenizer": "treebank", "drawing": True}
    (result,) = answers("/v1/parse", asked)[1]["results"]
    assert result["inputs"] == "The dog runs ."
    assert result["drawing"].startswith("<svg")
    tree = result["hypotheses"][0]["text"]
    (several,) = answers("/v1/parse", asked | {"num_hypotheses": 4})[1]["results"]
    texts = [each["text"] for each in several["hypotheses"]]
    assert len(set(texts)) == len(texts) > 1 and texts[0] == tree
    too_many = asked | {"inputs": ["The dog runs."] * 21}
    assert answers("/v1/parse", too_many) == (400, {"error": "drawing: at most 20 lines can be drawn"})
    asked = {"inputs": result["inputs"], "targets": tree, "model": "trees", "kind": "encoder"}
    assert answers("/v1/attention", asked)[1]["map"]["tokens"]["queries"][-1] == "<end>"
    refused = answers("/v1/attention", asked | {"inputs": "The dog"})
    assert refused == (400, {"error": "the tree: the tree has 4 words, but the line has 2"})
    # Brackets without blanks are symbols all the same.
    deep = "(A" * 200 + "(XX a)" + ")" * 200
    too_long = {"error": "a request with attention weights may have at most 256 tokens"}
    assert answers("/v1/attention", asked | {"inputs": "a", "targets": deep}) == (413, too_long)
    status, answer = answers("/v1/attention", asked | {"inputs": "a", "targets": "(A" * 50_000 + "a" + ")" * 50_000})
    assert (status, "characters; at most" in answer["error"]) == (413, True)
    tied, trees = answers("/v1/models")[1]["models"]
    model = t2t.Translator.from_export(page_exports / "tied")
    heads = len(model.attention("a", "b", "encoder", 0)[0])
    layers = model.attention_layers.items()
    assert tied["attention"] == {kind: {"layers": number, "heads": heads} for kind, number in layers}
    assert (tied["alignments"], trees["alignments"]) == (True, False)


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        ({"inputs": "a", "targets": "b", "layer": 9}, 400, "layers: there is no layer 9"),
        ({"inputs": "a", "targets": "b", "kind": "memory"}, 400, "'encoder', 'decoder' or 'cross'"),
        ({"inputs": "a\nb", "targets": "b"}, 400, "one line each"),
        ({"inputs": " ", "targets": "b"}, 400, "must not be blank"),
        ({"inputs": "a", "targets": "b", "model": "none"}, 400, "there is no model none"),
        ({"inputs": "dog " * 120, "targets": "Hund " * 20}, 413, "may have at most 256 tokens"),
    ],
)
def test_mistakes_in_requests_for_attention(answers, content, status, message):
    found, answer = answers("/v1/attention", {"model": "tied"} | content)
    assert found == status and message in answer["error"]


# Other values of the settings that requests may change.
CHANGED = {"beam_size": 1, "alpha": 1.5, "min_length": 2, "min_length_ratio": 0.5, "coverage_penalty": 0.2}
CHANGED |= {"no_repeat_ngram_size": 3, "diverse_beam_groups": 2, "diverse_beam_strength": 0.7, "random_seed": 2}
CHANGED |= {"sampling_method": "random", "sampling_temp": 0.9, "sampling_keep_top_k": 5, "sampling_keep_top_p": 0.9}
CHANGED |= {"allow_unk": True, "only_trees": True}


def test_the_page_has_fields_for_the_settings_that_a_model_takes(server, answers):
    """The others are refused, or have no effect without those that are refused."""
    ineffective = {"tied": set(), "trees": set(), "new": {"diverse_beam_strength"}}
    titles = []

    def ask_ctranslate2(path, content):
        return server.post(path, content, Authorization="Bearer k3y")[:2]

    for page, ask in ((server.get("/").content, ask_ctranslate2), (answers("/")[1], answers)):
        data = json.loads(re.search('id="page-data">(.*)</script>', page)[1])
        for model in data["models"]:
            titles.append(model["title"])
            assert f'<option value="{model["name"]}">{model["title"]}</option>' in page
            path = "/v1/parse" if model["kind"] == "parsing" else "/v1/translate"
            for name, value in CHANGED.items():
                settings = {name: value} | ({"beam_size": 2} if name == "diverse_beam_groups" else {})
                status, answer = ask(path, {"inputs": "The dog .", "model": model["name"], "settings": settings})
                works = name in model["settings"] or name in ineffective[model["name"]]
                assert (status == 200) == works, (model["name"], answer)
    assert titles == ["English to German", "tied", "trees, parsing"]
