"""Where the errors of a parser are: by length, label, unknown words and kind, and the best trees of its beams.

The kinds of errors, in the order in which brackets are assigned to them. A missing bracket is one of the gold tree
without a match in the candidate; an extra bracket is one of the candidate without a match in the gold tree.

- Label: a missing and an extra bracket over the same words.
- Unary chain: the other tree has brackets over the same words, but fewer or other ones: the chain of constituents over
  these words is too long or too short.
- Attachment: a missing and an extra bracket have the same label and one end in common. The words between their other
  ends are whole constituents of both trees, which are thus attached too high or too low. A single bracket is also such
  an error if it consists of a constituent with its label, in both trees, and whole constituents beside it, such as NP
  in "(NP (NP the dog) (PP in the house))".
- Wrong end: a missing and an extra bracket have the same label and one end in common, but the words between their other
  ends are not whole constituents.
- Missing and extra: all others.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

from t2t_lite.errors import UserError
from t2t_lite.scoring.parseval import COUNTED, Bracket, Comparison, SentenceScore, compare_trees, f1_score, total

LABEL, UNARY, ATTACHMENT = "wrong label", "unary chain", "attachment"
WRONG_END, MISSING, EXTRA = "wrong end", "missing", "extra"
KINDS = (LABEL, UNARY, ATTACHMENT, WRONG_END, MISSING, EXTRA)

_LENGTHS = (10, 20, 30, 40)  # the longest sentences of the groups; the last group has longer ones
_UNKNOWN_WORDS = (0, 1, 2)  # the numbers of unknown words of the groups; the last group has more
_MOST_LABELS = 12  # labels with a row of their own
_Span = tuple[int, int]


def error_report(
    golds: Sequence[str],
    candidates: Sequence[str],
    known_words: Collection[str] | None = None,
    n_best: Sequence[Sequence[str]] | None = None,
    roots_as_top: bool = False,
) -> list[str]:
    """Returns tables of the errors as lines. Sentences that EVALB does not score are left out.

    Args:
      golds, candidates: trees in brackets, one per sentence.
      known_words: the words of the training trees, for a table by unknown words; None: no such table.
      n_best: the trees in the beam of each sentence, for the best tree of each beam; None: no such table.
      roots_as_top: see `compare_trees`.

    Raises:
      UserError: if there are more or fewer beams than sentences; see also `compare_trees`.
    """
    if n_best is not None and len(n_best) != len(golds):
        raise UserError(f"there are {len(golds):,} sentences but {len(n_best):,} beams; decode the same file for both")
    everything, _ = compare_trees(golds, candidates, roots_as_top=roots_as_top)
    compared = [each for each in everything if each.score.status == COUNTED]
    lines = _grouped("words", compared, [each.score.length for each in compared], _LENGTHS)
    if known_words is not None:
        unknown = [sum(word not in known_words for word in each.gold.words) for each in compared]
        lines += ["", *_grouped("unknown words", compared, unknown, _UNKNOWN_WORDS)]
    lines += ["", *_by_label(compared), "", *_by_kind(compared)]
    if n_best is not None:
        lines += ["", *_oracle(golds, candidates, n_best, roots_as_top)]
    return lines


def kinds_of_errors(gold: Sequence[Bracket], candidate: Sequence[Bracket]) -> Counter[str]:
    """Returns the number of errors of each kind; an error is a bracket, or a pair of a missing and an extra one."""
    missing = list((Counter(gold) - Counter(candidate)).elements())
    extra = list((Counter(candidate) - Counter(gold)).elements())
    gold_spans, candidate_spans = ({(start, end) for _, start, end in brackets} for brackets in (gold, candidate))
    errors: Counter[str] = Counter()
    errors[LABEL] = len(_pair_off(missing, extra, lambda one, other: one[1:] == other[1:]))
    for brackets, spans in ((missing, candidate_spans), (extra, gold_spans)):
        chained = [each for each in brackets if each[1:] in spans]
        errors[UNARY] += len(chained)
        for each in chained:
            brackets.remove(each)
    constituents = gold_spans & candidate_spans
    for one, other in _pair_off(missing, extra, _shares_one_end):
        (first, last), (start, end) = one[1:], other[1:]
        between = (min(first, start), max(first, start)) if last == end else (min(last, end), max(last, end))
        errors[ATTACHMENT if _are_whole(between, constituents) else WRONG_END] += 1
    matched = set(gold) & set(candidate)
    for kind, brackets in ((MISSING, missing), (EXTRA, extra)):
        adjoined = sum(_adjoins(each, matched, constituents) for each in brackets)
        errors[ATTACHMENT] += adjoined
        errors[kind] = len(brackets) - adjoined
    return +errors


def _pair_off(
    missing: list[Bracket], extra: list[Bracket], fits: Callable[[Bracket, Bracket], bool]
) -> list[tuple[Bracket, Bracket]]:
    """Removes and returns pairs of a missing and an extra bracket that fit, those with the closest ends first."""
    possible = [(one, other) for one in dict.fromkeys(missing) for other in dict.fromkeys(extra) if fits(one, other)]
    possible.sort(key=lambda pair: abs(pair[0][1] - pair[1][1]) + abs(pair[0][2] - pair[1][2]))
    pairs = []
    for one, other in possible:
        while one in missing and other in extra:
            missing.remove(one)
            extra.remove(other)
            pairs.append((one, other))
    return pairs


def _shares_one_end(one: Bracket, other: Bracket) -> bool:
    return one[0] == other[0] and (one[1] == other[1]) != (one[2] == other[2])


def _adjoins(bracket: Bracket, matched: Collection[Bracket], constituents: Collection[_Span]) -> bool:
    """Returns whether a bracket consists of a matched one with its label and whole constituents on one side of it."""
    label, start, end = bracket
    inner = [(first, last) for other, first, last in matched if other == label]
    return any(first == start and last < end and _are_whole((last, end), constituents) for first, last in inner) or any(
        last == end and first > start and _are_whole((start, first), constituents) for first, last in inner
    )


def _are_whole(words: _Span, constituents: Collection[_Span]) -> bool:
    """Returns whether constituents cover exactly these words."""
    reached = {words[0]}
    for place in range(words[0], words[1]):
        if place in reached:
            reached |= {end for start, end in constituents if start == place}
    return words[1] in reached


def _grouped(title: str, compared: Sequence[Comparison], numbers: Sequence[int], limits: Sequence[int]) -> list[str]:
    """Returns a table of scores by a number of each sentence; each group ends at one of the limits."""
    rows = []
    for low, high in zip((-1, *limits), (*limits, None)):
        pairs = zip(compared, numbers, strict=True)
        group = [each.score for each, number in pairs if low < number and (high is None or number <= high)]
        name = f"{low + 1} or more" if high is None else f"{max(low, 0) + 1} to {high}"
        name = str(high) if high == low + 1 else name
        if group:
            rows.append((name, f"{len(group):,}", *_scores(total(group))))
    return _table((title, "sentences", "recall", "precision", "F1"), rows)


def _by_label(compared: Sequence[Comparison]) -> list[str]:
    gold, candidate, matched = Counter[str](), Counter[str](), Counter[str]()
    for each in compared:
        ours = each.candidate.brackets if each.candidate else []
        both = Counter(each.gold.brackets) & Counter(ours)
        gold.update(label for label, *_ in each.gold.brackets)
        candidate.update(label for label, *_ in ours)
        matched.update(label for label, *_ in both.elements())
    frequent = [label for label, _ in gold.most_common(_MOST_LABELS)]
    others = (gold | candidate).keys() - set(frequent)
    rows = []
    for name, labels in [*((label, [label]) for label in frequent), *([("others", others)] if others else [])]:
        sums = [sum(counts[label] for label in labels) for counts in (matched, gold, candidate)]
        rows.append((name, f"{sums[1]:,}", *_scores(SentenceScore(0, COUNTED, *sums))))
    return _table(("label", "brackets", "recall", "precision", "F1"), rows)


def _by_kind(compared: Sequence[Comparison]) -> list[str]:
    errors: Counter[str] = Counter()
    for each in compared:
        errors += kinds_of_errors(each.gold.brackets, each.candidate.brackets if each.candidate else [])
    rows = [(kind, f"{errors[kind]:,}", f"{100 * errors[kind] / max(1, errors.total()):.1f}%") for kind in KINDS]
    return _table(("kind of error", "errors", "share"), rows)


def _oracle(
    golds: Sequence[str], candidates: Sequence[str], n_best: Sequence[Sequence[str]], roots_as_top: bool
) -> list[str]:
    """Returns the F1 of the first trees and of the best tree in each beam."""
    beams = [[candidate, *beam] for candidate, beam in zip(candidates, n_best, strict=True)]
    repeated = [gold for gold, beam in zip(golds, beams, strict=True) for _ in beam]
    trees = [tree for beam in beams for tree in beam]
    scores = (each.score for each in compare_trees(repeated, trees, roots_as_top=roots_as_top)[0])
    firsts, best = [], []
    for beam in beams:
        first, *others = itertools.islice(scores, len(beam))
        if first.status == COUNTED:
            firsts.append(first)
            best.append(max((first, *others), key=lambda score: score.f1))
    better = sum(one.f1 > first.f1 for one, first in zip(best, firsts, strict=True))
    size = max(map(len, n_best), default=0)
    rows = [("the parser's tree", *_scores(total(firsts))), (f"the best of {size} trees", *_scores(total(best)))]
    return [
        *_table(("oracle", "recall", "precision", "F1"), rows),
        f"The beam has a better tree for {better:,} of {len(firsts):,} sentences.",
    ]


def _scores(sums: SentenceScore) -> Iterator[str]:
    for value in (sums.recall, sums.precision, f1_score(sums.matched, sums.gold, sums.candidate)):
        yield f"{value:.2f}"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns a table with its first column on the left and the others on the right."""
    widths = [max(len(row[i]) for row in (titles, *rows)) for i in range(len(titles))]
    return [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]).rstrip()
        for row in (titles, *rows)
    ]
