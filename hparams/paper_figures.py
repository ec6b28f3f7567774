"""The paper's figures for its models, by the name of their hparams set: table 3, the appendix's table, section 5.2.

Perplexity (per token) and BLEU are measured on newstest2013, with beam search and without checkpoint averaging.
"""

import dataclasses

DEVICE = "P100"  # the paper's GPU, section 5.2
NUM_DEVICES = 8


@dataclasses.dataclass(frozen=True)
class PaperFigures:
    """One model's figures; None where the paper gives none, for example where a count equals the base model's.

    Args:
      row: where the paper prints them.
      perplexity, bleu: on the development set.
      parameters: in millions.
      train_steps: number of steps; an empty cell of table 3 means the base model's number.
      training_hours: on all devices.
      step_seconds: approximate, from section 5.2.
      training_flops: the estimate of table 2.
    """

    row: str
    perplexity: float
    bleu: float
    parameters: int | None = None
    train_steps: int = 100_000
    training_hours: float | None = None
    step_seconds: float | None = None
    training_flops: float | None = None


PAPER_FIGURES = {
    "transformer_base": PaperFigures(
        "table 3, base", 4.92, 25.8, 65, training_hours=12, step_seconds=0.4, training_flops=3.3e18
    ),
    "transformer_big": PaperFigures(
        "table 3, big", 4.33, 26.4, 213, 300_000, training_hours=3.5 * 24, step_seconds=1.0, training_flops=2.3e19
    ),
    "transformer_h1": PaperFigures("table 3 (A)", 5.29, 24.9),
    "transformer_h4": PaperFigures("table 3 (A)", 5.00, 25.5),
    "transformer_h16": PaperFigures("table 3 (A)", 4.91, 25.8),
    "transformer_h32": PaperFigures("table 3 (A)", 5.01, 25.4),
    "transformer_dk16": PaperFigures("table 3 (B)", 5.16, 25.1, 58),
    "transformer_dk32": PaperFigures("table 3 (B)", 5.01, 25.4, 60),
    "transformer_l2": PaperFigures("table 3 (C)", 6.11, 23.7, 36),
    "transformer_l4": PaperFigures("table 3 (C)", 5.19, 25.3, 50),
    "transformer_l8": PaperFigures("table 3 (C)", 4.88, 25.5, 80),
    "transformer_hs256": PaperFigures("table 3 (C)", 5.75, 24.5, 28),
    "transformer_hs1024": PaperFigures("table 3 (C)", 4.66, 26.0, 168),
    "transformer_ff1024": PaperFigures("table 3 (C)", 5.12, 25.4, 53),
    "transformer_ff4096": PaperFigures("table 3 (C)", 4.75, 26.2, 90),
    "transformer_dr0": PaperFigures("table 3 (D)", 5.77, 24.6),
    "transformer_dr2": PaperFigures("table 3 (D)", 4.95, 25.5),
    "transformer_ls0": PaperFigures("table 3 (D)", 4.67, 25.3),
    "transformer_ls2": PaperFigures("table 3 (D)", 5.47, 25.7),
    "transformer_learned_positions": PaperFigures("table 3 (E)", 4.92, 25.7),
    # The appendix gives no steps. 16 hours instead of 12 fit its "about 30% longer" steps, and so the same number.
    "transformer_aop1": PaperFigures("appendix, AOP1", 4.92, 25.5, 65, training_hours=16),
    "transformer_aop2": PaperFigures("appendix, AOP2", 4.86, 25.9, 65, training_hours=16),
}
