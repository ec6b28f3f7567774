"""The expected numbers are counted by hand according to EVALB's rules, and were confirmed with EVALB.

One test compares with the output of EVALB on a corpus that is not in the repository: the files gold.txt, candidate.txt
and expected.txt (what "evalb -p COLLINS.prm gold.txt candidate.txt" printed, with a large MAX_ERROR).
"""

import re

import pytest

from t2t_lite.errors import UserError
from t2t_lite.scoring.parseval import (
    COUNTED,
    ERROR,
    SKIPPED,
    LabelledF1,
    SentenceScore,
    parse_report,
    score_trees,
    summarise,
)

# Its brackets are S 0-6, NP 0-2, VP 2-6, PP 3-6 and NP 4-6. 7 words, and 6 without the full stop.
CAT = "(TOP (S (NP (DT the) (NN cat)) (VP (VBD sat) (PP (IN on) (NP (DT a) (NN mat)))) (. .)))"
ALL_OF_CAT = SentenceScore(7, COUNTED, matched=5, gold=5, candidate=5, crossing=0, words=6, correct_tags=6)
DOGS = "(TOP (S (NP (NNS dogs)) (VP (VBP bark))))"  # S 0-2, NP 0-1 and VP 1-2


def counted(length, matched, gold, candidate, crossing, words, tags):
    return SentenceScore(length, COUNTED, matched, gold, candidate, crossing, words, tags)


def score_sentence(gold, candidate):
    (score,) = score_trees([gold], [candidate]).sentences
    return score


