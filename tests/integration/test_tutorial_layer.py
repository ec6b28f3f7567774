"""The blocks of docs/tutorial-layer.md, run one after the other in one folder as a reader runs them."""

import json
import re

import pytest
from support.commands import user_environment
from support.pages import Reader, blocks

PAGE = "tutorial-layer.md"
# Blocks that install the package, which the tests need installed.
SKIPPED = ["python3 -m venv .venv && source .venv/bin/activate\npip install -e"]
DATA = "t2t-lite-datagen --problem=grammar_ende --data_dir=data"  # other tests run it: it takes half a minute
RUNS = "full-1,full-2,sloped-1,sloped-2"
# Changes to what takes long: two small models with one seed, which are not trained to the end.
SHORT = {
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
    changes = SHORT | {DATA: f"cp -r {grammar_data} data"}
    outputs = {}
    with Reader(PAGE, tmp_path, user_environment(**commands_environment), changes, SKIPPED) as reader:
        outputs.update(reader.outputs())

    def of(text):
        (output,) = (output for block, output in outputs.items() if text in block)
        return output

    assert "initial_slope = 0.0" in of("--registry_help=sloped")
    (shown,) = (block.content for block in blocks(PAGE) if block.content.startswith("shapes "))
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
