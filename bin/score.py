"""t2t-lite-score: scores files of translations or trees by registered metrics, and compares them."""

import argparse
import math
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_lite.bin import cli
from t2t_lite.data.text_files import read_lines
from t2t_lite.errors import UserError
from t2t_lite.files import as_json
from t2t_lite.metric import (
    TOKENS,
    TREES,
    check_lines,
    check_references,
    figure_label,
    figure_name,
    make_metric,
    metric_named,
    metric_needs,
    options_taken,
    references_taken,
    report,
    with_companions,
)
from t2t_lite.options import option
from t2t_lite.registry import METRICS
from t2t_lite.scoring.parseval import check_one_line_per_tree

if TYPE_CHECKING:
    from t2t_lite.evaluation.comparison import Comparison

# The flags that are arguments of metrics.
_OPTIONS = ("lowercase", "language", "tokenize", "tokenized", "per_sentence", "roots_as_top")
# The flags that need several hypothesis files.
_OF_COMPARISONS = ("test", "changes", "source")
_INTERVALS = "bootstrap, 1,000 samples"
_NOT_RESAMPLED = "no interval or p-value, because the metric cannot be resampled by lines (Metric.resampled)"


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("score", _run, argv)


def _metrics_with(option: str) -> str:
    return ", ".join(name for name in METRICS if option in METRICS.fact(name, "options", ()))


def make_parser() -> cli.CommandParser:
    # Inside a function, because the texts name the metrics that are registered now.
    class Flags(cli.RunFlags):
        hypothesis: cli.Paths | None = option(
            None,
            "translations or trees, one per line, plain or compressed; several files are compared with the first",
            metavar="FILE,...",
        )
        reference: cli.Paths | None = option(
            None, "one or several files of references, one per line", metavar="FILE,..."
        )
        output_dir: cli.Paths | None = option(
            None,
            "instead of files, score the outputs that t2t-lite-eval stored for these runs",
            metavar="RUN[,RUN,...]",
            excludes=("hypothesis", "reference"),
        )
        split: str | None = option(
            None,
            "with --output_dir: dev or test",
            unset="dev",
            choices=("dev", "test"),
            metavar="SPLIT",
            needs=("output_dir",),
        )
        checkpoint_path: PathLike | None = option(
            None,
            "with --output_dir: which checkpoint",
            unset="the run's average if it exists, else the last one",
            metavar="best|last|average|ckpt-N|PATH",
            needs=("output_dir",),
        )
        metric: str = option(
            "bleu,chrf",
            "the metrics (default: bleu,chrf). "
            + " ".join(
                f"{name}: {METRICS.summary(name).rstrip('.')}." for name in METRICS if metric_needs(name) != TOKENS
            ),
            metavar="NAME,...",
        )
        intervals: bool = option(False, "also print 95% confidence intervals (bootstrap, 1,000 samples)")
        json: bool = option(False, "print everything as one JSON object")
        lowercase: bool = option(False, f"{_metrics_with('lowercase')}: ignore case")
        language: str | None = option(None, f"{_metrics_with('language')}: the language code of the texts, such as de")
        tokenize: str | None = option(
            None,
            f"{_metrics_with('tokenize')}: sacreBLEU's tokenizer, such as 13a, zh, ja-mecab, ko-mecab, char or none",
            unset="that of the language, else 13a",
            metavar="NAME",
        )
        tokenized: bool = option(
            False, f"{_metrics_with('tokenized')}: the texts are already tokenised, with compounds split"
        )
        per_sentence: bool = option(
            False, f"{_metrics_with('per_sentence')}: also print a line for each sentence, in EVALB's format"
        )
        roots_as_top: bool = option(
            False,
            f"{_metrics_with('roots_as_top')}: do not count roots called ROOT, S1 or nothing; EVALB counts all but TOP",
        )
        test: str | None = option(
            None,
            "the paired significance test: bootstrap, with 1,000 samples, or randomisation, with 10,000",
            unset="bootstrap",
            group="with several hypotheses",
            choices=("bootstrap", "randomisation"),
            metavar="TEST",
        )
        changes: int | None = option(
            None,
            "show the N lines whose scores changed most: by the line's chrF2, or by F1 for trees",
            unset="10",
            at_least=0,
            metavar="N",
        )
        source: PathLike | None = option(
            None, "the file that was translated or parsed, to show its lines with the changes"
        )

    return cli.CommandParser(
        "score",
        "Score translations with sacreBLEU's BLEU and chrF, with signatures, or trees with EVALB's labelled F1. "
        "Several files of hypotheses are compared with the first of them.",
        Flags,
    )


