"""t2t-lite-datagen: generates the vocabulary, shards and manifest of a problem, or shows their contents."""

import argparse
import collections
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import t2t_lite as t2t
from t2t_lite.bin import cli
from t2t_lite.config import HParams
from t2t_lite.data.generation.options import GenerateOptions
from t2t_lite.data.generation.text_checks import ENTITY, INVISIBLE, NUMBER, REPEATED, TAG, TextChecks, in_split
from t2t_lite.data.manifest import mean, quantile, read_manifest
from t2t_lite.data.problem import LANGUAGES_OPTION, SPLITS, get_problem
from t2t_lite.errors import UserError
from t2t_lite.options import option
from t2t_lite.system.tensorflow import import_tensorflow
from t2t_lite.visualization.figures import COLORS, check_plot_file, make_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from t2t_lite.data.generation.generate import GeneratedData
    from t2t_lite.data.inspection import Inspection

_MAX_LENGTHS = (64, 128, 256, 512)
# The plot: the share of texts and words that the axes show, since a few very long ones would hide the others.
_SHOWN = 0.995
_MAX_BINS = 60
_MAX_TOKENS_PER_WORD = 10
# Sets by the least number of training pairs, see docs/choosing.md.
_SETS = {100_000: "transformer_base", 15_000: "transformer_multi30k", 0: "transformer_tiny"}
MANY_DROPPED = 0.1  # share of all pairs
# What to do about a finding, by its kind.
_REMEDIES = {
    ENTITY: "HTML entities are kept as they are: decode them in all files, for example with Python's html.unescape.",
    TAG: "Tags are kept as they are: remove them from all files, unless the model is to read and write them.",
    INVISIBLE: "Invisible characters make other tokens of the same words; remove them from all files: "
    r"LC_ALL=C sed 's/\xE2\x80\x8B\|\xE2\x81\xA0\|\xEF\xBB\xBF//g'",
    NUMBER: "Every source is only a number. If these are line numbers or IDs, remove the column: cut -f2-",
}


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("datagen", _run, argv)


class Flags(cli.Flags):
    problem: str | None = option(None, "name of the problem")
    data_dir: PathLike | None = option(None, "folder to write the data to")
    tmp_dir: PathLike | None = option(
        None, "folder for source files, which are downloaded if missing", unset="downloads/ in --data_dir"
    )
    kind: str | None = option(
        None,
        "t2t: use the shards and the vocabulary that tensor2tensor generated in --tmp_dir, unchanged",
        flag="from",
        choices=("t2t",),
        parse=str,
    )
    t2t_problem: str | None = option(
        None,
        "with --from=t2t: the NAME in NAME-train-00000-of-00100",
        unset="--problem, or the only one",
        metavar="NAME",
    )
    options: type[GenerateOptions] = GenerateOptions
    inspect: str | None = option(
        None,
        "show the content of a split, or of one shard given by its path, and exit",
        bare="train",
        metavar="SPLIT|SHARD",
    )
    plot_file: PathLike | None = option(
        None, "with --inspect: plot lengths and padding to this file (.png, .svg or .pdf)", needs=("inspect",)
    )


def make_parser() -> cli.CommandParser:
    return cli.CommandParser("datagen", "Generate the data of a problem: vocabulary, TFRecord shards, manifest.", Flags)


def _run(flags: Sequence[str]) -> None:
    parser = make_parser()
    arguments = cli.parse_with_problem(parser, flags)
    if arguments.inspect and "-of-" in arguments.inspect and not Path(arguments.inspect).exists():
        raise UserError(f"--inspect={arguments.inspect}: there is no such shard; check the path")
    if not arguments.inspect or not Path(arguments.inspect).is_file():
        for flag in ("problem", "data_dir"):
            if not getattr(arguments, flag):
                parser.error(f"--{flag} is required")
    if arguments.inspect:
        _print_inspection(arguments)
        return
    options = cli.given(arguments, GenerateOptions) | arguments.problem_options
    if not arguments.kind and not arguments.t2t_problem:
        made = t2t.generate_data(
            arguments.problem, arguments.data_dir, tmp_dir=arguments.tmp_dir, display=GenerationDisplay(), **options
        )
        _say_next(arguments.problem, made)
        return
    if not arguments.kind or not arguments.tmp_dir:
        parser.error("--from=t2t needs --tmp_dir" if arguments.kind else "--t2t_problem needs --from=t2t")
    if others := {name for name, value in options.items() if value} - {"vocab_file"}:
        parser.error(f"--from=t2t uses the shards unchanged; remove --{min(others)}")
    made = t2t.import_data(
        arguments.tmp_dir,
        arguments.data_dir,
        problem=arguments.problem,
        vocab_file=arguments.vocab_file,
        t2t_problem=arguments.t2t_problem or "",
        display=GenerationDisplay(),
    )
    _say_next(arguments.problem or made.problem, made)


