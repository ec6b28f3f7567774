"""t2t-lite-serve: what its clients see. The model is a small one, exported for CTranslate2, so it starts at once."""

import json
import re
import shutil
import subprocess
import urllib.parse

import libretranslatepy
import pytest
from deep_translator import LibreTranslator
from support.server import SENTENCES, Server

import t2t_lite as t2t


@pytest.fixture(scope="module")
def server(served_exports):
    with Server(f"--export_dir={served_exports / 'new'}", "--languages=en-de", "--read_seconds=3") as running:
        yield running


def test_texts_are_translated_as_json_form_and_query(server, expected):
    wanted = expected(SENTENCES[0])
    fields = {"q": SENTENCES[0], "source": "en", "target": "de"}
    for sent in ({"content": fields}, {"form": fields}, {"form": {}, "query": f"?{urllib.parse.urlencode(fields)}"}):
        assert server.post("/translate", **sent).content == {"translatedText": wanted}
    assert server.translate(SENTENCES) == expected(SENTENCES)
    for odd in ({"api_key": None, "format": None}, {"source": "", "alternatives": ""}, {"unknown": 1}):
        assert server.post("/translate", fields | odd).content["translatedText"] == wanted
    raw = f"q=ä {SENTENCES[0]}&target=de".encode()
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    encoded = {"q": f"ä {SENTENCES[0]}", "target": "de"}
    assert server.post("/translate", raw, **form).content == server.post("/translate", encoded).content
    parts = f'--b\r\nContent-Disposition: form-data; name="q"\r\n\r\n{SENTENCES[0]}\r\n--b\r\n'
    parts += 'Content-Disposition: form-data; name="target"\r\n\r\nde\r\n--b--\r\n'
    form = {"Content-Type": "multipart/form-data; boundary=b"}
    assert server.post("/translate", parts.encode(), **form).content["translatedText"] == wanted
    slow = {"Content-Type": "multipart/form-data; boundary=b; charset=punycode"}
    assert server.post("/translate", parts.encode(), **slow).status == 400
    for marked in (json.dumps(fields).encode(), json.dumps(fields | {"q": f"\ufeff{SENTENCES[0]}"}).encode()):
        found = server.post("/translate", b"\xef\xbb\xbf" + marked).content["translatedText"]
        assert found.lstrip("\ufeff") == wanted
    marked = {"inputs": [f"\ufeff{SENTENCES[0]}"], "prefixes": ["\ufeff"]}
    assert server.post("/v1/translate", marked).content["results"][0]["hypotheses"] == [{"text": wanted}]
    several = server.post("/translate", form={"q": SENTENCES, "source": "en", "target": "de"})
    assert several.content == {"translatedText": expected(SENTENCES)}


def test_paragraphs_keep_their_blanks_and_line_breaks(server, expected):
    first, second, third = expected(SENTENCES)
    text = "  {}  {}\n\n\t{}\n"
    assert server.translate(text.format(*SENTENCES)) == text.format(first, second, third)
    assert server.translate("") == "" and server.translate(" \n") == " \n"
    assert server.translate([]) == []


def test_html_keeps_its_tags(server, expected):
    first, second, _ = expected(SENTENCES)
    markup = f'<p id="a">{SENTENCES[0]} <code>x = 1</code></p><!-- c --><ul><li>{SENTENCES[1]}</li></ul>'
    found = server.translate(markup, format="html")
    assert found == f'<p id="a">{first} <code>x = 1</code></p><!-- c --><ul><li>{second}</li></ul>'
    # A line break in a sentence is white space, and does not end it.
    lines = f"<p>\r\n  {SENTENCES[0].replace(' ', chr(10) + chr(9))}\n\t{SENTENCES[1]}\n</p>"
    assert server.translate(lines, format="html") == f"<p>\r\n  {first} {second}\n</p>"
    copied = "<p>\n  12\n\t%&#10;3</p>"
    assert server.translate(copied, format="html") == copied


# Texts without a letter of any script.
LETTERLESS = ["12", "3.5%", "2026-11-29", "***", "|", "(", ".", "\u2764\ufe0f", "😀 👨\u200d👩", "٣٤"]


