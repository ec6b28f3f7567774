"""The blocks of docs/tutorial-parser.md, run one after the other in one folder as a reader runs them."""

import re

import nltk
import pytest
from support.commands import user_environment
from support.pages import Reader

PAGE = "tutorial-parser.md"
# Blocks that install the package, which the tests need installed.
SKIPPED = ["python3 -m venv .venv && source .venv/bin/activate\npip install -e"]
# Changes to what takes long: an untrained model parses, and its trees would be as long as a search allows.
SHORT = {
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
    outputs = {}
    with Reader(PAGE, tmp_path, user_environment(**commands_environment), SHORT, SKIPPED) as reader:
        outputs.update(reader.outputs())

    def of(text):
        (output,) = (output for block, output in outputs.items() if text in block)
        return output

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