def _say_next(problem: str, made: "GeneratedData") -> None:
    """Says how to train on the data, with the set that docs/choosing.md suggests for its size."""
    suggested = next(name for least, name in _SETS.items() if made.pairs["train"] >= least)
    if (chosen := get_problem(problem)).writes_trees:
        suggested = "transformer_parsing"
    manifest = read_manifest(made.data_dir, chosen)
    if manifest and LANGUAGES_OPTION.keys() <= chosen.flags.keys():
        languages = manifest.languages(chosen, made.data_dir)
        print(f"languages: {languages or 'unknown; the server asks for them, so pass them as --languages=en-de'}")
    flags = {"problem": problem, "hparams_set": suggested, "data_dir": str(made.data_dir), "output_dir": "RUN"}
    cli.say_next("trainer", *(f"--{name}={value}" for name, value in flags.items()))


def _print_inspection(arguments: argparse.Namespace) -> None:
    """Prints what --inspect shows of a split or a shard."""
    asked = arguments.inspect
    if not Path(asked).is_file() and asked not in SPLITS:
        raise UserError(f"--inspect={asked} is neither a file nor a split ({', '.join(SPLITS)})", status=2)
    if arguments.plot_file is not None:
        check_plot_file(Path(arguments.plot_file))
    import_tensorflow()
    from t2t_lite.data import inspection as inspecting

    if Path(asked).is_file():
        inspection = inspecting.inspect_shard(Path(asked))
    else:
        inspection = inspecting.inspect_split(Path(arguments.data_dir), get_problem(arguments.problem).data_name, asked)
    what = inspection.paths[0].name if len(inspection.paths) == 1 else f"{len(inspection.paths)} shards"
    title = f"{inspection.manifest.problem}, {inspection.split}, {what}: {inspection.examples:,} examples"
    print(f"{title}\n")
    titles = ("side", "vocabulary", "tokens", "mean", "median", "95%", "longest", "per word", "unknown")
    table = cli.table(*titles, left=2, pad_edge=True)
    for (side, counter), vocabulary in zip(inspection.lengths.items(), inspection.vocabularies):
        tokens = sum(length * count for length, count in counter.items())
        table.add_row(
            side,
            f"{vocabulary.size:,} ({vocabulary.path.name})",
            f"{tokens:,}",
            f"{mean(counter):.1f}",
            *(str(quantile(counter, share)) for share in (0.5, 0.95, 1.0)),
            f"{mean(inspection.tokens_per_word[side]):.2f}",
            f"{inspection.unknown[side] / max(1, tokens):.2%}",
        )
    cli.print_table(table)
    print("Lengths are in tokens, including the end symbol; per word: mean number of tokens per word between spaces.\n")
    shares = ", ".join(f"{padding.share:.1%} of the {side}" for side, padding in inspection.padding.items())
    batch = f"{HParams.batch_tokens:,} target tokens, max_length={HParams.max_length}"
    print(f"Padding in training batches with default settings ({batch}): {shares}.")
    dropped = inspection.manifest.splits.get(inspection.split, {}).get("dropped", {})
    message = ", ".join(f"{count:,} ({why})" for why, count in dropped.items()) or "none"
    print(f"Dropped when the whole split was generated: {message}.")
    if inspection.split == "train":
        message = ", ".join(
            f"{inspection.longer_than(limit):,} with max_length={limit} "
            f"({inspection.longer_than(limit) / inspection.examples:.2%})"
            for limit in _MAX_LENGTHS
        )
        print(f"Dropped in training because a side is too long: {message}. Nothing is truncated.")
    for number, tokens in enumerate(inspection.texts, start=1):
        print(f"\nExample {number}")
        for side, parts in zip(("inputs ", "targets"), tokens):
            print(f"  {side}  {'|'.join(parts)}")
    if arguments.plot_file is not None:
        _plot(inspection, title, Path(arguments.plot_file))
        print(f"\nplot: {arguments.plot_file}")


def _plot(inspection: "Inspection", title: str, file: Path) -> None:
    """Plots the lengths of texts, the tokens per word, and each batch's padding by its padded length."""
    figure = make_figure(14, 4.5)
    lengths, words, padding = figure.subplots(1, 3)
    for side, color in zip(inspection.lengths, COLORS):
        if inspection.padding[side].lengths.size:
            label = f"{side}: {inspection.padding[side].share:.1%} in all"
            shares = 100 * inspection.padding[side].shares
            padding.plot(inspection.padding[side].lengths, shares, "o", color=color, alpha=0.6, label=label)
    _draw_lengths(lengths, inspection.lengths)
    _draw_words(words, inspection.tokens_per_word)
    lengths.set(xlabel="length, tokens", ylabel="texts, %")
    words.set(xlabel="tokens per word", ylabel="words, %")
    padding.set(xlabel="padded length of a batch, tokens", ylabel="padding, %")
    padding.set_ylim(bottom=0)
    padding.xaxis.get_major_locator().set_params(integer=True)
    for axes in (lengths, words, padding):
        axes.grid(alpha=0.3)
        axes.set_axisbelow(True)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1), fontsize="small", frameon=False)
    figure.suptitle(title, parse_math=False)
    save(figure, file)