def _run(flags: Sequence[str]) -> None:
    parser = make_parser()
    arguments = parser.parse_args(flags)
    for name in () if arguments.output_dir else ("hypothesis", "reference"):
        if not getattr(arguments, name):
            parser.error(f"the following arguments are required: --{name} (or --output_dir)")
    cli.load_plugins(arguments, arguments.output_dir or [])
    language = _use_stored_files(arguments) if arguments.output_dir else ""
    metrics = [metric_named(name, "metric") for name in dict.fromkeys(arguments.metric.split(","))]
    for name in metrics:
        if metric_needs(name) == TOKENS:
            raise UserError(f"`metric={name}` needs the model; t2t-lite-trainer --schedule=eval computes it", status=2)
        check_references(name, len(arguments.reference))
    _check_options(parser, arguments, metrics)
    options = {flag: getattr(arguments, flag) for flag in _OPTIONS if getattr(arguments, flag)}
    if language and arguments.language and arguments.language.partition("-")[0] != language.partition("-")[0]:
        parser.error(
            f"--language={arguments.language}: the outputs of {arguments.output_dir[0]} are {language}; omit it"
        )
    if language:  # the language of the run's problem; each metric takes the options that it knows
        options = {"language": language} | options
    _score(arguments, with_companions(metrics), options)


def _check_options(parser: cli.CommandParser, arguments: argparse.Namespace, metrics: list[str]) -> None:
    for flag in _OPTIONS:
        taking = [name for name in METRICS if flag in METRICS.fact(name, "options", ())]
        if getattr(arguments, flag) and not set(taking) & set(metrics):
            parser.error(f"--{flag} needs --metric={' or '.join(taking)}")
    for flag in _OF_COMPARISONS:
        if getattr(arguments, flag) is not None and len(arguments.hypothesis) == 1:
            parser.error(f"--{flag} needs several files; pass --hypothesis=FILE,FILE")
    if arguments.per_sentence and (arguments.json or len(arguments.hypothesis) > 1):
        parser.error("--per_sentence takes a single file of hypotheses and cannot be combined with --json")


def _score(arguments: argparse.Namespace, metrics: list[str], options: dict[str, Any]) -> None:
    from t2t_lite.evaluation.comparison import compare_texts
    from t2t_lite.scoring import significance

    systems, references = _read(arguments.hypothesis), _read(arguments.reference)
    source = _read([arguments.source]) if arguments.source else {}
    if TREES in map(metric_needs, metrics):
        for name, lines in {**systems, **references}.items():
            check_one_line_per_tree(lines, name)
    (first, lines), *others = ({**systems, **source, **references}).items()
    for other, its_lines in others:
        if len(its_lines) != len(lines):
            raise UserError(
                f"{first} has {len(lines)} lines but {other} has {len(its_lines)}: "
                f"line n of one must correspond to line n of the other"
            )
    check_lines(lines, *references.values())
    scorers = {name: make_metric(name, **options_taken(name, options)) for name in metrics}
    for metric, scorer in scorers.items():
        taken = references_taken(metric, list(references.values()))
        for name, lines in systems.items():
            for line in scorer.remarks(lines, *taken):
                cli.warn(f"{figure_label(figure_name(metric))} of {name}: {line}")
    if len(systems) == 1 and not arguments.json:
        print("\n".join(_reports(systems, references, metrics, options, arguments.intervals)))
        return
    test = arguments.test or significance.BOOTSTRAP
    compared = compare_texts(
        metrics,
        systems,
        list(references.values()),
        next(iter(source.values()), None),
        options,
        tests=(test,) if arguments.intervals or len(systems) > 1 else (),
        count=10 if arguments.changes is None else arguments.changes,
        changes_by=metrics[0],
    )
    signatures = {name: scorer.signature(len(references)) for name, scorer in scorers.items()}
    if arguments.json:
        _print_json(compared, list(references), len(lines), signatures, test, significance.TESTS[test])
    else:
        _print(compared, signatures, test, significance.EXPLANATIONS[test])


