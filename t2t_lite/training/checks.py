"""Checks settings against data before training starts, without TensorFlow."""

from pathlib import Path

from t2t_lite.config import HParams
from t2t_lite.data.bpe_dropout import make_new_tokens
from t2t_lite.data.manifest import Manifest
from t2t_lite.data.problem import Problem
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.errors import UserError
from t2t_lite.trees.linear import LEAVES, WORD


def check_training(problem: Problem, hparams: HParams, manifest: Manifest, data_dir: Path) -> None:
    problem.check_hparams(hparams)
    check_lengths(manifest, hparams)
    check_hard_alignment(manifest, hparams, data_dir)
    check_aligned_tokens(manifest, hparams, data_dir)
    if hparams.bpe_dropout:
        make_new_tokens(problem, data_dir, manifest, hparams.bpe_dropout, hparams.max_length)


def check_lengths(manifest: Manifest, hparams: HParams) -> None:
    """Checks that some training pair has at most `max_length` tokens on both sides.

    If positions are learned, so must all dev pairs, because all of them are evaluated.
    """
    limit = hparams.max_length
    # Exact if the manifest has a histogram of the longer side; otherwise only a lower bound for the shortest pair.
    shortest = max(min(map(int, histogram)) for histogram in manifest.splits["train"]["lengths"].values())
    if shortest > limit:
        raise UserError(
            f"all training pairs of '{manifest.problem}' are longer than max_length={limit} tokens "
            f"(the shortest has at least {shortest}); set `hparams=max_length={shortest}` or more"
        )
    longest = max(max(map(int, histogram)) for histogram in manifest.splits["dev"]["lengths"].values())
    if hparams.max_positions and longest > hparams.max_positions:
        raise UserError(
            f"the longest dev pair of '{manifest.problem}' has {longest} tokens, but learned positions cover only "
            f"max_length={hparams.max_positions}; set `hparams=max_length={longest}` or more"
        )


def check_hard_alignment(manifest: Manifest, hparams: HParams, data_dir: Path) -> None:
    """Raises UserError if hard alignment does not know which source tokens begin words, or pooling lacks alignment."""
    kind, token = manifest.settings.get("vocab_kind", ""), hparams.source_word_token
    if not hparams.hard_alignment_token:
        if token:
            raise UserError(
                f"source_word_token={token} has no effect without hard alignment; set `hparams=hard_alignment_token` "
                f"or `hparams=source_word_token=0`"
            )
        return
    if not token and kind != "words" and not manifest.settings.get("vocab_file"):
        raise UserError(
            f"hard_alignment_token={hparams.hard_alignment_token} needs whole words as source tokens, but the data in "
            f"{data_dir} was generated with `vocab_kind={kind}`; generate it with `vocab_kind=words` or train with "
            f"`hparams=hard_alignment_token=0`"
        )
    if token:
        file = manifest.vocabularies[0]["file"]
        vocabulary = open_vocabulary(data_dir / file)
        text = vocabulary.bytes_of(token) if token < vocabulary.size else b""
        if text != b" " or not vocabulary.starts_with_blank:
            raise UserError(
                f"source_word_token={token}: token {token} of {file} is not the space before each word; generate data "
                f"with such a token (treebank_parsing with `vocab_kind=bpe`) or train with "
                f"`hparams=source_word_token=0`"
            )


def check_aligned_tokens(manifest: Manifest, hparams: HParams, data_dir: Path) -> None:
    """Raises UserError if the settings for the words and brackets of trees do not fit the target vocabulary."""
    first, count = hparams.hard_alignment_token, hparams.hard_alignment_count
    if not first:
        if hparams.bracket_labels:
            raise UserError(
                f"bracket_labels={hparams.bracket_labels} has no effect without hard alignment; set "
                f"`hparams=hard_alignment_token` or `hparams=bracket_labels=0`"
            )
        return
    file = manifest.vocabularies[1]["file"]
    tokens = open_vocabulary(data_dir / file).tokens()
    leaves = [id for id, token in enumerate(tokens) if token in LEAVES]
    if WORD in tokens and leaves != list(range(first, first + count)):
        raise UserError(
            f"hard_alignment_token={first} and hard_alignment_count={count} stand for the words of a tree, but these "
            f"are tokens {leaves[0]} to {leaves[-1]} of {file}; set `hparams=hard_alignment_token={leaves[0]},"
            f"hard_alignment_count={len(leaves)}`"
        )
    number, after = hparams.bracket_labels, first + count
    opening, closing = tokens[after : after + number], tokens[after + number : after + 2 * number]
    if len(closing) < number or any(
        (left[0], right[0], left[1:]) != ("(", ")", right[1:]) for left, right in zip(opening, closing)
    ):
        raise UserError(
            f"bracket_labels={number}: tokens {after} to {after + 2 * number - 1} of {file} are not {number} opening "
            f"brackets and the closing brackets of the same labels; use data of tagged_treebank_parsing, or set "
            f"`hparams=bracket_labels=0`"
        )
