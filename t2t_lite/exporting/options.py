"""The options of exports: keywords of `t2t_lite.export` and flags of t2t-lite-export."""

import dataclasses
import re

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
        "keras: the Keras model; argos: a package for Argos Translate and LibreTranslate",
        choices=FORMATS,
    )
    quantization: str | None = option(
        None,
        "with ctranslate2 or argos: the type to round the weights to",
        unset="float32; argos: int8",
        choices=("int8", "int16", "float16", "bfloat16"),
    )
    license: str = option("", "the licence of the model, for its model card", metavar="TEXT")
    package_version: str = option("1.0", "with argos: the version of the package, such as 1.2", metavar="VERSION")
    overwrite: bool = option(False, "replace an existing export")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.quantization is not None and self.format not in ("ctranslate2", "argos"):
            raise UserError(
                f"`quantization={self.quantization}` needs `format=ctranslate2` or argos, not {self.format}", status=2
            )
        if not re.fullmatch(r"\d+(\.\d+)*((a|b|rc|\.post|\.dev)\d+)?", self.package_version):
            raise UserError(f"`package_version` takes a version such as 1.2, not '{self.package_version}'", status=2)
        if self.format in ("ctranslate2", "argos"):
            from t2t_lite.decoding.ctranslate2_engine import imported

            imported()
