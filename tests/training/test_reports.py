"""The progress lines of a training, also for odd figures."""

import json
import math

import pytest

from t2t_lite.display import Display
from t2t_lite.training.reports import Progress


@pytest.mark.parametrize("value", [3.4e38, 1e30, 7.25, math.nan])
def test_figures_of_a_diverged_training_are_printed_briefly_and_recorded(tmp_path, logged, value):
    figures = dict.fromkeys(
        ("loss", "gradient_norm", "learning_rate", "target_tokens_per_second", "padded_target_tokens_per_second"), value
    ) | {"nll_loss": value, "epoch": 1.0}
    figures |= {"input_wait_share": 0.0, "memory_bytes": 1.0, "skipped_steps": 0.0, "steps_per_second": 1.0}
    figures |= {"target_tokens_per_second": 1.0, "padded_target_tokens_per_second": 1.0}
    with Progress(tmp_path, 0, 10, Display()) as progress:
        progress.report(1, figures)
        progress.after_evaluation(1, {"loss": value, "nll_loss": value, "perplexity": value, "accuracy": 0.0})
    lines = logged()
    assert len(lines) == 2 and max(map(len, lines)) < 200
    shown = {3.4e38: "3.4e+38", 1e30: "1e+30", 7.25: "7.250"}.get(value, "nan")
    assert f"loss {shown}  " in lines[0] and f"dev loss {shown}, " in lines[1]
    recorded = [json.loads(line)["loss"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert recorded == [value if value == value else None] * 2
