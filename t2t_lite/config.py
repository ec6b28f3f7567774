"""The settings of models and training (`HParams`) and of decoding (`DecodeHParams`)."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from t2t_lite.aliases import alias_hint
from t2t_lite.errors import UserError
from t2t_lite.options import Settings, SettingValue, combined_class, option
from t2t_lite.registry import (
    CONSTRAINTS,
    HPARAMS,
    LEARNING_RATE_SCHEDULES,
    MODELS,
    OPTIMIZERS,
    POSITION_ENCODINGS,
    REGISTRIES_OF_SETTINGS,
    SCORERS,
)

# Warnings begin at a batch smaller than one long sentence, and at a beam wider than any paper finds useful.
FEW_TOKENS = 32
WIDE_BEAM = 100
# The depth of the deepest published Transformer (Wang et al. 2022). More layers, probably a typo, take hours to build.
MAX_LAYERS = 1000

PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
AUTO_PRECISION = "auto"  # training chooses float32 or mixed_bfloat16 and records its choice in the run
AUTO_BATCH_BY = "auto"  # training chooses "both" or "shapes" and records its choice in the run
SAMPLING_METHODS = ("argmax", "random")
LENGTH_PENALTIES = ("wu", "power")


def choices() -> dict[str, tuple[str, ...]]:
    """Returns the possible values of every setting that selects model code, including values from plug-ins.

    precision=auto is left out, because it resolves to another value, and so is batch_by, which concerns the data.
    """
    others = (MODELS, OPTIMIZERS, LEARNING_RATE_SCHEDULES)
    parts = {name: registry for name, registry in REGISTRIES_OF_SETTINGS.items() if registry not in others}
    fixed = {name: values for name in HParams.names() if (values := HParams.option(name).choices)}
    del fixed["batch_by"]
    return {name: tuple(registry.names()) for name, registry in parts.items()} | fixed | {"precision": PRECISIONS}


@dataclasses.dataclass(frozen=True)
class HParams(Settings):
    """The settings of a model and its training. The defaults are the paper's base model."""

    FLAG: ClassVar[str] = "hparams"
    RENAMED: ClassVar[dict[str, str]] = {"counted_piece": "hard_alignment_token"}

    model: str = option("transformer", "the name of a model in MODELS")
    num_encoder_layers: int = option(6, at_least=1, at_most=MAX_LAYERS)
    num_decoder_layers: int = option(6, at_least=1, at_most=MAX_LAYERS)
    hidden_size: int = option(512, "d_model", at_least=1)
    filter_size: int = option(2048, "d_ff", at_least=1)
    num_heads: int = option(8, "h", at_least=1)
    attention_key_size: int = option(0, "d_k of one head; 0: hidden_size / num_heads", at_least=0)
    attention_value_size: int = option(0, "d_v of one head; 0: hidden_size / num_heads", at_least=0)
    self_attention_type: str = option("full", "full, or a replacement for self-attention (table 1)")
    neighborhood_size: int = option(
        64, "r of local attention: neighbors that each position sees (decoder: itself and r - 1 before it)", at_least=1
    )
    kernel_size: int = option(3, "k of convolutions; must be odd", at_least=1)
    dilation_growth: int = option(
        1, "ratio between the dilations of successive layers; kernel_size gives path lengths of O(log_k n)", at_least=1
    )
    feed_forward_type: str = option(
        "relu", "swish; swiglu: Shazeer 2020; attention: attention over parameters (the paper's appendix)"
    )
    parameter_heads: int = option(8, "h_p of attention over parameters", at_least=1)
    parameter_head_size: int = option(64, "d_pk and d_pv of attention over parameters", at_least=1)
    parameter_pairs: int = option(1536, "n_p of attention over parameters: key-value pairs per head", at_least=1)
    position_encoding: str = option(
        "sinusoidal",
        "sinusoidal_halves: tensor2tensor's; sinusoidal_halves_from_1: OpenNMT-tf's; relative: Shaw 2018; "
        "rotary: Su 2021",
    )
    hard_alignment_token: int = option(0, "id of the target token for a source word (Ma 2017); 0: none", at_least=0)
    hard_alignment_count: int = option(1, "number of such tokens: one id after another, by part of speech", at_least=1)
    bracket_labels: int = option(0, "number of bracket labels; their ids follow: all (, then all )", at_least=0)
    source_word_token: int = option(
        0, "id of the token that begins each source word; its other tokens are pooled; 0: no pooling", at_least=0
    )
    max_relative_position: int = option(
        16, "maximum distance of relative positions, to which larger ones are clipped", at_least=1
    )
    norm_position: str = option(
        "post", "pre: normalize before each sub-layer and after each stack (Xiong et al. 2020)", choices=("post", "pre")
    )
    norm_type: str = option("layer", "rms: Zhang and Sennrich 2019")
    norm_epsilon: float = option(1e-6, "added to the variance in normalization", above=0)
    tied_embeddings: str = option(
        "all",
        "all: one matrix; decoder: a separate one for the source; none: also a separate one for the projection",
        choices=("all", "decoder", "none"),
    )
    zero_padding_embedding: bool = option(
        False, "keep the vector of id 0 (padding and the decoder's start symbol) at zero, as in tensor2tensor"
    )
    scaled_embeddings: bool = option(True, "multiply token vectors by sqrt(d_model) (section 3.4)")
    projection_biases: bool = option(
        False, "biases in the projections of attention and in that to the logits, which the paper's model lacks"
    )
    source_end_symbol: bool = option(
        True, "the model sees the end symbol of inputs; False, as in OpenNMT-tf: attention ignores it like padding"
    )
    residual_dropout: float = option(
        0.1, "P_drop, for each sub-layer's output and for the sums of embeddings and positions", at_least=0, below=1
    )
    attention_dropout: float = option(0.0, "dropout rate of attention weights", at_least=0, below=1)
    relu_dropout: float = option(0.0, "dropout rate in the inner layer of feed-forward networks", at_least=0, below=1)
    token_dropout: float = option(
        0.0,
        "dropout rate of whole token vectors, before positions are added (Sennrich et al. 2016)",
        at_least=0,
        below=1,
    )
    bpe_dropout: float = option(
        0.0,
        "probability of leaving out a byte-pair merge in training, different in each epoch (Provilkov et al. 2020)",
        at_least=0,
        below=1,
    )
    pair_concatenation: float = option(
        0.0,
        "probability of appending another pair to a training pair, to learn long texts (Nguyen et al. 2021)",
        at_least=0,
        at_most=1,
    )
    rdrop_alpha: float = option(
        0.0,
        "weight of the divergence between two passes with different dropout (R-Drop, Wu et al. 2021); 0: one pass",
        at_least=0,
    )
    max_length: int = option(
        256, "maximum tokens per side, end symbol included; longer pairs are left out of training", at_least=1
    )
    label_smoothing: float = option(0.1, "epsilon_ls", at_least=0, below=1)
    batch_tokens: int = option(25_000, "real target tokens per optimizer step, over all devices", at_least=1)
    batch_by: str = option(
        AUTO_BATCH_BY,
        "both, targets: group by these lengths; shapes: at most 40 batch shapes, for XLA; "
        "auto: shapes if compiled, else both",
        choices=(AUTO_BATCH_BY, "both", "targets", "shapes"),
    )
    train_steps: int = option(100_000, at_least=1)
    optimizer: str = option("adam", "adamw, adafactor, lion or sgd; the adam_ settings are for adam and adamw")
    weight_decay: float = option(
        0.0, "an update reduces each matrix by this share times the learning rate; not for adam", at_least=0
    )
    clip_norm: float = option(
        0.0, "maximum global norm of a batch's gradients; larger ones are scaled down to it; 0: no limit", at_least=0
    )
    learning_rate_schedule: str = option(
        "inverse_sqrt", "inverse_sqrt is the paper's; others are cosine, linear and constant"
    )
    learning_rate: float = option(
        0.0, "peak rate, after warm-up; 0: the paper's peak times learning_rate_constant", at_least=0
    )
    learning_rate_constant: float = option(
        1.0, "factor of the paper's peak rate, (hidden_size * learning_rate_warmup_steps)^-0.5", above=0
    )
    learning_rate_warmup_steps: int = option(4000, "the rate grows linearly up to this step", at_least=1)
    learning_rate_decay_steps: int = option(0, "cosine and linear: the step at which the rate reaches 0", at_least=0)
    adam_beta1: float = option(0.9, at_least=0, below=1)
    adam_beta2: float = option(0.98, at_least=0, below=1)
    adam_epsilon: float = option(1e-9, above=0)
    ema_decay: float = option(
        0.0,
        "decay of a moving average of the weights, as an alternative to averaging checkpoints; 0: none",
        at_least=0,
        below=1,
    )
    average_checkpoints: int = option(
        5, "how many of the last checkpoints t2t-lite-avg averages by default", at_least=1
    )
    precision: str = option(
        "float32",
        "mixed_bfloat16, mixed_float16: matrix products in 16 bits; auto: float32 or mixed_bfloat16, the faster one",
        choices=(*PRECISIONS, AUTO_PRECISION),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_registered()
        self._check_sizes()
        self._check_updates()

    @classmethod
    def class_for(cls, values: Mapping[str, object]) -> "type[HParams]":
        """Returns the class with the settings of all registered parts that `values` select."""
        kinds = {}
        for name, registry in REGISTRIES_OF_SETTINGS.items():
            if not isinstance(value := values.get(name, getattr(cls, name)), str) or value not in registry:
                return cls
            kinds[f"{registry.kind} '{value}'"] = registry.fact(value, "hparams_class", HParams)
        return combined_class(HParams, kinds)

    @classmethod
    def hint(cls, name: str) -> str:
        """Returns the hint for an error message about an unknown setting."""
        for setting, registry in REGISTRIES_OF_SETTINGS.items():
            for value in registry:
                if name in cls.class_for({setting: value}).names():
                    return f"; the {registry.kind} {value} has this setting: add {setting}={value}"
        return super().hint(name)

    def warnings(self) -> list[str]:
        """Returns one line for each setting that is valid but probably a mistake, with its effect."""
        messages = []
        if self.batch_tokens < FEW_TOKENS:
            messages.append(
                f"batch_tokens={self.batch_tokens}: with so few target tokens per step, the loss hardly falls; set "
                f"1,000 or more, as small hparam sets do (the paper uses {HParams.batch_tokens:,})"
            )
        rates = ("residual_dropout", "attention_dropout", "relu_dropout", "token_dropout")
        if self.rdrop_alpha and not any(getattr(self, name) for name in rates):
            messages.append(
                f"rdrop_alpha={self.rdrop_alpha}: without dropout, both passes give equal results; set residual_dropout"
            )
        for name in (*rates, "bpe_dropout"):
            if getattr(self, name) > 0.5:
                messages.append(f"{name}={getattr(self, name)}: this drops more than half; the paper uses at most 0.3")
        if self.learning_rate_constant > 10:
            messages.append(
                f"learning_rate_constant={self.learning_rate_constant}: this multiplies the paper's schedule "
                f"and is usually 1; training diverges with such a high rate"
            )
        return messages + self._warnings_of_updates()

    def _warnings_of_updates(self) -> list[str]:
        messages, steps, schedule = [], self.learning_rate_decay_steps, self.learning_rate_schedule
        if self.learning_rate > 0.1 and self.optimizer != "sgd":
            messages.append(
                f"learning_rate={self.learning_rate}: this is the peak rate itself, usually about 0.001; training "
                f"diverges with such a high rate"
            )
        if self.optimizer == "adamw" and not self.weight_decay:
            messages.append(
                "optimizer=adamw: without weight_decay, this equals adam; set weight_decay, usually 0.01 to 0.1"
            )
        if not self.learning_rate and self.optimizer not in ("adam", "adamw"):
            messages.append(f"optimizer={self.optimizer}: the paper's learning rate suits Adam; set learning_rate")
        if not OPTIMIZERS.fact(self.optimizer, "reads_adam", True):
            for name in ("adam_beta1", "adam_beta2", "adam_epsilon"):
                if getattr(self, name) != getattr(HParams, name):
                    messages.append(f"{name} has no effect with optimizer={self.optimizer}")
        if steps and LEARNING_RATE_SCHEDULES.fact(schedule, "needs_decay_steps", None) is False:
            messages.append(f"learning_rate_decay_steps={steps} has no effect with learning_rate_schedule={schedule}")
        elif steps and steps < self.train_steps and LEARNING_RATE_SCHEDULES.fact(schedule, "ends_at_0", False):
            messages.append(
                f"learning_rate_decay_steps={steps}: this is below train_steps={self.train_steps}; from that step on, "
                f"the learning rate is 0, and the weights no longer change"
            )
        if self.learning_rate and self.learning_rate_constant != HParams.learning_rate_constant:
            messages.append("learning_rate_constant has no effect because learning_rate, the peak rate, is set")
        return messages

    def _check_registered(self) -> None:
        """Checks the settings that select from a registry; `model` is checked when the model is created."""
        for name, registry in REGISTRIES_OF_SETTINGS.items():
            value = getattr(self, name)
            if name == "model":
                continue
            if value not in registry:
                self.require(name, False, " or ".join(registry) + alias_hint(registry.flag, value))
            for other, values in registry.fact(value, "requires", {}).items():
                if other not in self.names():
                    raise UserError(f"{registry.kind} '{value}' requires '{other}', which is not a setting")
                self.require(other, getattr(self, other) in values, f"{' or '.join(values)} with {name}={value}")

    def _check_sizes(self) -> None:
        if not (self.attention_key_size and self.attention_value_size):
            self.require(
                "num_heads", self.hidden_size % self.num_heads == 0, f"a divisor of hidden_size ({self.hidden_size})"
            )
        self.require("hidden_size", self.hidden_size % 2 == 0, "even, because sines and cosines come in pairs")
        self.require("kernel_size", self.kernel_size % 2 == 1, "odd, so that the window has a center")
        half = self.neighborhood_size % 2
        self.require("neighborhood_size", half == 0, "even, because half of the neighbors precede a position")
        if self.source_word_token or self.hard_alignment_token:
            self.require("source_end_symbol", self.source_end_symbol, "True with hard alignment or pooled subwords")
        if self.max_positions is not None:
            # A single vector would be broadcast over sequences of any length.
            self.require(
                "max_length", self.max_length >= 2, f"at least 2 with position_encoding={self.position_encoding}"
            )
        if self.position_encoding == "rotary":
            self.require(
                "position_encoding",
                self.key_size % 2 == 0,
                f"used with an even key size per head, not {self.key_size}; set attention_key_size",
            )

    def _check_updates(self) -> None:
        """Checks that weight_decay is 0 unless the optimizer uses it, and that decay steps are set where needed."""
        if not OPTIMIZERS.fact(self.optimizer, "decays_weights", True):
            self.require(
                "weight_decay",
                self.weight_decay == 0.0,
                f"0 with optimizer={self.optimizer}; use adamw for weight decay",
            )
        schedule, warmup = self.learning_rate_schedule, self.learning_rate_warmup_steps
        if LEARNING_RATE_SCHEDULES.fact(schedule, "needs_decay_steps", None):
            self.require(
                "learning_rate_decay_steps",
                self.learning_rate_decay_steps > warmup,
                f"above learning_rate_warmup_steps={warmup} with learning_rate_schedule={schedule}",
            )

    @property
    def key_size(self) -> int:
        """d_k of one head."""
        return self.attention_key_size or self.hidden_size // self.num_heads

    @property
    def value_size(self) -> int:
        """d_v of one head."""
        return self.attention_value_size or self.hidden_size // self.num_heads

    @property
    def max_positions(self) -> int | None:
        """The maximum length of a sequence, in tokens; None: no limit. Some position encodings have one (`learned`)."""
        return self.max_length if POSITION_ENCODINGS.fact(self.position_encoding, "is_limited", False) else None


@dataclasses.dataclass(frozen=True)
class DecodeHParams(Settings):
    """The settings of decoding.

    The defaults are the paper's for translation (section 6.1), except that outputs cannot be empty (`min_length`).
    """

    FLAG: ClassVar[str] = "decode_hparams"

    beam_size: int = option(4, "1 is greedy search", at_least=1)
    alpha: float = option(0.6, "exponent of the length penalty", at_least=0)
    length_penalty: str = option(
        "wu", "wu: ((5 + length) / 6) ** alpha; power: length ** alpha, as in Marian", choices=LENGTH_PENALTIES
    )
    extra_length: int = option(50, "an output may be this many tokens longer than its input", at_least=0, at_most=10**7)
    max_input_length: int = option(
        1024, "longer inputs are truncated to this many tokens, with a warning", at_least=1, at_most=10**7
    )
    batch_tokens: int = option(
        4096,
        "maximum source tokens per batch, padding included; also the limit for the outputs of one beam",
        at_least=1,
    )
    min_length: int = option(
        1, "minimum tokens of an output, without the end symbol; 0: outputs may be empty, as in the paper", at_least=0
    )
    min_length_ratio: float = option(0.0, "minimum ratio of output tokens to input tokens", at_least=0, at_most=100)
    coverage_penalty: float = option(0.0, "beta of Wu et al. 2016, equation 14; 0: none", at_least=0)
    no_repeat_ngram_size: int = option(0, "no n-gram of this size occurs twice in an output; 0: no limit", at_least=0)
    diverse_beam_groups: int = option(
        1, "number of beam groups, each of which avoids earlier groups' tokens (Vijayakumar et al. 2016)", at_least=1
    )
    diverse_beam_strength: float = option(
        0.5, "penalty in nats on a token for each time that an earlier group chose it at the same position", at_least=0
    )
    sampling_method: str = option("argmax", "random: sample each beam instead of searching", choices=SAMPLING_METHODS)
    sampling_temp: float = option(1.0, "logits are divided by this temperature before sampling", above=0)
    sampling_keep_top_k: int = option(0, "sample among the k most probable tokens; 0: all", at_least=0)
    sampling_keep_top_p: float = option(
        1.0, "sample among the fewest tokens with this total probability", above=0, at_most=1
    )
    only_trees: bool = option(False, "parsing: search only well-formed trees over exactly the given words")
    allow_unk: bool = option(False, "allow the unknown token in outputs, although it has no text")
    random_seed: int = option(
        1, "seed for sampling; a line's samples do not depend on its position in a batch", at_least=0
    )
    constraints: str = option("", 'more registered constraints on outputs, such as those from a plug-in: "a+b"')
    scorers: str = option("", 'registered scorers that add terms to the score of an output: "a+b"')
    return_beams: bool = option(False, "return all hypotheses of a line with their scores instead of the best text")
    precision: str = option("float32", "mixed_bfloat16, mixed_float16: matrix products in 16 bits", choices=PRECISIONS)

    def __post_init__(self) -> None:
        if isinstance(self.length_penalty, str):  # others take a number there
            kinds = LENGTH_PENALTIES
            self.require("length_penalty", self.length_penalty in kinds, f"{' or '.join(kinds)}; its exponent is alpha")
        super().__post_init__()
        for registry, names in ((CONSTRAINTS, self.constraints), (SCORERS, self.scorers)):
            for name in names_in(names):
                registry.check(name)
                if setting := registry.fact(name, "setting", ""):
                    raise UserError(f"`{self.FLAG}`: set {setting}=VALUE to use the constraint '{name}'", status=2)
        for name in ("min_length_ratio", "no_repeat_ngram_size") if self.only_trees else ():
            # Trees repeat their symbols, and a tree cannot get longer once it covers all words.
            self.require(name, getattr(self, name) == 0, "0 with only_trees=True")
        self.require(
            "diverse_beam_groups",
            self.beam_size % self.diverse_beam_groups == 0,
            f"a divisor of beam_size ({self.beam_size})",
        )

    def warnings(self) -> list[str]:
        """Returns one line for each setting that is valid but probably a mistake, with its effect."""
        messages, usual = [], DecodeHParams()
        if self.beam_size > WIDE_BEAM:
            messages.append(
                f"beam_size={self.beam_size}: a step takes about {self.beam_size // usual.beam_size} times as long as "
                f"with {usual.beam_size}, and memory grows quadratically; beams above 10 rarely improve outputs"
            )
        if self.batch_tokens < FEW_TOKENS:
            messages.append(
                f"batch_tokens={self.batch_tokens}: sentences are decoded one at a time, which takes several times "
                f"as long as with the default of {usual.batch_tokens:,}"
            )
        return messages


def names_in(value: str) -> list[str]:
    """Returns the names in a setting's value: "a+b" -> ["a", "b"]."""
    return [name.strip() for name in value.split("+")] if value else []


def get_hparams(hparams_set: str, **changes: SettingValue) -> HParams:
    """Returns the settings of a hyperparameter set.

    Args:
      hparams_set: its name, such as "transformer_base".
      changes: settings to change, such as filter_size=2048.

    Raises:
      UserError: if the set or a setting does not exist (the message suggests the nearest names), or a value is invalid.
    """
    return HPARAMS[hparams_set]().replace(**changes)


def resolve_hparams(
    hparams_set: str | None, hparams: HParams | Mapping[str, SettingValue] | str | None, model: str | None = None
) -> HParams:
    """Returns the settings of a hyperparameter set with the changes `hparams`; or `hparams`, if these are complete.

    Changes are a dict or "name=value,...", and may include settings that only `model` has. `model` replaces the model
    in the settings; None: keeps it. Raises UserError as `get_hparams` does, or if both a set and complete settings are
    given, or neither.
    """
    if isinstance(hparams, HParams):
        if hparams_set is not None:
            raise UserError("`hparams` is complete; remove `hparams_set`, or pass `hparams` as a dict of changes")
        return hparams.replace(model=model) if model else hparams
    if hparams_set is None:
        raise UserError("pass the name of an hparam set as `hparams_set`, or complete settings as `hparams`")
    chosen = get_hparams(hparams_set)
    return (chosen.replace(model=model) if model else chosen).changed(hparams)
