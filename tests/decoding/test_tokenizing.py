"""Texts become ids, and long ones are cut: only those with too many tokens, and each with a warning."""

import types

import pytest

from t2t_lite.config import DecodeHParams
from t2t_lite.data.vocab import EOS_ID, open_vocabulary, train_vocabulary
from t2t_lite.decoding.translator import encode_lines


@pytest.mark.parametrize("kind", ["words", "wordpiece", "bpe"])
def test_a_text_of_many_characters_and_few_tokens_is_not_cut(kind, tmp_path):
    path = tmp_path / "vocab"
    train_vocabulary(["a small house", "a house"] * 9, 300 if kind == "wordpiece" else 14, path, kind=kind)
    vocabulary = open_vocabulary(path)
    lines = ["a" + 5_000 * " " + "house", 5_000 * "z" + " house", "a house", 30 * "a small house "]
    warnings = []
    engine = types.SimpleNamespace(max_positions=None)
    settings = DecodeHParams(max_input_length=20)
    ids, cut = encode_lines(vocabulary, lines, settings, engine, warnings.append, 1, "line")
    whole = vocabulary.ids_of(lines)
    assert len(whole[3]) > 20
    assert cut == {number for number, row in enumerate(whole) if len(row) > 20}
    for number, row in enumerate(whole):
        assert ids[number] == (row if len(row) <= 20 else [*row[:19], EOS_ID])
    assert [warning.split(" and ")[0] for warning in warnings if warning.startswith("line 4")] == [
        f"line 4 has {len(whole[3])} tokens"
    ]
    assert len(warnings) == len(cut)
