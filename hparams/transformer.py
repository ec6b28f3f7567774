"""The paper's hyperparameter sets (section 5, table 3): post-norm, beta2 0.98, warm-up 4000, residual dropout only."""

from t2t_lite.config import HParams
from t2t_lite.registry import HPARAMS


@HPARAMS.register
def transformer_base() -> HParams:
    """The paper's base model: 6 + 6 layers, hidden 512, 100,000 steps."""
    return HParams()


@HPARAMS.derive("transformer_base")
def transformer_big(base: HParams) -> HParams:
    """The paper's big model: hidden 1024, filter 4096, 16 heads, dropout 0.3, 300,000 steps."""
    return base.replace(
        hidden_size=1024,
        filter_size=4096,
        num_heads=16,
        residual_dropout=0.3,
        train_steps=300_000,
        average_checkpoints=20,
    )


@HPARAMS.derive("transformer_big")
def transformer_big_enfr(big: HParams) -> HParams:
    """The paper's big model for English-French: transformer_big with dropout 0.1."""
    return big.replace(residual_dropout=0.1)
