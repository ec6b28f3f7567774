"""The options of data generation: keyword arguments of `t2t_lite.generate_data` and flags of t2t-lite-datagen."""

import copy
import dataclasses
from collections.abc import Callable
from os import PathLike
from typing import Any

from t2t_lite.data.problem import SIDES, Problem
from t2t_lite.errors import UserError
from t2t_lite.options import Options, option

_KINDS = ("bpe", "wordpiece", "characters", "bytes", "words")
# The options that override the problem's settings.
_SETTINGS = ("num_shards", "vocab_kind", "vocab_size", "vocab_file", "normalize_whitespace")


@dataclasses.dataclass(frozen=True)
class GenerateOptions(Options):
    """Options of data generation. num_workers and runner do not affect the data."""

    num_workers: int = option(0, "number of parallel workers", unset="one per core", at_least=0)
    max_cases: int = option(0, "maximum number of train pairs (the first ones are used)", unset="all", at_least=0)
    num_shards: int | None = option(None, "number of files for the train split", unset="the problem's", at_least=1)
    vocab_kind: str | None = option(None, "kind of tokens", unset="the problem's", choices=_KINDS)
    vocab_size: int | None = option(None, "number of tokens", unset="the problem's", at_least=1)
    vocab_file: str | PathLike | None = option(
        None,
        "use an existing vocabulary: a t2t-lite file, a SentencePiece model, tensor2tensor subwords or tokens, or a "
        "list of WordPiece tokens; with --from=t2t, also the word bytes",
    )
    normalize_whitespace: bool | None = option(
        None,
        "whether BPE and WordPiece tokens treat every run of white space as one blank, and drop it at the ends of a "
        "text; False for code",
        unset="the problem's: True for text",
        metavar="True|False",
    )
    runner: str = option("", "generate with Apache Beam: direct, or the name of a Beam runner (extra beam)")
    beam_options: str = option("", "flags for the Beam pipeline, separated by spaces", metavar="FLAGS")
    report: Callable[[Any], None] = lambda checks: None  # receives the `TextChecks` of the user's text

    def applied_to(self, problem: Problem) -> Problem:
        problem = copy.copy(problem)
        for name in _SETTINGS:
            if (value := getattr(self, name)) is not None:
                setattr(problem, name, str(value) if name == "vocab_file" else value)
        problem.share_vocabulary_as(problem.vocab_file)
        is_learned = not problem.vocab_file and {"bpe", "wordpiece"} & {problem.kind_of(side) for side in SIDES}
        if self.normalize_whitespace is not None and not is_learned:
            raise UserError(
                f"`normalize_whitespace={self.normalize_whitespace}` applies to BPE and WordPiece tokens that are "
                f"learned; remove it",
                status=2,
            )
        return problem
