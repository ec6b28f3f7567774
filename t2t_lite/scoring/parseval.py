"""Labelled bracketing F1 (PARSEVAL), equal to EVALB (Sekine and Collins) with COLLINS.prm to the last digit.

The rules of the comparison:

- Words with the tag -NONE- or one of the punctuation tags , : `` '' and . are deleted, together with their tags.
  (Quotation marks and brackets with other tags are kept.) Constituents left without a word are deleted, too.
- A constituent's label is cut at its first "-" or "=", even if that is its first character. TOP and labels equal to the
  tags above do not count. ADVP and PRT are treated as equal, also as tags. All other constituents count, including
  several with the same label over the same words, which match as a multiset.
- The remaining words must be equal, otherwise the sentence is an error. A comma tagged as a noun is therefore an error,
  unless another mistake compensates for it. A candidate without remaining words is skipped. The totals include
  neither kind.
- A constituent of the candidate is crossing if it partially overlaps at least one constituent of the gold tree.
- The length of a sentence is the number of words in the gold tree, without traces but with punctuation.

Beyond EVALB: a parser that predicts no parts of speech gives words the tag XX, and may tag punctuation by its form. If
most of the candidates' words other than punctuation have the tag XX, the corpus is "untagged": each candidate with the
same number of words as its gold tree receives all gold tags before the comparison; the words are still compared. The
tagging accuracy is then meaningless and not reported. Fewer words with XX are words with this tag, as in EVALB: some
treebanks have it.

Roots other than TOP count in EVALB. With `roots_as_top`, the labels "", ROOT and S1 of outermost constituents become
TOP first.

EVALB's limits (200 words, 200 constituents, 5,000 characters) do not apply. If nothing matches, EVALB prints "nan" for
F1; here it is 0.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from t2t_lite.errors import UserError
from t2t_lite.metric import Metric, SummedStatistics
from t2t_lite.trees.tree import LEAF, OPEN, OTHER_ROOTS, ROOT, UNTAGGED, Tree, parse_brackets, walk

# The status of a sentence.
COUNTED, ERROR, SKIPPED = 0, 1, 2

SHORT = 40  # maximum sentence length in the second summary

_TRACE = "-NONE-"
_DELETED = frozenset(("TOP", _TRACE, ",", ":", "``", "''", "."))  # DELETE_LABEL
_SAME = {"PRT": "ADVP"}  # EQ_LABEL
_OTHER_ROOT = re.compile(rf"\s*\(\s*({'|'.join(OTHER_ROOTS)})\s*\(", re.ASCII)
# EVALB's own header, spelling included.
_HEADER = (
    "  Sent.                        Matched  Bracket   Cross        Correct Tag",
    " ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy",
)
_RULE = "=" * 76


@dataclass(frozen=True)
class SentenceScore:
    """The counts of a sentence. Except for the length, they are 0 unless the status is COUNTED."""

    length: int  # number of words in the gold tree, with punctuation and without traces
    status: int  # COUNTED, ERROR (the words differ, or the candidate's brackets are malformed) or SKIPPED (no parse)
    matched: int = 0  # number of brackets in both trees
    gold: int = 0  # number of brackets in the gold tree
    candidate: int = 0  # number of brackets in the candidate
    crossing: int = 0  # number of brackets in the candidate that cross a bracket in the gold tree
    words: int = 0  # number of words that count, without punctuation
    correct_tags: int = 0  # number of these words that have the gold tag

    @property
    def recall(self) -> float:
        """Labelled recall in percent; 0 if there is no gold bracket."""
        return _percent(self.matched, self.gold)

    @property
    def precision(self) -> float:
        """Labelled precision in percent; 0 if the candidate has no bracket."""
        return _percent(self.matched, self.candidate)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall, in percent; 0 if no bracket matches."""
        return f1_score(self.matched, self.gold, self.candidate)

    @property
    def tagging_accuracy(self) -> float:
        """The share of words with the gold tag in percent; 0 if there are no words."""
        return _percent(self.correct_tags, self.words)


