"""Decodes dev for every beam size and average of checkpoints, and reranks the n-best lists by every length penalty."""

import dataclasses
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t2t_lite.decoding.search.length_penalty import length_penalty
from t2t_lite.decoding.translator import Hypothesis, Translator
from t2t_lite.evaluation.request import EvalRequest
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.runs import checkpoints
from t2t_lite.runs.checkpoints import write_mean
from t2t_lite.runs.selection import Selection, members
from t2t_lite.runs.tuned_settings import ALPHA, AVERAGE, BEAM_SIZE
from t2t_lite.training.evaluation import make_decoder

# The search uses this instead of an alpha of 0, because the ratio of log-probability to score must give the length.
_INSTEAD_OF_0 = 0.6


class Candidate(NamedTuple):
    average_checkpoints: int | None  # number of averaged checkpoints; None: the current checkpoint
    beam_size: int
    alpha: float
    hypotheses: list[str]


def tuning_candidates(
    request: EvalRequest, inputs: Sequence[str], grid: Mapping[str, Sequence[Any]]
) -> Iterator[Candidate]:
    """Yields the outputs for every point in the grid and for the current alpha, beginning with the current checkpoint.

    The search itself uses the current alpha; its hypotheses are reranked for the other values.
    """
    current = request.source.settings
    search_alpha = current.alpha or _INSTEAD_OF_0
    source = dataclasses.replace(request.source, settings=current.replace(alpha=search_alpha))
    now = request.source.selection.path
    members_now = checkpoints.average_members(now)
    tried: list[tuple[int | None, list[tuple[int, Path]]]] = [(None, [])]
    for number in grid.get(AVERAGE, ()):  # averages of the last checkpoints, except the current checkpoint
        chosen = list(members(request.source.run_dir.path, number))
        if [step for step, _ in chosen] != members_now and [each for _, each in chosen] != [now]:
            tried.append((number, chosen))
    of_averages: Translator | None = None
    for number, chosen in tried:
        with tempfile.TemporaryDirectory() as folder:  # the run's own average stays unchanged
            path = write_mean(Path(folder), chosen) if chosen else now
            of_path = dataclasses.replace(source, selections=(Selection(path),))
            translator = of_averages or Translator.of(of_path, request.options)
            model = translator.model
            assert isinstance(model, Seq2SeqModel)  # a single run is not an ensemble
            if of_averages is not None:
                checkpoints.restore(path, "model", checkpoints.by_name(model.variables))
            elif chosen:
                # All averages share one model, so that its searches are compiled once. A frozen model would keep the
                # old weights.
                of_averages = translator
                model.unfreeze()
            decoder = make_decoder(request.source.run_dir.problem, translator)
            for beam_size in grid.get(BEAM_SIZE, (current.beam_size,)):
                beams = decoder.n_best(inputs, beam_size=beam_size)
                # A beam size of 1 gives one hypothesis per line, so there is nothing to rerank.
                alphas = {current.alpha, *grid.get(ALPHA, ())} if beam_size > 1 else {current.alpha}
                for alpha in sorted(alphas):
                    best = [rescored(each, search_alpha, alpha) for each in beams]
                    yield Candidate(number, beam_size, alpha, [hypothesis.text for hypothesis in best])


def rescored(beams: Sequence[Hypothesis], search_alpha: float, alpha: float) -> Hypothesis:
    """Returns the best hypothesis of a line for another length penalty.

    The scores are log_prob / length_penalty(length, search_alpha); search_alpha is above 0.
    """

    def score(hypothesis: Hypothesis) -> float:
        if not hypothesis.log_prob or hypothesis.score in (0.0, float("-inf")):
            return hypothesis.score
        length = 6 * (hypothesis.log_prob / hypothesis.score) ** (1 / search_alpha) - 5  # the inverse of the penalty
        return hypothesis.log_prob / length_penalty(max(1, round(length)), alpha)

    # In a tie, `max` returns the first, so that the order of the search is kept.
    return max(beams, key=score)