def test_texts_without_letters_come_back_as_they_came(server, expected):
    first, second, third = expected(SENTENCES)
    assert server.translate("-" * 5000) == "-" * 5000
    assert [server.translate(text) for text in LETTERLESS] == LETTERLESS == server.translate(LETTERLESS)
    text = f"{SENTENCES[0]} 😀\n12 | ***\n1. {SENTENCES[1]}"
    assert server.translate(text) == f"{first} 😀\n12 | ***\n1. {second}"
    markup = f"<p><b>{SENTENCES[0]}</b>. <i>3&nbsp;% &#40;</i>{SENTENCES[1]}<br>&#128512;</p>"
    assert server.translate(markup, format="html") == markup.replace(SENTENCES[0], first).replace(SENTENCES[1], second)
    asked = {"inputs": ["12 %", SENTENCES[2]], "num_hypotheses": 2, "scores": True, "alignments": True}
    copied, searched = server.post("/v1/translate", asked).content["results"]
    assert copied == {"hypotheses": [{"text": "12 %", "score": 0.0, "log_prob": 0.0, "alignment": "0-0 1-1"}]}
    assert [len(searched["hypotheses"]), searched["hypotheses"][0]["text"]] == [2, third]
    alone = server.post("/v1/translate", {"inputs": "***", "alignments": True}).content["results"]
    assert alone == [{"hypotheses": [{"text": "***", "alignment": "0-0"}]}]
    prefixed = server.post("/v1/translate", {"inputs": ["12 %"] * 2, "prefixes": ["12", "Die"]}).content["results"]
    assert prefixed[0]["hypotheses"][0]["text"] == "12 %" and prefixed[1]["hypotheses"][0]["text"].startswith("Die")
    split = server.post("/v1/translate", {"inputs": text, "split": True}).content
    assert [result["inputs"] for result in split["results"]] == [SENTENCES[0], "😀", "12 | ***", SENTENCES[1]]
    assert split["between"] == ["", " ", "\n", "\n1. ", ""]
    assert server.get("/v1/models").content["models"][0]["copies_letterless"] is True


@pytest.mark.slow
@pytest.mark.parametrize("flags", [["--languages=en-de", "--translate_letterless=new"], []])
def test_a_model_translates_texts_without_letters_if_asked_or_if_its_languages_are_unknown(
    served_exports, expected, flags
):
    with Server(f"--export_dir={served_exports / 'new'}", *flags) as own:
        texts = ["12", f"1. {SENTENCES[0]}"]
        for text in texts:
            answer = own.post("/v1/translate", {"inputs": text, "split": True}).content
            assert [result["hypotheses"][0]["text"] for result in answer["results"]] == expected([text])
        detected = own.post("/detect", {"q": SENTENCES[0]})
        if flags:
            assert detected.content[0]["language"] == "en"
        else:
            assert detected[:2] == (400, {"error": "no model of this server has languages"})
            refused = own.post("/translate", {"q": "a", "source": "en", "target": "de"})
            assert refused[0] == 400 and "start the server with" in refused[1]["error"]


def test_alternatives_are_the_next_hypotheses(server, served_exports):
    beams = t2t.Translator.from_export(served_exports / "new").n_best(SENTENCES[0])
    answer = server.post("/translate", {"q": SENTENCES[0], "source": "en", "target": "de", "alternatives": 2}).content
    assert [answer["translatedText"], *answer["alternatives"]] == list(dict.fromkeys(b.text for b in beams[:3]))
    wide = server.post("/translate", {"q": SENTENCES[:2], "source": "en", "target": "de", "alternatives": 7}).content
    assert len(wide["translatedText"]) == len(wide["alternatives"]) == 2
    assert all(len(others) > 4 for others in wide["alternatives"])


TWO = f"{SENTENCES[0]}  {SENTENCES[1]}\n\n{SENTENCES[2]}\n"


