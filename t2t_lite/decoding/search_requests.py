"""Builds a search and its inputs from the decoding settings and the lines.

The registries `CONSTRAINTS` and `SCORERS` (`t2t_lite/registry.py`) accept custom constraints and score terms:
functions of a `Request` that return a `LineConstraint` or a `LineTerm`. The settings `constraints` and `scorers`
select them by name.
"""

from collections.abc import Sequence

import numpy as np

from t2t_lite.config import DecodeHParams, names_in
from t2t_lite.data.vocab import EOS_ID, PAD_ID, Vocabulary
from t2t_lite.decoding.engine import LineConstraint, LineTerm, Request, padded
from t2t_lite.decoding.glossary import is_in_word
from t2t_lite.decoding.search.beam_search import BeamSearch, Sampling
from t2t_lite.decoding.search.beam_state import SearchInputs
from t2t_lite.decoding.search.constraints import MinLength, NoRepeatNgram, Prefix
from t2t_lite.decoding.search.phrases import Phrases, Places, phrase_places
from t2t_lite.errors import UserError
from t2t_lite.registry import CONSTRAINTS, SCORERS

# Stands for a byte that is not a character on its own, usually part of a letter.
_PART = "\N{REPLACEMENT CHARACTER}"
# The name of `Request` before version 0.10, which plug-ins may import.
LinesToDecode = Request


def make_constraints(request: Request, phrases: "PhraseVocabulary | None" = None) -> list[LineConstraint]:
    """Returns the constraints for decoding lines, in the order of application.

    `phrases` makes the constraint of the request's phrases; None: its phrases are ignored.
    """
    settings, prefixes, whole_words = request.decode_hparams, request.prefixes, request.whole_words
    of_settings = [name for name in CONSTRAINTS if getattr(settings, CONSTRAINTS.fact(name, "setting", ""), None)]
    constraints = [CONSTRAINTS[name](request) for name in (*of_settings, *names_in(settings.constraints))]
    constraints += request.constraints
    if phrases:
        constraints.append(phrases.constraint(request.phrases or (), request.first_line))
    if prefixes is not None:
        prefix = Prefix(_never(settings, request.vocabulary), request.vocabulary.word_starts if whole_words else b"")
        rows = [[*ids, -1] if row in whole_words else ids for row, ids in enumerate(prefixes)]
        constraints.append(LineConstraint(prefix, {"prefixes": rows}, [len(ids) + 1 for ids in prefixes]))
    return constraints


def make_score_terms(request: Request) -> list[LineTerm]:
    return [SCORERS[name](request) for name in names_in(request.decode_hparams.scorers)]


def min_length(request: Request) -> LineConstraint:
    # The ratio compares lengths without the end symbol; `min_lengths` include it.
    ratio = request.decode_hparams.min_length_ratio
    shortest = [int(np.ceil(ratio * (len(ids) - 1))) + 1 for ids in request.sources]
    return LineConstraint(MinLength(), {"min_lengths": shortest})


def no_repeat_ngram(request: Request) -> LineConstraint:
    return LineConstraint(NoRepeatNgram(request.decode_hparams.no_repeat_ngram_size))


