"""Labelled bracketing scores (PARSEVAL), digit for digit those of EVALB (Sekine and Collins) with its COLLINS.prm.

What is compared:

- A tag and its word do not count if the tag is -NONE- or one of the punctuation tags , : `` '' and "." (quotation marks
  and brackets as words with other tags do). Constituents that are left without a word go with them.
- A constituent's label counts up to its first "-" or "=", wherever that stands. TOP does not count, nor does one of the
  tags above as a label. ADVP and PRT are the same, as tags too. Every other constituent counts, also several with the
  same label over the same words: as many match as both sides have.
- The words that count must be the same, else the sentence is an error. So a comma that is tagged as a noun is an error,
  unless another mistake makes up for it. A candidate without any word that counts is skipped. Neither enters a total.
- A candidate's constituent crosses if it overlaps at least one of the gold tree's and neither lies within the other.
- The length of a sentence is the number of the gold tree's words, traces left out but punctuation included.

Beyond EVALB: a parser without parts of speech gives its words the tag XX, and perhaps punctuation tags by their look. A
corpus with any tag XX is "untagged": in each candidate with as many words as the gold tree, they take the gold tags one
by one before anything else is done; the words are still compared. The tagging accuracy then says nothing.

EVALB's limits (200 words, 200 constituents, 5,000 characters) are not ours; and where it prints "nan" for an F1 without
any match, it is 0 here.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from t2t_lite.errors import UserError
from t2t_lite.trees.tree import LEAF, OPEN, UNTAGGED, Tree, parse_brackets, walk

# What a sentence's status can be.
COUNTED, ERROR, SKIPPED = 0, 1, 2

SHORT = 40  # the greatest length that counts in the second summary

_TRACE = "-NONE-"
_DELETED = frozenset(("TOP", _TRACE, ",", ":", "``", "''", "."))  # DELETE_LABEL
_SAME = {"PRT": "ADVP"}  # EQ_LABEL

_HEADER = (
    "  Sent.                        Matched  Bracket   Cross        Correct Tag",
    " ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy",
)
_RULE = "=" * 76


@dataclass(frozen=True)
class SentenceScore:
    """What is counted in a sentence. Everything but the length and the status is 0 unless the status is COUNTED.

    Args:
      length: words of the gold tree, with punctuation and without traces.
      status: COUNTED, ERROR (the words differ, or the candidate's brackets are malformed) or SKIPPED (no parse).
      matched: brackets that are in both trees.
      gold: brackets of the gold tree.
      candidate: brackets of the candidate.
      crossing: brackets of the candidate that cross one of the gold tree.
      words: those that count, so without punctuation.
      correct_tags: how many of these have the gold tag.
    """

    length: int
    status: int
    matched: int = 0
    gold: int = 0
    candidate: int = 0
    crossing: int = 0
    words: int = 0
    correct_tags: int = 0

    @property
    def recall(self) -> float:
        """Labelled recall in percent; 0 without a gold bracket."""
        return _percent(self.matched, self.gold)

    @property
    def precision(self) -> float:
        """Labelled precision in percent; 0 without a bracket in the candidate."""
        return _percent(self.matched, self.candidate)

    @property
    def tagging_accuracy(self) -> float:
        """Words with the gold tag in percent; 0 without a word."""
        return _percent(self.correct_tags, self.words)

    @property
    def is_complete(self) -> bool:
        """Whether all brackets match."""
        return self.matched == self.gold == self.candidate


@dataclass(frozen=True)
class Summary:
    """The scores of a corpus, in percent but for the counts and the average; 0 where there is nothing to divide by.

    Args:
      sentences: all that there are.
      errors: those with status ERROR.
      skipped: those with status SKIPPED.
      valid: the others; only these enter what follows.
      recall: matched brackets of all gold ones.
      precision: matched brackets of all in the candidates.
      f1: harmonic mean of the two.
      complete_match: sentences in which all brackets match.
      average_crossing: crossing brackets of a sentence.
      no_crossing: sentences without a crossing bracket.
      at_most_two_crossing: sentences with 0, 1 or 2.
      tagging_accuracy: words with the gold tag.
    """

    sentences: int
    errors: int
    skipped: int
    valid: int
    recall: float
    precision: float
    f1: float
    complete_match: float
    average_crossing: float
    no_crossing: float
    at_most_two_crossing: float
    tagging_accuracy: float


@dataclass(frozen=True)
class Parseval:
    """The scores of a corpus, sentence by sentence.

    Args:
      sentences: a score for each.
      untagged: whether any candidate had words without parts of speech.
    """

    sentences: tuple[SentenceScore, ...]
    untagged: bool = False

    @property
    def all(self) -> Summary:
        """The summary of all sentences."""
        return summarise(self.sentences)

    @property
    def short(self) -> Summary:
        """The summary of the sentences of at most 40 words."""
        return summarise([score for score in self.sentences if score.length <= SHORT])


class _Parse(NamedTuple):
    """What a line says: the tags with their words, and a (label, first word, word after the last) per constituent."""

    leaves: list[Tree]
    brackets: list[tuple[str, int, int]]

    @property
    def tags(self) -> list[str]:
        return [leaf.label for leaf in self.leaves]


class _Counted(NamedTuple):
    """The same without what does not count, function tags cut."""

    words: list[str]
    tags: list[str]
    brackets: list[tuple[str, int, int]]


def score_sentence(gold: str, candidate: str) -> SentenceScore:
    """Compares a candidate with the gold tree.

    Args:
      gold: a bracketing in one line.
      candidate: another; "" if there is no parse.

    Raises:
      ValueError: if the gold tree is malformed or missing; the message says how in a few words.
    """
    parse = _read_candidate(candidate)
    return _score(_read_gold(gold), parse, _is_untagged(parse))


def score_trees(golds: Sequence[str], candidates: Sequence[str], where: str = "the gold trees") -> Parseval:
    """Compares the candidates of a corpus with its gold trees.

    Args:
      golds, candidates: lines as `score_sentence` takes them.
      where: what errors call the gold trees, such as their file.

    Raises:
      UserError: if the two differ in number, there is nothing to score, or a gold tree is malformed or missing.
    """
    if len(golds) != len(candidates):
        raise UserError(f"{len(golds)} gold trees but {len(candidates)} candidates: line n must answer line n")
    if not golds:
        raise UserError("nothing to score: both files are empty")
    parses = [_read_candidate(line) for line in candidates]
    untagged = any(_is_untagged(parse) for parse in parses)
    scores = []
    for number, (gold_line, parse) in enumerate(zip(golds, parses, strict=True), 1):
        try:
            gold = _read_gold(gold_line)
        except ValueError as error:
            raise UserError(f"line {number} of {where} is malformed: {error}; a line is a tree in brackets") from None
        scores.append(_score(gold, parse, untagged))
    return Parseval(tuple(scores), untagged)


def summarise(scores: Sequence[SentenceScore]) -> Summary:
    """Returns the totals and averages of sentences. Brackets and words are summed up first, then divided."""
    status = Counter(score.status for score in scores)
    counted = [score for score in scores if score.status == COUNTED]
    total, valid = _total(counted), len(counted)
    recall, precision = total.recall, total.precision
    return Summary(
        sentences=len(scores),
        errors=status[ERROR],
        skipped=status[SKIPPED],
        valid=valid,
        recall=recall,
        precision=precision,
        f1=2 * precision * recall / (precision + recall) if total.matched else 0.0,
        complete_match=_percent(sum(score.is_complete for score in counted), valid),
        average_crossing=total.crossing / valid if valid else 0.0,
        no_crossing=_percent(sum(score.crossing == 0 for score in counted), valid),
        at_most_two_crossing=_percent(sum(score.crossing <= 2 for score in counted), valid),
        tagging_accuracy=total.tagging_accuracy,
    )


def report(parseval: Parseval, per_sentence: bool = False) -> list[str]:
    """Returns the summary of all sentences, and that of those of at most 40 words, in lines for people.

    Args:
      parseval: the scores.
      per_sentence: begin with EVALB's table, a row for each sentence and the total, for programs that read it; "-"
        stands for what is said of tags if any candidate was untagged.
    """
    lines = _table(parseval) if per_sentence else []
    if lines:
        lines.append("")
    lines += _summary_lines("all sentences", parseval.all, parseval.untagged)
    lines += ["", *_summary_lines(f"sentences of at most {SHORT} words", parseval.short, parseval.untagged)]
    if any(score.status != COUNTED for score in parseval.sentences):
        lines += ["", "Error: not the gold tree's words, or malformed brackets. Skipped: no parse. Neither is scored."]
    return lines


def _read(line: str) -> _Parse:
    """Reads a line, which may hold several trees side by side."""
    leaves, brackets, starts = [], [], []
    for tree in parse_brackets(line):
        for kind, node in walk(tree):
            if kind is OPEN:
                starts.append(len(leaves))
            elif kind is LEAF:
                leaves.append(node)
            else:
                brackets.append((node.label, starts.pop(), len(leaves)))
    return _Parse(leaves, brackets)


def _read_gold(line: str) -> _Parse:
    gold = _read(line)
    if not gold.leaves:
        raise ValueError("no tree")
    return gold


def _read_candidate(line: str) -> _Parse | None:
    """Reads a candidate; None if it is malformed."""
    try:
        return _read(line)
    except ValueError:
        return None


def _is_untagged(candidate: _Parse | None) -> bool:
    return candidate is not None and UNTAGGED in candidate.tags


def _score(gold: _Parse, candidate: _Parse | None, untagged: bool) -> SentenceScore:
    length = sum(tag != _TRACE for tag in gold.tags)
    if candidate is None:
        return SentenceScore(length, ERROR)
    takes_gold_tags = untagged and len(candidate.leaves) == len(gold.leaves)
    wanted = _count(gold, gold.tags)
    given = _count(candidate, gold.tags if takes_gold_tags else candidate.tags)
    if not given.words:
        return SentenceScore(length, SKIPPED)
    if given.words != wanted.words:
        return SentenceScore(length, ERROR)
    return SentenceScore(
        length,
        COUNTED,
        matched=(Counter(wanted.brackets) & Counter(given.brackets)).total(),
        gold=len(wanted.brackets),
        candidate=len(given.brackets),
        crossing=_crossing(wanted, given),
        words=len(given.words),
        correct_tags=sum(tag == right for tag, right in zip(given.tags, wanted.tags)),
    )


def _count(parse: _Parse, tags: list[str]) -> _Counted:
    """Leaves out what does not count, when the words have the given tags."""
    counts = [tag not in _DELETED for tag in tags]
    before = list(accumulate(counts, initial=0))  # how many words that count stand before each
    kept = [(leaf.word, _SAME.get(tag, tag)) for leaf, tag, count in zip(parse.leaves, tags, counts) if count]
    brackets = []
    for label, start, end in parse.brackets:
        label = _cut(label)
        if before[start] < before[end] and label not in _DELETED:
            brackets.append((_SAME.get(label, label), before[start], before[end]))
    return _Counted([word for word, _ in kept], [tag for _, tag in kept], brackets)


def _cut(label: str) -> str:
    # Unlike `cleaning.bare`, EVALB cuts at a "-" in the first place, too.
    return label.partition("-")[0].partition("=")[0]


def _crossing(gold: _Counted, candidate: _Counted) -> int:
    gold_spans = {(start, end) for _, start, end in gold.brackets}
    return sum(
        any(first < start < last < end or start < first < end < last for first, last in gold_spans)
        for _, start, end in candidate.brackets
        if (start, end) not in gold_spans  # those that are cross no other: constituents of a tree nest
    )


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0


def _total(scores: Sequence[SentenceScore]) -> SentenceScore:
    """Sums up sentences of status COUNTED."""
    names = ("length", "matched", "gold", "candidate", "crossing", "words", "correct_tags")
    return SentenceScore(status=COUNTED, **{name: sum(getattr(score, name) for score in scores) for name in names})


def _table(parseval: Parseval) -> list[str]:
    lines = [*_HEADER, _RULE]
    for number, score in enumerate(parseval.sentences, 1):
        lines.append(
            f"{number:4}  {score.length:3}    {score.status}  {score.recall:6.2f} {score.precision:6.2f}"
            f"   {score.matched:3}    {score.gold:3}  {score.candidate:3}    {score.crossing:3}   {score.words:4}"
            + _tag_columns(score, "  ", 4, parseval.untagged)
        )
    total = _total([score for score in parseval.sentences if score.status == COUNTED])
    lines.append(_RULE)
    lines.append(
        f"{'':16}{total.recall:6.2f} {total.precision:6.2f} {total.matched:6} {total.gold:5} {total.candidate:5}"
        f"  {total.crossing:5}  {total.words:5}" + _tag_columns(total, " ", 5, parseval.untagged)
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