def test_v1_splits_a_text_when_asked(server, expected):
    asked = {"inputs": TWO, "split": True, "alignments": True, "scores": True}
    answer = server.post("/v1/translate", asked).content
    assert [result["inputs"] for result in answer["results"]] == SENTENCES
    best = [result["hypotheses"][0] for result in answer["results"]]
    assert [each["text"] for each in best] == expected(SENTENCES)
    assert answer["between"] == ["", "  ", "\n\n", "\n"]
    assert all(each.keys() == {"text", "score", "log_prob", "alignment"} for each in best)
    prefixed = server.post("/v1/translate", asked | {"prefixes": ["", "Die", ""]}).content["results"]
    assert prefixed[1]["hypotheses"][0]["text"].startswith("Die")
    assert server.post("/v1/translate", {"inputs": " \n", "split": True}).content["results"] == []
    for wrong, status in (({"inputs": [TWO]}, 400), ({"prefixes": ["Die"]}, 400), ({"inputs": "A.\n" * 2001}, 413)):
        assert server.post("/v1/translate", asked | wrong).status == status


@pytest.mark.slow
def test_what_is_cut_is_said(server, served_exports):
    """The greatest length of an output is a setting of the server; requests can make outputs that do not end."""
    endless = {"inputs": SENTENCES[:2], "num_hypotheses": 2, "settings": {"min_length_ratio": 9}}
    for result in server.post("/v1/translate", endless).content["results"]:
        assert [each["cut"] for each in result["hypotheses"]] == [True, True]
    complete = server.post("/v1/translate", {"inputs": SENTENCES[0]}).content["results"][0]["hypotheses"][0]
    assert "cut" not in complete and "cut" not in server.post("/translate", {"q": TWO, "target": "de"}).content
    flags = ("--languages=en-de", "--decode_hparams=extra_length=0")
    with Server(f"--export_dir={served_exports / 'new'}", *flags) as short:
        cut = short.post("/translate", {"q": f"A. {SENTENCES[0]}", "target": "de"}).content["cut"]
        assert SENTENCES[0] in cut and {*cut} <= {"A.", SENTENCES[0]}
        asked = {"q": [f"<p>A.<p>{SENTENCES[0]}", ""], "target": "de", "format": "html", "alternatives": 1}
        cut = short.post("/translate", asked).content["cut"]
        assert SENTENCES[0] in cut[0] and cut[1] == []


def test_languages_are_listed_and_detected(server):
    assert server.get("/languages").content == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": []},
    ]
    assert server.post("/detect", {"q": "Ein Mann fährt über die Straße."}).content[0]["language"] == "de"
    # Only languages that the server has, for text in others, too.
    for text in ("The dog.", "Un homme fait du vélo dans la rue.", "12", "漢字"):
        assert {each["language"] for each in server.post("/detect", {"q": text}).content} <= {"en", "de"}
    assert server.post("/detect", {"q": " \n"}).content == [{"language": "en", "confidence": 0.0}]
    for empty in ({"q": ""}, {}):
        assert server.post("/detect", empty)[:2] == (400, {"error": "Invalid request: missing q parameter"})
    auto = server.post("/translate", {"q": SENTENCES[0], "source": "auto", "target": "de"}).content
    assert auto["detectedLanguage"] == {"language": "en", "confidence": 100.0}
    settings = server.get("/frontend/settings").content
    assert settings["language"]["target"] == {"code": "de", "name": "German"} and settings["keyRequired"] is False


@pytest.mark.slow
def test_a_region_or_script_reaches_its_own_model(served_exports, expected):
    exports = ",".join(str(served_exports / name) for name in ("old", "new"))
    with Server(f"--export_dir={exports}", "--languages=en-pt,en:pt_br") as own:
        assert [each["code"] for each in own.get("/languages").content] == ["en", "pt", "pt-BR"]
        assert '"source":"en","target":"pt"' in json.dumps(own.get("/openapi.json").content, separators=(",", ":"))
        for code, name in (("pt", "old"), ("pt_BR", "new"), ("PT-br", "new"), ("pb", "new")):
            (wanted,) = expected(SENTENCES[:1], name)
            assert own.translate(SENTENCES[0], source="EN", target=code) == wanted
            asked = {"inputs": SENTENCES[0], "source": "auto", "target": code}
            assert own.post("/v1/translate", asked).content["model"] == name
        refused = own.post("/translate", {"q": "a", "source": "en", "target": "pt-PT"})
        assert refused.content == {"error": "pt-PT is not supported; supported targets are pt, pt-BR"}


