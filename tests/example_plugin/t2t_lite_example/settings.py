"""Settings of the plug-in's own model, beside all those of `HParams`."""

import dataclasses

from t2t_lite.config import HParams
from t2t_lite.options import option


@dataclasses.dataclass(frozen=True)
class LengthHParams(HParams):
    """The settings of `LengthTransformer`."""

    length_buckets: int = option(8, "number of learned vectors for lengths of the source", at_least=1)
    bucket_width: int = option(4, "lengths in tokens that share a vector; longer sources have the last", at_least=1)