# rule: (gold tree, candidate, score)
CASES = {
    "the same tree": (CAT, CAT, ALL_OF_CAT),
    # NP 0-2, VP 2-6 and NP 4-6 match; S is VP in the candidate, and PP 3-6 is missing.
    "labels and brackets count": (
        CAT,
        "(TOP (VP (NP (DT the) (NN cat)) (VP (VBD sat) (IN on) (NP (DT a) (NN mat))) (. .)))",
        counted(7, 3, 5, 4, 0, 6, 6),
    ),
    # The candidate's brackets are ROOT, S, NP, VP.
    "other roots count": (DOGS, DOGS.replace("TOP", "ROOT"), counted(2, 3, 3, 4, 0, 2, 2)),
    "a root without a label counts": (DOGS, DOGS.replace("TOP", ""), counted(2, 3, 3, 4, 0, 2, 2)),
    # Brackets that only touch or are nested do not cross: S 0-6 and NP 0-2 match, FRAG 2-6 touches NP.
    "neighbours do not cross": (
        CAT,
        "(TOP (S (NP (DT the) (NN cat)) (FRAG (VBD sat) (IN on) (DT a) (NN mat)) (. .)))",
        counted(7, 2, 5, 3, 0, 6, 6),
    ),
    # 2 of the 6 tags differ; that of the full stop does not count.
    "wrong tags": (CAT, CAT.replace("DT a", "CD a").replace("VBD", "VBN"), counted(7, 5, 5, 5, 0, 6, 4)),
    "no brackets that count": ("(TOP (NNS dogs))", "(TOP (NNS dogs))", counted(1, 0, 0, 0, 0, 1, 1)),
    "a word is missing": (CAT, CAT.replace("(DT the) ", ""), SentenceScore(7, ERROR)),
    "a word too many": (CAT, CAT.replace("(NN cat)", "(NN cat) (NN cat)"), SentenceScore(7, ERROR)),
    "another word": (CAT, CAT.replace("cat", "dog"), SentenceScore(7, ERROR)),
    "case matters": (CAT, CAT.replace("the", "The"), SentenceScore(7, ERROR)),
    # A punctuation mark without a punctuation tag is a word, and the gold tree has no such word.
    "punctuation tagged as a word": (CAT, CAT.replace("(. .)", "(NN .)"), SentenceScore(7, ERROR)),
    "a word tagged as punctuation": (CAT, CAT.replace("NN mat", ": mat"), SentenceScore(7, ERROR)),
    "punctuation missing or more, or another": (CAT, CAT.replace("(. .)", "(, ,) (: -)"), ALL_OF_CAT),
    "no parse": (CAT, "", SentenceScore(7, SKIPPED)),
    "no parse but blanks": (CAT, " \t", SentenceScore(7, SKIPPED)),
    "all words of the candidate are punctuation": (CAT, "(TOP (S (. .)))", SentenceScore(7, SKIPPED)),
    "all words of both are punctuation": ("(TOP (S (. .)))", "(TOP (S (. .)))", SentenceScore(1, SKIPPED)),
    "all words of the gold tree are punctuation": ("(TOP (S (. .)))", DOGS, SentenceScore(1, ERROR)),
}
# rule: the counts, then the gold tree and the candidate
LONG = """
# Without punctuation, both are S 0-2, NP 0-1 and VP 1-2. 2 words of 7; the quotation marks are words by length.
punctuation is left out: 7 3 3 3 0 2 2
(TOP (S (`` ``) (NP (NNS dogs)) (, ,) (VP (VBP bark) ('' '')) (: --) (. !)))
(TOP (S (`` ``) (NP (NNS dogs) (, ,)) (VP (VBP bark)) ('' '') (: --) (. !)))
# Tags other than the five count, for any word: 4 words. Brackets S 0-4 and PRN 1-4.
brackets and signs as words count: 4 2 2 2 0 4 4
(TOP (S (NN a) (PRN (-LRB- -LRB-) ($ $) (-RRB- -RRB-))))
(TOP (S (NN a) (PRN (-LRB- -LRB-) ($ $) (-RRB- -RRB-))))
# Both "-A" and "=B" become "", which counts: S 0-2 and two more in each tree.
labels may be cut to nothing: 2 3 3 3 0 2 2
(TOP (S (-A (NNS dogs)) (VP (VBP bark))))
(TOP (S (=B (NNS dogs)) (VP (VBP bark))))
# S 0-2, NP 0-1 and VP 1-2 remain in both.
TOP and punctuation are no labels: 2 3 3 3 0 2 2
(TOP (S (NP (NNS dogs)) (TOP (VP (VBP bark)))))
(S (NP (NNS dogs)) (, (: (VP (TOP-1 (VBP bark))))))
# VP 0-2, and at 1-2 PRT in the one and ADVP in the other. Of the tags, RP and RB differ.
ADVP and PRT are the same: 2 2 2 2 0 2 1
(TOP (VP (VB give) (PRT (RP up))))
(TOP (VP (VB give) (ADVP-DIR (RB up))))
# NP, VP, NP against VP, NP, VP: one NP and one VP match, in any order.
unary chains match in any order: 1 2 3 3 0 1 1
(TOP (NP (VP (NP (NNS dogs)))))
(TOP (VP (NP (VP (NNS dogs)))))
# X 1-3 crosses both NP 0-2 and VP 2-4, which is one crossing; S 0-4 matches.
a bracket crosses once: 4 1 4 2 1 4 4
(TOP (S (NP (DT a) (NN b)) (VP (VB c) (NP (NN d)))))
(TOP (S (DT a) (X (NN b) (VB c)) (NN d)))
# B, C, D: 0-4, 0-3, 0-2 in the gold tree; 1-5, 2-5, 3-5 in the candidate, each of which crosses at least B. In the
# gold tree all three cross as well, but only the candidate's count. A 0-5 matches.
three crossing brackets: 5 1 4 4 3 5 5
(TOP (A (B (C (D (X v) (X w)) (X x)) (X y)) (X z)))
(TOP (A (X v) (B (X w) (C (X x) (D (X y) (X z))))))
# A 0-4 and M 0-3; both the candidate's E 2-4 and F 2-4 cross M.
equal brackets cross one by one: 4 1 2 3 2 4 4
(TOP (A (M (X v) (X w) (X x)) (X y)))
(TOP (A (X v) (X w) (E (F (X x) (X y)))))
several trees in a line count as one: 2 2 2 2 0 2 2
(NP (NNS dogs)) (VP (VBP bark))
(NP (NNS dogs)) (VP (VBP bark))
# One of two equal marks is punctuation, a different one on each side, so 2 of 3 words remain, and they agree.
two mistakes make up for one another: 3 1 1 1 0 2 2
(TOP (NP (NNS dogs) (POS ') ('' ')))
(TOP (NP (NNS dogs) ('' ') (POS ')))
""".strip().splitlines()
LONG = [line for line in LONG if not line.startswith("#")]
for about, gold, candidate in zip(LONG[::3], LONG[1::3], LONG[2::3]):
    rule, _, counts = about.partition(": ")
    CASES[rule] = gold, candidate, counted(*map(int, counts.split()))
