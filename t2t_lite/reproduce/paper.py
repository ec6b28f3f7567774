"""The results in the paper: those of its own models, by hyperparameter set, and those of other systems.

Perplexity (per token) and BLEU are measured on newstest2013, with beam search and without checkpoint averaging.
"""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

DEVICE = "P100"  # the paper's GPU, section 5.2
NUM_DEVICES = 8
BATCH_TOKENS = 25_000  # target tokens per step, approximate, section 5.1


@dataclasses.dataclass(frozen=True)
class PaperFigures:
    """The results of one model. None: the paper prints no value, for example if it is the same as the base model's."""

    row: str  # where they are in the paper
    # perplexity, bleu: on the development set.
    perplexity: float | None
    bleu: float | None
    parameters: int | None = None  # in millions
    train_steps: int | None = 100_000  # an empty cell in table 3 means the base model's number
    training_hours: float | None = None  # on all devices
    step_seconds: float | None = None  # approximate, from section 5.2
    training_flops: float | None = None  # the estimate in table 2
    # BLEU on newstest2014 by column of table 2, or F1 on section 23 by row of table 4.
    test: Mapping[str, float] = dataclasses.field(default_factory=dict)


PAPER_FIGURES = {
    "transformer_base": PaperFigures(
        "table 3, base",
        4.92,
        25.8,
        65,
        training_hours=12,
        step_seconds=0.4,
        training_flops=3.3e18,
        test={"EN-DE": 27.3, "EN-FR": 38.1},
    ),
    "transformer_big": PaperFigures(
        "table 3, big",
        4.33,
        26.4,
        213,
        300_000,
        training_hours=3.5 * 24,
        step_seconds=1.0,
        training_flops=2.3e19,
        test={"EN-DE": 28.4, "EN-FR": 41.8},
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
    # The appendix does not print the number of steps. 16 hours instead of 12 match its "about 30% longer" steps, so the
    # number must be that of the base model.
    "transformer_aop1": PaperFigures("appendix, AOP1", 4.92, 25.5, 65, training_hours=16),
    "transformer_aop2": PaperFigures("appendix, AOP2", 4.86, 25.9, 65, training_hours=16),
    "transformer_big_enfr": PaperFigures(
        "table 2, big",
        None,
        None,
        None,  # the paper's 213 million are for its English-German vocabulary
        300_000,
        training_hours=3.5 * 24,
        step_seconds=1.0,
        training_flops=2.3e19,
        test={"EN-FR": 41.8},
    ),
    "transformer_parsing": PaperFigures("table 4", None, None, test={"WSJ only": 91.3}),
    "transformer_parsing_semi": PaperFigures("table 4", None, None, train_steps=None, test={"semi-supervised": 92.7}),
}


class PublishedTranslation(NamedTuple):
    """A row of table 2: BLEU on newstest2014 and training cost in FLOPs, by language pair, where the paper has them."""

    system: str
    bleu: dict[str, float]
    flops: dict[str, float]


class PublishedParser(NamedTuple):
    """A row of table 4: F1 on section 23 of the Wall Street Journal."""

    system: str
    training: str
    f1: float


TABLE_2 = (
    PublishedTranslation("ByteNet", {"EN-DE": 23.75}, {}),
    PublishedTranslation("Deep-Att + PosUnk", {"EN-FR": 39.2}, {"EN-FR": 1.0e20}),
    PublishedTranslation("GNMT + RL", {"EN-DE": 24.6, "EN-FR": 39.92}, {"EN-DE": 2.3e19, "EN-FR": 1.4e20}),
    PublishedTranslation("ConvS2S", {"EN-DE": 25.16, "EN-FR": 40.46}, {"EN-DE": 9.6e18, "EN-FR": 1.5e20}),
    PublishedTranslation("MoE", {"EN-DE": 26.03, "EN-FR": 40.56}, {"EN-DE": 2.0e19, "EN-FR": 1.2e20}),
    PublishedTranslation("Deep-Att + PosUnk, ensemble", {"EN-FR": 40.4}, {"EN-FR": 8.0e20}),
    PublishedTranslation("GNMT + RL, ensemble", {"EN-DE": 26.30, "EN-FR": 41.16}, {"EN-DE": 1.8e20, "EN-FR": 1.1e21}),
    PublishedTranslation("ConvS2S, ensemble", {"EN-DE": 26.36, "EN-FR": 41.29}, {"EN-DE": 7.7e19, "EN-FR": 1.2e21}),
)
WSJ_ONLY, SEMI_SUPERVISED = "WSJ only", "semi-supervised"
TABLE_4 = (
    PublishedParser("Vinyals & Kaiser et al. 2014", WSJ_ONLY, 88.3),
    PublishedParser("Petrov et al. 2006", WSJ_ONLY, 90.4),
    PublishedParser("Zhu et al. 2013", WSJ_ONLY, 90.4),
    PublishedParser("Dyer et al. 2016", WSJ_ONLY, 91.7),
    PublishedParser("Zhu et al. 2013", SEMI_SUPERVISED, 91.3),
    PublishedParser("Huang & Harper 2009", SEMI_SUPERVISED, 91.3),
    PublishedParser("McClosky et al. 2006", SEMI_SUPERVISED, 92.1),
    PublishedParser("Vinyals & Kaiser et al. 2014", SEMI_SUPERVISED, 92.1),
    PublishedParser("Luong et al. 2015", "multi-task", 93.0),
    PublishedParser("Dyer et al. 2016", "generative", 93.3),
)