@dataclass(frozen=True)
class Summary(SentenceScore):
    """The sums over a corpus's sentences with status COUNTED, and shares of these sentences in percent."""

    sentences: int = 0  # number of all sentences
    errors: int = 0  # number of sentences with status ERROR
    skipped: int = 0  # number of sentences with status SKIPPED
    valid: int = 0  # number of sentences with status COUNTED; if there are none, shares and averages are 0
    complete_match: float = 0.0  # share of sentences in which all brackets match
    average_crossing: float = 0.0  # mean number of crossing brackets per sentence
    no_crossing: float = 0.0  # share of sentences without a crossing bracket
    at_most_two_crossing: float = 0.0  # share of sentences with at most 2 crossing brackets


@dataclass(frozen=True)
class Parseval:
    sentences: tuple[SentenceScore, ...]  # the score of each sentence
    untagged: bool = False  # whether the candidates have no parts of speech

    @property
    def all(self) -> Summary:
        return summarise(self.sentences)

    @property
    def short(self) -> Summary:
        """The summary of the sentences with at most 40 words."""
        return summarise([score for score in self.sentences if score.length <= SHORT])


# The label of a constituent, its first word and the word after its last one.
_Bracket: TypeAlias = tuple[str, int, int]


class _Parse(NamedTuple):
    leaves: list[Tree]
    brackets: list[_Bracket]

    @property
    def tags(self) -> list[str]:
        return [leaf.label for leaf in self.leaves]


def score_trees(
    golds: Sequence[str], candidates: Sequence[str], where: str = "the gold trees", roots_as_top: bool = False
) -> Parseval:
    """Scores a corpus's candidates ("" for no parse) by its gold trees; trees are in brackets, one per line.

    `where` is what errors call the gold trees, such as their file. With `roots_as_top`, other usual roots count as
    little as TOP.
    """
    if len(golds) != len(candidates):
        raise UserError(f"{len(golds)} gold trees but {len(candidates)} candidates; pass one candidate per gold tree")
    if not golds:
        raise UserError("nothing to score: both files are empty")
    parses = [_read_candidate(line, roots_as_top) for line in candidates]
    if None in parses:
        check_one_line_per_tree(candidates, "the candidates")
    tags = Counter(tag for parse in parses if parse for tag in parse.tags if tag not in _DELETED)
    untagged = 2 * tags[UNTAGGED] > tags.total()
    scores = []
    for number, (gold_line, parse) in enumerate(zip(golds, parses, strict=True), 1):
        try:
            gold = _read(gold_line, roots_as_top)
            if not gold.leaves:
                raise ValueError("no tree")
        except ValueError as error:
            check_one_line_per_tree(golds, where)
            raise UserError(
                f"line {number} of {where} is malformed: {error}; write one whole tree in brackets per line"
            ) from None
        scores.append(_score(gold, parse, untagged))
    return Parseval(tuple(scores), untagged)


def check_one_line_per_tree(lines: Sequence[str], where: str) -> None:
    """Refuses trees that take several lines: most lines are malformed, but not all lines together."""
    malformed = sum(_read_candidate(line) is None for line in lines)
    if 2 * malformed > len(lines) and _read_candidate("\n".join(lines)) is not None:
        raise UserError(f"the trees in {where} take several lines each; write each tree on one line")


def summarise(scores: Sequence[SentenceScore]) -> Summary:
    """Returns the sums and shares over sentences. Ratios are computed from sums over all sentences."""
    status = Counter(score.status for score in scores)
    counted = [score for score in scores if score.status == COUNTED]
    names = ("length", "matched", "gold", "candidate", "crossing", "words", "correct_tags")
    sums, valid = {name: sum(getattr(score, name) for score in counted) for name in names}, len(counted)
    return Summary(
        **sums,
        status=COUNTED,
        sentences=len(scores),
        errors=status[ERROR],
        skipped=status[SKIPPED],
        valid=valid,
        complete_match=_percent(sum(score.matched == score.gold == score.candidate for score in counted), valid),
        average_crossing=sums["crossing"] / valid if valid else 0.0,
        no_crossing=_percent(sum(score.crossing == 0 for score in counted), valid),
        at_most_two_crossing=_percent(sum(score.crossing <= 2 for score in counted), valid),
    )