# Trees without TOP, which is added; the counts are those of `counted`.
SHORT = {
    # PRN contains only a comma and is deleted. The brackets around counting words: S 0-2, NP 0-1, VP 1-2.
    "punctuation alone is left out": (DOGS, "(S (NP (NNS dogs)) (PRN (, ,)) (VP (VBP bark)))", (2, 3, 3, 3, 0, 2, 2)),
    # The NP of the trace is deleted with it: S 0-2, NP 0-1, VP 1-2. The trace does not count for the length, either.
    "traces are left out": ("(S (NP (NNS dogs)) (VP (VBP bark) (NP (-NONE- *T*-1))))", DOGS, (2, 3, 3, 3, 0, 2, 2)),
    "function tags are cut": ("(S-TPC-1 (NP-SBJ=2 (NNS dogs)) (VP (VBP bark)))", DOGS, (2, 3, 3, 3, 0, 2, 2)),
    # A tag is compared unchanged.
    "tags of tags are not cut": ("(S (NP (NNS-X dogs)) (VP (VBP bark)))", DOGS, (2, 3, 3, 3, 0, 2, 1)),
    "ADVP and PRT are the same as tags": ("(VP (VB give) (PRT up))", "(VP (VB give) (ADVP up))", (2, 1, 1, 1, 0, 2, 2)),
    # NP three times in the gold tree and twice in the candidate: two match.
    "equal brackets match one by one": ("(NP (NP (NP (NNS dogs))))", "(NP (NP (NNS dogs)))", (1, 2, 3, 2, 0, 1, 1)),
}
CASES |= {
    rule: (*(tree if "TOP" in tree else f"(TOP {tree})" for tree in trees), counted(*counts))
    for rule, (*trees, counts) in SHORT.items()
}

# Beyond EVALB: malformed candidates, and words without parts of speech.
MALFORMED = ("(S (NP (NN a))", "(S (NN a)))", "dogs bark", "(S (NP ) (NN a))", "(NN dogs bark)")
CASES |= {candidate: (CAT, candidate, SentenceScore(7, ERROR)) for candidate in MALFORMED}
UNTAGGED_CAT = "(TOP (S (NP (XX the) (XX cat)) (VP (XX sat) (PP (XX on) (NP (XX a) (XX mat)))) (. .)))"
# The mark is a possessive, which its form does not show. NP 0-3 and NP 0-2; the full stop does not count.
BONES = "(TOP (NP (NP (NNS dogs) (POS ')) (NNS bones) (. .)))"
UNTAGGED_BONES = "(TOP (NP (NP (XX dogs) ('' ')) (XX bones) (. .)))"
UNTAGGED = {
    "words take the gold tags": (CAT, UNTAGGED_CAT, ALL_OF_CAT),
    "punctuation takes them, too": (BONES, UNTAGGED_BONES, counted(4, 2, 2, 2, 0, 3, 3)),
    "most words are XX": (CAT, UNTAGGED_CAT.replace("XX cat", "NN cat").replace("(. .)", "(NN .)"), ALL_OF_CAT),
    # VP 1-2 of the candidate is X.
    "labels are compared": (DOGS, "(TOP (S (NP (XX dogs)) (X (XX bark))))", counted(2, 2, 3, 3, 0, 2, 2)),
    "words are compared": (CAT, UNTAGGED_CAT.replace("cat", "dog"), SentenceScore(7, ERROR)),
    "a word is missing": (CAT, UNTAGGED_CAT.replace("(XX the) ", ""), SentenceScore(7, ERROR)),
    # 6 words against 7, so the tags stay XX; the same 6 words count.
    "the full stop is missing": (CAT, UNTAGGED_CAT.replace(" (. .)", ""), counted(7, 5, 5, 5, 0, 6, 0)),
}


