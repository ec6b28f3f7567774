"""Estimates the memory of a training step, to split batches into micro-batches that fit.

The model reports what a step keeps (`Seq2SeqModel.step_bytes`); this module adds weights, gradients and moments. The
estimate errs on the high side, because running out of memory ends a run. tests/training/test_memory.py compares it
with the peak memory of real training processes.
"""

import math
from typing import NamedTuple

from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.layers.cost import FLOAT32, MIB
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.models.parameters import symbolic_model
from t2t_lite.registry import OPTIMIZERS

# The share of the free memory that a step may use. The rest is for the input pipeline, evaluation, checkpoints and
# other processes.
USABLE_SHARE = 0.8
# Batches of varying shapes fragment the memory; this factor allows for that. The peaks of identical training runs
# differ by up to 9%.
ALLOCATOR_OVERHEAD = 1.3
# float32 arrays as large as the weights: the weights, their gradients and, with micro-batches on several devices, the
# sum of the gradients before and after an addition. Each additional parallel micro-batch adds a copy of the gradients.
# The optimizer's moments (two for Adam) are added to these.
COPIES_OF_WEIGHTS = 4
_MOMENTS = 2  # for an optimizer that does not declare how many moments it has
# The number of temporary tensors in one layer (gradients, and intermediate results that are not kept), each assumed to
# be as large as the widest tensor.
TEMPORARY_TENSORS = 10


class MemoryEstimate(NamedTuple):
    fixed: float  # bytes that do not depend on the number of sentences
    per_token: float  # bytes per position of the longer side


def estimate_memory(model: Seq2SeqModel, length: int, num_parallel: int = 1) -> MemoryEstimate:
    """Estimates the memory of a training step with sentences of `length` tokens on both sides.

    `num_parallel` micro-batches are computed at once; `per_token` applies to a position in any of them.

    The length matters, because attention needs more memory per position in longer sentences. The model must be built,
    but its variables need no values, see `symbolic_model`.
    """
    hparams, step = model.hparams, model.step_bytes(length)
    moments = OPTIMIZERS.fact(hparams.optimizer, "moments", _MOMENTS)
    copies = COPIES_OF_WEIGHTS + (num_parallel - 1) + moments + (hparams.ema_decay > 0.0)
    cast = 0 if hparams.precision == "float32" else 2
    fixed = model.count_params() * (copies * FLOAT32 + cast) + num_parallel * step.shared + step.graph
    passes = 2 if hparams.rdrop_alpha else 1
    temporary = TEMPORARY_TENSORS * FLOAT32 * step.widest
    return MemoryEstimate(fixed, ALLOCATOR_OVERHEAD * (passes * step.kept + temporary))


def choose_max_tokens(
    hparams: HParams,
    vocab_size: int,
    inputs_vocab_size: int | None,
    free_bytes: int,
    length: int,
    num_parallel: int = 1,
) -> int:
    """Returns how many positions (rows times length of the longer side) a device can hold at once.

    `free_bytes` is the free memory before the model is built; `length` is that of the longest possible sentence.
    `num_parallel` micro-batches share the positions; if the longest sentence does not fit into each of them, the result
    is for a single micro-batch. Without `inputs_vocab_size`, both sides share one vocabulary.
    """
    usable = USABLE_SHARE * free_bytes
    fixed, per_token = estimate_memory(symbolic_model(hparams, vocab_size, inputs_vocab_size), length, num_parallel)
    tokens = int((usable - fixed) // per_token)
    if num_parallel > 1 and tokens < num_parallel * length:
        return choose_max_tokens(hparams, vocab_size, inputs_vocab_size, free_bytes, length)
    if tokens < length:
        raise UserError(
            f"training on a sentence of {length} tokens takes about {_in_mib(length * per_token)}, plus "
            f"{_in_mib(fixed)} for model and optimizer, but {USABLE_SHARE:.0%} of the {_in_mib(free_bytes)} of free "
            f"memory is only {_in_mib(usable)}; use a smaller max_length or model, or set "
            f"`max_tokens_per_replica={length}` to try it anyway"
        )
    return tokens


def _in_mib(size: float) -> str:
    return f"{math.ceil(size / MIB):,} MiB"
