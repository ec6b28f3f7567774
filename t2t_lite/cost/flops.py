"""Training cost in FLOPs (table 2 of the paper), estimated from time and devices or counted from the model."""

from typing import NamedTuple, Protocol

from t2t_lite.config import HParams
from t2t_lite.cost.formulas import TransformerFormulas, have_formulas
from t2t_lite.system.tensorflow import import_tensorflow


class CostModel(Protocol):
    """What the cost of training needs to know: a built `Seq2SeqModel`, or the formulas of `TransformerFormulas`."""

    @property
    def hparams(self) -> HParams: ...

    def parameter_parts(self) -> dict[str, int]: ...

    def step_flops(self, source_length: float, target_length: float) -> dict[str, float]: ...


class Rate(NamedTuple):
    tflops: float  # 10^12 operations per second
    what: str  # the kind of rate
    source: str  # where the rate is published


_PAPER = ("sustained in float32", "the paper, section 6.1")
_TENSOR_CORES = "dense peak in 16 bits with sums in float32"
_MXU = "peak in bfloat16 of a chip"
# Some of these sources also print rates with sparsity, which are twice as high but do not apply to training.
RATES = {
    "K80": Rate(2.8, *_PAPER),
    "K40": Rate(3.7, *_PAPER),
    "M40": Rate(6.0, *_PAPER),
    "P100": Rate(9.5, *_PAPER),
    "V100": Rate(125, _TENSOR_CORES, "data sheet of NVIDIA V100, SXM2"),
    "T4": Rate(65, _TENSOR_CORES, "data sheet of NVIDIA T4"),
    "RTX3090": Rate(71, _TENSOR_CORES, "NVIDIA Ampere GA102 white paper"),
    "A100": Rate(312, _TENSOR_CORES, "data sheet of NVIDIA A100"),
    "RTX4090": Rate(165, _TENSOR_CORES, "NVIDIA Ada white paper"),
    "L4": Rate(121, _TENSOR_CORES, "data sheet of NVIDIA L4"),
    "H100": Rate(989, _TENSOR_CORES, "data sheet of NVIDIA H100, SXM"),
    "TPUv3": Rate(123, _MXU, "cloud.google.com/tpu/docs/v3"),
    "TPUv4": Rate(275, _MXU, "cloud.google.com/tpu/docs/v4"),
    "TPUv5e": Rate(197, _MXU, "cloud.google.com/tpu/docs/v5e"),
}
# The assumed range for the share of the rate that training reaches. The paper's base model reached 29%, big 42%
# (docs/configurations.md).
ASSUMED_UTILISATION = (0.3, 0.5)


def find_rate(device: str) -> Rate | None:
    """Returns a device's rate from `RATES`, or None; ignores blanks, hyphens and letter case in the name."""
    return {_plain(name): rate for name, rate in RATES.items()}.get(_plain(device))


def _plain(name: str) -> str:
    return name.lower().replace(" ", "").replace("-", "")


def estimated_flops(seconds: float, devices: int, tflops: float) -> float:
    """Returns the paper's estimate of training cost: seconds times devices times rate (section 6.1).

    `tflops` is the rate that one device sustains, in 10^12 operations per second, for example from `RATES`.
    """
    return seconds * devices * tflops * 1e12


def cost_model(hparams: HParams, vocab_size: int) -> CostModel:
    """Returns the model of the given settings, with one vocabulary, to count its parameters and operations.

    For the built-in layers of the Transformer, these are formulas. Other models are built, without values, which
    imports TensorFlow.
    """
    if have_formulas(hparams):
        return TransformerFormulas(hparams, vocab_size)

    import_tensorflow()
    from t2t_lite.models.parameters import symbolic_model

    return symbolic_model(hparams, vocab_size)


def training_step_flops(model: CostModel, source_length: float, target_length: float) -> dict[str, float]:
    """Returns the FLOPs of one optimizer step, forward and backward, by part of the model; see `step_flops`.

    Assumes that all sentences have the given average lengths in tokens, including the end symbol, and that there is no
    padding. A step has `batch_tokens` target tokens, and source tokens in proportion. A `Seq2SeqModel` must be built,
    but its variables need no values.
    """
    pairs = model.hparams.batch_tokens / target_length * (2 if model.hparams.rdrop_alpha else 1)
    return {part: pairs * count for part, count in model.step_flops(source_length, target_length).items()}
