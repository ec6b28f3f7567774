"""The blocks of the three tutorials, run one after the other in one folder as a reader runs them."""

import contextlib
import itertools
import json
import re
import signal
import socket
import subprocess
import time

import nltk
import pytest
from support.commands import user_environment
from support.pages import blocks_of

# The start of the block that installs the package, which the tests need installed.
INSTALLATION = "python3 -m venv .venv && source .venv/bin/activate\npip install -e"


def outputs_of(page, folder, environment, changes):
    """Runs the blocks of a page as a reader does, with texts in them replaced, each of which must occur.

    A server runs in the background, as in a second terminal, until the next one is started, or to the end.

    Returns:
      A function of a text that returns what the blocks with that text wrote; a server, until it was ready.
    """
    found, log, servers = [], folder / "server.log", []
    options = {"cwd": folder, "env": user_environment(**environment), "stderr": subprocess.STDOUT, "text": True}
    whole = "\n".join(block.content for block in blocks_of(page))
    assert [text for text in [*changes, INSTALLATION] if text not in whole] == []

    def end_server():
        if servers:
            server = servers.pop()
            assert server.poll() is None, log.read_text(encoding="utf-8")
            server.send_signal(signal.SIGINT)  # as Ctrl-C does
            server.wait()

    def serve(content):
        end_server()
        with open(log, "w", encoding="utf-8") as file:  # `exec`: the process is the server, not a shell
            servers.append(subprocess.Popen(["bash", "-c", f"exec {content}"], stdout=file, **options))
        while "ready after" not in (written := log.read_text(encoding="utf-8")):
            assert servers[0].poll() is None, written
            time.sleep(0.05)
        return written

    def run(content):
        done = subprocess.run(["bash", "-e", "-c", content], stdout=subprocess.PIPE, check=False, **options)
        assert done.returncode == 0, f"{content}\n{done.stdout}"
        return done.stdout

    with contextlib.ExitStack() as stack:
        stack.callback(end_server)
        for kind, block in blocks_of(page):
            content = block
            for before, after in changes.items():
                content = content.replace(before, after)
            if kind == "python":  # the first line names the file that the reader saves it as
                (folder / re.match(r"# (\w+\.py)\n", content)[1]).write_text(content, encoding="utf-8")
            elif kind == "sh" and not content.startswith(INSTALLATION):
                found.append((block, serve(content) if "t2t-lite-serve" in content else run(content)))
    return lambda text: [output for block, output in found if text in block]


GREEDY = "--decode_hparams=beam_size=1,extra_length=1"
# Changes to commands that take long: an untrained model is served.
SHORT_TUTORIAL = {
    "--train_steps=1200 ": "--train_steps=2 ",
    "--save_checkpoints_steps=200 ": "--save_checkpoints_steps=1 ",
    "--train_steps=600 ": "--train_steps=3 ",
    "--save_checkpoints_steps=100 ": "--save_checkpoints_steps=1 ",
    "--eval_decode --eval_lines=200 ": f"--eval_decode --eval_lines=5 {GREEDY} ",
    "--output_dir=run --split=dev": f"--output_dir=run --split=dev {GREEDY}",
    "--output_dir=run --split=test": f"--output_dir=run --split=test {GREEDY}",
    "--tune=beam_size=2/4,alpha=0.2/0.6/1.0": f"--tune=beam_size=1/2,alpha=0.6 {GREEDY}",
    "--output_dir=run,run2 --split=test": f"--output_dir=run,run2 --split=test {GREEDY}",
}
PORT = "8000"


@pytest.mark.heavy
def test_the_tutorial_leads_from_two_files_to_a_server_whose_model_is_updated(tmp_path, commands_environment):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    changes = SHORT_TUTORIAL | {f"--port={PORT}": f"--port={port}", f"127.0.0.1:{PORT}": f"127.0.0.1:{port}"}
    of = outputs_of("docs/tutorial.md", tmp_path, commands_environment, changes)
    (answer,) = of("-d 'q=")
    assert isinstance(json.loads(answer.splitlines()[0])["translatedText"], str)
    (models,) = of("/v1/models")
    assert '"checkpoint":"ckpt-3"' in models
    for translations in of("python client.py"):
        lines = translations.splitlines()[-2:]
        assert [line.split(" -> ")[0] for line in lines] == ["The old man sees a dog.", "She sleeps."]
    (before, after) = of("t2t-lite-serve")
    assert "ende: en to de, ckpt-2," in before and "ende: en to de, ckpt-3," in after

    tables = [
        (block.content, after.content)
        for block, after in itertools.pairwise(blocks_of("docs/tutorial.md"))
        if after.kind == "text" and "datagen" in block.content and "trainer" not in block.content
    ]
    assert tables
    for block, text in tables:
        printed = [line.rstrip() for line in of(block)[0].splitlines()]
        assert [line for line in text.splitlines() if line not in printed] == []


