"""The blocks of docs/tutorial.md, run one after the other in one folder as a reader runs them."""

import itertools
import json
import socket

import pytest
from support.commands import user_environment
from support.pages import Reader, blocks

PAGE = "tutorial.md"
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


@pytest.mark.heavy
def test_the_tutorial_leads_from_two_files_to_a_server_whose_model_is_updated(tmp_path, commands_environment):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    changes = SHORT | {f"--port={PORT}": f"--port={port}", f"127.0.0.1:{PORT}": f"127.0.0.1:{port}"}
    outputs, started = {}, []
    with Reader(PAGE, tmp_path, user_environment(**commands_environment), changes, SKIPPED) as reader:
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
        (block.content, after.content) for block, after in itertools.pairwise(blocks(PAGE)) if after.kind == "text"
    ]
    tables = {block: text for block, text in shown if "datagen" in block and "trainer" not in block}
    assert tables
    for block, text in tables.items():
        printed = [line.rstrip() for line in outputs[block].splitlines()]
        assert [line for line in text.splitlines() if line not in printed] == []