@pytest.mark.parametrize("gold, candidate, score", CASES.values(), ids=CASES.keys())
def test_a_rule_of_evalb_is_followed(gold, candidate, score):
    assert score_sentence(gold, candidate) == score


@pytest.mark.parametrize("gold, candidate, score", UNTAGGED.values(), ids=UNTAGGED.keys())
def test_words_without_parts_of_speech_are_scored(gold, candidate, score):
    assert score_sentence(gold, candidate) == score
    assert score_trees([gold], [candidate]).untagged


def test_tags_of_a_candidate_with_tags_count_also_a_few_XX():
    tagged = UNTAGGED_BONES.replace("XX", "NNS")
    assert score_sentence(BONES, tagged) == SentenceScore(4, ERROR)
    candidate = CAT.replace("DT the", "XX the")
    parseval = score_trees([CAT, candidate], [candidate, candidate])
    assert not parseval.untagged and not score_trees([BONES], [tagged]).untagged
    assert parseval.sentences == (counted(7, 5, 5, 5, 0, 6, 5), ALL_OF_CAT)


@pytest.mark.parametrize("root", ["ROOT", "S1", "", " "])
def test_other_roots_are_as_TOP_only_on_request(root):
    other = CAT.replace("TOP", root)
    both = ([CAT, CAT], [CAT, other], "1 of the hypotheses and 0"), ([other], [CAT], "0 of the hypotheses and 1")
    for golds, candidates, said in both:
        assert score_trees(golds, candidates).all.f1 < 100
        assert score_trees(golds, candidates, roots_as_top=True).all.f1 == 100
        (remark,) = LabelledF1().remarks(candidates, golds)
        assert re.match(f"{said} of the references have a root other than TOP", remark)
        flagged = LabelledF1(roots_as_top=True)
        assert flagged.score(candidates, golds) == 100 and flagged.remarks(candidates, golds) == []
    assert LabelledF1().remarks([CAT, "(ROOT .)", ""], [CAT] * 3) == []
    inner = "(TOP (S (ROOT (NP (NNS dogs))) (VP (VBP bark))))"  # roots inside a tree are constituents
    assert score_trees([DOGS], [inner], roots_as_top=True) == score_trees([DOGS], [inner])


# matched / gold / candidate, crossing, words, tags: 5/5/5, 0, 6, 6; 2/3/3, 0, 2, 1; 1/4/2, 1, 4, 4; 1/4/4, 3, 5, 5, and
# so 9/16/14, 4, 17, 16 in all; then two errors and one without a parse.
CORPUS = [(CAT, CAT), (DOGS, "(TOP (S (NP (NNS dogs)) (ADJP (NN bark))))"), CASES["a bracket crosses once"][:2]]
CORPUS += [CASES["three crossing brackets"][:2], (CAT, DOGS), (CAT, ""), (DOGS, CAT)]
GOLDS, CANDIDATES = map(list, zip(*CORPUS))


