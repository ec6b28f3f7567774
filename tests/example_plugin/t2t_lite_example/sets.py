"""Sets of settings that are derived from others."""

from t2t_lite.registry import HPARAMS


@HPARAMS.derive("transformer_tiny")
def length_tiny(tiny):
    """transformer_tiny with the plug-in's own model and position encoding."""
    return tiny.replace(
        model="length_transformer",
        length_buckets=4,
        position_encoding="binary",
        hidden_size=32,
        filter_size=64,
        num_heads=2,
        batch_tokens=512,
    )
