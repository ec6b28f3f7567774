"""Evaluates checkpoints of a run."""

import dataclasses
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_lite.data.manifest import check_data
from t2t_lite.decoding.loading import ModelSource, open_model
from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.evaluation import heads
from t2t_lite.evaluation.options import EvalOptions
from t2t_lite.evaluation.request import make_request
from t2t_lite.evaluation.scoring import score
from t2t_lite.metric import check_metric
from t2t_lite.options import SettingValue
from t2t_lite.runs.checkpoint_files import checkpoint_step
from t2t_lite.system.tensorflow import tensorflow_job
from t2t_lite.training.options import TrainOptions, check_search

if TYPE_CHECKING:
    from t2t_lite.evaluation.heads import HeadsReport
    from t2t_lite.evaluation.split_scores import SplitScores


@dataclasses.dataclass(frozen=True)
class EvaluationResult:
    """The metrics of a checkpoint on one split.

    Args:
      checkpoint: its path, without suffix.
      step: its step.
      split: the split.
      loss: in nats per non-padding target token, with label smoothing, as in training.
      nll_loss: the same without label smoothing.
      perplexity: exp(nll_loss).
      accuracy: the share of target tokens that the model ranks first, given the previous ones; 0 to 1.
      bleu: sacreBLEU of the translations, 0 to 100; None for parsing or without decoding.
      f1: labelled bracketing F1 of the trees, 0 to 100; None for translation or without decoding.
      scores: all metrics by name: those above and others, such as "chrf".
    """

    checkpoint: Path
    step: int
    split: str
    loss: float
    nll_loss: float
    perplexity: float
    accuracy: float
    bleu: float | None = None
    f1: float | None = None
    scores: Mapping[str, float] = dataclasses.field(default_factory=dict, hash=False)


def evaluate(
    output_dir: str | PathLike,
    data_dir: str | PathLike,
    *,
    split: str = "dev",
    checkpoint_path: str | PathLike | None = None,
    decode: bool = True,
    metrics: Sequence[str] = (),
    decode_hparams: str | Mapping[str, SettingValue] = "",
    max_tokens_per_replica: int | None = None,
) -> EvaluationResult:
    """Evaluates a checkpoint on a split, on one device, as the trainer does after each checkpoint.

    Args:
      output_dir: the run directory.
      data_dir: the folder with the data of the run's problem.
      split: "dev" or "test".
      checkpoint_path: which checkpoint: "best", "last", "average", "ckpt-2000" or a path; None: the average if there is
        one, else the last checkpoint.
      decode: whether to also translate (or parse) the split and compute the problem's metric: BLEU (or F1).
      metrics: further metrics of the translations (or trees), such as ("chrf", "ter").
      decode_hparams: changes to the run's search settings, as a dict or "name=value,...".
      max_tokens_per_replica: see `TrainOptions`; None: as many as fit in memory.

    Raises:
      UserError: if the run, the checkpoint or the data is unusable.
    """
    if split not in ("dev", "test"):
        raise UserError(f"`split={split}` must be dev or test", status=2)
    if decode_hparams and not decode:
        raise UserError("`decode_hparams` needs `decode=True`", status=2)
    if metrics and not decode:
        raise UserError("`metrics` needs `decode=True`", status=2)
    source, data_dir = open_model(output_dir, checkpoint_path, decode_hparams), Path(data_dir)
    run_dir = source.run_dir
    for name in metrics:
        check_metric(name, run_dir.problem, "metrics")
    if decode and not run_dir.problem.has_inputs:
        raise UserError(
            f"'{run_dir.problem.name}' has no inputs, so there are no outputs to score; pass `decode=False`"
        )
    check_search(decode_hparams, run_dir.problem)
    manifest = check_data(data_dir, run_dir.problem, split)
    with tensorflow_job():
        from t2t_lite.training import evaluation

        for line in source.remarks:
            LOG.warning(line)
        checkpoint = source.selection.path
        options = TrainOptions(
            eval_decode=decode,
            decode_hparams=vars(source.settings) if decode else "",
            max_tokens_per_replica=max_tokens_per_replica,
        )
        figures = evaluation.evaluate_checkpoint(run_dir, data_dir, manifest, checkpoint, options, metrics, split)
    fields = {field.name for field in dataclasses.fields(EvaluationResult)}
    of_fields = {name: figure for name, figure in figures.items() if name in fields}
    return EvaluationResult(checkpoint, checkpoint_step(checkpoint), split, scores=figures, **of_fields)


def score_split(
    output_dir: str | PathLike,
    split: str = "dev",
    **options: Any,
) -> "SplitScores":
    """Scores a checkpoint on a split, as t2t-lite-eval does, and stores outputs and scores in the run directory.

    A later call with the same checkpoint, settings and texts returns the stored scores without TensorFlow. With further
    metrics or other references, it scores the stored outputs.

    Args:
      output_dir: the run directory.
      split: "dev" or "test".
      options: `EvalOptions`: data_dir, checkpoint_path, decode_hparams, metrics, references, again ...

    Raises:
      UserError: if the run, the checkpoint or the data is unusable, or a metric does not fit the problem.
    """
    checked = EvalOptions.of_keywords({"split": split, **options}, score_split)
    return score_model(open_model(output_dir, checked.checkpoint_path, checked.decode_hparams), checked)


def score_model(source: ModelSource, options: EvalOptions) -> "SplitScores":
    """Scores a run that `open_model` has chosen by the same options, see `score_split`."""
    check_search(options.decode_hparams, source.run_dir.problem)
    return score(make_request(source, options), options.metrics)


def measure_heads(
    output_dir: str | PathLike,
    split: str = "dev",
    *,
    data_dir: str | PathLike | None = None,
    checkpoint_path: str | PathLike | None = None,
    lines: int = 500,
) -> "HeadsReport":
    """Measures the attention heads of a checkpoint on a split, as t2t-lite-eval --heads does.

    The measures are how far and how sharply each head attends, and how much weight each neighbour receives, compared
    with uniform attention.

    Args:
      output_dir: the run directory.
      split: "dev" or "test"; the decoder reads its references (teacher forcing).
      data_dir: the folder with the data of the run's problem; None: the folder that the training used.
      checkpoint_path: which checkpoint, see `score_split`.
      lines: the maximum number of lines to measure, from the start of the split.

    Raises:
      UserError: if the run, the checkpoint or the data is unusable, or the model provides no attention weights.
    """
    options = EvalOptions(checkpoint_path, split=split, data_dir=data_dir)
    return heads.measure_heads(make_request(open_model(output_dir, checkpoint_path), options), lines)
