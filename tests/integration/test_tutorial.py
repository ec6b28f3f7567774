"""The blocks of docs/tutorial.md, run one after the other in one folder as a reader runs them."""

import itertools
import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from support.commands import user_environment

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
# Blocks that install the package, which the tests need installed.
SKIPPED = ["python3 -m venv .venv && source .venv/bin/activate\npip install -e"]
GREEDY = "--decode_hparams=beam_size=1,extra_length=1"
# Changes to commands that take long: an untrained model is served.
SHORT = {
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


class Block(NamedTuple):
    """A block of the page: its kind (sh, python, or text for the output of the block before) and its content."""

    kind: str
    content: str


def blocks() -> list[Block]:
    """Returns the blocks of the page; every fence must name one of the three kinds."""
    found = re.findall(r"^```([^\n]*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert {kind for kind, _ in found} == {"sh", "python", "text"}
    return [Block(*each) for each in found]


class Reader:
    """Runs the blocks in a folder. The server runs in the background, as in a second terminal.

    Args:
      folder: where the blocks run.
      environment: of all processes.
      port: of the server, instead of the one on the page.
      changes: texts to replace in the blocks, each of which must occur.
    """

    def __init__(self, folder: Path, environment: dict[str, str], port: int, changes: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        self.log = folder / "server.log"
        self.server: subprocess.Popen | None = None
        page = "\n".join(block.content for block in blocks())
        self.changes = changes | {f"--port={PORT}": f"--port={port}", f"127.0.0.1:{PORT}": f"127.0.0.1:{port}"}
        assert [text for text in [*self.changes, *SKIPPED] if text not in page] == []

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *error: object) -> None:
        if self.server and self.server.poll() is None:
            self.server.terminate()
            self.server.wait()

    def outputs(self) -> Iterator[tuple[str, str]]:
        """Runs each block of the page, and yields the block as it is printed there and what it wrote."""
        for kind, block in blocks():
            content = block
            for before, after in self.changes.items():
                content = content.replace(before, after)
            if kind == "python":  # the first line names the file that the reader saves it as
                name = re.match(r"# (\w+\.py)\n", content)[1]
                (self.folder / name).write_text(content, encoding="utf-8")
            elif kind == "sh" and "t2t-lite-serve" in content:
                self._serve(content)
                self.wait_for("ready after")
            elif kind == "sh" and not any(map(content.startswith, SKIPPED)):
                yield block, self._run(content)

    def wait_for(self, text: str) -> None:
        """Waits until the server has written a text."""
        while text not in self.log.read_text(encoding="utf-8"):
            assert self.server.poll() is None, self.log.read_text(encoding="utf-8")
            time.sleep(0.05)

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


@pytest.mark.heavy
def test_the_tutorial_leads_from_two_files_to_a_server_whose_model_is_updated(tmp_path, commands_environment):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    outputs = {}
    with Reader(tmp_path, user_environment(**commands_environment), port, SHORT) as reader:
        for block, output in reader.outputs():
            outputs[block] = output
            if "--overwrite" in block:
                reader.wait_for("changed: ")
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
    (before, after) = re.findall(r"^ende: .*|changed: .*", reader.log.read_text(encoding="utf-8"), re.MULTILINE)
    assert "ckpt-2" in before and "ckpt-3" in after

    shown = [(block.content, after.content) for block, after in itertools.pairwise(blocks()) if after.kind == "text"]
    tables = {block: text for block, text in shown if "datagen" in block and "trainer" not in block}
    assert tables
    for block, text in tables.items():
        printed = [line.rstrip() for line in outputs[block].splitlines()]
        assert [line for line in text.splitlines() if line not in printed] == []
