"""Searches for the outputs of text lines: converts lines to ids, runs an engine, and converts its ids to texts."""

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from t2t_lite.config import DecodeHParams
from t2t_lite.data.vocab import EOS_ID, Vocabulary
from t2t_lite.decoding.engine import Engine, EngineHypothesis, Lines, Needs, Query, check_process
from t2t_lite.decoding.tokenizing import encode_lines, has_letters
from t2t_lite.errors import UserError


class Hypothesis(NamedTuple):
    """One output for a line."""

    text: str
    score: float  # log_prob / length penalty + coverage penalty + other score terms; the search ranks by it
    log_prob: float  # sum of the log-probabilities of its tokens and the end symbol, in nats

    @property
    def is_cut(self) -> bool:
        """Whether the output is incomplete: it reached the length limit without an end symbol, or its line was cut."""
        return isinstance(self, CutHypothesis)


class CutHypothesis(Hypothesis):
    """An incomplete hypothesis, see `Hypothesis.is_cut`. It has the same three values, for compatibility."""

    __slots__ = ()


class LineSearch:
    """Decodes lines: search(lines, settings, number of hypotheses wanted) -> hypotheses. Thread-safe.

    `warn` receives a line about each input or output that was cut. Without `has_inputs`, the model reads no inputs,
    and the lines are the beginnings of their own outputs.
    """

    def __init__(
        self,
        engine: Engine,
        vocabulary: Vocabulary,
        inputs_vocabulary: Vocabulary,
        warn: Callable[[str], None],
        has_inputs: bool = True,
    ) -> None:
        self._engine, self._warn, self._has_inputs = engine, warn, has_inputs
        self._vocabulary, self._inputs_vocabulary, self._process = vocabulary, inputs_vocabulary, os.getpid()

    def __call__(self, lines: Lines, settings: DecodeHParams, num_wanted: int) -> list[list[Hypothesis]]:
        """Returns the hypotheses of each line: best first, or samples in drawing order.

        `num_wanted` is the number of hypotheses per line that must be the best ones; 0: all, each text once.
        """
        check_process(self._process)
        lines, settings = self._checked(lines, settings)
        copied = {}  # lines without letters that begin with their prefix and need no phrases, by row
        if lines.copy_letterless and self._has_inputs:
            prefixes, phrases = lines.prefixes or [""] * len(lines.texts), lines.phrases or [()] * len(lines.texts)
            copied = {
                row: text
                for row, (text, prefix, wanted) in enumerate(zip(lines.texts, prefixes, phrases, strict=True))
                if text.strip() and not has_letters(text) and text.startswith(prefix) and not wanted
            }
        lines = lines._replace(texts=["" if row in copied else text for row, text in enumerate(lines.texts)])
        rows = [row for row, line in enumerate(lines.texts) if line.strip() or not self._has_inputs]
        sources, starts, cut = self._encoded(lines, settings)
        constraints = () if isinstance(lines.constraints, str) else lines.constraints
        whole_words = {row for row in rows if self._ends_word(lines, row)}
        query = Query(lines, sources, starts, constraints, rows, settings, num_wanted, whole_words)
        if num_blank := len(lines.texts) - len(rows):
            query.done(num_blank)
        hypotheses, warnings = self._engine.search(query)
        blank = "the line is blank, so its output is blank and lacks its phrases"
        num_phrases = dict(enumerate(map(len, lines.phrases or ())))
        without = {row: blank for row in num_phrases.keys() - {*rows} if num_phrases[row]}
        for row, line in sorted((without | dict(warnings)).items()):
            self._warn(f"line {lines.first_line + row}: {line}")
        results = [[Hypothesis(copied.get(row, ""), 0.0, 0.0)] for row in range(len(lines.texts))]
        for row in rows:
            prefix = (lines.prefixes[row], starts[row]) if lines.prefixes and starts else ("", [])
            results[row] = self._hypotheses(hypotheses[row], *prefix, row in cut)
            if row in whole_words:
                results[row] = _with_new_words(results[row], prefix[0])
        if num_wanted == 0 and settings.sampling_method == "argmax":
            return list(map(distinct, results))
        return results

    def _checked(self, lines: Lines, settings: DecodeHParams) -> tuple[Lines, DecodeHParams]:
        if not self._has_inputs:
            if lines.prefixes is not None:
                raise UserError(
                    "the model reads no inputs and takes no prefixes; pass the beginnings of outputs as lines"
                )
            lines = lines._replace(texts=[""] * len(lines.texts), prefixes=lines.texts)
        if lines.first_line < 0:
            raise UserError(f"`first_line={lines.first_line}` is out of range: it must be at least 0")
        if isinstance(lines.constraints, str):
            settings = settings.replace(constraints=lines.constraints)
        if lines.prefixes is not None and len(lines.prefixes) != len(lines.texts):
            raise UserError(f"{len(lines.texts)} lines but {len(lines.prefixes)} prefixes; pass one prefix per line")
        if lines.phrases is not None:
            _check_phrases(lines, settings)
            lines = lines._replace(phrases=list(map(_not_blank, lines.phrases)))
        self._engine.check(settings, Needs(any(lines.phrases or ()), bool(lines.constraints)))
        return lines, settings

    def _encoded(
        self, lines: Lines, settings: DecodeHParams
    ) -> tuple[list[list[int]], list[list[int]] | None, set[int]]:
        """Returns (ids of the lines, with the end symbol; ids of the prefixes, without it, or None; rows cut)."""
        common = settings, self._engine, self._warn, lines.first_line
        sources, cut = encode_lines(self._inputs_vocabulary, lines.texts, *common, "line")
        if lines.prefixes is None:
            return sources, None, cut
        # The blank after a prefix is the beginning of the next token.
        prefixes = [text.rstrip() if self._ends_word(lines, row) else text for row, text in enumerate(lines.prefixes)]
        ended, cut_prefixes = encode_lines(self._vocabulary, prefixes, *common, "the prefix of line")
        return sources, [ids[:-1] for ids in ended], cut | cut_prefixes

    def _ends_word(self, lines: Lines, row: int) -> bool:
        return bool(self._vocabulary.starts_with_blank and lines.prefixes and lines.prefixes[row][-1:].isspace())

    def _hypotheses(
        self, engine_hypotheses: list[EngineHypothesis], prefix: str, prefix_ids: list[int], is_line_cut: bool
    ) -> list[Hypothesis]:
        # Outputs begin with the given prefix verbatim, because its tokens lack characters unknown to the vocabulary.
        (known,) = self._vocabulary.decode([prefix_ids])
        texts = self._vocabulary.decode([each.ids for each in engine_hypotheses])
        hypotheses = [
            (CutHypothesis if is_line_cut or not each.ids or each.ids[-1] != EOS_ID else Hypothesis)(
                prefix + text.removeprefix(known), each.score, each.log_prob
            )
            for text, each in zip(texts, engine_hypotheses)
        ]
        return hypotheses or [CutHypothesis(prefix, float("-inf"), float("-inf"))]