def test_foreign_clients_of_python_work_unchanged(server, expected):
    ours = libretranslatepy.LibreTranslateAPI(server.url)
    assert ours.translate(SENTENCES[0], "en", "de") == expected(SENTENCES[0])
    assert {language["code"] for language in ours.languages()} == {"en", "de"}
    assert ours.detect("Ein Mann fährt über die Straße.")[0]["language"] == "de"
    deep = LibreTranslator(source="en", target="de", api_key="any", custom_url=f"{server.url}/")
    assert deep.translate(SENTENCES[1]) == expected(SENTENCES[1])
    assert deep.translate_batch(SENTENCES) == expected(SENTENCES)


NODE_PROGRAMS = [
    """const [url, query] = process.argv.slice(1);
    require("libretranslate").translate({ query, source: "en", target: "de", apiurl: url }).then(console.log);""",
    """const [url, query] = process.argv.slice(1);
    import("translate").then(({ default: translate }) => {
      Object.assign(translate, { engine: "libre", url: `${url}/translate` });
      return translate(query, { from: "en", to: "de" });
    }).then(console.log);""",
]


@pytest.mark.slow
def test_foreign_clients_of_node_work_unchanged(server, expected, tmp_path):
    if shutil.which("npm") is None:
        pytest.skip("needs Node.js with npm, which is not there")
    install = ["npm", "install", "--no-audit", "--no-fund", "--prefix", tmp_path, "libretranslate@1.0.1", "translate@3"]
    installed = subprocess.run(install, capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"npm cannot install the client: {installed.stderr.splitlines()[-1]}")
    for source in NODE_PROGRAMS:
        program = ["node", "-e", source, server.url, SENTENCES[0]]
        found = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert found.stdout == f"{expected(SENTENCES[0])}\n", found.stderr


def test_v1_gives_all_that_a_search_knows(server, served_exports):
    translator = t2t.Translator.from_export(served_exports / "new")
    asked = {"inputs": SENTENCES, "num_hypotheses": 3, "scores": True, "alignments": True, "settings": {"alpha": 1.0}}
    answer = server.post("/v1/translate", asked | {"source": "en", "target": "de"}).content
    assert answer["model"] == "new"
    for line, result, beams in zip(SENTENCES, answer["results"], translator.n_best(SENTENCES, alpha=1.0)):
        found = result["hypotheses"]
        assert [each["text"] for each in found] == [each.text for each in beams[:3]]
        assert [each["score"] for each in found] == pytest.approx([each.score for each in beams[:3]], abs=1e-5)
        assert [each["log_prob"] for each in found] == pytest.approx([each.log_prob for each in beams[:3]], abs=1e-5)
        assert [each["alignment"] for each in found] == translator.align([line] * 3, [each.text for each in beams[:3]])
    prefixed = server.post("/v1/translate", {"inputs": SENTENCES[0], "prefixes": "Die"}).content
    assert prefixed["results"][0]["hypotheses"] == [{"text": translator.translate(SENTENCES[0], prefixes="Die")}]
    sampling = {"sampling_method": "random", "sampling_keep_top_k": 1_000_000}
    sampled = server.post("/v1/translate", {"inputs": SENTENCES, "num_hypotheses": 2, "settings": sampling}).content
    assert [len(result["hypotheses"]) for result in sampled["results"]] == [2, 2, 2]
    (model,) = server.get("/v1/models").content["models"]
    assert model["name"] == "new" and model["engine"] == "ctranslate2" and model["checkpoint"] == "average-300"
    assert model["settings"]["beam_size"] == translator.decode_hparams.beam_size


