"""Sets for constituency parsing: the paper's (section 6.3), and one for small treebanks.

The paper gives 4 layers and d_model 1024, and says that dropout and learning rates were chosen on section 22 and that
"all other parameters remained unchanged from the English-to-German base translation model". What it does not tell is
base's here: filter 2048, 8 heads, residual dropout 0.1, warm-up 4000, constant 1, 25,000 tokens a batch, 100,000 steps.
Three things are neither: pairs of up to 512 tokens are trained on, as trees are two and a half times as long as their
sentences; the symbols of trees have a matrix of their own, as they share no token with the words; and semi-supervised
training has the steps of the big model.
"""

from t2t_lite.config import HParams
from t2t_lite.registry import HPARAMS


@HPARAMS.derive("transformer_base")
def transformer_parsing(base: HParams) -> HParams:
    """The paper's parser: 4 + 4 layers of hidden 1024, all else as transformer_base."""
    return base.replace(
        num_encoder_layers=4,
        num_decoder_layers=4,
        hidden_size=1024,
        max_length=512,
        tied_embeddings="decoder",
    )


@HPARAMS.derive("transformer_parsing")
def transformer_parsing_semi(parsing: HParams) -> HParams:
    """The paper's parser for semi-supervised training: as transformer_parsing, 300,000 steps."""
    return parsing.replace(train_steps=300_000)


@HPARAMS.derive("transformer_parsing")
def transformer_parsing_small(parsing: HParams) -> HParams:
    """4 + 3 layers of hidden 256 with pre-norm, SwiGLU and a count of words: for treebanks of some ten thousand trees.

    Ten thousand trees are few. Pre-norm makes training start at once, and `hard_alignment_token`, the id of the symbol for a
    word, spares the decoder learning to count; for that the sources are whole words, as treebank_parsing has them.
    """
    hidden_size, warmup = 256, 500
    return parsing.replace(
        num_decoder_layers=3,
        hidden_size=hidden_size,
        filter_size=688,  # two thirds: SwiGLU has three matrices and not two
        num_heads=4,
        norm_position="pre",
        feed_forward_type="swiglu",
        hard_alignment_token=3,
        residual_dropout=0.3,
        batch_tokens=4000,
        train_steps=3000,
        learning_rate_constant=0.002 * (hidden_size * warmup) ** 0.5,  # a peak of 0.002
        learning_rate_warmup_steps=warmup,
    )
