"""Training cost (table 2 of the paper), estimated from time and devices, or counted by the model."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # --help must answer at once
    from t2t_lite.models.base import Seq2SeqModel

# Sustained single-precision rates of GPUs in 10^12 operations per second, from the footnote of section 6.1.
SUSTAINED_TFLOPS = {"K80": 2.8, "K40": 3.7, "M40": 6.0, "P100": 9.5}


def estimated_flops(seconds: float, devices: int, tflops: float) -> float:
    """Returns the paper's estimate of training cost: time times devices times rate (section 6.1).

    Args:
      seconds: training time.
      devices: number of devices.
      tflops: sustained rate of one device, in 10^12 operations per second, for example from `SUSTAINED_TFLOPS`.
    """
    return seconds * devices * tflops * 1e12


def training_step_flops(model: "Seq2SeqModel", source_length: float, target_length: float) -> dict[str, float]:
    """Counts the operations of one optimizer step, forward and backward, see `Seq2SeqModel.step_flops`.

    All sentences are taken to have the average length and no padding.

    Args:
      model: built, maybe without values; a step has the `batch_tokens` target tokens of its settings, and source tokens
        in proportion to the lengths.
      source_length, target_length: average tokens per sentence, end symbol included.

    Returns:
      operations by part.
    """
    pairs = model.hparams.batch_tokens / target_length
    return {part: pairs * count for part, count in model.step_flops(source_length, target_length).items()}
