"""The memory of a search: limits batches, and rejects a search that would run out of memory."""

import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.decoding.ensemble import Ensemble
from t2t_lite.decoding.search.beam_search import BeamSearch
from t2t_lite.errors import UserError
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.system.machine import free_memory

FLOAT32 = 4
# Smaller searches are not checked against the free memory.
WORTH_CHECKING = 2**28
# Maximum bytes of a batch's caches on a CPU: each core has its own batch, and larger batches are no faster.
CACHES_OF_BATCH = 2**28


def tokens_of_batch(model: Seq2SeqModel | Ensemble, search: BeamSearch, batch_tokens: int) -> int:
    """Returns the maximum number of positions in a batch: `batch_tokens`, or fewer on a CPU, see `CACHES_OF_BATCH`."""
    of_position = sum(map(_cache_bytes, _model_hparams(model))) * search.beam_size
    if not of_position or tf.config.list_physical_devices("GPU"):
        return batch_tokens
    return min(batch_tokens, CACHES_OF_BATCH // of_position)


def search_bytes(model: Seq2SeqModel | Ensemble, search: BeamSearch, rows: int, capacity: int) -> int:
    """Returns a lower bound on the bytes that a step needs for `rows` sentences and `capacity` target positions."""
    beam = search.beam_size
    logits = rows * beam * search.vocab_size * FLOAT32
    candidates = rows * beam * min(2 * beam, search.vocab_size) * FLOAT32
    hparams_of_all = _model_hparams(model)
    caches = sum(_cache_bytes(hparams) for hparams in hparams_of_all) * rows * beam * capacity
    # Each hypothesis attends to the cache entries of all beams, but masks those of other hypotheses.
    scores = max((each.num_heads for each in hparams_of_all if each.self_attention_type == "full"), default=0)
    return logits + candidates + caches + scores * rows * beam * beam * capacity * FLOAT32


def check_search_memory(model: Seq2SeqModel | Ensemble, search: BeamSearch, rows: int, capacity: int) -> None:
    """Raises UserError if a search step needs more memory than is free. On a GPU, the allocator reports this itself."""
    needed = search_bytes(model, search, rows, capacity)
    if needed < WORTH_CHECKING or tf.config.list_physical_devices("GPU"):
        return
    free = free_memory("CPU")
    if free is not None and needed > free:
        raise too_large(
            search, rows, f"needs at least {needed / 2**30:,.1f} GiB, but only {free / 2**30:,.1f} GiB are free"
        )


def too_large(search: BeamSearch, rows: int, what: str) -> UserError:
    """Returns the error for a search that does not fit into memory; `what` is the reason."""
    sentences = f"{rows} sentences at a time" if rows > 1 else "one sentence at a time"
    smaller = "beam_size or batch_tokens" if rows > 1 else "beam_size"
    return UserError(
        f"a search of {sentences} with beam_size={search.beam_size} {what}; use a smaller {smaller} in `decode_hparams`"
    )


def _model_hparams(model: Seq2SeqModel | Ensemble) -> list[HParams]:
    models = getattr(model, "models", [model])
    return [each.hparams for each in models if hasattr(each, "hparams")]  # custom models may have none


def _cache_bytes(hparams: HParams) -> int:
    if hparams.self_attention_type not in ("full", "local"):
        return 0
    size = 2 if hparams.precision != "float32" else FLOAT32
    return hparams.num_decoder_layers * hparams.num_heads * (hparams.key_size + hparams.value_size) * size
