"""Settings against the data: lengths in the manifest, and tokens of the vocabularies."""

import contextlib
import re

import pytest

from t2t_lite.config import HParams
from t2t_lite.data.manifest import Manifest
from t2t_lite.data.problem import get_problem
from t2t_lite.data.vocab import train_vocabulary
from t2t_lite.errors import UserError
from t2t_lite.trees.linear import TAGS

WORDS = {"vocab_kind": "words"}
VOCABULARY = {"file": "v", "sha256": "0", "size": 40}


def manifest(train, dev):
    """A manifest with ({input length: pairs}, {target length: pairs}) for two splits."""
    splits = {
        split: {"lengths": {side: {str(length): 1 for length in lengths} for side, lengths in sides.items()}}
        for split, sides in (("train", train), ("dev", dev))
    }
    return Manifest(problem="letters", vocabulary=VOCABULARY, splits=splits, sources={})


SHORT = {"inputs": [3, 9], "targets": [4, 8]}


def refusal(of_data, hparams):
    with pytest.raises(UserError) as caught:
        of_data.check_lengths(hparams)
    assert "\n" not in str(caught.value) and "'letters'" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_settings_that_drop_every_training_pair_are_refused(positions):
    hparams = HParams(max_length=3, position_encoding=positions)
    assert "`hparams=max_length=4` or more" in refusal(manifest(SHORT, SHORT), hparams)


@pytest.mark.parametrize("dev", [{"inputs": [3, 12], "targets": [4]}, {"inputs": [3], "targets": [4, 12]}])
def test_learned_positions_must_cover_the_dev_split(dev):
    message = refusal(manifest(SHORT, dev), HParams(max_length=11, position_encoding="learned"))
    assert "dev pair" in message and "has 12 tokens" in message and "max_length=11" in message
    assert "`hparams=max_length=12` or more" in message
    manifest(SHORT, dev).check_lengths(HParams(max_length=12, position_encoding="learned"))


def check_data(hparams, folder, settings=WORDS):
    """Checks settings of a parsing problem whose sides share the vocabulary `v`."""
    get_problem("treebank_parsing").check_data(hparams, settings, (folder / "v", folder / "v"))


ALIGNED = {"hard_alignment_token": 3}
WORDS_NEEDED = "generated with `vocab_kind=bpe`; generate it with `vocab_kind=words`"
NOT_SPACE = r"source_word_token=\d+: token \d+ of v is not the space"
NO_EFFECT = "=3 has no effect without hard alignment"


@pytest.mark.parametrize(
    ("kind", "symbols", "settings", "message"),
    [
        # Hard alignment needs sources of whole words.
        ("words", [], ALIGNED, None),
        ("bpe", [], ALIGNED, WORDS_NEEDED),
        # Otherwise, `source_word_token` is the space before each word.
        ("bpe", [" "], ALIGNED | {"source_word_token": 3}, None),
        ("bpe", [], ALIGNED | {"source_word_token": 3}, NOT_SPACE),
        ("bpe", [" "], ALIGNED | {"source_word_token": 99}, NOT_SPACE),
        ("bytes", [], ALIGNED | {"source_word_token": 35}, NOT_SPACE),
        ("words", [], {"source_word_token": 3}, f"source_word_token{NO_EFFECT}"),
        ("words", [], {"bracket_labels": 3}, f"bracket_labels{NO_EFFECT}"),
        # Labels are pairs of opening and closing brackets.
        ("words", ["XX", "(S", "(NP", ")S", ")NP"], ALIGNED | {"bracket_labels": 2}, None),
        ("words", ["XX", "(S", ")S", "(NP", ")NP"], ALIGNED | {"bracket_labels": 2}, "tokens 4 to 7 of v are not"),
        ("words", ["XX", "(S", "(NP", ")NP", ")S"], ALIGNED | {"bracket_labels": 2}, "tokens 4 to 7 of v are not"),
        ("words", ["XX", "(S", ")S"], ALIGNED | {"bracket_labels": 3}, "tokens 4 to 9 of v are not"),
    ],
)
def test_hard_alignment_fits_the_vocabulary(kind, symbols, settings, message, tmp_path):
    train_vocabulary(["a dog ran", "a cat"], 99 if kind == "words" else 20, tmp_path / "v", kind, symbols)
    check_data(HParams(), tmp_path, {"vocab_kind": kind})
    with pytest.raises(UserError, match=message) if message else contextlib.nullcontext():
        check_data(HParams(**settings), tmp_path, {"vocab_kind": kind})


@pytest.mark.parametrize(
    ("symbols", "settings", "fits"),
    [
        (["XX"], {}, True),
        (["XX", *TAGS], {"hard_alignment_count": 51}, True),
        (["XX", *TAGS], {}, False),
        (["XX"], {"hard_alignment_count": 2}, False),
        (["(S", "XX"], {}, False),
        (["word"], {}, True),  # not a vocabulary of trees
    ],
)
def test_hard_alignment_counts_exactly_the_tokens_that_stand_for_words(symbols, settings, fits, tmp_path):
    train_vocabulary(["(S )S (NP )NP"], 99, tmp_path / "v", "words", symbols)
    hparams = HParams(hard_alignment_token=3, **settings)
    if fits:
        check_data(hparams, tmp_path)
    else:
        first, count = 3 + symbols.index("XX"), len(symbols) - symbols.index("XX")
        advice = f"set `hparams=hard_alignment_token={first},hard_alignment_count={count}`"
        with pytest.raises(UserError, match=re.escape(advice)):
            check_data(hparams, tmp_path)


def test_brackets_need_a_problem_with_trees(tmp_path):
    hparams, vocabularies = HParams(hard_alignment_token=3, bracket_labels=2), (tmp_path / "v", tmp_path / "v")
    with pytest.raises(UserError, match="bracket_labels=2 is for trees, but 'text_pairs' is not a parsing problem"):
        get_problem("text_pairs").check_data(hparams, WORDS, vocabularies)
