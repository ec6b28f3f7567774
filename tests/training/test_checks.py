"""Settings against the data: lengths in the manifest, and tokens of the vocabularies."""

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


@pytest.mark.parametrize(("settings", "refused"), [({"vocab_kind": "bpe"}, True), ({"vocab_kind": "words"}, False)])
def test_hard_alignment_needs_sources_of_whole_words(settings, refused, tmp_path):
    train_vocabulary(["word"], 99, tmp_path / "v", "words", [])
    check_data(HParams(), tmp_path, settings)
    if refused:
        with pytest.raises(UserError, match="generated with `vocab_kind=bpe`; generate it with `vocab_kind=words`"):
            check_data(HParams(hard_alignment_token=3), tmp_path, settings)
    else:
        check_data(HParams(hard_alignment_token=3), tmp_path, settings)


@pytest.mark.parametrize(
    ("kind", "symbols", "token", "is_space"),
    [("bpe", [" "], 3, True), ("bpe", [], 3, False), ("bpe", [" "], 99, False), ("bytes", [], 35, False)],
)
def test_source_word_token_is_the_space_before_each_word(kind, symbols, token, is_space, tmp_path):
    train_vocabulary(["a dog ran", "a cat"], 20, tmp_path / "v", kind, symbols)
    hparams = HParams(hard_alignment_token=3, source_word_token=token)
    if is_space:
        check_data(hparams, tmp_path)
    else:
        with pytest.raises(UserError, match=f"source_word_token={token}: token {token} of v is not the space"):
            check_data(hparams, tmp_path)


@pytest.mark.parametrize("name", ["source_word_token", "bracket_labels"])
def test_words_and_brackets_need_hard_alignment(name, tmp_path):
    with pytest.raises(UserError, match=f"{name}=3 has no effect without hard alignment"):
        check_data(HParams(**{name: 3}), tmp_path)


@pytest.mark.parametrize(
    ("symbols", "labels", "fits"),
    [
        (["XX", "(S", "(NP", ")S", ")NP"], 2, True),
        (["XX", "(S", ")S", "(NP", ")NP"], 2, False),
        (["XX", "(S", "(NP", ")NP", ")S"], 2, False),
        (["XX", "(S", ")S"], 3, False),
    ],
)
def test_bracket_labels_are_pairs_of_opening_and_closing_brackets(symbols, labels, fits, tmp_path):
    train_vocabulary(["word"], 99, tmp_path / "v", "words", symbols)
    hparams = HParams(hard_alignment_token=3, bracket_labels=labels)
    if fits:
        check_data(hparams, tmp_path)
    else:
        with pytest.raises(UserError, match=f"bracket_labels={labels}: tokens 4 to {3 + 2 * labels} of v are not"):
            check_data(hparams, tmp_path)


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
    check_data(HParams(), tmp_path)
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
