"""Registries of everything that settings and flags select by name, whether built in or from plug-ins.

The built-in entries are at the end, by module and attribute; their code is imported on first use.
"""

import contextlib
import dataclasses
import functools
import importlib
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar, overload

from t2t_lite.aliases import alias_hint
from t2t_lite.errors import UserError, nearest

# A registered object: a class, or a function that returns settings, a layer, a model, an optimizer and so on.
Entry: TypeAlias = Callable[..., Any]
E = TypeVar("E", bound=Entry)
_BUILT_IN = f"{__package__}."  # the prefix of our modules' names
F = TypeVar("F")


def snake_case(name: str) -> str:
    """Turns a class name into a registry name: "Multi30kEnde" -> "multi30k_ende"."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


class Origin(NamedTuple):
    """The plug-in that registers an object: of kind "package" (`where`: its name) or "t2t_usr_dir" (the folder)."""

    kind: str
    where: str


class Source(NamedTuple):
    """The origin of code that is not built in."""

    origin: Origin  # of kind "file" if a program registered the code
    since: float  # when it was loaded, in seconds since the epoch


@dataclasses.dataclass
class _Entry:
    """The registration of one name."""

    item: Entry | str  # for a lazy entry, "module:attribute" until its first use
    place: str
    summary: str
    facts: Mapping[str, Any]
    file: str = ""
    origin: Origin | None = None  # the plug-in; None: built in, or registered by a program
    time: float = dataclasses.field(default_factory=time.time)
    parent: str | None = None  # for a derived set, the set that it is derived from


_origins: list[Origin] = []


@contextlib.contextmanager
def registering(origin: Origin) -> Iterator[None]:
    """Marks everything that is registered inside the block as coming from a plug-in."""
    _origins.append(origin)
    try:
        yield
    finally:
        _origins.pop()


class Registry:
    """A mapping from names to objects of one kind. Duplicate and unknown names are errors.

    Looking up an unknown name, or listing all names, first loads the built-in modules and the installed plug-ins.

    Args:
      kind: the kind of object, for error messages ("problem").
      flag: the command-line flag that selects a name.
      facts: names of the facts that a registration may give.
    """

    def __init__(self, kind: str, flag: str, facts: tuple[str, ...] = ()) -> None:
        self.kind = kind
        self.known_facts = facts
        self.flag = flag
        self.load: Callable[[], None] = lambda: None  # registers everything else, see `set_loader`
        self._entries: dict[str, _Entry] = {}

    @overload
    def register(self, item: E, *, name: str | None = ..., **facts: object) -> E: ...

    @overload
    def register(self, item: str | None = ..., *, name: str | None = ..., **facts: object) -> Callable[[E], E]: ...

    def register(
        self, item: E | str | None = None, *, name: str | None = None, **facts: object
    ) -> E | Callable[[E], E]:
        """Registers a class or function under `name`, by default its own name in snake case.

        Use it as a decorator: `@register`, `@register(name="x")` or `@register("x")`.

        Args:
          item: the class or function; in `@register("x")`, the name.
          name: the name; None: `item`, or the snake case of the class or function's own name.
          facts: properties that must be known without importing the item, see `fact`.

        Raises:
          UserError: if the name is taken; the message names both places.
        """
        if item is None or isinstance(item, str):
            given = item or name
            return lambda decorated: self.register(decorated, name=given, **facts)
        place = f"{item.__module__}.{item.__qualname__}"
        file = getattr(sys.modules.get(item.__module__), "__file__", None) or ""
        summary = (item.__doc__ or "").strip().split("\n")[0]
        self._add(name or snake_case(item.__name__), _Entry(item, place, summary, facts, file))
        return item

    def register_lazily(self, name: str, reference: str, summary: str, **facts: object) -> None:
        """Registers "module:attribute", which is imported on first use, so that listings need no TensorFlow."""
        if reference.count(":") != 1:
            raise UserError(f"{self.kind} '{name}': '{reference}' is not of the form module:attribute")
        self._add(name, _Entry(reference, reference, summary, facts))

    def unregister(self, name: str) -> None:
        """Removes the registration of `name`."""
        self._entries.pop(name, None)

    def fact(self, name: str, key: str, default: F) -> F:
        """Returns the fact `key` of `name`, or the default if its registration lacks that fact."""
        return self._entries[name].facts.get(key, default)

    def having(self, key: str, value: object) -> list[str]:
        """Returns the names whose fact `key` equals `value`, in order of registration."""
        self.load()
        return [name for name, entry in self._entries.items() if entry.facts.get(key) == value]

    def _add(self, name: str, entry: _Entry) -> None:
        for fact in entry.facts:
            if fact not in self.known_facts:
                raise UserError(f"{self.kind} '{name}': unknown fact '{fact}'{nearest(fact, self.known_facts)}")
        for setting, values in entry.facts.get("requires", {}).items():
            if isinstance(values, str):
                raise UserError(
                    f"{self.kind} '{name}': requires={{'{setting}': ...}} takes a tuple of values, not a string"
                )
        # Importing a module again, as in a notebook, replaces its entries; an entry from another place is a conflict.
        before = self._entries.get(name, entry)
        if before.place != entry.place:
            first, second = (f"{each.place} ({each.file})" if each.file else each.place for each in (before, entry))
            raise UserError(f"{self.kind} '{name}' is registered twice: in {first} and in {second}; rename one of them")
        entry.origin = _origins[-1] if _origins else before.origin
        self._entries[name] = entry

    def origin(self, name: str) -> Origin | None:
        """Returns the plug-in that registered `name`; None if it is built in, unknown, or registered by a program."""
        return self._entries[name].origin if name in self._entries else None

    def source(self, name: str) -> Source | None:
        """Returns the origin of the code of `name`; None if it is built in or unknown."""
        entry = self._entries.get(name)
        if entry is None or (not entry.origin and entry.place.startswith(_BUILT_IN)):
            return None
        return Source(entry.origin or Origin("file", entry.file or "<unknown>"), entry.time)

    def __contains__(self, name: str) -> bool:
        if name not in self._entries:
            self.load()
        return name in self._entries

    def check(self, name: str) -> None:
        """Raises UserError, with the nearest names, if `name` is unknown. Does not import lazy entries."""
        if name not in self:
            hint = alias_hint(self.flag, name) or nearest(name, self._entries, is_registered=True)
            raise UserError(f"unknown {self.kind} '{name}' (`{self.flag}`){hint}", status=2)

    def __getitem__(self, name: str) -> Entry:
        self.check(name)
        item = self._entries[name].item
        if isinstance(item, str):
            module, attribute = item.split(":")
            item = self._entries[name].item = getattr(importlib.import_module(module), attribute)
        return item

    def names(self) -> list[str]:
        """Returns all names, sorted."""
        self.load()
        return sorted(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def summary(self, name: str) -> str:
        """Returns a one-line description: the first line of the docstring, or the summary of a lazy registration."""
        return self._entries[name].summary


class SetRegistry(Registry):
    """A registry of hyperparameter sets: functions that return settings. A set may be derived from a parent set."""

    def derive(self, parent: str, **facts: Any) -> Callable[[Entry], Entry]:
        """Registers a function that derives its settings from those of a parent set. Use it as a decorator.

        Args:
          parent: the name of the set whose settings the decorated function receives.
          facts: see `register`.
        """

        def decorate(function: Entry) -> Entry:
            @functools.wraps(function)
            def make() -> object:
                return function(self[parent]())

            self.register(make, **facts)
            self._entries[make.__name__].parent = parent
            return make

        return decorate

    def parent(self, name: str) -> str | None:
        """Returns the name of the set that `name` is derived from, or None."""
        return self._entries[name].parent if name in self._entries else None


PROBLEMS = Registry("problem", "problem")
HPARAMS = SetRegistry("hparam set", "hparams_set", facts=("recipe",))
MODELS = Registry("model", "model", facts=("hparams_class",))
_FACTS = ("requires", "hparams_class")  # of everything that the other settings of models and training select
SELF_ATTENTION_TYPES = Registry("self-attention type", "hparams=self_attention_type", _FACTS)
FEED_FORWARD_TYPES = Registry("feed-forward type", "hparams=feed_forward_type", _FACTS)
POSITION_ENCODINGS = Registry("position encoding", "hparams=position_encoding", (*_FACTS, "is_limited"))
NORM_TYPES = Registry("norm type", "hparams=norm_type", _FACTS)
METRICS = Registry(
    "metric",
    "eval_metric",
    facts=(
        *("needs", "higher_is_better", "figure", "label", "options", "several_references", "beside"),
        *("evaluated_with", "evaluated_for", "needs_language"),
    ),
)
OPTIMIZERS = Registry("optimizer", "hparams=optimizer", (*_FACTS, "moments", "decays_weights", "reads_adam"))
LEARNING_RATE_SCHEDULES = Registry(
    "learning rate schedule", "hparams=learning_rate_schedule", (*_FACTS, "needs_decay_steps", "ends_at_0")
)
CONSTRAINTS = Registry("constraint", "decode_hparams=constraints", facts=("setting",))
SCORERS = Registry("scorer", "decode_hparams=scorers")

# The settings whose values are names in a registry.
REGISTRIES_OF_SETTINGS = {
    "model": MODELS,
    "self_attention_type": SELF_ATTENTION_TYPES,
    "feed_forward_type": FEED_FORWARD_TYPES,
    "position_encoding": POSITION_ENCODINGS,
    "norm_type": NORM_TYPES,
    "optimizer": OPTIMIZERS,
    "learning_rate_schedule": LEARNING_RATE_SCHEDULES,
}
REGISTRIES = (PROBLEMS, HPARAMS, METRICS, CONSTRAINTS, SCORERS, *REGISTRIES_OF_SETTINGS.values())


def set_loader(load: Callable[[], None]) -> None:
    """Sets the function that registers all objects. Registries call it for unknown names and before listing names."""
    for registry in REGISTRIES:
        registry.load = load


_AS_IN_TENSOR2TENSOR = {"register_problem": "PROBLEMS", "register_hparams": "HPARAMS", "register_model": "MODELS"}


def __getattr__(name: str) -> object:
    """Raises an error that names the equivalent of tensor2tensor's registry functions."""
    if ours := _AS_IN_TENSOR2TENSOR.get(name):
        raise AttributeError(f"tensor2tensor's {name} is {ours}.register here: from {__name__} import {ours}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_SUBLAYERS = "t2t_lite.models.sublayers:"

MODELS.register_lazily(
    "transformer", "t2t_lite.models.transformer:Transformer", "The paper's encoder-decoder (section 3)."
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
    ("swish", "swish", "The paper's with swish instead of ReLU, as in Marian (Ramachandran 2017)."),
    ("swiglu", "swiglu", "Gated, without biases (Shazeer 2020)."),
    ("attention", "parameter_attention", "Attention over parameters (the paper's appendix)."),
):
    FEED_FORWARD_TYPES.register_lazily(_name, _SUBLAYERS + _function, _summary)


def _requires_attention(*types: str) -> dict[str, object]:
    return {"requires": {"self_attention_type": types}}


for _name, _function, _summary, _facts in (
    ("sinusoidal", "sinusoidal", "The paper's: interleaved sines and cosines (section 3.5).", {}),
    ("sinusoidal_halves", "sinusoidal_halves", "tensor2tensor's: all sines, then all cosines.", {}),
    (
        "sinusoidal_halves_from_1",
        "sinusoidal_halves_from_1",
        "OpenNMT-tf's: sinusoidal_halves with positions from 1, not 0.",
        {},
    ),
    ("learned", "learned_positions", "A trainable vector for each position (table 3, row E).", {"is_limited": True}),
    ("relative", "no_positions", "Relative positions, applied in attention (Shaw 2018).", _requires_attention("full")),
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
        "text_metrics:Bleu",
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
        "text_metrics:Chrf",
        "Matching character n-grams (up to 6), sacreBLEU's chrF2; 0 to 100.",
        {"label": "chrF2", **_SEVERAL, **_CASE},
    ),
    (
        "ter",
        "text_metrics:Ter",
        "Edits as a percentage of the reference's words, by sacreBLEU; lower is better.",
        {"label": "TER", "options": ("language",), **_SEVERAL, **_LOWER},
    ),
    (
        "paper_bleu",
        "text_metrics:PaperBleu",
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
        "text_metrics:ExactMatch",
        "Percentage of outputs that equal a reference; 0 to 100.",
        {**_SEVERAL, **_CASE},
    ),
    (
        "parseval",
        "parseval:LabelledF1",
        "Labelled bracketing F1 of trees, equal to EVALB's; 0 to 100.",
        {"needs": "trees", "figure": "f1", "label": "F1", "options": ("per_sentence", "roots_as_top")},
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
    OPTIMIZERS.register_lazily(_name, f"t2t_lite.training.optimizers:{_name}", _summary, **_facts)

# `needs_decay_steps`: whether a schedule needs learning_rate_decay_steps (if False, it ignores the setting).
# `ends_at_0`: whether the rate is 0 from that step on.
for _name, _function, _summary, _needs_decay_steps in (
    ("inverse_sqrt", "paper_schedule", "The paper's: the inverse square root of the step (equation 3).", False),
    ("cosine", "cosine", "Falls to 0 at learning_rate_decay_steps along half a cosine (Loshchilov 2017).", True),
    ("linear", "linear", "Falls linearly to 0 at learning_rate_decay_steps.", True),
    ("constant", "constant", "Stays at the peak after warm-up.", False),
):
    _facts = {"needs_decay_steps": _needs_decay_steps, "ends_at_0": _needs_decay_steps}
    LEARNING_RATE_SCHEDULES.register_lazily(_name, f"t2t_lite.schedules:{_function}", _summary, **_facts)

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