def _with_new_words(beams: list[Hypothesis], prefix: str) -> list[Hypothesis]:
    """Returns the hypotheses in which a new word follows the prefix, which ends in a blank; all if there is none."""
    rests = [each.text.removeprefix(prefix) for each in beams]
    fitting = [number for number, rest in enumerate(rests) if not rest or rest[0].isspace()] or range(len(beams))
    return [beams[number]._replace(text=prefix + rests[number].removeprefix(" ")) for number in fitting]


def distinct(beams: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Returns the best hypothesis of each text: different tokens, or diverse groups, may have the same text."""
    found: dict[str, Hypothesis] = {}
    for each in beams:
        found.setdefault(each.text, each)
    return list(found.values())


def _check_phrases(lines: Lines, settings: DecodeHParams) -> None:
    phrases = lines.phrases or []
    if len(phrases) != len(lines.texts):
        raise UserError(
            f"{len(lines.texts)} lines but {len(phrases)} lists of phrases; pass one list per line, empty or not"
        )
    if not all(isinstance(line, list | tuple) and all(isinstance(each, str) for each in line) for line in phrases):
        raise UserError("`phrases` takes a list of texts for each line, such as [['a phrase', 'another'], []]")
    if not any(map(_not_blank, phrases)):
        return
    for name, wanted in (("sampling_method", "argmax"), ("diverse_beam_groups", 1)):
        if (value := getattr(settings, name)) != wanted:
            raise UserError(f"{name}={value} in `decode_hparams` does not work with phrases; use {name}={wanted}")


def _not_blank(phrases: Sequence[str]) -> list[str]:
    return [phrase for phrase in phrases if phrase.strip()]
