"""Prints tables about the user's text before data is generated from it."""

from t2t_lite.bin import cli
from t2t_lite.data.generation.text_checks import ENTITY, INVISIBLE, REPEATED, TAG, TextChecks, in_split
from t2t_lite.data.manifest import mean, quantile
from t2t_lite.data.problem import SPLITS

MANY_DROPPED = 0.1  # share of all pairs
# What to do about what is left of web pages, by kind of finding.
_REMEDIES = {
    ENTITY: "HTML entities are kept as they are: decode them in all files, for example with Python's html.unescape.",
    TAG: "Tags are kept as they are: remove them from all files, unless the model is to read and write them.",
    INVISIBLE: "Invisible characters make other tokens of the same words; remove them from all files: "
    r"LC_ALL=C sed 's/\xE2\x80\x8B\|\xE2\x81\xA0\|\xEF\xBB\xBF//g'",
}


def print_report(checks: TextChecks) -> None:
    import rich.table

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
    table = rich.table.Table(box=None)
    for title in ("finding", "pairs", "share", "action", "lines"):
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
            "is wrong. Check the last pairs."
        )
    for advice in _advice(checks):
        print(advice)
    for split in checks.reversed_splits:
        print(
            f"In most pairs of {split}, the two languages seem to be swapped compared with train: check whether the "
            f"files of one of the two splits are swapped."
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
