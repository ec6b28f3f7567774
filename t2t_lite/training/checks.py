"""Checks of settings against data before a training starts. None of them needs TensorFlow."""

from pathlib import Path

from t2t_lite.config import HParams
from t2t_lite.data.manifest import Manifest
from t2t_lite.data.problem import Problem
from t2t_lite.errors import UserError


def check_training(problem: Problem, hparams: HParams, manifest: Manifest, data_dir: Path) -> None:
    """Checks that a model with these settings can be trained on this data.

    Args:
      problem: what to train on.
      hparams: the settings.
      manifest: of the problem's data.
      data_dir: where the data is, for messages.

    Raises:
      UserError: if not.
    """
    problem.check_hparams(hparams)
    check_lengths(manifest, hparams)
    check_hard_alignment(manifest, hparams, data_dir)


def check_lengths(manifest: Manifest, hparams: HParams) -> None:
    """Checks that pairs are short enough to train with these settings, and to evaluate on the way.

    Raises:
      UserError: if no training pair has at most `max_length` tokens on both sides, or positions are learned and a
        dev pair, all of which are evaluated, has more of them.
    """
    limit = hparams.max_length
    # With the histogram of longer sides that is exact; without it a pair of that length may still be missing.
    shortest = max(min(map(int, histogram)) for histogram in manifest.splits["train"]["lengths"].values())
    if shortest > limit:
        raise UserError(
            f"all training pairs of '{manifest.problem}' are longer than max_length={limit} tokens "
            f"(the shortest has {shortest}); raise it with --hparams=max_length={shortest} or more"
        )
    longest = max(max(map(int, histogram)) for histogram in manifest.splits["dev"]["lengths"].values())
    if hparams.max_positions and longest > hparams.max_positions:
        raise UserError(
            f"the longest dev pair of '{manifest.problem}' has {longest} tokens, and learned positions cover only "
            f"max_length={hparams.max_positions}; raise it with --hparams=max_length={longest} or more"
        )


def check_hard_alignment(manifest: Manifest, hparams: HParams, data_dir: Path) -> None:
    """Raises UserError if the settings want hard alignment and the source is not made of whole words."""
    kind = manifest.settings.get("vocab_kind", "")
    if hparams.hard_alignment_token and kind != "words" and not manifest.settings.get("vocab_file"):
        raise UserError(
            f"hard_alignment_token={hparams.hard_alignment_token} is for sources of whole words, and the data in "
            f"{data_dir} was made with --vocab_kind={kind}; make it with --vocab_kind=words, or train with "
            f"--hparams=hard_alignment_token=0"
        )