def _draw_lengths(axes: "Axes", lengths: dict[str, collections.Counter[int]]) -> None:
    last = max(quantile(counter, _SHOWN) for counter in lengths.values())
    step = -(-(last + 1) // _MAX_BINS)
    # A bin of a single length is centred on it.
    edges = [place - (0.5 if step == 1 else 0.0) for place in range(0, last + 1 + step, step)]
    for (side, counter), color in zip(lengths.items(), COLORS):
        if not counter:
            continue
        median, most, longest = (quantile(counter, share) for share in (0.5, 0.95, 1.0))
        label = f"{side}: median {median}, 95% {most}, longest {longest}"
        values, weights = [*counter], [100 * count / counter.total() for count in counter.values()]
        axes.hist(values, edges, weights=weights, histtype="stepfilled", color=color, alpha=0.25)
        axes.hist(values, edges, weights=weights, histtype="step", color=color, label=label)
        axes.axvline(median, color=color, linestyle="--", linewidth=1)
        axes.axvline(most, color=color, linestyle=":", linewidth=1)
    axes.set_xlim(0, edges[-1])


def _draw_words(axes: "Axes", words: dict[str, collections.Counter[int]]) -> None:
    most = max(quantile(counter, _SHOWN) for counter in words.values())
    shown = range(1, min(max(most, 2), _MAX_TOKENS_PER_WORD) + 1)
    width = 0.8 / len(words)
    for number, ((side, counter), color) in enumerate(zip(words.items(), COLORS)):
        if not counter:
            continue
        total = counter.total()
        shares = [100 * counter[tokens] / total for tokens in shown[:-1]]
        shares.append(100 - sum(shares))  # words with this number of tokens or more
        places = [tokens + (number - (len(words) - 1) / 2) * width for tokens in shown]
        axes.bar(places, shares, width, color=color, label=f"{side}: {mean(counter):.2f} on average")
    axes.set_xticks(shown, [*map(str, shown[:-1]), f"{shown[-1]}+"])


class GenerationDisplay(cli.CommandDisplay):
    """Also prints tables about the user's text before data is generated from it."""

    def text_checks(self, checks: TextChecks) -> None:
        lengths = cli.table("side", "lines", "words per line: mean", "median", "95%", "longest", pad_edge=True)
        for side, counter in checks.words.items():
            figures = (
                [f"{mean(counter):.1f}", *(str(quantile(counter, share)) for share in (0.5, 0.95, 1.0))]
                if counter
                else ["-"] * 4
            )
            lengths.add_row(side, f"{checks.lines[side]:,}", *figures)
        cli.print_table(lengths)
        print()
        table = cli.table("finding", "pairs", "share", "action", "lines", left=5, pad_edge=True)
        for numbers in table.columns[1:3]:
            numbers.justify = "right"
        for finding in checks.findings():
            count = f"{'about ' if finding.is_estimate and finding.count else ''}{finding.count:,}"
            share = f"{finding.count / max(1, checks.pairs if finding.of is None else finding.of):.2%}"
            done = "" if not finding.count else "dropped" if finding.dropped else "kept"
            more = ", ..." if finding.count > len(finding.lines) > 0 else ""
            table.add_row(finding.kind, count, share, done, ", ".join(map(str, finding.lines)) + more)
        cli.print_table(table)
        if checks.lines["inputs"] != checks.lines["targets"]:
            print(
                "The two files have different numbers of lines: if a line is missing before the end, every pair after "
                f"it is wrong.{'' if checks.stretches_apart() else ' Check the last pairs.'}"
            )
        for advice in _advice(checks):
            print(advice)
        for split in checks.reversed_splits:
            print(
                f"In most pairs of {split}, the two languages seem to be swapped compared with train: check whether "
                f"the files of one of the two splits are swapped."
            )
        print(flush=True)


def _advice(checks: TextChecks) -> list[str]:
    findings = {finding.kind: finding for finding in checks.findings() if finding.count and not finding.dropped}
    advice = [
        f"Lines {first:,} to {last:,}: the lengths of the two sides are uncorrelated, so they may not be translations "
        f"of each other. Check whether an earlier line is missing or a file is out of order."
        for first, last in checks.stretches_apart()
    ]
    if checks.dropped > MANY_DROPPED * checks.pairs:
        advice.append(f"{checks.dropped / checks.pairs:.0%} of the pairs are dropped: check the lines named above.")
    if "not UTF-8" in checks.drop_reasons():
        advice.append(
            "Text that is not UTF-8 is often Windows-1252 (Latin-1); convert it: iconv -f WINDOWS-1252 -t UTF-8"
        )
    if findings.keys() & {REPEATED, *map(in_split, SPLITS)}:
        advice.append("--drop_duplicates drops repeated pairs, and pairs whose source is also in dev or test.")
    for kind, remedy in _REMEDIES.items():
        if finding := findings.get(kind):
            advice.append(f"Line {finding.lines[0]:,} has {finding.example}. {remedy}")
    return advice