def test_summary_of_a_corpus():
    summary = score_trees(GOLDS, CANDIDATES).all
    assert (summary.sentences, summary.errors, summary.skipped, summary.valid) == (7, 2, 1, 4)
    assert summary.recall == pytest.approx(100 * 9 / 16)
    assert summary.precision == pytest.approx(100 * 9 / 14)
    assert summary.f1 == pytest.approx(100 * 2 * 9 / (16 + 14))
    assert summary.complete_match == 25.0  # the first of four
    assert summary.average_crossing == 1.0
    assert summary.no_crossing == 50.0  # two of four
    assert summary.at_most_two_crossing == 75.0  # all except the one with three
    assert summary.tagging_accuracy == pytest.approx(100 * 16 / 17)


def test_percentages_at_their_limits():
    score = counted(7, 3, 5, 4, 0, 6, 3)
    assert (score.recall, score.precision, score.tagging_accuracy) == (60.0, 75.0, 50.0)
    nothing = SentenceScore(7, ERROR)
    assert (nothing.recall, nothing.precision, nothing.tagging_accuracy) == (0.0, 0.0, 0.0)
    for crossing, share in ((2, 100.0), (3, 0.0)):
        assert summarise([counted(5, 1, 4, 4, crossing, 5, 5)]).at_most_two_crossing == share
    assert score_trees(["(TOP (NP (NN a)))"], ["(TOP (VP (NN a)))"]).all.f1 == 0.0
    for scores in ([], [SentenceScore(3, ERROR), SentenceScore(3, SKIPPED)]):
        summary = summarise(scores)
        assert (summary.sentences, summary.valid) == (len(scores), 0)
        assert (summary.recall, summary.precision, summary.f1, summary.complete_match) == (0.0, 0.0, 0.0, 0.0)
        assert (summary.average_crossing, summary.no_crossing, summary.tagging_accuracy) == (0.0, 0.0, 0.0)


def test_the_second_summary_covers_sentences_of_at_most_40_words():
    # 40 words; 40 words with a trace; 41 with the full stop. Each bracket S matches where there is a parse.
    nouns = "(NN a) " * 40
    golds = [f"(TOP (S {nouns}))", f"(TOP (S {nouns} (-NONE- 0)))", f"(TOP (S {nouns} (. .)))"]
    parseval = score_trees(golds * 2, [*golds, "", "(", ""])
    assert [score.length for score in parseval.sentences] == [40, 40, 41] * 2
    assert (parseval.all.sentences, parseval.all.errors, parseval.all.skipped, parseval.all.valid) == (6, 1, 2, 3)
    short = parseval.short
    assert (short.sentences, short.errors, short.skipped, short.valid, short.f1) == (4, 1, 1, 2, 100.0)


def test_trees_may_be_of_any_depth_and_malformed_ones_spoil_no_others():
    assert [each.status for each in score_trees([CAT] * 4, [CAT, CAT[:-1], f"{CAT})", CAT]).sentences] == [0, 1, 1, 0]
    deep = "(NP " * 3000 + "(NN a)" + ")" * 3000
    assert score_sentence(deep, deep) == counted(1, 3000, 3000, 3000, 0, 1, 1)


# Two trees over two lines each.
SEVERAL_LINES = [line for _ in range(2) for line in (CAT.replace("(VP", "\n  (VP")).split("\n")]
MALFORMED_GOLD = "line 2 of the gold trees is malformed: .*"


@pytest.mark.parametrize(
    ("golds", "candidates", "said"),
    [
        (SEVERAL_LINES, [CAT] * 4, "the trees in the gold trees take several lines each; write each tree on one line"),
        ([CAT] * 4, SEVERAL_LINES, "the trees in the candidates take several lines each; write each tree on one line"),
        (SEVERAL_LINES, SEVERAL_LINES, "the trees in the candidates take several lines each"),
        ([CAT, "(TOP (NN a)", CAT], [CAT] * 3, f"{MALFORMED_GOLD}'TOP' is not closed"),
        ([CAT, "(TOP (NN a)))", CAT], [CAT] * 3, f"{MALFORMED_GOLD}closing bracket too many"),
        ([CAT, " ", CAT], [CAT] * 3, f"{MALFORMED_GOLD}no tree"),
    ],
)
def test_what_is_no_tree_per_line_is_an_error_that_gives_its_place(golds, candidates, said):
    with pytest.raises(UserError, match=said):
        score_trees(golds, candidates)


