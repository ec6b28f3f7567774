"""The settings of models and trainings, and those of decoding. An hparams set is an `HParams`."""

import dataclasses
import math
from collections.abc import Mapping
from typing import ClassVar

from t2t_lite.aliases import alias_hint
from t2t_lite.errors import UserError
from t2t_lite.registry import (
    CONSTRAINTS,
    LEARNING_RATE_SCHEDULES,
    MODELS,
    OPTIMIZERS,
    POSITION_ENCODINGS,
    REGISTRIES_OF_SETTINGS,
    SCORERS,
)
from t2t_lite.settings import Settings, check_settings_class

# Limits for warnings: batches smaller than a long sentence, and beams wider than any paper finds useful.
FEW_TOKENS = 32
WIDE_BEAM = 100
# The deepest published model (Wang et al. 2022). More layers are probably a typo, and take hours to build.
MAX_LAYERS = 1000

PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
AUTO_PRECISION = "auto"  # float32 or mixed_bfloat16: a training chooses, and its run has the choice
SAMPLING_METHODS = ("argmax", "random")
# The allowed values of settings that choose code of the model; the first one is the paper's. Those of the settings in
# REGISTRIES_OF_SETTINGS are the names that are registered.
CHOICES = {
    "norm_position": ("post", "pre"),
    "tied_embeddings": ("all", "decoder", "none"),
    "precision": (*PRECISIONS, AUTO_PRECISION),
}


def choices() -> dict[str, tuple[str, ...]]:
    """Returns the values of every setting that chooses code of the model, plug-ins' included.

    precision=auto is left out: it is one of the others.
    """
    others = (MODELS, OPTIMIZERS, LEARNING_RATE_SCHEDULES)
    parts = {name: registry for name, registry in REGISTRIES_OF_SETTINGS.items() if registry not in others}
    return {name: tuple(registry.names()) for name, registry in parts.items()} | CHOICES | {"precision": PRECISIONS}


