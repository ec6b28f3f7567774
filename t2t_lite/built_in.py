"""Registers the built-in objects by module and attribute; their code is imported on first use."""

from t2t_lite.registry import (
    CONSTRAINTS,
    FEED_FORWARD_TYPES,
    LEARNING_RATE_SCHEDULES,
    METRICS,
    MODELS,
    NORM_TYPES,
    OPTIMIZERS,
    POSITION_ENCODINGS,
    SELF_ATTENTION_TYPES,
)

_SUBLAYERS = "t2t_lite.models.sublayers:"

MODELS.register_lazily(
    "transformer", "t2t_lite.models.hard_alignment:make_transformer", "The paper's encoder-decoder (section 3)."
)

for _name, _function, _summary in (
    ("full", "full_attention", "The paper's: every position attends to all visible positions (section 3.2)."),
    ("local", "local_attention", "Attention to neighborhood_size neighbors only (section 4)."),
    ("recurrent", "recurrent", "Gated recurrent units instead of attention (table 1)."),
    ("convolution", "convolution", "A convolution over kernel_size positions (table 1)."),
    ("separable_convolution", "separable_convolution", "A convolution per channel, then a matrix that mixes channels."),
):
    SELF_ATTENTION_TYPES.register_lazily(_name, _SUBLAYERS + _function, _summary)

for _name, _function, _summary in (
    ("relu", "relu", "The paper's: two matrix products with a ReLU between them (equation 2)."),
    ("swiglu", "swiglu", "Gated, without biases (Shazeer 2020)."),
    ("attention", "parameter_attention", "Attention over parameters (the paper's appendix)."),
):
    FEED_FORWARD_TYPES.register_lazily(_name, _SUBLAYERS + _function, _summary)


def _requires_attention(*types: str) -> dict[str, object]:
    return {"requires": {"self_attention_type": types}}


for _name, _function, _summary, _facts in (
    ("sinusoidal", "sinusoidal", "The paper's: interleaved sines and cosines (section 3.5).", {}),
    ("sinusoidal_halves", "sinusoidal_halves", "tensor2tensor's: all sines, then all cosines.", {}),
    ("learned", "learned_positions", "A trainable vector for each position (table 3, row E).", {"is_limited": True}),
    (
        "relative",
        "no_positions",
        "Relative positions, applied in attention (Shaw 2018).",
        _requires_attention("full"),
    ),
    (
        "rotary",
        "no_positions",
        "Rotary positions, applied in attention (Su 2021).",
        _requires_attention("full", "local"),
    ),
):
    POSITION_ENCODINGS.register_lazily(_name, _SUBLAYERS + _function, _summary, **_facts)

NORM_TYPES.register_lazily(
    "layer", "t2t_lite.layers.norm:LayerNorm", "Mean 0 and variance 1, with scale and offset (Ba 2016)."
)
NORM_TYPES.register_lazily("rms", "t2t_lite.layers.norm:RMSNorm", "Root mean square 1, with scale (Zhang 2019).")

_SCORING = "t2t_lite.scoring."
_LOWER, _CASE = {"higher_is_better": False}, {"options": ("lowercase",)}
_SEVERAL = {"several_references": True}

for _name, _class, _summary, _facts in (
    ("loss", "token_metrics:Loss", "Cross-entropy in nats per target token, with label smoothing.", _LOWER),
    ("nll_loss", "token_metrics:NllLoss", "Cross-entropy in nats per target token, without label smoothing.", _LOWER),
    ("perplexity", "token_metrics:Perplexity", "Perplexity per target token, without label smoothing.", _LOWER),
    ("accuracy", "token_metrics:Accuracy", "The share of target tokens that the model ranks first, 0 to 1.", {}),
):
    METRICS.register_lazily(_name, _SCORING + _class, _summary, needs="tokens", **_facts)

