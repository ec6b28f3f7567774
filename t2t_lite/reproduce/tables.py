"""Makes the paper's tables 2, 3 and 4, with its results beside the measured ones, and checks its observations."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from t2t_lite.config import HParams
from t2t_lite.metric import figure_label
from t2t_lite.reproduce.grid import Column, Grid
from t2t_lite.reproduce.paper_figures import PAPER_FIGURES, TABLE_2, TABLE_4
from t2t_lite.reproduce.results import Result, over_seeds, row_and_column
from t2t_lite.reproduce.runs import PAPER_BASE, ROWS, Scale, short
from t2t_lite.reproduce.seeds import Mean, Seeds

# The `training_figures` of each row, by `row_and_column`.
Trainings: TypeAlias = Mapping[str, Mapping[str, float]]
# The label of the paper's BLEU. It must differ from sacreBLEU's.
PAPER_BLEU = figure_label("paper_bleu")
BETTER, WORSE, SAME = "better", "worse", "the same"
HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
# Differences up to these count as "nearly identical": in BLEU, and as a share of the perplexity. In the paper, learned
# positions and sinusoids differ by 0.1 BLEU, and not in perplexity.
SAME_BLEU, SAME_PERPLEXITY = 0.5, 0.03


class Observation(NamedTuple):
    """A statement of section 6.2 about a row."""

    part: str  # the part of table 3
    text: str
    row: str  # an hparam set
    expected: str  # the expected result compared with the base model


OBSERVATIONS = (
    Observation("A", "one head is worse than eight", "transformer_h1", WORSE),
    Observation("A", "16 heads are as good as eight", "transformer_h16", SAME),
    Observation("A", "quality drops off with too many heads (32)", "transformer_h32", WORSE),
    Observation("B", "a smaller key size d_k hurts", "transformer_dk16", WORSE),
    Observation("C", "bigger is better: fewer layers are worse", "transformer_l2", WORSE),
    Observation("C", "bigger is better: more layers are better", "transformer_l8", BETTER),
    Observation("C", "bigger is better: a smaller hidden size is worse", "transformer_hs256", WORSE),
    Observation("C", "bigger is better: a larger hidden size is better", "transformer_hs1024", BETTER),
    Observation("C", "bigger is better: half the filter is worse", "transformer_ff1024", WORSE),
    Observation("C", "bigger is better: twice the filter is better", "transformer_ff4096", BETTER),
    Observation("D", "dropout is very helpful: none is worse", "transformer_dr0", WORSE),
    Observation("E", "learned positions are nearly identical", "transformer_learned_positions", SAME),
)


def table_3(results: Sequence[Result], scale: Scale, trainings: Trainings) -> Grid:
    """Returns table 3: variations of the base model, evaluated on the dev split."""
    bleu, perplexity = over_seeds(results, "bleu"), over_seeds(results, "perplexity")
    columns = [
        Column(""),
        Column("set"),
        Column("N", latex="$N$"),
        Column("d_model", latex=r"$d_{\mathrm{model}}$"),
        Column("d_ff", latex=r"$d_{\mathrm{ff}}$"),
        Column("h", latex="$h$"),
        Column("d_k", latex="$d_k$"),
        Column("d_v", latex="$d_v$"),
        Column("P_drop", latex="$P_{drop}$"),
        Column("ε_ls", latex=r"$\epsilon_{ls}$"),
        Column("steps", ",.0f"),
        Column("params ×10^6", ".2f", latex=r"params $\times 10^6$"),
        Column("PPL (dev)", ".2f"),
        Column("sacreBLEU (dev)", ".1f"),
        Column("paper: params", ".0f"),
        Column("paper: PPL", ".2f"),
        Column("paper: BLEU", ".1f"),
        Column("seeds"),
    ]
    by_row = {result.run.row: result.run for result in results}
    rows = []
    for name, _ in ROWS[3]:
        if name not in by_row:
            continue
        run, figures = by_row[name], PAPER_FIGURES[name]
        hparams = run.hparams
        if rows and _part(rows[-1][0]) != _part(figures.row):
            rows.append([None] * len(columns))
        rows.append(
            [
                figures.row.removeprefix("table 3").strip(", ") or "base",
                short(name),
                *_sizes(hparams),
                hparams.train_steps,
                trainings[row_and_column(run)]["parameters"],
                perplexity.mean(name),
                bleu.mean(name),
                figures.parameters,
                figures.perplexity,
                figures.bleu,
                str(sum(result.run.row == name for result in results)),
            ]
        )
    return Grid("Table 3: variations on the Transformer architecture", columns, rows, _notes(scale, bleu, perplexity))


def observations(results: Sequence[Result]) -> Grid | None:
    """Returns the paper's observations on table 3 with verdicts; None if the results allow no verdict."""
    bleu, perplexity = over_seeds(results, "bleu"), over_seeds(results, "perplexity")
    rows: list[list] = []
    for each in OBSERVATIONS:
        if each.row not in bleu or PAPER_BASE not in bleu:
            continue
        row: list = [f"({each.part}) {each.text}", short(each.row)]
        for name, (judgement, difference) in zip(("bleu", "perplexity"), judged(each, bleu, perplexity)):
            of_row, of_base = (getattr(PAPER_FIGURES[key], name) for key in (each.row, PAPER_BASE))
            row += [of_row - of_base, difference, judgement]
        rows.append(row)
    columns = [
        Column("the paper's observation (section 6.2)"),
        Column("row"),
        Column("paper: BLEU", "+.1f"),
        Column("difference in BLEU", "+.2f"),
        Column("by BLEU"),
        Column("paper: PPL", "+.2f"),
        Column("difference in PPL", "+.2f"),
        Column("by PPL"),
    ]
    note = (
        "Differences are the row minus the base model, with 95% intervals if there are several seeds. An observation "
        "holds, or does not hold, if the whole interval agrees. Intervals are not corrected for the number of "
        "comparisons."
    )
    return Grid("The paper's observations", columns, rows, [note]) if rows else None