DATA = "t2t-lite-datagen --problem=grammar_ende --data_dir=data"  # other tests run it: it takes half a minute
RUNS = "full-1,full-2,sloped-1,sloped-2"
# Changes to what takes long: two small models with one seed, which are not trained to the end.
SHORT_LAYER = {
    "for seed in 1 2; do": "for seed in 1; do",
    "for seed in 1, 2:": "for seed in [1]:",
    "batch_tokens=1024": "batch_tokens=256,hidden_size=32,filter_size=64,num_encoder_layers=1,num_decoder_layers=1",
    "--train_steps=800 ": "--train_steps=2 --peak_tflops=1 ",
    "--save_checkpoints_steps=100 ": "--save_checkpoints_steps=2 ",
    f"{RUNS}\n": "full-1,sloped-1 --decode_hparams=beam_size=1,extra_length=1\n",
    f"{RUNS} --plot_file": "full-1,sloped-1 --plot_file",
    "for run in full-1 sloped-1; do": "for run in sloped-1; do",
    "--heads=200": "--heads=20",
}


@pytest.mark.heavy
def test_the_tutorial_leads_from_the_idea_of_a_layer_to_its_comparison_with_a_baseline(
    tmp_path, grammar_data, commands_environment
):
    changes = SHORT_LAYER | {DATA: f"cp -r {grammar_data} data"}
    of = outputs_of("docs/tutorial-layer.md", tmp_path, commands_environment, changes)

    assert "initial_slope = 0.0" in of("--registry_help=sloped")[0]
    (shown,) = (block.content for block in blocks_of("docs/tutorial-layer.md") if block.content.startswith("shapes "))
    assert [line for line in shown.splitlines() if line not in of("python check.py")[0].splitlines()] == []

    settings = [json.loads((tmp_path / run / "hparams.json").read_text()) for run in ("full-1", "sloped-1")]
    differences = {name for name, value in settings[1].items() if settings[0].get(name) != value}
    assert differences == {"self_attention_type", "initial_slope"}
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    # A row of the table: the run, its score and interval, and the p-values of the two paired tests.
    assert re.search(r"^\| sloped-1 +(\| +[\d.]+ (to [\d.]+ )?){4}\|$", of(f"{RUNS}\n")[0], re.MULTILINE)

    slopes = dict(re.findall(r"^transformer/(\w+)/self_attention/slopes \[(.*)\]$", of("values.py")[0], re.MULTILINE))
    assert {layer: len(values.split()) for layer, values in slopes.items()} == {"encoder_0": 4, "decoder_0": 4}
    assert of("--heads=200")[0].count("All heads, encoder") == 1
    assert (tmp_path / "heads.png").read_bytes().startswith(b"\x89PNG")


# Changes to what takes long: an untrained model parses, and its trees would be as long as a search allows.
SHORT_PARSER = {
    "range(5000)": "range(200)",
    "filter_size=344,": "filter_size=64,num_encoder_layers=1,num_decoder_layers=1,",
    "--train_steps=300 ": "--train_steps=2 --peak_tflops=1 ",
    "--save_checkpoints_steps=50 ": "--save_checkpoints_steps=2 ",
    "beam_size=4": "beam_size=2,extra_length=25",
    '"beam_size": 4': '"beam_size": 2, "extra_length": 25',
}
TYPED = "the bird that follows Ada draws a grasshouse ."


@pytest.mark.heavy
def test_the_tutorial_leads_from_a_file_of_trees_to_a_parser_that_draws_the_tree_of_a_sentence(
    tmp_path, commands_environment
):
    of = outputs_of("docs/tutorial-parser.md", tmp_path, commands_environment, SHORT_PARSER)

    assert "line 42" in of("python trees.py")[0]
    assert "malformed" not in of("rm -r data")[0]
    assert re.search(r"^\| F1 +\| +\d", of("t2t-lite-eval")[0], re.MULTILINE)

    judged = of("for only in")[0]
    free, among_trees = re.findall(r"(\d+) of \d+ trees .* needed repair", judged)
    assert among_trees == "0" and int(free) > 0
    assert re.search(r"^ only_trees-True.txt( +[\d.]+){2} to( +[\d.]+){2} *$", judged, re.MULTILINE)
    assert "labelled F1" in of("--per_sentence")[0]
    words = (tmp_path / "data" / "treebank_parsing-dev.inputs.txt").read_text(encoding="utf-8").splitlines()
    for name in ("False", "True"):
        trees = (tmp_path / f"only_trees-{name}.txt").read_text(encoding="utf-8").splitlines()
        assert [" ".join(nltk.Tree.fromstring(tree).leaves()) for tree in trees] == words

    drawn = of("--decode_interactive")[0].splitlines()
    (tree,) = (line for line in drawn if line.startswith("(TOP "))
    assert nltk.Tree.fromstring(tree).leaves() == TYPED.split()
    assert TYPED.split() in [line.split() for line in drawn]
    assert len(re.findall(r"^-\d+\.\d+ \(TOP ", of("python parse.py")[0], re.MULTILINE)) == 2