def _reports(
    systems: Mapping[str, Sequence[str]],
    references: Mapping[str, Sequence[str]],
    metrics: Sequence[str],
    options: Mapping[str, Any],
    intervals: bool,
) -> list[str]:
    """Returns the lines about a single file. They are printed together, when nothing can fail any more."""
    from t2t_lite.scoring.significance import interval

    ((name, hypotheses),) = systems.items()
    lines = []
    for metric in metrics:
        taken = options_taken(metric, options)
        lines += report(metric, hypotheses, *references.values(), names=(name, ",".join(references)), **taken)
        if intervals:
            known = interval(metric, hypotheses, *references.values(), **taken)
            shown = f"95% interval {known.low:.2f} to {known.high:.2f} ({_INTERVALS})" if known else _NOT_RESAMPLED
            lines.append(f"{figure_label(figure_name(metric))}: {shown}")
    return lines


def _print(compared: "Comparison", signatures: Mapping[str, str], test: str, explanation: str) -> None:
    from rich.text import Text

    for metric, systems in compared.systems.items():
        label, signature = figure_label(figure_name(metric)), signatures[metric]
        print(f"{label}|{signature}" if signature else label)
        table = cli.table("", "score", "95% interval", "p-value", pad_edge=True)
        for system in systems:
            low_to_high = "-" if math.isnan(system.low) else f"{system.low:.2f} to {system.high:.2f}"
            p_value = getattr(system, f"p_{test}")
            shown = "-" if p_value is None else f"{p_value:.4f}"
            table.add_row(Text(system.name), f"{system.score:.2f}", low_to_high, shown)
        cli.print_table(table)
        if math.isnan(systems[0].low):
            print(_NOT_RESAMPLED)
        print()
    first = compared.names[0]
    print(f"p-value: for the difference from {first}, by {explanation}")
    print(f"intervals: {_INTERVALS}")
    for other, changes in compared.changes.items():
        print()
        if not changes:
            print(f"no line differs between {first} and {other}")
            continue
        print(f"lines that changed most from {first} to {other}:")
        for change in changes:
            scores, *texts = compared.shown(change, other)
            print("\n  ".join([f"\n{scores}", *texts]))


def _print_json(
    compared: "Comparison", references: list[str], lines: int, signatures: Mapping[str, str], test: str, samples: int
) -> None:
    several = len(compared.names) > 1
    metrics = []
    for name, systems in compared.systems.items():
        first = systems[0]
        comparisons = [
            {"hypothesis": each.name, "score": each.score, "low": each.low, "high": each.high}
            | {"p_value": getattr(each, f"p_{test}")}
            for each in systems
        ]
        metrics.append(
            {
                "name": name,
                "label": figure_label(figure_name(name)),
                "meaning": METRICS.summary(name),
                "signature": signatures[name],
                "score": first.score,
                "interval": None if math.isnan(first.low) else {"low": first.low, "high": first.high},
                "comparisons": comparisons if several else [],
            }
        )
    content = {
        "hypotheses": compared.names,
        "references": references,
        "lines": lines,
        "metrics": metrics,
        "test": {"name": test, "num_samples": samples} if several else None,
        "changes": compared.changes_json(),
    }
    print(as_json(content))


def _use_stored_files(arguments: argparse.Namespace) -> str:
    """Sets the file flags to the files that t2t-lite-eval stored for the runs in --output_dir.

    Returns the language of the outputs, "" if unknown.
    """
    from t2t_lite.decoding.loading import open_model
    from t2t_lite.evaluation import stored

    runs = [open_model(run, arguments.checkpoint_path) for run in arguments.output_dir]
    evaluations = [stored.stored_evaluation(run, arguments.split or "dev") for run in runs]
    for one in evaluations:
        if one.reference_digests != evaluations[0].reference_digests:
            raise UserError(
                f"{one.path} and {evaluations[0].path} have different references; evaluate both with the same"
            )
    if not runs[0].has_inputs:
        raise UserError(f"'{runs[0].problem}' has no outputs to score")
    arguments.hypothesis = [str(one.path / stored.HYPOTHESES) for one in evaluations]
    arguments.reference = [str(path) for path in evaluations[0].reference_paths]
    if len(evaluations) > 1 and arguments.source is None:
        arguments.source = str(evaluations[0].path / stored.INPUTS)
    return runs[0].target_language


def _read(paths: Sequence[str]) -> dict[str, list[str]]:
    """Returns the lines of files by name. A repeated file is called "NAME (2)"."""
    texts = {}
    for path in paths:
        times = sum(name == path or name.startswith(f"{path} (") for name in texts)
        texts[f"{path} ({times + 1})" if times else path] = list(read_lines(Path(path)))
    return texts
