"""Scales: how large the models and the data of a reproduction are."""

import dataclasses
from collections.abc import Mapping

from t2t_lite.config import HParams
from t2t_lite.registry import HPARAMS
from t2t_lite.settings import SettingValue

PAPER_BASE = "transformer_base"
# Settings that a smaller base model has in proportion; all others are those of the paper's row.
_SIZES = (
    "num_encoder_layers",
    "num_decoder_layers",
    "hidden_size",
    "filter_size",
    "num_heads",
    "attention_key_size",
    "attention_value_size",
    "parameter_heads",
    "parameter_head_size",
    "parameter_pairs",
    "train_steps",
)


@dataclasses.dataclass(frozen=True)
class Scale:
    """The size of a reproduction.

    Args:
      name: its name.
      base: the hparam set in the place of transformer_base.
      problems: the problem for each column or row of the tables: "EN-DE", "EN-FR", "WSJ only", "semi-supervised".
      checkpoint_flags: the trainer's flags for checkpoints.
      mean_length: target tokens of a sentence, for estimates.
      vocab_size: tokens, for estimates.
      note: what a reader of the table must know.
    """

    name: str
    base: str
    problems: Mapping[str, str]
    checkpoint_flags: Mapping[str, int]
    mean_length: float
    vocab_size: int
    note: str


SCALES = {
    scale.name: scale
    for scale in (
        Scale(
            "tiny",
            "transformer_base_tiny",
            {"EN-DE": "grammar_ende", "EN-FR": "grammar_ende_rev", "WSJ only": "treebank_parsing"},
            {"save_checkpoints_steps": 20},
            12,
            1000,
            "Sentences of a grammar; German to English stands for English to French.",
        ),
        Scale(
            "small",
            "transformer_base_small",
            {"EN-DE": "multi30k_ende", "EN-FR": "multi30k_enfr", "WSJ only": "treebank_parsing"},
            {"save_checkpoints_steps": 50},
            14,
            6000,
            "Captions of Multi30k. Every row keeps its ratio to the base model.",
        ),
        Scale(
            "paper",
            PAPER_BASE,
            {
                "EN-DE": "wmt_ende",
                "EN-FR": "wmt_enfr",
                "WSJ only": "wsj_parsing",
                "semi-supervised": "wsj_parsing_semi",
            },
            {"save_checkpoints_secs": 600},
            28,
            37_000,
            "The paper's data and models.",
        ),
    )
}


def changes_of(row: str, scale: Scale) -> dict[str, SettingValue]:
    """Returns the settings in which a set of the paper differs from the base model, scaled to another base model.

    Args:
      row: an hparam set that is derived from transformer_base.
      scale: the scale, whose base model the changes are for.
    """
    paper, wanted, ours = (dataclasses.asdict(_explicit(HPARAMS[name]())) for name in (PAPER_BASE, row, scale.base))
    named = dataclasses.asdict(HPARAMS[row]())
    changes = {}
    for name, value in wanted.items():
        if value == paper[name]:
            continue
        if name in _SIZES:
            value = max(1, round(ours[name] * value / paper[name]))
        # The width of a head follows from hidden_size and num_heads unless a row sets it.
        if value != ours[name] and not (name.startswith("attention_") and not named[name]):
            changes[name] = value
    return changes


def _explicit(hparams: HParams) -> HParams:
    """Returns settings with the size of keys and values as a number, so that it has a ratio."""
    size = hparams.hidden_size // hparams.num_heads
    return hparams.replace(
        attention_key_size=hparams.attention_key_size or size,
        attention_value_size=hparams.attention_value_size or size,
    )
