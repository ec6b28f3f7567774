"""Makes the paper's tables with its results beside the measured ones, and checks its observations.

Tables have means over seeds, with intervals, and are written as Markdown, CSV and LaTeX. The variance over seeds is
assumed to be the same in all rows, as in an analysis of variance. With three seeds per row, one row alone gives a poor
estimate of the variance, and intervals would be 2.5 times as wide.
"""

import csv
import dataclasses
import io
import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from t2t_lite.config import HParams
from t2t_lite.cost import cost_of
from t2t_lite.data.manifest import FILENAME, manifest_of_file
from t2t_lite.data.problem import SIDES, get_problem
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.evaluation.stored import stored_evaluations
from t2t_lite.files import write_text
from t2t_lite.metric import figure_label
from t2t_lite.reproduce.paper import PAPER_FIGURES, TABLE_2, TABLE_4
from t2t_lite.reproduce.runs import PAPER_BASE, ROWS, Run, Scale, Spent, short
from t2t_lite.runs.checkpoint_files import list_checkpoints
from t2t_lite.runs.evaluations import read_evaluations, read_reports
from t2t_lite.runs.run_dir import RunDir, open_run_dir
from t2t_lite.runs.selection import select
from t2t_lite.system.tensorflow import import_tensorflow

LEVEL = 0.95


@dataclasses.dataclass(frozen=True)
class Mean:
    """A mean with its interval. `margin` is None if no row has several seeds."""

    value: float
    margin: float | None

    @property
    def low(self) -> float:
        return self.value - (math.inf if self.margin is None else self.margin)

    @property
    def high(self) -> float:
        return self.value + (math.inf if self.margin is None else self.margin)


class Seeds:
    def __init__(self, figures: Mapping[str, Sequence[float]]) -> None:
        self._figures = {row: np.asarray(values, float) for row, values in figures.items() if len(values)}
        self._freedom = sum(len(values) - 1 for values in self._figures.values())
        squares = sum(float(((values - values.mean()) ** 2).sum()) for values in self._figures.values())
        self.deviation = math.sqrt(squares / self._freedom) if self._freedom else None

    def __contains__(self, row: str) -> bool:
        return row in self._figures

    def mean(self, row: str) -> Mean:
        values = self._figures[row]
        return Mean(float(values.mean()), self._margin(1 / len(values)))

    def difference(self, row: str, other: str) -> Mean:
        values, others = self._figures[row], self._figures[other]
        return Mean(float(values.mean() - others.mean()), self._margin(1 / len(values) + 1 / len(others)))

    def _margin(self, variance: float) -> float | None:
        if self.deviation is None:
            return None
        from scipy.special import stdtrit

        return float(stdtrit(self._freedom, (1 + LEVEL) / 2)) * self.deviation * math.sqrt(variance)


@dataclasses.dataclass(frozen=True)
class Column:
    title: str
    form: str = ""  # the format of its numbers, as in `format(number, form)`
    latex: str = ""  # its title in LaTeX; "": the same as `title`


