"""The engines that can be compared."""

# How each engine is chosen: its format of export ("": the run directory itself), quantization, and whether it compiles.
ENGINES = {
    "tensorflow": ("", None, True),
    "uncompiled": ("", None, False),
    "ctranslate2": ("ctranslate2", None, False),
    "ctranslate2_int8": ("ctranslate2", "int8", False),
}
