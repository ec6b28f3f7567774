"""Search requests: builds a search from the decoding settings, and its inputs for each line."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from t2t_lite.config import DecodeHParams
from t2t_lite.data.vocab import PAD_ID, UNKNOWN_ID
from t2t_lite.decoding.batching import padded
from t2t_lite.decoding.search.beam_search import BeamSearch
from t2t_lite.decoding.search.beam_state import SearchInputs
from t2t_lite.decoding.search.constraints import Constraint, MinLength, NoRepeatNgram, Prefix
from t2t_lite.decoding.search.sampling import Sampling


@dataclasses.dataclass(frozen=True)
class LineConstraint:
    """A constraint and its inputs for each line.

    Args:
      constraint: the rule.
      inputs: its `constraint_inputs` by name: for each line an int, or a list of ints.
      min_limits: for each line, the minimum length limit of its output in tokens, end symbol included; None: none.
    """

    constraint: Constraint
    inputs: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
    min_limits: Sequence[int] | None = None


@dataclasses.dataclass(frozen=True)
class SearchRequest:
    """Lines to decode, as token ids.

    Args:
      sources: the ids of each line, with the end symbol.
      decode_hparams: the decoding settings.
      constraints: in the order in which they apply.
      max_positions: see `Seq2SeqModel.max_positions`.
      first_line: the number of the first line, which seeds the random numbers of sampling.
    """

    sources: Sequence[list[int]]
    decode_hparams: DecodeHParams
    constraints: Sequence[LineConstraint]
    max_positions: int | None
    first_line: int

    def inputs_of(self, rows: Sequence[int]) -> SearchInputs:
        """Returns the search inputs of the lines `rows`, NumPy arrays."""
        settings = self.decode_hparams
        limits = np.array([len(self.sources[row]) for row in rows], np.int32) + settings.extra_length
        constraint_inputs = {}
        for each in self.constraints:
            for name, values in each.inputs.items():
                if name in constraint_inputs or len(values) != len(self.sources):
                    raise ValueError(
                        f"constraint input '{name}' must be given once, with one entry for each of the "
                        f"{len(self.sources)} lines, not {len(values)}"
                    )
                chosen = [values[row] for row in rows]
                constraint_inputs[name] = padded(chosen) if isinstance(chosen[0], list) else np.array(chosen, np.int32)
            if each.min_limits is not None:
                limits = np.maximum(limits, np.array([each.min_limits[row] for row in rows], np.int32))
        if self.max_positions is not None:
            limits = np.minimum(limits, self.max_positions)
        uniforms = ()
        if settings.sampling_method == "random":
            drawn = [
                np.random.default_rng([settings.random_seed, self.first_line + row]).random(
                    [limits.max(), settings.beam_size], np.float32
                )
                for row in rows
            ]
            # Drawn position by position, so that a larger limit does not change the first numbers.
            uniforms = np.stack(drawn).transpose(0, 2, 1)
        return SearchInputs(limits, uniforms=uniforms, constraint_inputs=constraint_inputs)


def constraints_of(
    decode_hparams: DecodeHParams,
    sources: Sequence[list[int]],
    prefixes: Sequence[list[int]] | None,
    others: Sequence[LineConstraint] = (),
) -> list[LineConstraint]:
    """Returns the constraints for decoding lines, in the order in which they apply.

    Args:
      decode_hparams: min_length_ratio, no_repeat_ngram_size and allow_unk are used.
      sources: the ids of each line, with the end symbol.
      prefixes: the ids that each output begins with, without the end symbol; None: no prefixes.
      others: further constraints.
    """
    found = []
    if decode_hparams.min_length_ratio:
        # The ratio compares lengths without end symbols; the limit includes one.
        ratio = decode_hparams.min_length_ratio
        found.append(
            LineConstraint(MinLength(), {"min_lengths": [int(np.ceil(ratio * (len(ids) - 1))) + 1 for ids in sources]})
        )
    if decode_hparams.no_repeat_ngram_size:
        found.append(LineConstraint(NoRepeatNgram(decode_hparams.no_repeat_ngram_size)))
    found += others
    if prefixes is not None:
        room = [len(ids) + 1 for ids in prefixes]
        found.append(LineConstraint(Prefix(_never(decode_hparams)), {"prefixes": list(prefixes)}, room))
    return found


def beam_search_of(
    decode_hparams: DecodeHParams, vocab_size: int, num_wanted: int, constraints: Sequence[LineConstraint]
) -> BeamSearch:
    """Returns the search for the given settings.

    Args:
      decode_hparams: the decoding settings.
      vocab_size: number of tokens in the target vocabulary.
      num_wanted: see `BeamSearch`.
      constraints: in the order in which they apply.
    """
    random = decode_hparams.sampling_method == "random"
    rules = tuple(each.constraint for each in constraints)
    has_prefix = any(isinstance(rule, Prefix) for rule in rules)
    return BeamSearch(
        vocab_size,
        decode_hparams.beam_size,
        decode_hparams.alpha,
        groups=decode_hparams.beam_size if random else decode_hparams.diverse_beam_groups,
        diversity_strength=decode_hparams.diverse_beam_strength,
        coverage_beta=decode_hparams.coverage_penalty,
        num_wanted=num_wanted,
        sampling=Sampling(
            decode_hparams.sampling_temp, decode_hparams.sampling_keep_top_k, decode_hparams.sampling_keep_top_p
        )
        if random
        else None,
        constraints=rules,
        never=() if has_prefix else _never(decode_hparams),
    )


def _never(decode_hparams: DecodeHParams) -> tuple[int, ...]:
    """Returns the ids that outputs never contain: padding and, unless allowed, the unknown token."""
    return (PAD_ID,) if decode_hparams.allow_unk else (PAD_ID, UNKNOWN_ID)
