"""The options of exports: keywords of `t2t_lite.export` and flags of t2t-lite-export."""

import dataclasses

from t2t_lite.decoding.export_dir import FORMATS
from t2t_lite.decoding.options import DecodeOptions
from t2t_lite.errors import UserError
from t2t_lite.options import option


@dataclasses.dataclass(frozen=True)
class ExportOptions(DecodeOptions):
    """The options of an export. The search settings become its defaults; in a SavedModel, they are fixed."""

    format: str = option(
        FORMATS[0],
        "saved_model: strings in and out, for TensorFlow alone; ctranslate2: a faster engine, without TensorFlow; "
        "keras: the Keras model",
        choices=FORMATS,
    )
    quantization: str | None = option(
        None,
        "with ctranslate2: the type to round the weights to",
        unset="float32",
        choices=("int8", "int16", "float16", "bfloat16"),
    )
    overwrite: bool = option(False, "replace an existing export")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.quantization is not None and self.format != "ctranslate2":
            raise UserError(
                f"`quantization={self.quantization}` needs `format=ctranslate2`, not {self.format}", status=2
            )
        if self.format == "ctranslate2":
            from t2t_lite.decoding.ctranslate2_engine import imported

            imported()
