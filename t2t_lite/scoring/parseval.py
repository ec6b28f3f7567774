"""Labelled bracketing scores (PARSEVAL), equal to EVALB (Sekine and Collins) with COLLINS.prm to the last digit.

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
from t2t_lite.trees.tree import LEAF, OPEN, OTHER_ROOTS, ROOT, UNTAGGED, Tree, parse_brackets, walk

# The status of a sentence.
COUNTED, ERROR, SKIPPED = 0, 1, 2

SHORT = 40  # maximum sentence length in the second summary

_TRACE = "-NONE-"
_DELETED = frozenset(("TOP", _TRACE, ",", ":", "``", "''", "."))  # DELETE_LABEL
_SAME = {"PRT": "ADVP"}  # EQ_LABEL
_OTHER_ROOT = re.compile(rf"\s*\(\s*({'|'.join(OTHER_ROOTS)})\s*\(", re.ASCII)


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

    @property
    def is_complete(self) -> bool:
        return self.matched == self.gold == self.candidate


@dataclass(frozen=True)
class Summary:
    """The scores of a corpus, in percent except for counts and the average; 0 where the divisor would be 0."""

    sentences: int  # number of all sentences
    errors: int  # number of sentences with status ERROR
    skipped: int  # number of sentences with status SKIPPED
    valid: int  # number of the other sentences, which determine the following scores
    recall: float  # share of matched gold brackets
    precision: float  # share of matched candidate brackets
    f1: float  # harmonic mean of precision and recall
    complete_match: float  # share of sentences in which all brackets match
    average_crossing: float  # mean number of crossing brackets per sentence
    no_crossing: float  # share of sentences without a crossing bracket
    at_most_two_crossing: float  # share of sentences with at most 2 crossing brackets
    tagging_accuracy: float  # share of words with the gold tag


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


class _CountedParse(NamedTuple):
    """The words, tags and brackets of a tree that count, without function tags."""

    words: list[str]
    tags: list[str]
    brackets: list[_Bracket]


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


def other_roots(lines: Sequence[str]) -> int:
    return sum(bool(_OTHER_ROOT.match(line)) for line in lines)


def summarise(scores: Sequence[SentenceScore]) -> Summary:
    """Returns the totals and averages over sentences. Ratios are computed from sums over all sentences."""
    status = Counter(score.status for score in scores)
    counted = [score for score in scores if score.status == COUNTED]
    sums, valid = total(counted), len(counted)
    return Summary(
        sentences=len(scores),
        errors=status[ERROR],
        skipped=status[SKIPPED],
        valid=valid,
        recall=sums.recall,
        precision=sums.precision,
        f1=sums.f1,
        complete_match=_percent(sum(score.is_complete for score in counted), valid),
        average_crossing=sums.crossing / valid if valid else 0.0,
        no_crossing=_percent(sum(score.crossing == 0 for score in counted), valid),
        at_most_two_crossing=_percent(sum(score.crossing <= 2 for score in counted), valid),
        tagging_accuracy=sums.tagging_accuracy,
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
    gold_counts = _count(gold, gold.tags)
    takes_gold_tags = untagged and len(candidate.leaves) == len(gold.leaves)
    candidate_counts = _count(candidate, gold.tags if takes_gold_tags else candidate.tags)
    if not candidate_counts.words:
        return SentenceScore(length, SKIPPED)
    if candidate_counts.words != gold_counts.words:
        return SentenceScore(length, ERROR)
    gold_spans = {(start, end) for _, start, end in gold_counts.brackets}
    crossing = sum(
        any(first < start < last < end or start < first < end < last for first, last in gold_spans)
        for _, start, end in candidate_counts.brackets
        if (start, end) not in gold_spans  # gold spans do not cross each other, because constituents are nested
    )
    return SentenceScore(
        length,
        COUNTED,
        matched=(Counter(gold_counts.brackets) & Counter(candidate_counts.brackets)).total(),
        gold=len(gold_counts.brackets),
        candidate=len(candidate_counts.brackets),
        crossing=crossing,
        words=len(candidate_counts.words),
        correct_tags=sum(tag == right for tag, right in zip(candidate_counts.tags, gold_counts.tags)),
    )


def _count(parse: _Parse, tags: list[str]) -> _CountedParse:
    counts = [tag not in _DELETED for tag in tags]
    before = list(accumulate(counts, initial=0))  # number of counting words before each word
    kept = [(leaf.word, _SAME.get(tag, tag)) for leaf, tag, count in zip(parse.leaves, tags, counts) if count]
    brackets = []
    for label, start, end in parse.brackets:
        label = _cut(label)
        if before[start] < before[end] and label not in _DELETED:
            brackets.append((_SAME.get(label, label), before[start], before[end]))
    return _CountedParse([word for word, _ in kept], [tag for _, tag in kept], brackets)


def _cut(label: str) -> str:
    # Unlike `cleaning.bare`, EVALB also cuts at a leading "-".
    return label.partition("-")[0].partition("=")[0]


def _percent(part: float, whole: float) -> float:
    return 100.0 * part / whole if whole else 0.0


def total(scores: Sequence[SentenceScore]) -> SentenceScore:
    names = ("length", "matched", "gold", "candidate", "crossing", "words", "correct_tags")
    return SentenceScore(status=COUNTED, **{name: sum(getattr(score, name) for score in scores) for name in names})