@dataclasses.dataclass(frozen=True)
class Grid:
    title: str
    columns: Sequence[Column]
    # The cells: texts, numbers, means with intervals, or None if empty. A row with only None is a horizontal rule.
    rows: Sequence[Sequence[str | float | Mean | None]]
    notes: Sequence[str] = ()  # notes for readers, one paragraph each

    def markdown(self) -> str:
        titles = [column.title for column in self.columns]
        lines = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
        lines += [f"| {' | '.join(self._cells(row))} |" for row in self.rows if not _is_line(row)]
        return "\n\n".join([f"## {self.title}", "\n".join(lines), *self.notes]) + "\n"

    def csv(self) -> str:
        """Returns the table as CSV with all digits. A column with means gets an extra column for their margins."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        means = [any(isinstance(row[i], Mean) for row in self.rows) for i in range(len(self.columns))]
        titles = []
        for column, has_margin in zip(self.columns, means):
            titles += [column.title, f"{column.title} ±"] if has_margin else [column.title]
        writer.writerow(titles)
        for row in self.rows:
            if not _is_line(row):
                writer.writerow([text for cell, wide in zip(row, means) for text in _numbers(cell, wide)])
        return file.getvalue()

    def latex(self) -> str:
        """Returns the table as a LaTeX tabular, which needs the package booktabs."""
        lines = [f"% {self.title}", *(f"% {note}" for note in self.notes)]
        lines += [f"\\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}", "\\toprule"]
        lines.append(" & ".join(column.latex or _escaped(column.title) for column in self.columns) + r" \\")
        lines.append("\\midrule")
        for row in self.rows:
            cells = (_escaped(cell).replace("±", r"$\pm$") for cell in self._cells(row))
            lines.append("\\midrule" if _is_line(row) else " & ".join(cells) + r" \\")
        return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"

    def write(self, folder: Path, name: str, more: str = "") -> list[Path]:
        """Writes name.md (with `more` below the table), name.csv and name.tex, and returns their paths."""
        texts = {"md": self.markdown() + (f"\n{more}" if more else ""), "csv": self.csv(), "tex": self.latex()}
        paths = [folder / f"{name}.{ending}" for ending in texts]
        for path, text in zip(paths, texts.values()):
            write_text(path, text)
        return paths

    def _cells(self, row: Sequence[str | float | Mean | None]) -> list[str]:
        return [_text(cell, column.form) for cell, column in zip(row, self.columns)]


def _text(cell: str | float | Mean | None, form: str) -> str:
    if cell is None:
        return ""
    if isinstance(cell, Mean):
        margin = "" if cell.margin is None else f" ± {cell.margin:{form.removeprefix('+')}}"
        return f"{cell.value:{form}}{margin}"
    return cell if isinstance(cell, str) else f"{cell:{form}}"


def _numbers(cell: str | float | Mean | None, wide: bool) -> list[str | float | None]:
    if isinstance(cell, Mean):
        return [cell.value, cell.margin]
    return [cell, None] if wide else [cell]


def _is_line(row: Sequence[object]) -> bool:
    return all(cell is None for cell in row)


def _escaped(text: str) -> str:
    if re.fullmatch(r"O\(.*\)", text):  # a formula
        return f"${text.replace('log', chr(92) + 'log')}$"
    text = re.sub(r"([&%$#_{}])", r"\\\1", text)
    return text.replace("^", r"\textasciicircum{}").replace("~", r"\textasciitilde{}")


# Default utilisation: the speed of training relative to a large matrix product, for estimates without a finished run.
# Measured on CPUs with models of hidden size 128 to 512.
_USUAL_UTILISATION = 0.35
_BYTES_PER_WEIGHT = 12  # float32, with Adam's two moments
# The `training_figures` of each row, by `row_and_column`.
Trainings: TypeAlias = Mapping[str, Mapping[str, float]]
# The label of the paper's BLEU. It must differ from sacreBLEU's.
PAPER_BLEU = figure_label("paper_bleu")
BETTER, WORSE, SAME = "better", "worse", "the same"
HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
# Differences up to these count as "nearly identical": in BLEU, and as a share of the perplexity. In the paper, learned
# positions and sinusoids differ by 0.1 BLEU, and not in perplexity.
SAME_BLEU, SAME_PERPLEXITY = 0.5, 0.03


@dataclasses.dataclass(frozen=True)
class Cost:
    parameters: int  # number of parameters of the model
    flops: float  # operations of the whole training, forward and backward passes
    seconds: float  # time of the whole training on this machine; 0 if it is done
    disk_bytes: float  # disk space of the checkpoints


def costs(runs: Sequence[Run], scale: Scale, times: Mapping[str, Spent]) -> dict[str, Cost]:
    """Returns the cost of each run, by name. Imports TensorFlow.

    `scale` has the sentence length and the vocabulary size. `times` of finished runs determine the speed of the others.
    Without any, the speed is measured.
    """
    import_tensorflow()
    from t2t_lite.training.devices import matmul_gflops

    sizes: dict[str, tuple[int, float]] = {}
    for run in runs:
        if run.row not in sizes:
            cost = cost_of(run.hparams, scale.vocab_size)
            step = sum(cost.training_flops(scale.mean_length, scale.mean_length).values())
            sizes[run.row] = sum(cost.parameter_parts().values()), step * run.hparams.train_steps
    trained = {run.name for run in runs if run.is_trained()}
    done = [(sizes[run.row][1], times[run.name].seconds) for run in runs if run.name in trained & times.keys()]
    flops, seconds = sum(flops for flops, _ in done), sum(taken for _, taken in done)
    rate = flops / seconds if seconds > 0 else matmul_gflops(repeats=3) * 1e9 * _USUAL_UTILISATION
    return {
        run.name: Cost(
            parameters=(size := sizes[run.row])[0],
            flops=size[1],
            seconds=0.0 if run.name in trained else size[1] / rate,
            disk_bytes=size[0] * _BYTES_PER_WEIGHT * run.hparams.average_checkpoints,
        )
        for run in runs
    }


def training_figures(run: RunDir, data_dir: Path) -> dict[str, float]:
    """Returns the known measurements of a training run.

    They are "parameters" in millions, "steps", "tokens" (target tokens per step), "step_seconds", "flops" (counted
    operations of all steps, which needs the sentence lengths in `data_dir`), "dev_perplexity" (of the last evaluated
    checkpoint) and "dev_step", its step.
    """
    cost = cost_of(run.hparams, *[open_vocabulary(path).size for path in (run.vocabulary, run.inputs_vocabulary)])
    figures = {"parameters": sum(cost.parameter_parts().values()) / 1e6}
    reports = read_reports(run.path)
    if rates := reports.get("steps_per_second"):
        figures["steps"] = max(reports["step"])
        tokens = [each / rate for each, rate in zip(reports["target_tokens_per_second"], rates)]
        figures["tokens"] = statistics.median(tokens)
        rates = rates[1:] or rates  # the first one includes building the graph
        figures["step_seconds"] = 1 / statistics.median(rates)
        about = data_dir / FILENAME.format(run.problem.data_name)
        if about.exists():
            lengths = run.problem.in_direction([manifest_of_file(about).mean_length("train", side) for side in SIDES])
            figures["flops"] = figures["steps"] * sum(cost.training_flops(*lengths).values())
    if evaluations := read_evaluations(run.path):
        figures["dev_step"] = max(evaluations)
        figures["dev_perplexity"] = evaluations[max(evaluations)]["perplexity"]
    return figures


class Result(NamedTuple):
    """A finished run and its metrics by name, such as "bleu" and "perplexity"."""

    run: Run
    figures: Mapping[str, float]


def read_results(runs: Sequence[Run]) -> list[Result]:
    """Returns the results of those runs that are evaluated, even if their data is gone."""
    results = []
    for run in runs:
        if not run.is_trained() or (run.averages and not list_checkpoints(run.directory, "average")):
            continue
        settings = get_problem(run.problem).decode_hparams.override(run.search)
        checkpoint = select(run.directory, run.checkpoint).path
        for one in stored_evaluations(open_run_dir(run.directory), run.split, checkpoint):
            key = one.content["decoded_by"]
            if one.decode_hparams == vars(settings) and run.is_of_data(key["inputs"], key["targets"]):
                results.append(Result(run, one.scores))
                break
    return results


def trainings_of(results: Sequence[Result]) -> dict[str, Mapping[str, float]]:
    """Returns the `training_figures` of each row, by `row_and_column`. Imports TensorFlow."""
    # Reversed, so that the first run of a row counts.
    runs = {row_and_column(result.run): result.run for result in reversed(results)}
    data = {key: Path(run.data_flags["data_dir"]) for key, run in runs.items()}
    return {key: training_figures(open_run_dir(run.directory), data[key]) for key, run in runs.items()}


def row_and_column(run: Run) -> str:
    """Returns the key of a row's results: "transformer_base EN-DE"."""
    return f"{run.row} {run.column}"


