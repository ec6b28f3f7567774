"""Options of an evaluation, which are keywords of `t2t_lite.evaluate` and flags of t2t-lite-eval."""

import dataclasses
from collections.abc import Sequence
from os import PathLike

from t2t_lite.decoding.options import DecodeOptions, EngineOptions
from t2t_lite.options import option

SPLITS = ("dev", "test")


@dataclasses.dataclass(frozen=True)
class EvalOptions(DecodeOptions):
    """The options that determine what is evaluated, and how."""

    split: str = option("dev", "split to evaluate: dev or test", choices=SPLITS)
    data_dir: str | PathLike | None = option(
        None, "folder with the data", unset="the folder used in training", metavar="DIR"
    )
    metrics: Sequence[str] = option(
        (),
        "further metrics of the outputs; the problem's metrics are always included",
        flag="metric",
        metavar="NAME,...",
    )
    references: Sequence[str | PathLike] = option(
        (), "files with further references, one line for each line of the split", metavar="FILE,..."
    )
    again: bool = option(False, "decode even if the outputs are stored")
    xla_compile: bool | None = EngineOptions.field("xla_compile")
    decode: bool = True  # no flag: whether to decode the split, or only compute the losses

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("metrics", "references"):  # a single one
            if isinstance(value := getattr(self, name), str | PathLike):
                object.__setattr__(self, name, (value,))