def f1_score(matched: float, gold: float, candidate: float) -> float:
    """Returns F1 in percent from numbers of brackets; 0 if none matches."""
    if not matched:
        return 0.0
    recall, precision = _percent(matched, gold), _percent(matched, candidate)
    return 2 * precision * recall / (precision + recall)


def _read(line: str, roots_as_top: bool = False) -> _Parse:
    """Parses a line, which may contain several trees. `roots_as_top`: see `score_trees`."""
    leaves, brackets, starts = [], [], []
    for tree in parse_brackets(line):
        if roots_as_top and tree.children and tree.label in OTHER_ROOTS:
            tree = tree._replace(label=ROOT)
        for kind, node in walk(tree):
            if kind is OPEN:
                starts.append(len(leaves))
            elif kind is LEAF:
                leaves.append(node)
            else:
                brackets.append((node.label, starts.pop(), len(leaves)))
    return _Parse(leaves, brackets)


def _read_candidate(line: str, roots_as_top: bool = False) -> _Parse | None:
    """Parses a candidate; returns None if it is malformed."""
    try:
        return _read(line, roots_as_top)
    except ValueError:
        return None


def _score(gold: _Parse, candidate: _Parse | None, untagged: bool) -> SentenceScore:
    length = sum(tag != _TRACE for tag in gold.tags)
    if candidate is None:
        return SentenceScore(length, ERROR)
    takes_gold_tags = untagged and len(candidate.leaves) == len(gold.leaves)
    gold_words, gold_tags, gold_brackets = _counted(gold, gold.tags)
    words, tags, brackets = _counted(candidate, gold.tags if takes_gold_tags else candidate.tags)
    if not words:
        return SentenceScore(length, SKIPPED)
    if words != gold_words:
        return SentenceScore(length, ERROR)
    gold_spans = {(start, end) for _, start, end in gold_brackets}
    crossing = sum(
        any(first < start < last < end or start < first < end < last for first, last in gold_spans)
        for _, start, end in brackets
        if (start, end) not in gold_spans  # gold spans do not cross each other, because constituents are nested
    )
    return SentenceScore(
        length,
        COUNTED,
        matched=(Counter(gold_brackets) & Counter(brackets)).total(),
        gold=len(gold_brackets),
        candidate=len(brackets),
        crossing=crossing,
        words=len(words),
        correct_tags=sum(tag == right for tag, right in zip(tags, gold_tags)),
    )


def _counted(parse: _Parse, tags: list[str]) -> tuple[list[str], list[str], list[_Bracket]]:
    """Returns the words, tags and brackets of a tree that count, without function tags."""
    counts = [tag not in _DELETED for tag in tags]
    before = list(accumulate(counts, initial=0))  # number of counting words before each word
    kept = [(leaf.word, _SAME.get(tag, tag)) for leaf, tag, count in zip(parse.leaves, tags, counts) if count]
    brackets = []
    for label, start, end in parse.brackets:
        label = label.partition("-")[0].partition("=")[0]  # unlike `treebank.bare`, EVALB also cuts at a leading "-"
        if before[start] < before[end] and label not in _DELETED:
            brackets.append((_SAME.get(label, label), before[start], before[end]))
    return [word for word, _ in kept], [tag for _, tag in kept], brackets


def _percent(part: float, whole: float) -> float:
    return 100.0 * part / whole if whole else 0.0


