"""Ranks checkpoints by the metrics of their evaluations.

`evaluations.json` in a run directory is the only record. The trainer or a separate evaluator writes it.
"""

import json
import math
from pathlib import Path

from t2t_lite.errors import UserError
from t2t_lite.metric import figure_name, metric_named
from t2t_lite.registry import METRICS


def read_evaluations(directory: Path) -> dict[int, dict[str, float]]:
    """Returns {step: {metric: value}} of a run directory, sorted by step. Raises a UserError if the file is damaged."""
    path = Path(directory) / "evaluations.json"
    try:
        evaluations = json.loads(path.read_text(encoding="utf-8"))
        return {
            int(step): dict(figures) for step, figures in sorted(evaluations.items(), key=lambda item: int(item[0]))
        }
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} is damaged ({error}); remove it, and evaluate again with t2t-lite-trainer --schedule=eval"
        ) from error


def best_steps(evaluations: dict[int, dict[str, float]], metric: str, n: int) -> list[int]:
    """Returns the n best steps that have a metric, best first; in ties, earlier steps first."""
    metric = metric_named(metric, "eval_metric")
    sign, figure = -1.0 if METRICS.fact(metric, "higher_is_better", True) else 1.0, figure_name(metric)
    # A score that is NaN is never the best.
    having = [step for step, figures in evaluations.items() if not math.isnan(figures.get(figure, math.nan))]
    return sorted(having, key=lambda step: (sign * evaluations[step][figure], step))[:n]
