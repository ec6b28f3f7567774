"""Variations of the base model: the rows of tables 1 and 3, and the appendix's attention over parameters.

Rows (A) keep the number of heads times their size at 512, so they change only num_heads. Rows (B) change d_k and keep
d_v at 64.
"""

from t2t_lite.config import HParams
from t2t_lite.registry import HPARAMS

# name: (summary line, settings that differ from transformer_base)
VARIATIONS = {
    "transformer_h1": ("Table 3 (A): 1 head of 512.", {"num_heads": 1}),
    "transformer_h4": ("Table 3 (A): 4 heads of 128.", {"num_heads": 4}),
    "transformer_h16": ("Table 3 (A): 16 heads of 32.", {"num_heads": 16}),
    "transformer_h32": ("Table 3 (A): 32 heads of 16.", {"num_heads": 32}),
    "transformer_dk16": ("Table 3 (B): key size 16.", {"attention_key_size": 16}),
    "transformer_dk32": ("Table 3 (B): key size 32.", {"attention_key_size": 32}),
    "transformer_l2": ("Table 3 (C): 2 + 2 layers.", {"num_encoder_layers": 2, "num_decoder_layers": 2}),
    "transformer_l4": ("Table 3 (C): 4 + 4 layers.", {"num_encoder_layers": 4, "num_decoder_layers": 4}),
    "transformer_l8": ("Table 3 (C): 8 + 8 layers.", {"num_encoder_layers": 8, "num_decoder_layers": 8}),
    "transformer_hs256": ("Table 3 (C): hidden 256, 8 heads of 32.", {"hidden_size": 256}),
    "transformer_hs1024": ("Table 3 (C): hidden 1024, 8 heads of 128.", {"hidden_size": 1024}),
    "transformer_ff1024": ("Table 3 (C): filter 1024.", {"filter_size": 1024}),
    "transformer_ff4096": ("Table 3 (C): filter 4096.", {"filter_size": 4096}),
    "transformer_dr0": ("Table 3 (D): no dropout.", {"residual_dropout": 0.0}),
    "transformer_dr2": ("Table 3 (D): dropout 0.2.", {"residual_dropout": 0.2}),
    "transformer_ls0": ("Table 3 (D): no label smoothing.", {"label_smoothing": 0.0}),
    "transformer_ls2": ("Table 3 (D): label smoothing 0.2.", {"label_smoothing": 0.2}),
    "transformer_learned_positions": (
        "Table 3 (E): learned positions instead of sinusoids, for sequences up to max_length.",
        {"position_encoding": "learned"},
    ),
    "transformer_aop1": (
        "AOP1 of the appendix: attention over 1536 parameter pairs with 8 heads instead of feed-forward networks.",
        {"feed_forward_type": "attention", "parameter_heads": 8, "parameter_pairs": 1536},
    ),
    "transformer_aop2": (
        "AOP2 of the appendix: attention over 512 parameter pairs with 16 heads instead of feed-forward networks.",
        {"feed_forward_type": "attention", "parameter_heads": 16, "parameter_pairs": 512},
    ),
    "transformer_local": (
        "Table 1's restricted attention: each position sees a neighborhood of size 64.",
        {"self_attention_type": "local"},
    ),
    "transformer_recurrent": (
        "Table 1's recurrent layer instead of self-attention: a GRU, bidirectional in the encoder.",
        {"self_attention_type": "recurrent"},
    ),
    "transformer_convolution": (
        "Table 1's convolution with kernel size 3 instead of self-attention.",
        {"self_attention_type": "convolution"},
    ),
    "transformer_separable_convolution": (
        "Table 1's separable convolution with kernel size 3 instead of self-attention.",
        {"self_attention_type": "separable_convolution"},
    ),
}

for _name, (_line, _changes) in VARIATIONS.items():

    def _vary(base: HParams, changes: dict = _changes) -> HParams:
        return base.replace(**changes)

    _vary.__name__ = _vary.__qualname__ = _name
    _vary.__doc__ = _line
    HPARAMS.derive("transformer_base")(_vary)
