"""What to measure on each kind of machine, most valuable first."""

from collections.abc import Sequence
from typing import NamedTuple

BFLOAT16, FLOAT32 = "mixed_bfloat16", "float32"
# With a shorter warm-up, training on 200 small batches diverges in both precisions.
CURVES = {"learning_rate_warmup_steps": 1600}


class Case(NamedTuple):
    """A training step to measure."""

    hparams_set: str
    target_tokens: int  # target tokens per batch and device, without padding
    precision: str = BFLOAT16
    matmul_precision: str | None = None  # JAX's precision for float32 products; None: its default
    dropout: bool = True
    max_chunk: int | None = None
    devices: int | None = None  # number of devices; None: all

    @property
    def name(self) -> str:
        """The name of the case in the results."""
        precision = self.matmul_precision or {"mixed_bfloat16": "bfloat16"}.get(self.precision, self.precision)
        more = ("" if self.dropout else ", no dropout") + (f", chunk {self.max_chunk:,}" if self.max_chunk else "")
        more += f", {self.devices} device{'s' if self.devices > 1 else ''}" if self.devices else ""
        return f"{self.hparams_set}, {self.target_tokens:,} tokens, {precision}{more}"


class Search(NamedTuple):
    """A beam search to measure."""

    hparams_set: str
    batch: int  # number of sentences
    beam_size: int
    steps: int  # number of tokens in each output


class Plan(NamedTuple):
    """The measurements for one kind of machine."""

    vocab_size: int
    products: list[int]  # sizes of square matrices
    cases: list[Case]
    profiled: list[Case]
    peer: list[Case]
    scaling: Case  # measured on 1, 2, 4, ... devices if there are several
    search: Search
    curves_set: str  # the hparam set for the loss curves
    curves_steps: int
    seconds: float  # total time of the timed steps in each case
    memory_bytes: int | None = None  # the memory that the largest batch may need; None: what the device has


def scaled(case: Case, count: int) -> list[Case]:
    """Returns the case on 1, 2, 4, ... and `count` devices."""
    numbers = {2**power for power in range(count.bit_length())} | {count}
    return [case._replace(devices=number) for number in sorted(numbers)]


def fitting_tokens(points: Sequence[tuple[int, int]], num_bytes: float) -> int:
    """Returns the target tokens of the largest batch that needs at most the given memory, to two digits, rounded down.

    Args:
      points: (target tokens, bytes) of at least two batches; the memory is linear in the number of tokens.
      num_bytes: the memory.
    """
    (few, least), (many, most) = min(points), max(points)
    tokens = int(few + (num_bytes - least) * (many - few) / (most - least))
    unit = 10 ** max(len(str(tokens)) - 2, 0)
    return max(tokens // unit * unit, 1)


def _float32(hparams_set: str, tokens: int, matmul_precision: str = "tensorfloat32") -> Case:
    return Case(hparams_set, tokens, FLOAT32, matmul_precision)


_BASE, _BIG = "transformer_base", "transformer_big"
ACCELERATOR = Plan(
    vocab_size=37_000,
    products=[8192, 4096],
    cases=[
        Case(_BIG, 50_000),
        Case(_BASE, 25_000),
        Case(_BIG, 25_000),
        Case(_BASE, 100_000),
        Case(_BASE, 8_000),
        Case(_BIG, 8_000),
        Case(_BASE, 2_000),
        Case(_BIG, 2_000),
        _float32(_BASE, 25_000),
        _float32(_BIG, 25_000),
        Case(_BIG, 100_000),
        # The effects of dropout, and of the chunk size: how many positions have their logits in memory at a time.
        Case(_BASE, 25_000, dropout=False),
        Case(_BASE, 25_000, max_chunk=2048),
        Case(_BASE, 25_000, max_chunk=32_768),
        # True float32 products, 16 times slower than bfloat16 on recent GPUs.
        _float32(_BASE, 25_000, "highest"),
        _float32(_BIG, 25_000, "highest"),
    ],
    profiled=[Case(_BIG, 50_000), Case(_BASE, 25_000)],
    peer=[
        Case(_BIG, 50_000),
        Case(_BASE, 25_000),
        Case(_BIG, 25_000),
        Case(_BASE, 8_000),
        Case(_BASE, 2_000),
        Case(_BASE, 100_000),
    ],
    scaling=Case(_BIG, 25_000),
    search=Search(_BASE, batch=64, beam_size=4, steps=50),
    curves_set=_BASE,
    curves_steps=200,
    seconds=1.5,
)
# This plan is small enough for a test on two cores.
CPU = Plan(
    vocab_size=500,
    products=[512],
    cases=[Case("transformer_tiny", 300), Case("transformer_tiny", 200)],
    profiled=[Case("transformer_tiny", 300)],
    peer=[Case("transformer_tiny", 300)],
    scaling=Case("transformer_tiny", 300),
    search=Search("transformer_tiny", batch=2, beam_size=2, steps=5),
    curves_set="transformer_tiny",
    curves_steps=5,
    seconds=0.2,
    memory_bytes=60_000_000,
)


def plan_for(is_accelerator: bool) -> Plan:
    """Returns the plan for a machine with or without an accelerator."""
    return ACCELERATOR if is_accelerator else CPU
