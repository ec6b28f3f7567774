"""The tables about the user's own text that are printed before data is made of it."""

from t2t_lite.bin import cli
from t2t_lite.data.generation.text_checks import REPEATED, in_split
from t2t_lite.data.problem import SPLITS

MANY_DROPPED = 0.1  # share of all pairs


def print_report(checks) -> None:
    """Prints what a `TextChecks` has found."""
    import rich.table

    lengths = rich.table.Table(box=None)
    for title in ("side", "lines", "words a line: mean", "median", "95%", "longest"):
        lengths.add_column(title, justify="left" if title == "side" else "right")
    for side, counter in checks.words.items():
        figures = _figures(counter) if counter else ["-"] * 4
        lengths.add_row(side, f"{checks.lines[side]:,}", *figures)
    cli.print_table(lengths)
    print()
    table = rich.table.Table(box=None)
    for title in ("what was found", "pairs", "share", "what is done", "lines"):
        table.add_column(title, justify="right" if title in ("pairs", "share") else "left")
    for finding in checks.findings():
        count = f"{'about ' if finding.is_estimate else ''}{finding.count:,}"
        share = f"{finding.count / max(1, checks.pairs if finding.of is None else finding.of):.2%}"
        done = "" if not finding.count else "dropped" if finding.dropped else "kept"
        more = ", ..." if finding.count > len(finding.lines) > 0 else ""
        table.add_row(finding.kind, count, share, done, ", ".join(map(str, finding.lines)) + more)
    cli.print_table(table)
    if checks.lines["inputs"] != checks.lines["targets"]:
        print(
            "The two files have different numbers of lines: if a line is missing before the end, every pair after it "
            "is wrong. Look at the last ones."
        )
    for advice in _advice(checks):
        print(advice)
    for split in checks.reversed_splits:
        print(
            f"Most pairs of {split} seem to have the other direction than those of train: look whether the files of "
            f"one of them are given the wrong way round."
        )
    print(flush=True)


def _advice(checks) -> list[str]:
    """Returns what to do about what was found, a line each."""
    kept = {finding.kind for finding in checks.findings() if finding.count and not finding.dropped}
    message = [
        f"Lines {first:,} to {last:,}: the lengths of the two sides have nothing to do with each other, so they may "
        f"not belong together. Is a line missing before, or a file out of order?"
        for first, last in checks.stretches_apart()
    ]
    if checks.dropped > MANY_DROPPED * checks.pairs:
        message.append(f"{checks.dropped / checks.pairs:.0%} of the pairs are dropped: look at the lines named above.")
    if "not UTF-8" in checks.drop_reasons():
        message.append("What is not UTF-8 is often Windows-1252 (Latin-1): iconv -f WINDOWS-1252 -t UTF-8")
    if REPEATED in kept or kept & {in_split(split) for split in SPLITS}:
        message.append("--drop_duplicates leaves out what was there before, and what has its source in dev or test.")
    return message


def _figures(counter) -> list[str]:
    """Returns mean, median, 95th percentile and maximum of a histogram."""
    total = sum(counter.values())
    mean = sum(length * count for length, count in counter.items()) / total
    return [f"{mean:.1f}", *(str(quantile(counter, share)) for share in (0.5, 0.95, 1.0))]


def quantile(counter, share: float) -> int:
    """Returns the least value of a histogram that such a share of the values does not exceed."""
    total, seen = sum(counter.values()), 0
    for value in sorted(counter):
        seen += counter[value]
        if seen >= share * total:
            return value
    return 0
