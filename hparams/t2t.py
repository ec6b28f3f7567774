"""tensor2tensor's own hyperparameter sets, which differ from the paper's. Here, their names begin with `t2t_`.

The values are from the last public commit of its source, bafdc1b. These sets differ from the originals as follows:
- Its encoder adds a learned vector for the "target space" to every input. The vector is the same for all sentences in
  a problem, so it is left out here.
- Its label smoothing gives each wrong token epsilon / (V - 1); ours gives epsilon / V, as in the paper. They differ by
  one part in V.
- Its batch_size counts tokens of the longer side, including padding, per GPU. `batch_tokens` counts non-padding target
  tokens over all devices. Sets for 8 GPUs have 8 times its batch_size here, the others its batch_size.
- The 250,000 steps are the default of its command, not of its sets. Its t2t-avg-all averages 8 checkpoints.
"""

from t2t_lite.config import HParams
from t2t_lite.registry import HPARAMS

GPUS = 8


@HPARAMS.derive("transformer_base")
def t2t_transformer_base_v1(base: HParams) -> HParams:
    """tensor2tensor's first base set: the paper's model and schedule, but positions with sines first, then cosines.

    Like all sets here, it has no target-space vector.
    """
    return base.replace(
        position_encoding="sinusoidal_halves", batch_tokens=GPUS * 4096, train_steps=250_000, average_checkpoints=8
    )


@HPARAMS.derive("t2t_transformer_base_v1")
def t2t_transformer_base_v2(v1: HParams) -> HParams:
    """tensor2tensor's second base set: pre-norm with a final norm, more dropout, constant 2, warm-up 8000."""
    return v1.replace(
        norm_position="pre",
        attention_dropout=0.1,
        relu_dropout=0.1,
        learning_rate_constant=2.0,
        learning_rate_warmup_steps=8000,
    )


@HPARAMS.derive("t2t_transformer_base_v2")
def t2t_transformer_base_v3(v2: HParams) -> HParams:
    """tensor2tensor's third base set: the second one with Adam's beta2 0.997."""
    return v2.replace(adam_beta2=0.997)


@HPARAMS.derive("t2t_transformer_base_v3")
def t2t_transformer_base(v3: HParams) -> HParams:
    """tensor2tensor's transformer_base: its third version.

    It has pre-norm with a final norm, attention and ReLU dropout 0.1, beta2 0.997, learning rate constant 2, 8000
    warm-up steps, and position encodings with sines in one half of the channels and cosines in the other. It has no
    target-space vector.
    """
    return v3


@HPARAMS.derive("t2t_transformer_base")
def t2t_transformer_big(base: HParams) -> HParams:
    """tensor2tensor's transformer_big: hidden 1024, filter 4096, 16 heads, residual dropout 0.3."""
    return base.replace(
        hidden_size=1024, filter_size=4096, num_heads=16, residual_dropout=0.3, batch_tokens=GPUS * 2048
    )


@HPARAMS.derive("t2t_transformer_base")
def t2t_transformer_base_single_gpu(base: HParams) -> HParams:
    """tensor2tensor's base set for one GPU: batches of 1024 tokens, 16,000 warm-up steps.

    Its rate is 0.1 * min(step^-0.5, step * warmup^-1.5), without the factor hidden_size^-0.5 of our schedule; the
    constant compensates for this factor.
    """
    return base.replace(
        batch_tokens=1024, learning_rate_constant=0.1 * base.hidden_size**0.5, learning_rate_warmup_steps=16_000
    )


@HPARAMS.derive("t2t_transformer_base")
def t2t_transformer_tiny(base: HParams) -> HParams:
    """tensor2tensor's transformer_tiny: 2 + 2 layers of hidden size 128."""
    return base.replace(
        num_encoder_layers=2, num_decoder_layers=2, hidden_size=128, filter_size=512, num_heads=4, batch_tokens=4096
    )


@HPARAMS.derive("t2t_transformer_base")
def t2t_transformer_parsing_base(base: HParams) -> HParams:
    """tensor2tensor's transformer_parsing_base: 6 + 6 layers of hidden size 1024 (paper: 4 + 4), untied embeddings.

    Its source also sets learning_rate=0.05, which has no effect, because the inherited schedule does not read it; it is
    left out here. The rate is 2.0 * hidden_size^-0.5 * min(step^-0.5, step * 16000^-1.5).
    """
    return base.replace(
        hidden_size=1024,
        residual_dropout=0.2,
        attention_dropout=0.2,
        max_length=512,
        batch_tokens=4096,
        learning_rate_warmup_steps=16_000,
        tied_embeddings="none",
    )


@HPARAMS.derive("t2t_transformer_big")
def t2t_transformer_parsing_big(big: HParams) -> HParams:
    """tensor2tensor's transformer_parsing_big: its big model with residual dropout 0.1, 4000 warm-up steps.

    Its source also sets learning_rate=0.05, which has no effect, because the inherited schedule does not read it; it is
    left out here. The rate is 2.0 * hidden_size^-0.5 * min(step^-0.5, step * 4000^-1.5).
    """
    return big.replace(residual_dropout=0.1, max_length=512, batch_tokens=2048, learning_rate_warmup_steps=4000)
