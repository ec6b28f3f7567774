"""Options for searching with a trained model, in the decoder, evaluation, export and server."""

import dataclasses
from collections.abc import Callable, Mapping
from os import PathLike

from t2t_lite.display import LOG
from t2t_lite.options import Options, SettingValue, option

# The values of `--engine`.
ENGINES = ("tensorflow", "ctranslate2")


@dataclasses.dataclass(frozen=True)
class DecodeOptions(Options):
    """The checkpoint of a run to decode with, and the search settings."""

    checkpoint_path: str | PathLike | None = option(
        None,
        "checkpoint to use; best:METRIC is the best by METRIC instead of the run's metric",
        unset="the run's average if it exists, else the last one",
        metavar="best|last|average|ckpt-N|PATH",
    )
    decode_hparams: str | Mapping[str, SettingValue] = option(
        "", "overrides of the search settings, such as beam_size=8,alpha=1.0", metavar="NAME=VALUE,..."
    )


@dataclasses.dataclass(frozen=True)
class EngineOptions(Options):
    """How an engine runs. These options change outputs only by rounding."""

    # receives lines about settings that are probably a mistake and about texts that are cut
    warn: Callable[[str], None] = LOG.warning
    # TensorFlow only. Each of a few batch shapes takes seconds to compile; after that, its searches are faster.
    xla_compile: bool | None = option(
        None,
        "compile the search with XLA: True, False or auto",
        unset="auto: compile in the background once it pays off",
    )
    num_threads: int | None = option(
        None,
        "number of batches searched in parallel",
        unset="one per core, or one with TensorFlow on a GPU",
        at_least=1,
    )