class LabelledF1(Metric):
    """Labelled bracketing F1, 0 to 100.

    With `per_sentence`, `report` contains a line for each sentence, in EVALB's format. With `roots_as_top`, usual roots
    other than TOP count as little as TOP, unlike in EVALB.
    """

    def __init__(self, per_sentence: bool = False, roots_as_top: bool = False) -> None:
        self._per_sentence, self._roots_as_top = per_sentence, roots_as_top

    def score(self, hypotheses: Sequence[str], references: Sequence[str]) -> float:
        return self._scored(hypotheses, references).all.f1

    def report(
        self,
        hypotheses: Sequence[str],
        references: Sequence[str],
        names: tuple[str, str] = ("the hypotheses", "the references"),
    ) -> list[str]:
        return parse_report(self._scored(hypotheses, references, names), self._per_sentence)

    def remarks(self, hypotheses: Sequence[str], references: Sequence[str]) -> list[str]:
        ours, theirs = (sum(bool(_OTHER_ROOT.match(line)) for line in lines) for lines in (hypotheses, references))
        if self._roots_as_top or not ours + theirs:
            return []
        return [
            f"{ours:,} of the hypotheses and {theirs:,} of the references have a root other than TOP (ROOT, S1 or no "
            f"label), which counts as a constituent, as in EVALB; pass `roots_as_top` to leave it out"
        ]

    def resampled(self) -> SummedStatistics:
        def brackets(hypotheses: Sequence[str], references: Sequence[str]) -> list[tuple[int, int, int]]:
            sentences = self._scored(hypotheses, references).sentences
            return [(score.matched, score.gold, score.candidate) for score in sentences]

        return SummedStatistics("f1", brackets, lambda sums: f1_score(*sums))

    def line_scores(self, hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
        return [score.f1 for score in score_trees(references, hypotheses, roots_as_top=self._roots_as_top).sentences]

    def _scored(
        self,
        hypotheses: Sequence[str],
        references: Sequence[str],
        names: tuple[str, str] = ("the hypothesis file", "the references"),
    ) -> Parseval:
        scored = score_trees(references, hypotheses, names[1], self._roots_as_top)
        if all(score.status == ERROR for score in scored.sentences) and not any("(" in line for line in hypotheses):
            raise UserError(f"no trees in {names[0]}: this metric scores trees; write them in brackets, one per line")
        return scored


def parse_report(parseval: Parseval, per_sentence: bool = False) -> list[str]:
    """Returns a readable summary of all sentences and of those with at most 40 words, as lines.

    With `per_sentence`, it begins with EVALB's table for other programs: one row per sentence, then the total. The
    columns about tags show "-" if the candidates are untagged.
    """
    lines = [*_table(parseval), ""] if per_sentence else []
    lines += _summary_lines("all sentences", parseval.all, parseval.untagged)
    lines += ["", *_summary_lines(f"sentences of at most {SHORT} words", parseval.short, parseval.untagged)]
    if any(score.status != COUNTED for score in parseval.sentences):
        lines += [
            "",
            "Error: the words differ from the gold tree, or the brackets are malformed. Skipped: no parse. Neither is "
            "scored.",
        ]
    return lines


def _table(parseval: Parseval) -> list[str]:
    lines = [*_HEADER, _RULE]
    for number, score in enumerate(parseval.sentences, 1):
        lines.append(
            f"{number:4}  {score.length:3}    {score.status}  {score.recall:6.2f} {score.precision:6.2f}"
            f"   {score.matched:3}    {score.gold:3}  {score.candidate:3}    {score.crossing:3}   {score.words:4}"
            + _tag_columns(score, "  ", 4, parseval.untagged)
        )
    sums = parseval.all
    lines.append(_RULE)
    lines.append(
        f"{'':16}{sums.recall:6.2f} {sums.precision:6.2f} {sums.matched:6} {sums.gold:5} {sums.candidate:5}"
        f"  {sums.crossing:5}  {sums.words:5}" + _tag_columns(sums, " ", 5, parseval.untagged)
    )
    return lines


def _tag_columns(score: SentenceScore, gap: str, width: int, untagged: bool) -> str:
    if untagged:
        return f"{gap}{'-':>{width}}   {'-':>6}"
    return f"{gap}{score.correct_tags:{width}}   {score.tagging_accuracy:6.2f}"


def _summary_lines(title: str, summary: Summary, untagged: bool) -> list[str]:
    values = {
        "labelled F1": summary.f1,
        "recall": summary.recall,
        "precision": summary.precision,
        "complete match": summary.complete_match,
        "average crossing": summary.average_crossing,
        "no crossing": summary.no_crossing,
        "2 or less crossing": summary.at_most_two_crossing,
        "tagging accuracy": summary.tagging_accuracy,
    }
    if untagged:
        del values["tagging accuracy"]
    lines = [
        f"{title}: {summary.sentences} ({summary.valid} scored, {summary.errors} errors, {summary.skipped} skipped)",
        *(f"  {name:18} {value:6.2f}" for name, value in values.items()),
    ]
    if untagged:
        lines.append(f"  no tagging accuracy: the parser gives no parts of speech ({UNTAGGED})")
    return lines
