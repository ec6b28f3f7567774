"""The requests and responses of /v1. The page /docs shows these descriptions."""

from typing import Annotated, Any, Literal

import pydantic

from t2t_lite.serving.options import MAX_TERMS

# A text without the byte order marks before it.
_Text = Annotated[str, pydantic.AfterValidator(lambda text: text.lstrip("\ufeff"))]
_Term = Annotated[str, pydantic.StringConstraints(max_length=200)]
_INPUTS = "a list of lines, or a single line; each line gets one result"
_DRAWING = "return each line's best tree as an SVG picture; more than 20 lines: an error, or with split, no pictures"
_SPLIT = (
    "treat the inputs as one text of any number of lines, and split it into sentences; each sentence gets one result"
)
_TERMS = (
    'a glossary, [["term", "translation"], ...]: the output for a line with a term contains its translation; it comes '
    "before the model's own glossary"
)
_SETTINGS = "search settings for this request, such as beam_size and alpha"
_EXAMPLE: dict[str, Any] = {
    "inputs": ["A man is riding a bicycle."],
    "source": "en",
    "target": "de",
    "num_hypotheses": 2,
    "scores": True,
    "alignments": True,
    "settings": {"beam_size": 4, "alpha": 0.6},
}
_MAP_EXAMPLE: dict[str, Any] = {"inputs": "The dog runs.", "targets": "Der Hund läuft.", "kind": "encoder"}
_PARSING_EXAMPLE: dict[str, Any] = {"inputs": ["The dog runs ."], "scores": True}


class AttentionRequest(pydantic.BaseModel):
    """The requested attention weights."""

    kind: Literal["encoder", "decoder", "cross"] = "cross"
    layer: int | None = pydantic.Field(
        None, description="index from 0; -1: the last layer (default: the layer closest to a word alignment)"
    )


class Request(pydantic.BaseModel, extra="forbid"):
    """The base class of requests."""

    inputs: _Text | list[_Text] = pydantic.Field(description=_INPUTS)
    model: str = pydantic.Field("", description="name of a model, see /v1/models")
    num_hypotheses: int = pydantic.Field(1, ge=1, description="number of outputs per line, best first")
    scores: bool = pydantic.Field(False, description="return the score and log-probability of each output")
    settings: dict[str, Any] = pydantic.Field({}, description=_SETTINGS)
    split: bool = pydantic.Field(False, description=_SPLIT)

    @property
    def lines(self) -> list[str]:
        return [self.inputs] if isinstance(self.inputs, str) else self.inputs


class TranslateRequest(Request, json_schema_extra={"examples": [_EXAMPLE]}):
    """Lines to translate. Instead of `model`, `source` and `target` may select the model."""

    source: str = pydantic.Field("", description='language code of the inputs; "auto" detects it')
    target: str = pydantic.Field("", description="language code of the translation")
    prefixes: _Text | list[_Text] | None = pydantic.Field(None, description="the beginning of each output")
    phrases: list[list[str]] | None = pydantic.Field(None, description="phrases that each output must contain")
    terms: list[tuple[_Term, str]] = pydantic.Field([], max_length=MAX_TERMS, description=_TERMS)
    alignments: bool = pydantic.Field(False, description='return word alignments, "i-j ..."')
    attention: AttentionRequest | None = pydantic.Field(None, description="attention weights to return")


class MapRequest(pydantic.BaseModel, extra="forbid", json_schema_extra={"examples": [_MAP_EXAMPLE]}):
    """A line with its output, and the requested attention weights."""

    inputs: _Text = pydantic.Field(description="a line")
    targets: _Text = pydantic.Field(description="its translation or tree")
    model: str = pydantic.Field("", description="name of a model, see /v1/models")
    kind: Literal["encoder", "decoder", "cross"] = "cross"
    layer: int | None = pydantic.Field(
        None, description="index from 0; -1: the last layer (default: as in the paper's figures 3 to 5)"
    )


class ParseRequest(Request, json_schema_extra={"examples": [_PARSING_EXAMPLE]}):
    """Lines to parse, which are split into words at blanks or by the Penn Treebank's rules."""

    tokenizer: Literal["blanks", "treebank"] = "blanks"
    drawing: bool = pydantic.Field(False, description=_DRAWING)


class Hypothesis(pydantic.BaseModel):
    """One output for a line."""

    text: str
    score: float | None = pydantic.Field(None, description="the score by which the search ranks outputs")
    log_prob: float | None = pydantic.Field(None, description="log-probability of the output, in nats")
    cut: bool | None = pydantic.Field(None, description="true if the output was cut at the maximum length")
    alignment: str | None = pydantic.Field(
        None, description='"i-j ...": output word j is aligned to input word i, both counted from 0'
    )


class Attention(pydantic.BaseModel):
    """Attention weights of one layer; each row sums to 1. The last token is the end symbol."""

    queries: list[str]
    keys: list[str]
    weights: list[list[list[float]]] = pydantic.Field(description="[heads][queries][keys]")


class LineResult(pydantic.BaseModel):
    """The outputs for one line."""

    hypotheses: list[Hypothesis] = pydantic.Field(
        description="best first, or samples in the order in which they were drawn"
    )
    attention: Attention | None = pydantic.Field(None, description="attention weights of the first hypothesis")
    inputs: str | None = pydantic.Field(
        None, description="with split, the sentence; for parsing, the line with its words separated by blanks"
    )
    drawing: str | None = pydantic.Field(None, description="for parsing, the first tree as SVG")


class Answer(pydantic.BaseModel):
    """The outputs for all lines."""

    model: str
    results: list[LineResult] = pydantic.Field(description="one per line, in order")
    queue_seconds: float
    model_seconds: float
    between: list[str] | None = pydantic.Field(
        None, description="with split, the blanks, line breaks and list numbers before, between and after the sentences"
    )


class MapView(Attention):
    """Attention weights with the labels of a picture; each row sums to 1."""


class Map(pydantic.BaseModel):
    """The attention weights of one layer."""

    kind: str
    layer: int
    tokens: MapView
    words: MapView | None = pydantic.Field(
        None, description="attention between whole words, if they differ from the tokens"
    )


class MapAnswer(pydantic.BaseModel):
    """The attention weights for a line and its output."""

    model: str
    map: Map
    statistics: dict[str, Any] = pydantic.Field(description="measurements of each head and of uniform attention")


class Error(pydantic.BaseModel):
    """The reason for an error response."""

    error: str