def verdict(expected: str, difference: Mean, higher_is_better: bool, same: float) -> str:
    """Returns HOLDS, FAILS or UNDECIDED for one observation, judged by one metric.

    `difference` is the row's value minus the base model's. If SAME is expected, differences up to `same` are ignored.
    """
    low, high = (difference.low, difference.high) if higher_is_better else (-difference.high, -difference.low)
    if expected == SAME:
        if -same <= low and high <= same:
            return HOLDS
        return FAILS if low > same or high < -same else UNDECIDED
    if expected == WORSE:
        low, high = -high, -low
    if low > 0:
        return HOLDS
    return FAILS if high < 0 else UNDECIDED


def judged(observation: Observation, bleu: Seeds, perplexity: Seeds) -> tuple[tuple[str, Mean], tuple[str, Mean]]:
    judgements = []
    same_perplexity = SAME_PERPLEXITY * perplexity.mean(PAPER_BASE).value
    for seeds, higher, same in ((bleu, True, SAME_BLEU), (perplexity, False, same_perplexity)):
        difference = seeds.difference(observation.row, PAPER_BASE)
        judgements.append((verdict(observation.expected, difference, higher, same), difference))
    return judgements[0], judgements[1]


def table_2(results: Sequence[Result], scale: Scale, trainings: Trainings) -> Grid:
    pairs = [pair for pair in ("EN-DE", "EN-FR") if pair in scale.problems]
    columns = [Column("model")]
    for pair in pairs:
        columns += [
            Column(f"{pair}: {PAPER_BLEU}", ".1f"),
            Column(f"{pair}: sacreBLEU", ".1f"),
            Column(f"{pair}: paper", ".2f"),
            Column(f"{pair}: FLOPs", ".2g"),
            Column(f"{pair}: FLOPs, paper", ".2g"),
        ]
    rows: list[list] = []
    for system in TABLE_2:
        cells = [[None, None, system.bleu.get(pair), None, system.flops.get(pair)] for pair in pairs]
        rows.append([system.system, *(cell for part in cells for cell in part)])
    rows.append([None] * len(columns))
    ours, plain = (over_seeds(results, name, row_and_column) for name in ("paper_bleu", "bleu"))
    runs = {row_and_column(result.run): result.run for result in results}
    names = {("big" if "big" in name else "base", pair): name for name, pair in ROWS[2]}
    for model in ("base", "big"):
        figures = PAPER_FIGURES[f"transformer_{model}"]
        row: list = [f"Transformer ({model})"]
        for pair in pairs:
            key = f"{names[model, pair]} {pair}"
            run = runs.get(key)
            row += [
                _mean(ours, key),
                _mean(plain, key),
                figures.test[pair],
                trainings[key].get("flops") if run else None,
                figures.training_flops,
            ]
        rows.append(row)
    notes = [
        *_notes(scale, ours, plain),
        "FLOPs are counted (matrix products, two operations per multiply-add); the paper's are training time times the "
        "speed of its GPUs.",
    ]
    return Grid("Table 2: translation quality and training cost", columns, rows, notes)


def table_4(results: Sequence[Result], scale: Scale, trainings: Trainings) -> Grid:
    """Returns table 4: labelled bracketing F1 of parsers on the test split."""
    del trainings
    free, trees = (over_seeds(results, name, lambda run: run.column) for name in ("f1", "f1_only_trees"))
    rows: list[list] = [[parser.system, parser.training, None, None, parser.f1] for parser in TABLE_4]
    rows.append([None] * 5)
    for name, training in ROWS[4]:
        row = [_mean(free, training), _mean(trees, training), PAPER_FIGURES[name].test[training]]
        rows.append(["Transformer (4 layers)", training, *row])
    columns = [
        Column("parser"),
        Column("training"),
        Column("F1", ".1f"),
        Column("F1, among trees only", ".1f"),
        Column("F1, paper", ".1f"),
    ]
    return Grid("Table 4: constituency parsing", columns, rows, _notes(scale, free))


def _sizes(hparams: HParams) -> list[str]:
    layers = {hparams.num_encoder_layers, hparams.num_decoder_layers}
    width = hparams.hidden_size // hparams.num_heads
    ours = (
        "+".join(map(str, sorted(layers))),
        hparams.hidden_size,
        hparams.filter_size if hparams.feed_forward_type == "relu" else hparams.feed_forward_type,
        hparams.num_heads,
        hparams.attention_key_size or width,
        hparams.attention_value_size or width,
        hparams.residual_dropout,
        hparams.label_smoothing,
    )
    return [str(value) for value in ours]


def _part(row: str) -> str:
    return row.removeprefix("table 3").strip(", ")[:3]


def _mean(seeds: Seeds, key: str) -> Mean | None:
    return seeds.mean(key) if key in seeds else None


def _notes(scale: Scale, *figures: Seeds) -> list[str]:
    notes = [f"Scale: {scale.name}. {scale.note}"]
    if any(seeds.deviation is not None for seeds in figures):
        notes.append(
            "Means over seeds with 95% intervals (Student's t); the spread over seeds is estimated from all rows."
        )
    else:
        notes.append("One seed: no intervals.")
    return notes


TABLES = {2: table_2, 3: table_3, 4: table_4}
