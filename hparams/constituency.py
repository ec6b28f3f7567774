"""Hyperparameter sets for constituency parsing: the paper's (section 6.3) and two for small treebanks.

The paper gives 4 layers and d_model 1024, and says that dropout and learning rates were chosen on section 22 and that
"all other parameters remained unchanged from the English-to-German base translation model". All other settings are
the base model's: filter 2048, 8 heads, residual dropout 0.1, warm-up 4000, constant 1, 25,000 tokens per batch, 100,000
steps. Three settings are our own choice: pairs of up to 512 tokens, because trees are 2.5 times as long as their
sentences; a separate embedding matrix for tree symbols, because they share no tokens with the words; and
the big model's number of steps for semi-supervised training.
"""

from t2t_lite.config import HParams
from t2t_lite.registry import HPARAMS


@HPARAMS.derive("transformer_base")
def transformer_parsing(base: HParams) -> HParams:
    """The paper's parser: 4 + 4 layers of hidden size 1024, otherwise like transformer_base."""
    return base.replace(
        num_encoder_layers=4, num_decoder_layers=4, hidden_size=1024, max_length=512, tied_embeddings="decoder"
    )


@HPARAMS.derive("transformer_parsing")
def transformer_parsing_semi(parsing: HParams) -> HParams:
    """The paper's parser for semi-supervised training: transformer_parsing with 300,000 steps."""
    return parsing.replace(train_steps=300_000)


@HPARAMS.derive("transformer_parsing")
def transformer_parsing_small(parsing: HParams) -> HParams:
    """4 + 3 layers of hidden size 256, pre-norm, SwiGLU and hard alignment, for treebanks of about 10,000 trees.

    With so few trees, pre-norm makes the loss fall from the start. `hard_alignment_token`, the id of the symbol for a
    word, saves the decoder from learning to count words. It requires whole-word inputs, as in treebank_parsing.
    """
    hidden_size, warmup = 256, 500
    return parsing.replace(
        num_decoder_layers=3,
        hidden_size=hidden_size,
        filter_size=688,  # two thirds of 4 * hidden_size, because SwiGLU has three matrices instead of two
        num_heads=4,
        norm_position="pre",
        feed_forward_type="swiglu",
        hard_alignment_token=3,
        residual_dropout=0.3,
        batch_tokens=4000,
        train_steps=3000,
        learning_rate_constant=0.002 * (hidden_size * warmup) ** 0.5,  # peak learning rate 0.002
        learning_rate_warmup_steps=warmup,
    )


@HPARAMS.derive("transformer_parsing_small")
def transformer_parsing_tagged(small: HParams) -> HParams:
    """6 + 2 layers, rotary positions, pooled BPE tokens and the open brackets, for tagged_treebank_parsing.

    Batches are small and many, and the learning rate falls to 0; otherwise like transformer_parsing_small.
    """
    train_steps = 16_000
    return small.replace(
        num_encoder_layers=6,
        num_decoder_layers=2,
        position_encoding="rotary",
        hard_alignment_count=51,  # XX and the 50 tags
        bracket_labels=26,
        source_word_token=3,
        bpe_dropout=0.1,
        batch_tokens=1000,
        train_steps=train_steps,
        learning_rate_schedule="linear",
        learning_rate=0.0015,
        learning_rate_constant=1.0,  # so that the peak is learning_rate
        learning_rate_warmup_steps=1000,
        learning_rate_decay_steps=train_steps,
        precision="auto",
    )