@pytest.mark.parametrize(
    ("path", "content", "status", "message"),
    [
        ("/translate", b"{q:", 400, "Invalid JSON"),
        ("/translate", [], 400, "should be an object"),
        ("/translate", {"q": 1, "target": "de"}, 400, "should be a valid string"),
        ("/translate", {"q": "a"}, 400, "missing target"),
        ("/translate", {"q": "a", "target": "xx"}, 400, "xx is not supported; supported targets are de"),
        ("/translate", {"q": "a", "source": "fr", "target": "de"}, 400, "fr to de is not supported"),
        ("/translate", {"q": "a", "target": "de_AT"}, 400, "de_AT is not supported; supported targets are"),
        ("/v1/translate", {"inputs": "a", "source": "en-GB", "target": "de"}, 400, "en-GB to de is not supported"),
        ("/translate", {"q": "a", "target": "de", "alternatives": 50}, 400, "exceeds this server's limit of 16"),
        ("/translate", {"q": "a", "target": "de", "format": "pdf"}, 400, "'text' or 'html'"),
        ("/translate", {"q": ["a"] * 2001, "target": "de"}, 413, "at most 2,000"),
        ("/translate", {"q": "a\n" * 2001, "target": "de"}, 413, "at most 2,000"),
        ("/translate", {"q": "dog " * 600, "target": "de"}, 413, "tokens; at most"),
        ("/v1/translate", {"inputs": 1}, 400, "valid string"),
        ("/v1/translate", {"inputs": "a", "unknown": 1}, 400, "unknown: Extra inputs"),
        ("/v1/translate", {"inputs": "a\nb"}, 400, "line breaks"),
        ("/v1/translate", {"inputs": "a", "settings": {"beam_size": 100}}, 400, "exceeds this server's limit of 16"),
        ("/v1/translate", {"inputs": "a", "settings": {"beam_size": "x"}}, 400, "whole number"),
        ("/v1/translate", {"inputs": "a", "settings": {"beam_size": None}}, 400, "whole number"),
        ("/v1/translate", {"inputs": "a", "settings": {"batch_tokens": 1}}, 400, "cannot set batch_tokens"),
        ("/v1/translate", {"inputs": "a", "settings": {"alpha": 10000}}, 400, "alpha=10000 exceeds this server's"),
        ("/v1/translate", {"inputs": "a", "prefixes": "dog " * 600}, 413, "the prefix of sentence 1"),
        ("/translate", {"q": "<b>a" * 2001, "target": "de", "format": "html"}, 413, "at most 2,000"),
        ("/v1/translate", {"inputs": "a", "num_hypotheses": 3, "settings": {"beam_size": 2}}, 400, "exceeds beam_size"),
        ("/v1/translate", {"inputs": ["a"], "prefixes": ["b", "c"]}, 400, "send one entry per input"),
        ("/v1/translate", {"inputs": "a", "attention": {}}, 400, "TensorFlow engine"),
        (
            "/v1/translate",
            {"inputs": "a", "terms": [["a", "b"]]},
            400,
            "does not support phrases or terms",
        ),
        ("/v1/translate", {"inputs": "a", "terms": [["a", ""]]}, 400, "a term and its translation must not be blank"),
        ("/v1/translate", {"inputs": "a", "terms": [["a"]]}, 400, "terms"),
        ("/v1/translate", {"inputs": "a", "terms": [["a", "b"]] * 101}, 400, "at most 100"),
        ("/v1/translate", {"inputs": "a", "model": "\ud800"}, 400, "there is no model ?"),
        ("/v1/parse", {"inputs": "a"}, 400, "this server has no parser"),
        ("/nothing", {}, 404, "Not Found"),
    ],
)
def test_wrong_requests_get_one_line(server, path, content, status, message):
    answer = server.post(path, content)
    assert answer.status == status and message in answer.content["error"]
    assert "\n" not in answer.content["error"] and not re.search("/(tmp|root|home|work|usr)|Traceback", str(answer))


def test_figures_count_answers_and_batches(server):
    before = server.get("/metrics").content
    server.translate(SENTENCES)
    after = server.get("/metrics").content

    def figure(text, name):
        return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)[1])

    answered = 't2t_lite_requests_total{path="/translate",status="200"}'
    assert figure(after, answered) == figure(before, answered) + 1
    searched = 't2t_lite_sentences_total{model="new"}'
    assert figure(after, searched) == figure(before, searched) + 3
    assert figure(after, "t2t_lite_waiting_sentences") == 0
    assert figure(after, "process_resident_memory_bytes") > 1e6


