"""Random numbers for dropout in tests."""

from t2t_lite.training.step.dropout_seeds import RowSeeds


def seeds_of(random_seed: int = 1, step: int = 2) -> RowSeeds:
    """Returns those of a step, for all rows of a batch together."""
    return RowSeeds(random_seed, step, first_row=0, rows=1)
