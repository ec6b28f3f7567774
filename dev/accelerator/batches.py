"""Makes batches of random ids for measurements, with about as much padding as the pipeline's batches of WMT."""

import numpy as np

# Sentences have 24 to 32 tokens, 28 on average, in rows of 32. So 12.5% of the positions are padding, about as in the
# batches that batch_by=shapes makes for WMT's lengths (12 to 13%, docs/training.md).
SHORTEST, LONGEST = 24, 32
MEAN_LENGTH = (SHORTEST + LONGEST) / 2


def random_batch(target_tokens: int, vocab_size: int, multiple: int = 1, seed: int = 1) -> dict[str, np.ndarray]:
    """Returns a batch {"inputs", "targets"}, int32 [rows, 32], padded with 0. It is the same on all machines.

    Id frequencies follow Zipf's law, as word frequencies do. With 37,000 ids, the most frequent one makes up 9% of the
    tokens.

    Args:
      target_tokens: the approximate number of target tokens, without padding.
      vocab_size: ids are at least 1 and less than this.
      multiple: the number of devices, which must divide the number of rows.
      seed: the seed of the random numbers.
    """
    rows = max(round(target_tokens / MEAN_LENGTH / multiple), 1) * multiple
    generator = np.random.default_rng(seed)
    frequencies = np.cumsum(1.0 / np.arange(1, vocab_size))

    def side() -> np.ndarray:
        lengths = generator.integers(SHORTEST, LONGEST + 1, (rows, 1))
        draws = generator.random((rows, LONGEST)) * frequencies[-1]
        ids = np.minimum(np.searchsorted(frequencies, draws, side="right") + 1, vocab_size - 1)
        return np.where(np.arange(LONGEST) < lengths, ids, 0).astype(np.int32)

    return {"inputs": side(), "targets": side()}