def over_seeds(results: Sequence[Result], figure: str, key: Callable[[Run], str] = lambda run: run.row) -> Seeds:
    values: dict[str, list[float]] = {}
    for result in results:
        if figure in result.figures:
            values.setdefault(key(result.run), []).append(result.figures[figure])
    return Seeds(values)


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
        title = figures.row.removeprefix("table 3").strip(", ")
        if rows and rows[-1][0][:3] != title[:3]:  # another part of the table
            rows.append([None] * len(columns))
        row: list = [title, short(name), *_sizes(run.hparams), run.hparams.train_steps]
        row += [trainings[row_and_column(run)]["parameters"], perplexity.mean(name), bleu.mean(name)]
        row += [figures.parameters, figures.perplexity, figures.bleu]
        rows.append([*row, str(sum(result.run.row == name for result in results))])
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
    columns = [Column("the paper's observation (section 6.2)"), Column("row")]
    for name, form in (("BLEU", "+.1f"), ("PPL", "+.2f")):
        columns += [Column(f"paper: {name}", form), Column(f"difference in {name}", "+.2f"), Column(f"by {name}")]
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
    forms = {PAPER_BLEU: ".1f", "sacreBLEU": ".1f", "paper": ".2f", "FLOPs": ".2g", "FLOPs, paper": ".2g"}
    columns = [Column("model"), *(Column(f"{pair}: {title}", form) for pair in pairs for title, form in forms.items())]
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
            flops = trainings[key].get("flops") if runs.get(key) else None
            row += [_mean(ours, key), _mean(plain, key), figures.test[pair], flops, figures.training_flops]
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
    scores = [Column(title, ".1f") for title in ("F1", "F1, among trees only", "F1, paper")]
    columns = [Column("parser"), Column("training"), *scores]
    return Grid("Table 4: constituency parsing", columns, rows, _notes(scale, free))


def _sizes(hparams: HParams) -> list[str]:
    ours = (
        "+".join(map(str, sorted({hparams.num_encoder_layers, hparams.num_decoder_layers}))),
        hparams.hidden_size,
        hparams.filter_size if hparams.feed_forward_type == "relu" else hparams.feed_forward_type,
        hparams.num_heads,
        hparams.key_size,
        hparams.value_size,
        hparams.residual_dropout,
        hparams.label_smoothing,
    )
    return [str(value) for value in ours]


def _mean(seeds: Seeds, key: str) -> Mean | None:
    return seeds.mean(key) if key in seeds else None


def _notes(scale: Scale, *figures: Seeds) -> list[str]:
    means = "Means over seeds with 95% intervals (Student's t); the spread over seeds is estimated from all rows."
    has_intervals = any(seeds.deviation is not None for seeds in figures)
    return [f"Scale: {scale.name}. {scale.note}", means if has_intervals else "One seed: no intervals."]


TABLES = {2: table_2, 3: table_3, 4: table_4}
