"""Text in, text out, whatever else is in the batch."""

import pytest

from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.run_dir import list_checkpoints
from t2t_lite.training.averaging import average_checkpoints

LINES = ["The old man sees the small dogs.", "I sleep.", "", "Does the girl who is tired sing in the garden?", "   "]


@pytest.fixture(scope="module")
def translator(small_run):
    return Translator.from_run_dir(small_run, "extra_length=5")


def test_a_line_alone_and_among_others_gives_the_same_text(translator):
    together = translator.translate([*LINES, "word " * 40])
    assert [translator.translate([line])[0] for line in LINES] == together[: len(LINES)]


def test_small_batches_and_large_ones_give_the_same_text(small_run):
    texts = [
        Translator.from_run_dir(small_run, f"extra_length=5,batch_tokens={tokens}").translate(LINES)
        for tokens in (1, 16, 2048)
    ]
    assert texts[0] == texts[1] == texts[2]


def test_lines_without_text_give_empty_lines_and_no_line_gives_none(translator):
    outputs = translator.translate(LINES)
    assert len(outputs) == len(LINES)
    assert outputs[2] == outputs[4] == ""
    assert translator.translate([]) == []


def test_an_output_is_at_most_extra_length_longer_than_its_input(small_run):
    translator = Translator.from_run_dir(small_run, "extra_length=3")
    line = "The old man sees the small dogs."
    pieces = translator.vocabulary.encode([line]).row_lengths().numpy()[0]
    output = translator.translate([line])[0]
    # A model of six steps never ends by itself, so the limit is what ends it.
    assert 0 < translator.vocabulary.encode([output]).row_lengths().numpy()[0] <= pieces + 3 + 1


def test_a_line_over_the_limit_is_cut_and_said(small_run):
    said = []
    translator = Translator.from_run_dir(small_run, "max_input_length=10,extra_length=2", warn=said.append)
    outputs = translator.translate(["I sleep.", "word " * 100])
    assert len(outputs) == 2
    assert len(said) == 1
    assert said[0].startswith("line 2 has ") and "max_input_length=10" in said[0]


def test_the_average_is_used_if_there_is_one_and_another_checkpoint_on_request(small_run, tmp_path):
    import shutil

    run_dir = tmp_path / "run"
    shutil.copytree(small_run, run_dir)
    last = list_checkpoints(run_dir)[-1][1]
    assert Translator.from_run_dir(run_dir).checkpoint == last
    average, _ = average_checkpoints(run_dir, 2)
    assert Translator.from_run_dir(run_dir).checkpoint == average
    assert Translator.from_run_dir(run_dir, checkpoint_path=last).checkpoint == last


def test_a_missing_checkpoint_is_an_error_that_names_it(small_run):
    with pytest.raises(UserError, match="ckpt-999"):
        Translator.from_run_dir(small_run, checkpoint_path=small_run / "ckpt-999")


def test_an_unknown_decode_setting_names_the_nearest(small_run):
    with pytest.raises(UserError, match="beam_size"):
        Translator.from_run_dir(small_run, "beam_siz=8")