def test_the_page_of_the_api_needs_no_other_host_and_its_examples_run(server):
    page = server.get("/docs").content
    assert "http" not in re.sub(r'"(/[^"]*)"', "", page.split("<body>")[1]), page
    for address in re.findall(r'(?:src|href)="([^"]+)"', page):
        assert server.get(address).status == 200
    description = server.get("/openapi.json").content
    examples = 0
    for path, methods in description["paths"].items():
        for method, about in methods.items():
            if method == "get":
                assert server.get(path).status == 200
                continue
            content = about["requestBody"]["content"]["application/json"]
            example = content.get("example")
            if example is None:
                name = content["schema"]["$ref"].split("/")[-1]
                (example,) = description["components"]["schemas"][name]["examples"]
            status = server.post(path, example).status
            assert status == 200 or (path in ("/v1/parse", "/v1/attention") and status == 400), (path, example)
            examples += 1
    assert examples == 5


@pytest.mark.slow
def test_keys_are_asked_for_and_pages_of_named_origins_may_call(served_exports, tmp_path, expected):
    keys = tmp_path / "keys.txt"
    keys.write_text("\ufefffirst key\n# clients\n\nsecond\nschlüssel\n\ufeffключ\n", encoding="utf-8")
    asked = {"q": SENTENCES[0], "source": "en", "target": "de"}
    origin = "https://example.org"
    flags = (f"--api_keys={keys}", f"--cors_origins={origin}", "--log_texts")
    with Server(f"--export_dir={served_exports / 'new'}", "--languages=en-de", *flags) as own:
        assert own.post("/translate", asked).status == 401
        assert own.post("/v1/translate", {"inputs": "a"}).status == 401
        wrong = own.post("/translate", asked | {"api_key": "first"})
        assert wrong.status == 403 and wrong.content == {"error": "Invalid API key"}
        assert own.translate(SENTENCES[0], api_key="first key") == expected(SENTENCES[0])
        for key in ("first key", "second", "schlüssel", "ключ"):
            assert own.translate(SENTENCES[0], api_key=key) == expected(SENTENCES[0])
            token = key.encode().decode("latin-1")  # the bytes of UTF-8, as curl sends them
            for sent in {token, token if key == "ключ" else key}:  # Latin-1, as Python and browsers send it
                assert own.post("/v1/translate", {"inputs": "a"}, Authorization=f"Bearer {sent}").status == 200
        assert own.post("/v1/translate", {"inputs": "a"}, Authorization="Bearer sch").status == 403
        assert own.get("/languages").status == own.get("/health").status == 200
        allowed = own.post("/translate", asked | {"api_key": "second"}, Origin=origin)
        assert allowed.headers["access-control-allow-origin"] == origin
        other = own.post("/translate", asked | {"api_key": "second"}, Origin="https://other.org")
        assert "access-control-allow-origin" not in other.headers
        keys.write_text("third\n")
        own.process.send_signal(1)  # SIGHUP
        own.wait_until(lambda: own.post("/translate", asked | {"api_key": "third"}).status == 200)
        assert own.post("/translate", asked | {"api_key": "second"}).status == 403, "it was revoked"
        own.wait_for("read the API keys again")
        keys.write_text("# none\n")
        own.process.send_signal(1)
        own.wait_for("keeping the old API keys")
        assert own.post("/translate", asked | {"api_key": "third"}).status == 200
        own.wait_for(SENTENCES[0])
    assert not any("third" in line for line in own.lines)


