"""What a model says of given outputs: their scores, attention weights and word alignments."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, overload

import numpy as np

from t2t_lite.config import DecodeHParams
from t2t_lite.data.vocab import Vocabulary
from t2t_lite.decoding.alignment import alignment
from t2t_lite.decoding.engine import Engine
from t2t_lite.decoding.line_search import Hypothesis
from t2t_lite.decoding.single_text import or_a_single_text
from t2t_lite.decoding.tokenizing import encode_lines
from t2t_lite.errors import UserError

# Attention weights [heads, queries, keys], the tokens of the queries, and those of the keys.
Weights: TypeAlias = tuple[np.ndarray, list[str], list[str]]


class GivenOutputs:
    """The part of `Translator` that searches nothing.

    Args:
      engine: the model.
      vocabulary, inputs_vocabulary: the vocabularies of the targets and the inputs.
      decode_hparams: the decoding settings.
      warn: receives a line about a text that was cut.
    """

    def __init__(
        self,
        engine: Engine,
        vocabulary: Vocabulary,
        inputs_vocabulary: Vocabulary,
        decode_hparams: DecodeHParams,
        warn: Callable[[str], None],
    ) -> None:
        self.engine = engine
        self.vocabulary, self.inputs_vocabulary = vocabulary, inputs_vocabulary
        self.decode_hparams = decode_hparams
        self._warn = warn

    @overload
    def score(self, inputs: str, targets: str, first_line: int = ...) -> Hypothesis: ...

    @overload
    def score(self, inputs: Sequence[str], targets: Sequence[str], first_line: int = ...) -> list[Hypothesis]: ...

    @or_a_single_text("inputs", "targets")
    def score(
        self, inputs: Sequence[str] | str, targets: Sequence[str] | str, first_line: int = 1
    ) -> list[Hypothesis] | Hypothesis:
        """Scores given translations.

        Args:
          inputs: source lines.
          targets: a translation of each line.
          first_line: the number of the first line, for warnings.

        Returns:
          a `Hypothesis` for each pair. Its score does not include the coverage penalty.
        """
        settings = self.decode_hparams
        sources = self._encode(self.inputs_vocabulary, inputs, settings, first_line, "line")
        outputs = self._encode(self.vocabulary, targets, settings, first_line, "the translation of line")
        scores = self.engine.score(sources, outputs, settings)
        return [Hypothesis(text, *scored) for text, scored in zip(targets, scores, strict=True)]

    @property
    def attention_layers(self) -> Mapping[str, int]:
        """The number of layers by kind of `attention`; {} if the engine gives no weights, or for an ensemble."""
        return self.engine.attention_layers

    @overload
    def attention(self, line: str, translation: str, kind: str = ..., layer: int | None = ...) -> Weights: ...

    @overload
    def attention(
        self, line: Sequence[str], translation: Sequence[str], kind: str = ..., layer: int | None = ...
    ) -> list[Weights]: ...

    @or_a_single_text("line", "translation")
    def attention(
        self,
        line: Sequence[str] | str,
        translation: Sequence[str] | str,
        kind: str = "cross",
        layer: int | None = None,
    ) -> list[Weights] | Weights:
        """Returns the attention weights of one layer for a line and its translation.

        Args:
          line, translation: a text each, or lists of texts.
          kind: "encoder" or "decoder" for their self-attention, "cross" for the decoder's attention to the source.
          layer: the index of the layer from 0, -1 for the last; None: the layer closest to a word alignment.

        Returns:
          (weights, query tokens, key tokens), or a list of them. The weights are float32 [heads, queries, keys], and
          each row sums to 1. A decoder query is labelled with the token that it predicts. The last token is the end
          symbol, "".

        Raises:
          UserError: if there is no such layer, it has no attention, or the translator has several models.
        """
        kind = "cross" if kind == "memory" else kind  # its name before version 0.2
        if kind not in ("encoder", "decoder", "cross"):
            raise UserError(f"attention kinds are encoder, decoder and cross, not '{kind}'")
        sources, outputs = self._pair(line, translation)
        try:
            found = self.engine.attention(sources, outputs, kind, layer, self.decode_hparams)
        except ValueError as error:
            raise UserError(str(error)) from error
        queries, keys = {"encoder": (0, 0), "decoder": (1, 1), "cross": (1, 0)}[kind]
        results = []
        for weights, source, output in zip(found, sources, outputs):
            sides = ([*self.inputs_vocabulary.tokens_of(source), ""], [*self.vocabulary.tokens_of(output), ""])
            results.append((weights, sides[queries], sides[keys]))
        return results

    @overload
    def align(self, lines: str, translations: str, layer: int | None = ...) -> str: ...

    @overload
    def align(self, lines: Sequence[str], translations: Sequence[str], layer: int | None = ...) -> list[str]: ...

    @or_a_single_text("lines", "translations")
    def align(
        self, lines: Sequence[str] | str, translations: Sequence[str] | str, layer: int | None = None
    ) -> list[str] | str:
        """Aligns the words of translations with the words of their lines, by attention averaged over heads.

        Args:
          lines, translations: texts.
          layer: the decoder layer whose attention is used, see `attention`.

        Returns:
          for each pair, "i-j ..." in Pharaoh format: word j of the translation is aligned with word i of the line. Both
          count from 0; words are separated by blanks. Each word of the translation has one link.

        Raises:
          UserError: as `attention` does.
        """
        sources, outputs = self._pair(lines, translations)
        try:
            found = self.engine.cross_attention(sources, outputs, layer, self.decode_hparams)
        except ValueError as error:
            raise UserError(str(error)) from error
        return [
            alignment(weights, self.inputs_vocabulary.tokens_of(source), self.vocabulary.tokens_of(output))
            for weights, source, output in zip(found, sources, outputs)
        ]

    def _pair(self, lines: Sequence[str], translations: Sequence[str]) -> tuple[list[list[int]], list[list[int]]]:
        """Returns (ids of the lines, ids of their translations)."""
        settings = self.decode_hparams
        sources = self._encode(self.inputs_vocabulary, lines, settings, 1, "line")
        return sources, self._encode(self.vocabulary, translations, settings, 1, "the translation of line")

    def _encode(
        self, vocabulary: Vocabulary, lines: Sequence[str], settings: DecodeHParams, first_line: int, name: str
    ) -> list[list[int]]:
        """Returns the ids of each text, with the end symbol. See `encode_lines`."""
        return encode_lines(
            vocabulary,
            lines,
            settings,
            self.engine.max_positions,
            self._warn,
            first_line,
            name,
            self.engine.positions_limit,
        )
