"""The options of imports: keywords of `t2t_lite.import_model` and flags of t2t-lite-import."""

import dataclasses
from os import PathLike

from t2t_lite.options import Options, option

# The number of rows of tensor2tensor's target-space embedding.
TARGET_SPACES = 32


@dataclasses.dataclass(frozen=True)
class ImportOptions(Options):
    """The information that the model's folder lacks."""

    data_dir: str | PathLike | None = option(
        None, "the folder with the vocabulary", unset="that of the model's settings, or of the model", metavar="DIR"
    )
    vocab_file: str = option(
        "",
        "the vocabulary file, or one file each for INPUTS,TARGETS; bytes: one token per byte",
        unset="the one in `data_dir` with the model's number of tokens",
        metavar="FILE",
    )
    problem: str = option(
        "", "the problem of the run", unset="the one with the same name, or text_pairs", metavar="NAME"
    )
    target_space_id: int = option(
        0, "tensor2tensor's number for the kind of outputs: 0 in all translation problems", at_least=0,
        at_most=TARGET_SPACES - 1,
    )  # fmt: skip