def test_the_report():
    # 100 * 9 / 14 = 64.29 and 100 * 16 / 17 = 94.12. No sentence has more than 40 words.
    scores = [
        "  labelled F1         60.00",
        "  recall              56.25",
        "  precision           64.29",
        "  complete match      25.00",
        "  average crossing     1.00",
        "  no crossing         50.00",
        "  2 or less crossing  75.00",
        "  tagging accuracy    94.12",
    ]
    parseval = score_trees(GOLDS, CANDIDATES)
    lines = parse_report(parseval)
    counts = "7 (4 scored, 2 errors, 1 skipped)"
    assert lines[:9] == [f"all sentences: {counts}", *scores]
    assert lines[9:19] == ["", f"sentences of at most 40 words: {counts}", *scores]
    assert lines[19] == "" and lines[20].startswith("Error: ") and len(lines) == 21
    assert parse_report(parseval, per_sentence=True)[-21:] == lines
    assert not any(line.startswith("Error") for line in parse_report(score_trees([CAT], [CAT])))


def test_the_table_of_the_report_has_the_columns_of_evalb():
    rows = [" ".join(line.split()) for line in parse_report(score_trees(GOLDS, CANDIDATES), per_sentence=True)[:12]]
    assert rows[1] == "ID Len. Stat. Recal Prec. Bracket gold test Bracket Words Tags Accracy"
    assert rows[3] == "1 7 0 100.00 100.00 5 5 5 0 6 6 100.00"
    assert rows[4] == "2 2 0 66.67 66.67 2 3 3 0 2 1 50.00"
    assert rows[7] == "5 7 1 0.00 0.00 0 0 0 0 0 0 0.00"
    assert rows[8] == "6 7 2 0.00 0.00 0 0 0 0 0 0 0.00"
    assert rows[11] == "56.25 64.29 9 16 14 4 17 16 94.12"


def test_the_report_omits_tagging_accuracy_if_most_words_are_untagged():
    lines = parse_report(score_trees([CAT, DOGS], [UNTAGGED_CAT, DOGS]), per_sentence=True)
    assert not any("tagging accuracy  " in line for line in lines)  # 6 of 8 words are XX
    assert sum("no tagging accuracy" in line and "XX" in line for line in lines) == 2
    assert " ".join(lines[3].split()) == "1 7 0 100.00 100.00 5 5 5 0 6 - -"
    assert " ".join(lines[6].split()) == "100.00 100.00 8 8 8 0 8 - -"
    # The columns keep their positions.
    tagged = parse_report(score_trees([CAT, DOGS], [CAT, DOGS]), per_sentence=True)
    assert [len(line) for line in lines[:7]] == [len(line) for line in tagged[:7]]


def printed(summary):
    """The values of a summary in the order and with the digits of EVALB."""
    counts = (summary.sentences, summary.errors, summary.skipped, summary.valid)
    names = ("recall", "precision", "f1", "complete_match", "average_crossing", "no_crossing", "at_most_two_crossing")
    return [*map(str, counts), *(f"{getattr(summary, name):.2f}" for name in (*names, "tagging_accuracy"))]


def test_a_corpus_has_the_scores_of_evalb(evalb_dir):
    gold, candidate, expected = (
        (evalb_dir / name).read_text(encoding="utf-8").splitlines()
        for name in ("gold.txt", "candidate.txt", "expected.txt")
    )
    parseval = score_trees(gold, candidate)
    assert not parseval.untagged
    # The complete table, character by character, including the last line, the total.
    end = expected.index("=== Summary ===")
    assert end == len(gold) + 5
    assert parse_report(parseval, per_sentence=True)[:end] == expected[:end]
    totals = [line.split(" = ")[1].strip() for line in expected[end:] if " = " in line]  # all sentences first
    assert printed(parseval.all) + printed(parseval.short) == totals
