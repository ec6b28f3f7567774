"""Settings of the plug-in's own model, beside all those of `HParams`."""

import dataclasses

from t2t_lite.config import HParams


@dataclasses.dataclass(frozen=True)
class LengthHParams(HParams):
    """The settings of `LengthTransformer`."""

    length_buckets: int = 8  # number of learned vectors for lengths of the source
    bucket_width: int = 4  # lengths in tokens that share a vector; longer sources have the last one

    def __post_init__(self):
        super().__post_init__()
        for name in ("length_buckets", "bucket_width"):
            self.require(name, getattr(self, name) >= 1, "at least 1")