def test_only_this_machine_is_served_and_pages_of_other_origins_cannot_use_a_server_without_keys(server, expected):
    assert f"http://127.0.0.1:{server.port}" in server.lines[0]
    assert "access-control-allow-origin" not in server.get("/languages", Origin="https://example.org").headers
    asked = {"q": SENTENCES[0], "source": "en", "target": "de"}
    origin = {"Origin": "https://evil.example"}
    own = {"Origin": server.url}
    for path, form in (("/translate", asked), ("/detect", {"q": "a"})):
        refused = server.post(path, form=form, **origin)
        assert refused.status == 403 and "evil.example may not use this server" in refused.content["error"]
        assert server.post(path, form=form, **own).status == 200
    assert server.post("/v1/translate", {"inputs": "a"}, **origin).status == 403
    for method in ("POST", "PUT"):  # what needs no permission, and what does
        raw = f"{method} /translate HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: null\r\nContent-Length: 0\r\n\r\n"
        assert server.raw(raw.encode()).startswith(b"HTTP/1.1 403")
    # A name that points here after a while: the page would be of the same origin.
    rebound = {"Host": f"evil.example:{server.port}", "Origin": f"http://evil.example:{server.port}"}
    for path in ("/", "/languages", "/v1/models", "/docs", "/static/page.js"):
        refused = server.get(path, **rebound)
        assert refused.status == 403 and "allowed_hosts" in refused.content["error"]
    assert server.post("/translate", asked, **rebound).status == 403
    for path in ("/health", "/ready", "/metrics"):
        assert server.get(path, Host="monitored.example:9090").status == 200
    for name in ("localhost", f"translator:{server.port}", "[::1]", "10.1.2.3:80"):
        assert server.post("/translate", asked, Host=name).content == {"translatedText": expected(SENTENCES[0])}
    figures = server.get("/metrics").content
    assert re.search(r't2t_lite_refused_total\{reason="origin"\} \d\d', figures)


def test_json_is_taken_with_its_content_type_only(server):
    content = json.dumps({"q": SENTENCES[0], "target": "de", "source": "en"}).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "text/html; charset=utf-8"):
        answer = server.post("/translate", content, **{"Content-Type": kind})
        assert answer.status == 415 and "Content-Type: application/json" in answer.content["error"]
    for kind in ("application/json", "Application/JSON; charset=utf-8"):
        assert server.post("/translate", content, **{"Content-Type": kind}).status == 200
    line = b'{"inputs": "a"}'
    assert server.post("/v1/translate", line, **{"Content-Type": "text/plain"}).status in (400, 415)
    head = b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 15\r\n\r\n"
    assert not server.raw(head + line).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("flags", "message", "status"),
    [
        ("--export_dir={old},{old}", "two models are named old", 1),
        ("--export_dir=nothing", "nothing is not an export directory", 1),
        ("--export_dir={old} --languages=en-de,de-en", "has 2 pairs for 1 models", 2),
        ("--export_dir={old} --translate_letterless=new", "--translate_letterless=new: the models are old", 2),
        ("--export_dir={old} --languages=pt-BR-de", "--languages=pt-BR-de: write a colon", 2),
        ("--export_dir={old} --languages=german", "must be SOURCE-TARGET", 2),
        ("--export_dir={old} --terms=none,none", "--terms has 2 files for 1 models; pass one per model, or none", 2),
        ("--export_dir={old} --terms=/nothing", "no such file: /nothing", 1),
        ("--export_dir={old} --api_keys=/nothing", "--api_keys=/nothing cannot be read", 1),
        ("--export_dir={old} --host=203.0.113.1", "cannot listen on --host=203.0.113.1", 1),
        ("--export_dir={old} --max_lines=9 --max_waiting=3", "would never fit", 2),
        ("--export_dir={old} --request_settings=batch_tokens", "--request_settings=batch_tokens", 2),
        ("--export_dir={old} --decode_hparams=coverage_penalty=1", "does not support coverage_penalty", 1),
        ("--export_dir={old} --engine=tensorflow", "need --output_dir", 2),
        ("--export_dir={old} --watch=5", "--watch was removed in 0.10: restart the server for a new model", 2),
        ("--export_dir={old} --allowed_hosts=a,http://b", "--allowed_hosts=http://b: pass host names without", 2),
        ("", "required", 2),
        ("--export_dir={old} --port={port}", "--port={port}: Address already in use", 1),
    ],
)
def test_wrong_flags_are_one_line_errors(server, served_exports, command, flags, message, status):
    names = {"old": served_exports / "old", "port": server.port}
    port = [] if "--port=" in flags else ["--port=0"]
    result = command("serve", *port, *flags.format(**names).split())
    assert result.returncode == status and result.stderr.count("\n") == 1, result.stderr
    assert message.format(**names) in result.stderr
