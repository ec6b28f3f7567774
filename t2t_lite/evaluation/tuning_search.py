"""Decodes dev for every beam size and average of checkpoints, and ranks the n-best lists by every length penalty."""

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from t2t_lite.checkpoints import storage
from t2t_lite.checkpoints.averaging import write_average_of
from t2t_lite.checkpoints.selection import members
from t2t_lite.decoding.search.length_penalty import length_penalty
from t2t_lite.decoding.translator import Hypothesis, Translator
from t2t_lite.evaluation.request import Request
from t2t_lite.evaluation.tuning_grid import Grid
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.parsing.parser import Parser

# The length penalty of a search whose own is 0: lengths are computed from the ratio of log-probability and score.
_INSTEAD_OF_0 = 0.6


class Candidate(NamedTuple):
    """Outputs with some settings."""

    average_checkpoints: int | None  # number of averaged checkpoints; None: the current checkpoint
    beam_size: int
    alpha: float
    hypotheses: list[str]


def candidates_of(
    request: Request, inputs: Sequence[str], grid: Grid, warn: Callable[[str], None], xla_compile: bool | None
) -> Iterator[Candidate]:
    """Yields the outputs of every point of the grid and of the current alpha, at the current checkpoint first.

    The search itself runs with the current alpha; its hypotheses are ranked anew for the others.

    Args:
      request: the run, its current checkpoint and settings.
      inputs: the lines to decode.
      grid: the values to try.
      warn: receives warnings of the search.
      xla_compile: whether to compile the search.

    Raises:
      UserError: if there are fewer checkpoints than an average needs.
    """
    current = request.settings
    search_alpha = current.alpha or _INSTEAD_OF_0
    settings = dataclasses.asdict(current.replace(alpha=search_alpha))
    of_averages: Translator | None = None
    for number, checkpoint in _checkpoints(request, grid):
        with checkpoint as path:
            if of_averages is None:
                translator = Translator.from_run_dir(
                    request.run_dir.path, settings, path, warn, xla_compile=xla_compile
                )
            else:
                translator = of_averages
                _load(translator, path)
            if number is not None and of_averages is None:
                # All averages share one model, so that its searches are compiled once; a frozen one would miss new
                # weights.
                of_averages = translator
                _model_of(translator).unfreeze()
            decoder = Parser(translator) if request.run_dir.problem.writes_trees else translator
            for beam_size in grid.beam_size or (current.beam_size,):
                beams = decoder.n_best(inputs, beam_size=beam_size)
                # One hypothesis for each line is the best whatever the penalty.
                alphas = {current.alpha, *grid.alpha} if beam_size > 1 else {current.alpha}
                for alpha in sorted(alphas):
                    best = [rescored(each, search_alpha, alpha) for each in beams]
                    yield Candidate(number, beam_size, alpha, [hypothesis.text for hypothesis in best])


def rescored(beams: Sequence[Hypothesis], search_alpha: float, alpha: float) -> Hypothesis:
    """Returns the best hypothesis of a line with another length penalty.

    Args:
      beams: the hypotheses, with scores log_prob / length_penalty(length, search_alpha).
      search_alpha: above 0.
      alpha: the other length penalty.
    """

    def score(hypothesis: Hypothesis) -> float:
        if not hypothesis.log_prob or hypothesis.score in (0.0, float("-inf")):
            return hypothesis.score
        length = 6 * (hypothesis.log_prob / hypothesis.score) ** (1 / search_alpha) - 5  # the inverse of the penalty
        return hypothesis.log_prob / length_penalty(max(1, round(length)), alpha)

    # The first of equal ones, so that nothing changes without a reason.
    return max(beams, key=score)


def _checkpoints(request: Request, grid: Grid) -> Iterator[tuple[int | None, contextlib.AbstractContextManager[Path]]]:
    """Yields (number of averaged checkpoints, a context with the checkpoint's path); the current one has None."""
    yield None, contextlib.nullcontext(request.selection.path)
    directory, current = request.run_dir.path, storage.members_of(request.selection.path)
    for number in grid.average_checkpoints:
        chosen = members(directory, number)
        is_current = [step for step, _ in chosen] == current or [path for _, path in chosen] == [request.selection.path]
        if not is_current:
            yield number, _averaged(chosen)


def _load(translator: Translator, path: Path) -> None:
    """Loads the weights of a checkpoint into the model of a translator."""
    storage.restore(path, "model", storage.by_name(_model_of(translator).variables))


def _model_of(translator: Translator) -> Seq2SeqModel:
    assert isinstance(translator.model, Seq2SeqModel)  # one run is not an ensemble
    return translator.model


@contextlib.contextmanager
def _averaged(chosen: Sequence[tuple[int, Path]]) -> Iterator[Path]:
    """Yields the path of a temporary average; the average of the run stays."""
    with tempfile.TemporaryDirectory() as folder:
        yield write_average_of(Path(folder), chosen)