@dataclasses.dataclass(frozen=True)
class HParams(Settings):
    """The settings of a model and its training. The defaults are the paper's base model."""

    FLAG: ClassVar[str] = "hparams"
    RENAMED: ClassVar[dict[str, str]] = {"counted_piece": "hard_alignment_token"}

    model: str = "transformer"  # a name in MODELS
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    hidden_size: int = 512  # d_model
    filter_size: int = 2048  # d_ff
    num_heads: int = 8  # h
    attention_key_size: int = 0  # d_k of one head; 0: hidden_size / num_heads
    attention_value_size: int = 0  # d_v of one head; 0: hidden_size / num_heads
    self_attention_type: str = "full"  # full, or a replacement for self-attention: the layers of table 1
    neighborhood_size: int = 64  # r of local attention: positions seen, around each one or, in the decoder, up to it
    kernel_size: int = 3  # k of convolutions, odd
    dilation_growth: int = 1  # ratio of dilations of successive layers; kernel_size gives paths of O(log_k n)
    feed_forward_type: str = "relu"  # swiglu: Shazeer 2020; attention: over parameters, the paper's appendix
    parameter_heads: int = 8  # h_p of attention over parameters
    parameter_head_size: int = 64  # d_pk and d_pv of attention over parameters
    parameter_pairs: int = 1536  # n_p of attention over parameters: key-value pairs per head
    position_encoding: str = "sinusoidal"  # sinusoidal_halves: tensor2tensor's; relative: Shaw 2018; rotary: Su 2021
    hard_alignment_token: int = 0  # id of the target token for one source token, in order (Ma et al. 2017); 0: none
    max_relative_position: int = 16  # relative positions: larger distances count as this one
    norm_position: str = "post"  # pre: before each sub-layer, and a final norm on each stack (Xiong et al. 2020)
    norm_type: str = "layer"  # rms: Zhang and Sennrich 2019
    tied_embeddings: str = "all"  # decoder: the source side has its own matrix; none: the projection has its own, too
    residual_dropout: float = 0.1  # P_drop, on each sub-layer's output and on the sum of embedding and position
    attention_dropout: float = 0.0  # on attention weights
    relu_dropout: float = 0.0  # on the inner layer of feed-forward networks
    max_length: int = 256  # tokens, end symbol included; longer pairs are left out of training
    label_smoothing: float = 0.1  # epsilon_ls
    batch_tokens: int = 25_000  # real target tokens per optimizer step over all devices
    train_steps: int = 100_000
    optimizer: str = "adam"  # adamw, adafactor, lion or sgd; the adam_ settings are for adam and adamw
    weight_decay: float = 0.0  # share of each matrix that an update removes, times the learning rate; not with adam
    clip_norm: float = 0.0  # the largest global norm of the gradients of a batch; longer ones are scaled; 0: any
    learning_rate_schedule: str = "inverse_sqrt"  # the paper's; cosine, linear or constant
    learning_rate: float = 0.0  # the peak, after warm-up; 0: the paper's, in which learning_rate_constant is a factor
    learning_rate_constant: float = 1.0  # factor of the paper's peak (hidden_size * learning_rate_warmup_steps)^-0.5
    learning_rate_warmup_steps: int = 4000  # the rate grows linearly up to this step
    learning_rate_decay_steps: int = 0  # cosine and linear: the step at which the rate reaches 0
    adam_beta1: float = 0.9
    adam_beta2: float = 0.98
    adam_epsilon: float = 1e-9
    ema_decay: float = 0.0  # decay of a moving average of the weights, instead of averaging checkpoints; 0: none
    average_checkpoints: int = 5  # number of last checkpoints that t2t-lite-avg averages by default
    precision: str = "float32"  # mixed_bfloat16, mixed_float16: matrix products in 16 bits; auto: the faster one here

    def __post_init__(self) -> None:
        super().__post_init__()
        may_be_0 = (
            "attention_key_size",
            "attention_value_size",
            "hard_alignment_token",
            "learning_rate_decay_steps",
        )
        for field in dataclasses.fields(HParams):
            value = getattr(self, field.name)
            if isinstance(value, int):
                least = 0 if field.name in may_be_0 else 1
                self.require(field.name, value >= least, f"at least {least}")
        for name in ("num_encoder_layers", "num_decoder_layers"):
            self.require(name, getattr(self, name) <= MAX_LAYERS, f"at most {MAX_LAYERS:,}")
        dropouts = ("residual_dropout", "attention_dropout", "relu_dropout")
        for name in (*dropouts, "label_smoothing", "adam_beta1", "adam_beta2", "ema_decay"):
            self.require(name, 0.0 <= getattr(self, name) < 1.0, "at least 0 and below 1")
        for name in ("learning_rate_constant", "adam_epsilon"):
            self.require(name, 0.0 < getattr(self, name) < math.inf, "above 0 and finite")
        for name in ("weight_decay", "clip_norm", "learning_rate"):
            self.require(name, 0.0 <= getattr(self, name) < math.inf, "at least 0 and finite")
        for name, values in CHOICES.items():
            self.require(name, getattr(self, name) in values, " or ".join(values))
        self._check_registered()
        self._check_sizes()
        self._check_updates()

    @classmethod
    def class_for(cls, values: Mapping[str, object]) -> "type[HParams]":
        """Returns the class of settings that the model in `values` was registered with."""
        model = values.get("model", cls.model)
        if not isinstance(model, str) or model not in MODELS:
            return cls
        kind = MODELS.fact(model, "hparams_class", HParams)
        if kind is not HParams:
            check_settings_class(kind, f"model '{model}'")
        return kind

    @classmethod
    def hint(cls, name: str) -> str:
        """Returns what to add to a message about an unknown name."""
        for model in MODELS:
            if name in cls.class_for({"model": model}).names():
                return f"; the model {model} has it: add model={model}"
        return super().hint(name)

    def warnings(self) -> list[str]:
        """Returns a line about each setting that is valid but probably a mistake, with its effect."""
        messages = []
        if self.batch_tokens < FEW_TOKENS:
            messages.append(
                f"batch_tokens={self.batch_tokens}: with so few target tokens per step (at least one pair) the loss "
                f"hardly falls; the paper uses {HParams.batch_tokens:,}, and small sets 1,000 or more"
            )
        for name in ("residual_dropout", "attention_dropout", "relu_dropout"):
            if getattr(self, name) > 0.5:
                messages.append(f"{name}={getattr(self, name)}: drops more than half; the paper uses at most 0.3")
        if self.learning_rate_constant > 10:
            messages.append(
                f"learning_rate_constant={self.learning_rate_constant}: this is a factor of the paper's schedule, "
                f"usually 1; training diverges with such a high rate"
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
            messages.append("optimizer=adamw: without weight_decay it is the same as adam; 0.01 to 0.1 is usual")
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
                f"learning_rate_decay_steps={steps}: below train_steps={self.train_steps}; the learning rate is 0 and "
                f"the weights stay the same from that step on"
            )
        if self.learning_rate and self.learning_rate_constant != HParams.learning_rate_constant:
            messages.append("learning_rate_constant has no effect with learning_rate, which is the peak itself")
        return messages

    def _check_registered(self) -> None:
        """Checks the settings that choose something from a registry; `model` is checked where it is made."""
        for name, registry in REGISTRIES_OF_SETTINGS.items():
            value = getattr(self, name)
            if name == "model":
                continue
            if value not in registry:
                self.require(name, False, " or ".join(registry) + alias_hint(registry.flag, value))
            for other, values in registry.fact(value, "requires", {}).items():
                if other not in self.names():
                    raise UserError(f"{registry.kind} '{value}' requires '{other}', which is no setting")
                self.require(other, getattr(self, other) in values, f"{' or '.join(values)} with {name}={value}")

    def _check_sizes(self) -> None:
        """Checks that the sizes of a model are consistent."""
        if not (self.attention_key_size and self.attention_value_size):
            self.require(
                "num_heads", self.hidden_size % self.num_heads == 0, f"a divisor of hidden_size ({self.hidden_size})"
            )
        self.require("hidden_size", self.hidden_size % 2 == 0, "even, because sines and cosines come in pairs")
        self.require("kernel_size", self.kernel_size % 2 == 1, "odd, so that the window has a center")
        self.require("neighborhood_size", self.neighborhood_size % 2 == 0, "even: as many before as after")
        if self.max_positions is not None:
            # A single vector would be broadcast over sequences of any length.
            self.require(
                "max_length", self.max_length >= 2, f"at least 2 with position_encoding={self.position_encoding}"
            )
        if self.position_encoding == "rotary":
            self.require(
                "position_encoding", self.key_size % 2 == 0, f"for heads of an even key size, not {self.key_size}"
            )

    def _check_updates(self) -> None:
        """Checks that the optimizer and the schedule have the settings that they need, and no others."""
        if not OPTIMIZERS.fact(self.optimizer, "decays_weights", True):
            self.require("weight_decay", self.weight_decay == 0.0, f"0 with optimizer={self.optimizer}; adamw decays")
        schedule, warmup = self.learning_rate_schedule, self.learning_rate_warmup_steps
        if LEARNING_RATE_SCHEDULES.fact(schedule, "needs_decay_steps", None):
            self.require(
                "learning_rate_decay_steps",
                self.learning_rate_decay_steps > warmup,
                f"above learning_rate_warmup_steps={warmup} with learning_rate_schedule={schedule}, which needs it",
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
        """The longest supported sequence, in tokens; None: any. Only positions such as learned ones are limited."""
        return self.max_length if POSITION_ENCODINGS.fact(self.position_encoding, "is_limited", False) else None


@dataclasses.dataclass(frozen=True)
class DecodeHParams(Settings):
    """The settings of decoding.

    The defaults are the paper's for translation (section 6.1), except that an output is not empty (`min_length`).
    """

    FLAG: ClassVar[str] = "decode_hparams"

    beam_size: int = 4  # 1 is greedy search
    alpha: float = 0.6  # exponent of the length penalty ((5 + length) / 6) ** alpha
    extra_length: int = 50  # an output has at most this many tokens more than its input
    max_input_length: int = 1024  # longer inputs are truncated to this many tokens, with a warning
    batch_tokens: int = 4096  # tokens per batch, padding included: of the source, and of one beam's outputs
    min_length: int = 1  # minimum length of an output in tokens, without the end symbol; 0: it may be empty (the paper)
    min_length_ratio: float = 0.0  # minimum ratio of output tokens to input tokens
    coverage_penalty: float = 0.0  # beta of Wu et al. 2016, equation 14; 0: none
    no_repeat_ngram_size: int = 0  # no n-gram of this size occurs twice in an output; 0: no limit
    diverse_beam_groups: int = 1  # groups of beams that avoid each other's tokens (Vijayakumar et al. 2016)
    diverse_beam_strength: float = 0.5  # penalty in nats on a token for each group that has already chosen it
    sampling_method: str = "argmax"  # random: sample each beam instead of searching
    sampling_temp: float = 1.0  # logits are divided by this temperature before sampling
    sampling_keep_top_k: int = 0  # sample among the k most probable tokens; 0: all
    sampling_keep_top_p: float = 1.0  # sample among the fewest tokens with this total probability
    only_trees: bool = False  # parsing: search only well-formed trees over exactly the given words
    allow_unk: bool = False  # whether outputs may contain the unknown token, which stands for no text
    random_seed: int = 1  # seed of the samples of a line, independent of its position in a batch
    constraints: str = ""  # further constraints on outputs, registered ones such as those of a plug-in: "a+b"
    scorers: str = ""  # further terms of the score of an output, registered ones: "a+b"
    return_beams: bool = False  # return all hypotheses of a line with their scores instead of the best text
    precision: str = "float32"  # mixed_bfloat16, mixed_float16: computation in 16 bits

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("beam_size", "max_input_length", "batch_tokens", "diverse_beam_groups"):
            self.require(name, getattr(self, name) >= 1, "at least 1")
        for name in (
            "alpha",
            "extra_length",
            "min_length",
            "min_length_ratio",
            "coverage_penalty",
            "no_repeat_ngram_size",
            "diverse_beam_strength",
            "sampling_keep_top_k",
            "random_seed",
        ):
            self.require(name, 0 <= getattr(self, name) < math.inf, "at least 0 and finite")
        self.require("sampling_temp", 0 < self.sampling_temp < math.inf, "above 0 and finite")
        self.require("sampling_keep_top_p", 0 < self.sampling_keep_top_p <= 1, "above 0 and at most 1")
        for name, choices in (("sampling_method", SAMPLING_METHODS), ("precision", PRECISIONS)):
            self.require(name, getattr(self, name) in choices, " or ".join(choices))
        for registry, names in ((CONSTRAINTS, self.constraints), (SCORERS, self.scorers)):
            for name in names_in(names):
                registry.check(name)
                if setting := registry.fact(name, "setting", ""):
                    raise UserError(f"`{self.FLAG}`: the constraint '{name}' is chosen by {setting}=VALUE", status=2)
        for name in ("min_length_ratio", "no_repeat_ngram_size") if self.only_trees else ():
            # Trees repeat their symbols, and a tree cannot get longer once it covers all words.
            self.require(name, getattr(self, name) == 0, "0 with only_trees=True")
        self.require(
            "diverse_beam_groups",
            self.beam_size % self.diverse_beam_groups == 0,
            f"a divisor of beam_size ({self.beam_size})",
        )

    def warnings(self) -> list[str]:
        """Returns a line about each setting that is valid but probably a mistake, with its effect."""
        messages, usual = [], DecodeHParams()
        if self.beam_size > WIDE_BEAM:
            messages.append(
                f"beam_size={self.beam_size}: a step takes about {self.beam_size // usual.beam_size} times as long as "
                f"with {usual.beam_size}, and memory grows quadratically; beams above 10 rarely improve outputs"
            )
        if self.batch_tokens < FEW_TOKENS:
            messages.append(
                f"batch_tokens={self.batch_tokens}: sentences are decoded one by one, which takes several times as "
                f"long as the default of {usual.batch_tokens:,}"
            )
        return messages


def names_in(value: str) -> list[str]:
    """Returns the names in a setting's value: "a+b" -> ["a", "b"]."""
    return [name.strip() for name in value.split("+")] if value else []
