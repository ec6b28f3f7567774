"""A set of settings that is derived from another one."""

from t2t_lite.registry import HPARAMS


@HPARAMS.derive("transformer_tiny")
def backward_tiny(tiny):
    """transformer_tiny with the plug-in's own model."""
    return tiny.replace(model="backward_transformer", hidden_size=32, filter_size=64, num_heads=2, batch_tokens=512)
