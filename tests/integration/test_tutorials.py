"""The blocks of the three tutorials, run one after the other in one folder as a reader runs them."""

import itertools
import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import nltk
import pytest
from support.commands import user_environment

DOCS = Path(__file__).resolve().parents[2] / "docs"
# The start of the block that installs the package, which the tests need installed.
INSTALLATION = "python3 -m venv .venv && source .venv/bin/activate\npip install -e"


class Block(NamedTuple):
    """A block of the page: its kind (sh, python, or text for the output of the block before) and its content."""

    kind: str
    content: str


def blocks(page: str) -> list[Block]:
    """Returns the blocks of a page of docs; every fence must name one of the three kinds."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = [Block(*each) for each in re.findall(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]
    assert {block.kind for block in found} <= {"sh", "python", "text"}
    return found


class Reader:
    """Runs the blocks of a page in a folder. A server runs in the background, as in a second terminal, until the next.

    Args:
      page: its name in docs.
      folder: where the blocks run.
      environment: of all processes.
      changes: texts to replace in the blocks, each of which must occur.
    """

    def __init__(self, page: str, folder: Path, environment: dict[str, str], changes: dict[str, str]) -> None:
        self.blocks, self.folder, self.environment = blocks(page), folder, environment
        self.log = folder / "server.log"
        self.server: subprocess.Popen | None = None
        self.changes = changes
        whole = "\n".join(block.content for block in self.blocks)
        assert [text for text in [*changes, INSTALLATION] if text not in whole] == []

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *error: object) -> None:
        self._end_server()

    def outputs(self) -> Iterator[tuple[str, str]]:
        """Runs each block of the page, and yields the block as it is printed there and what it wrote.

        Of a server, that is what it wrote until it was ready.
        """
        for kind, block in self.blocks:
            content = block
            for before, after in self.changes.items():
                content = content.replace(before, after)
            if kind == "python":  # the first line names the file that the reader saves it as
                name = re.match(r"# (\w+\.py)\n", content)[1]
                (self.folder / name).write_text(content, encoding="utf-8")
            elif kind == "sh" and "t2t-lite-serve" in content:
                self._end_server()
                self._serve(content)
                yield block, self._read_until("ready after")
            elif kind == "sh" and not content.startswith(INSTALLATION):
                yield block, self._run(content)

    def _read_until(self, text: str) -> str:
        """Waits until the server has written a text, and returns all that it has written."""
        while text not in (written := self.log.read_text(encoding="utf-8")):
            assert self.server.poll() is None, written
            time.sleep(0.05)
        return written

    def _end_server(self) -> None:
        """Ends the server, if one runs, as Ctrl-C does."""
        if self.server and self.server.poll() is None:
            self.server.send_signal(signal.SIGINT)
            self.server.wait()

    def _options(self) -> dict:
        return {"cwd": self.folder, "env": self.environment, "stderr": subprocess.STDOUT, "text": True}

    def _run(self, content: str) -> str:
        shell = ["bash", "-e", "-c", content]
        done = subprocess.run(shell, stdout=subprocess.PIPE, check=False, **self._options())
        assert done.returncode == 0, f"{content}\n{done.stdout}"
        return done.stdout

    def _serve(self, content: str) -> None:
        with open(self.log, "w", encoding="utf-8") as log:  # `exec`: the process is the server, not a shell
            self.server = subprocess.Popen(["bash", "-c", f"exec {content}"], stdout=log, **self._options())


def outputs_of(page, folder, environment, changes):
    """Runs a page; returns a function that returns the output of the block with a text."""
    with Reader(page, folder, user_environment(**environment), changes) as reader:
        outputs = dict(reader.outputs())

    def of(text):
        (output,) = (output for block, output in outputs.items() if text in block)
        return output

    return of


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
    outputs, started = {}, []
    with Reader("tutorial.md", tmp_path, user_environment(**commands_environment), changes) as reader:
        for block, output in reader.outputs():
            outputs[block] = output
            if "t2t-lite-serve" in block:
                started.append(output)
        assert reader.server.poll() is None

    def of(text):
        return [output for block, output in outputs.items() if text in block]

    (answer,) = of("-d 'q=")
    assert isinstance(json.loads(answer.splitlines()[0])["translatedText"], str)
    (models,) = of("/v1/models")
    assert '"checkpoint":"ckpt-3"' in models
    for translations in of("python client.py"):
        lines = translations.splitlines()[-2:]
        assert [line.split(" -> ")[0] for line in lines] == ["The old man sees a dog.", "She sleeps."]
    (before, after) = started
    assert "ende: en to de, ckpt-2," in before and "ende: en to de, ckpt-3," in after

    shown = [
        (block.content, after.content)
        for block, after in itertools.pairwise(blocks("tutorial.md"))
        if after.kind == "text"
    ]
    tables = {block: text for block, text in shown if "datagen" in block and "trainer" not in block}
    assert tables
    for block, text in tables.items():
        printed = [line.rstrip() for line in outputs[block].splitlines()]
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
    of = outputs_of("tutorial-layer.md", tmp_path, commands_environment, changes)

    assert "initial_slope = 0.0" in of("--registry_help=sloped")
    (shown,) = (block.content for block in blocks("tutorial-layer.md") if block.content.startswith("shapes "))
    assert [line for line in shown.splitlines() if line not in of("python check.py").splitlines()] == []

    settings = [json.loads((tmp_path / run / "hparams.json").read_text()) for run in ("full-1", "sloped-1")]
    differences = {name for name, value in settings[1].items() if settings[0].get(name) != value}
    assert differences == {"self_attention_type", "initial_slope"}
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    # A row of the table: the run, its score and interval, and the p-values of the two paired tests.
    assert re.search(r"^\| sloped-1 +(\| +[\d.]+ (to [\d.]+ )?){4}\|$", of(f"{RUNS}\n"), re.MULTILINE)

    slopes = dict(re.findall(r"^transformer/(\w+)/self_attention/slopes \[(.*)\]$", of("values.py"), re.MULTILINE))
    assert {layer: len(values.split()) for layer, values in slopes.items()} == {"encoder_0": 4, "decoder_0": 4}
    assert of("--heads=200").count("All heads, encoder") == 1
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
    of = outputs_of("tutorial-parser.md", tmp_path, commands_environment, SHORT_PARSER)

    assert "line 42" in of("python trees.py")
    assert "malformed" not in of("rm -r data")
    assert re.search(r"^\| F1 +\| +\d", of("t2t-lite-eval"), re.MULTILINE)

    judged = of("for only in")
    free, among_trees = re.findall(r"(\d+) of \d+ trees .* needed repair", judged)
    assert among_trees == "0" and int(free) > 0
    assert re.search(r"^ only_trees-True.txt( +[\d.]+){2} to( +[\d.]+){2} *$", judged, re.MULTILINE)
    assert "labelled F1" in of("--per_sentence")
    words = (tmp_path / "data" / "treebank_parsing-dev.inputs.txt").read_text(encoding="utf-8").splitlines()
    for name in ("False", "True"):
        trees = (tmp_path / f"only_trees-{name}.txt").read_text(encoding="utf-8").splitlines()
        assert [" ".join(nltk.Tree.fromstring(tree).leaves()) for tree in trees] == words

    drawn = of("--decode_interactive").splitlines()
    (tree,) = (line for line in drawn if line.startswith("(TOP "))
    assert nltk.Tree.fromstring(tree).leaves() == TYPED.split()
    assert TYPED.split() in [line.split() for line in drawn]
    assert len(re.findall(r"^-\d+\.\d+ \(TOP ", of("python parse.py"), re.MULTILINE)) == 2
