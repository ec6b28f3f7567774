"""The options of imports: keywords of `t2t_lite.import_model` and flags of t2t-lite-import."""

import dataclasses
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from t2t_lite.options import Options, option

KINDS = "t2t", "keras", "marian", "huggingface", "opennmt_tf", "ctranslate2"
# The number of rows in tensor2tensor's target-space embedding.
TARGET_SPACES = 32


class Imported(NamedTuple):
    path: Path  # the run directory; of a model for CTranslate2, the export
    checkpoint: Path  # its checkpoint, without suffix; of a model for CTranslate2, its file
    num_parameters: int  # 0 for a model for CTranslate2, which are not counted
    problem: str


@dataclasses.dataclass(frozen=True)
class ImportOptions(Options):
    """Information that the model's folder may lack."""

    data_dir: str | PathLike | None = option(
        None,
        "t2t: the folder with the vocabulary",
        unset="the one in hparams.json, else the model's folder",
        metavar="DIR",
    )
    vocab_file: str = option(
        "",
        "t2t, marian: the vocabulary file, or two as INPUTS,TARGETS; bytes: one token per byte; opennmt_tf, if its "
        "configuration has no tokenization, and ctranslate2: the SentencePiece models",
        unset="t2t, marian: the one in the folder that fits the model",
        metavar="FILE",
    )
    problem: str = option(
        "",
        "the problem of the run",
        unset="the one with tensor2tensor's name if it exists, else text_pairs",
        metavar="NAME",
    )
    languages: str = option("", "the languages of inputs and outputs, such as en-de", metavar="SOURCE-TARGET")
    moses_punctuation: str = option(
        "",
        "marian, huggingface: normalize the punctuation of sources by Moses' rules for this language, as OPUS-MT's "
        "preprocess.sh does",
        metavar="LANGUAGE",
    )
    config: str | PathLike | None = option(
        None, "opennmt_tf: the configuration of the model, data.yml", unset="the one in the folder", metavar="FILE"
    )
    num_heads: int = option(
        0, "opennmt_tf: the number of attention heads", unset="the one of model_description.py", at_least=0
    )
    target_space_id: int = option(
        0, "t2t: tensor2tensor's id for the kind of outputs; 0 for all translation problems", at_least=0,
        at_most=TARGET_SPACES - 1,
    )  # fmt: skip