class PhraseVocabulary:
    """Tokenizes phrases as they occur inside an output."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._texts = ["".join(vocabulary.tokens_of([token])) for token in range(vocabulary.size)]
        # A token with a leading blank begins no output, unless the vocabulary puts a blank before the first word.
        blanks = () if vocabulary.starts_with_blank else tuple(text.startswith(" ") for text in self._texts)
        begins = tuple(is_in_word(text[:1]) or text[:1] == _PART for text in self._texts)
        ends = tuple(is_in_word(text[-1:]) or text[-1:] == _PART for text in self._texts)
        self._constraint = Phrases(begins, ends, blanks, EOS_ID)

    def constraint(self, phrases: Sequence[Sequence[str]], first_line: int = 1) -> LineConstraint:
        """Returns the constraint that makes each line's output contain its phrases as whole words.

        A phrase that is listed twice must occur twice. Blank phrases are ignored.
        """
        rows = []
        for number, line in enumerate(phrases, start=first_line):
            rows.append(phrase_places([self._tokens(phrase, number) for phrase in map(str.strip, line) if phrase]))
        inputs = {f"phrase_{name}": [getattr(row, name) for row in rows] for name in Places._fields}
        # Leaves room for other words between the phrases.
        return LineConstraint(self._constraint, inputs, [2 * len(row.tokens) + 1 for row in rows])

    def _tokens(self, phrase: str, line: int) -> list[int]:
        is_first = self._vocabulary.starts_with_blank
        (ids,) = self._vocabulary.ids_of([phrase if is_first else f" {phrase}"])
        ids = ids[:-1]
        if not is_first and self._texts[ids[0]] == " ":
            ids = ids[1:]
        if self._vocabulary.unknown_id in ids:
            raise UserError(
                f"line {line}: the phrase '{phrase}' has characters or words that are not in "
                f"{self._vocabulary.path.name}, so no output can contain it; remove the phrase"
            )
        return ids


def make_beam_search(
    decode_hparams: DecodeHParams,
    vocabulary: Vocabulary,
    num_wanted: int,
    constraints: Sequence[LineConstraint],
    terms: Sequence[LineTerm] = (),
) -> BeamSearch:
    """Returns the search for the given settings; constraints apply in the given order."""
    settings, random = decode_hparams, decode_hparams.sampling_method == "random"
    sampling = Sampling(settings.sampling_temp, settings.sampling_keep_top_k, settings.sampling_keep_top_p)
    rules = tuple(each.constraint for each in constraints)
    has_prefix = any(isinstance(rule, Prefix) for rule in rules)
    return BeamSearch(
        vocabulary.size,
        settings.beam_size,
        settings.alpha,
        settings.length_penalty,
        groups=settings.beam_size if random else settings.diverse_beam_groups,
        diversity_strength=settings.diverse_beam_strength,
        coverage_beta=settings.coverage_penalty,
        num_wanted=num_wanted,
        sampling=sampling if random else None,
        constraints=rules,
        terms=tuple(each.term for each in terms),
        min_length=settings.min_length,
        never=() if has_prefix else _never(settings, vocabulary),
    )


def _never(decode_hparams: DecodeHParams, vocabulary: Vocabulary) -> tuple[int, ...]:
    """Returns the ids that outputs never contain: padding and, unless allowed, the unknown token."""
    unknown_id = None if decode_hparams.allow_unk else vocabulary.unknown_id
    return (PAD_ID,) if unknown_id is None else (PAD_ID, unknown_id)


def search_inputs(
    request: Request,
    rows: Sequence[int],
    rules: Sequence[LineConstraint | LineTerm] = (),
    max_positions: int | None = None,
) -> SearchInputs:
    """Returns the inputs of the search for some lines of a request, with those of its constraints and score terms.

    `max_positions` is that of the model.
    """
    settings, sources = request.decode_hparams, request.sources
    limits = np.array([len(sources[row]) for row in rows], np.int32) + settings.extra_length
    constraint_inputs = {}
    for each in rules:
        for name, values in each.inputs.items():
            if name in constraint_inputs or len(values) != len(sources):
                raise ValueError(
                    f"constraint input '{name}' must occur once, with one entry for each of the "
                    f"{len(sources)} lines, not {len(values)}"
                )
            chosen = [values[row] for row in rows]
            constraint_inputs[name] = padded(chosen) if isinstance(chosen[0], list) else np.array(chosen, np.int32)
        if each.min_limits is not None:
            limits = np.maximum(limits, np.array([each.min_limits[row] for row in rows], np.int32))
    if max_positions is not None:
        limits = np.minimum(limits, max_positions)
    uniforms = ()
    if settings.sampling_method == "random":
        drawn = [
            np.random.default_rng([settings.random_seed, request.first_line + row]).random(
                [limits.max(), settings.beam_size], np.float32
            )
            for row in rows
        ]
        # Drawn position by position, so that a larger limit does not change the first numbers.
        uniforms = np.stack(drawn).transpose(0, 2, 1)
    return SearchInputs(limits, uniforms=uniforms, constraint_inputs=constraint_inputs)