for _name, _class, _summary, _facts in (
    (
        "bleu",
        "sacrebleu_metrics:Bleu",
        "Matching word n-grams (up to 4), by sacreBLEU; the language determines the tokens, usually 13a; 0 to 100.",
        {
            "label": "BLEU",
            "evaluated_with": ("paper_bleu", "chrf", "ter"),
            "options": ("lowercase", "language", "tokenize"),
            **_SEVERAL,
        },
    ),
    (
        "chrf",
        "sacrebleu_metrics:Chrf",
        "Matching character n-grams (up to 6), sacreBLEU's chrF2; 0 to 100.",
        {"label": "chrF2", **_SEVERAL, **_CASE},
    ),
    (
        "ter",
        "sacrebleu_metrics:Ter",
        "Edits as a percentage of the reference's words, by sacreBLEU; lower is better.",
        {"label": "TER", "options": ("language",), **_SEVERAL, **_LOWER},
    ),
    (
        "paper_bleu",
        "paper_bleu:PaperBleu",
        "BLEU as in the paper: Moses tokenization, compounds split; not comparable with bleu; 0 to 100.",
        {
            "label": "BLEU (tokenised, compounds split; as in Vaswani et al. 2017)",
            "options": ("lowercase", "language", "tokenized"),
            "beside": "bleu",
            "evaluated_for": ("wmt_ende", "wmt_enfr"),
            "needs_language": True,
            **_SEVERAL,
        },
    ),
    (
        "exact_match",
        "exact_match:ExactMatch",
        "Percentage of outputs that equal a reference; 0 to 100.",
        {**_SEVERAL, **_CASE},
    ),
    (
        "parseval",
        "bracketing:LabelledF1",
        "Labelled bracketing F1 of trees, equal to EVALB's; 0 to 100.",
        {
            "needs": "trees",
            "figure": "f1",
            "label": "F1",
            "options": ("per_sentence", "roots_as_top"),
        },
    ),
):
    METRICS.register_lazily(_name, _SCORING + _class, _summary, **_facts)

# `moments`: how many values an optimizer keeps per weight; `decays_weights`: whether it uses weight_decay;
# `reads_adam`: whether it uses the adam_ settings.
for _name, _summary, _facts in (
    ("adam", "The paper's Adam (section 5.3).", {"moments": 2, "decays_weights": False}),
    ("adamw", "Adam with decoupled weight decay (Loshchilov 2019).", {"moments": 2}),
    ("adafactor", "Updates scaled by the size of the weights (Shazeer 2018).", {"moments": 1, "reads_adam": False}),
    (
        "lion",
        "Updates by the sign of the momentum (Chen 2023); use a third to a tenth of Adam's rate.",
        {"moments": 1, "reads_adam": False},
    ),
    ("sgd", "Gradient descent with momentum 0.9.", {"moments": 1, "reads_adam": False}),
):
    OPTIMIZERS.register_lazily(_name, f"t2t_lite.training.optimizers.registered:{_name}", _summary, **_facts)

# `needs_decay_steps`: whether a schedule needs learning_rate_decay_steps (if False, it ignores the setting).
# `ends_at_0`: whether the rate is 0 from that step on.
for _name, _summary, _needs_decay_steps in (
    ("inverse_sqrt", "The paper's: the inverse square root of the step (equation 3).", False),
    ("cosine", "Falls to 0 at learning_rate_decay_steps along half a cosine (Loshchilov 2017).", True),
    ("linear", "Falls linearly to 0 at learning_rate_decay_steps.", True),
    ("constant", "Stays at the peak after warm-up.", False),
):
    LEARNING_RATE_SCHEDULES.register_lazily(
        _name,
        f"t2t_lite.training.schedule:{_name}",
        _summary,
        needs_decay_steps=_needs_decay_steps,
        ends_at_0=_needs_decay_steps,
    )

for _name, _function, _summary, _setting in (
    ("min_length", "min_length", "No output is shorter than min_length_ratio times its input.", "min_length_ratio"),
    ("no_repeat_ngram", "no_repeat_ngram", "No n-gram occurs twice in an output.", "no_repeat_ngram_size"),
):
    CONSTRAINTS.register_lazily(_name, f"t2t_lite.decoding.search_requests:{_function}", _summary, setting=_setting)
CONSTRAINTS.register_lazily(
    "all_words",
    "t2t_lite.parsing.tree_constraint:all_words",
    "Parsing: each output has exactly one leaf for each word; its brackets may be malformed.",
)
