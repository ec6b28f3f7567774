"""The kinds of errors and the groups were counted by hand."""

import pytest

from t2t_lite.errors import UserError
from t2t_lite.scoring import parse_errors
from t2t_lite.scoring.parse_errors import ATTACHMENT, EXTRA, LABEL, MISSING, UNARY, WRONG_END, error_report
from t2t_lite.scoring.parseval import compare_trees

GOLD = "(TOP (S (NP (D a) (N man)) (VP (V saw) (NP (NP (D a) (N dog)) (PP (P in) (NP (D the) (N park)))))))"
# case: (gold, candidate, kinds of errors)
CASES = {
    "equal": (GOLD, GOLD, {}),
    "NP is ADJP": (GOLD, GOLD.replace("(NP (D a) (N man))", "(ADJP (D a) (N man))"), {LABEL: 1}),
    # The candidate has S over all words and no VP below it; then it has NP over NP.
    "the VP of a chain is missing": ("(TOP (S (VP (V go))))", "(TOP (S (V go)))", {UNARY: 1}),
    "an extra NP over an NP": (GOLD, GOLD.replace("(NP (D a) (N man))", "(NP (NP (D a) (N man)))"), {UNARY: 1}),
    # NP 3-8 is missing: its PP is attached to the VP.
    "a PP attached to the verb": (
        GOLD,
        "(TOP (S (NP (D a) (N man)) (VP (V saw) (NP (D a) (N dog)) (PP (P in) (NP (D the) (N park))))))",
        {ATTACHMENT: 1},
    ),
    # VP 2-8 and VP 2-5 begin at the same word; PP 5-8 lies between their ends.
    "a PP attached to the sentence": (
        "(TOP (S (NP (D a) (N man)) (VP (V saw) (NP (D a) (N dog)) (PP (P in) (NP (D the) (N park))))))",
        "(TOP (S (NP (D a) (N man)) (VP (V saw) (NP (D a) (N dog))) (PP (P in) (NP (D the) (N park)))))",
        {ATTACHMENT: 1},
    ),
    # NP 0-3 for NP 0-2 takes the verb, which is not a constituent. VP 2-8 and VP 3-8 differ in the same word.
    "the subject takes the verb": (
        GOLD,
        "(TOP (S (NP (D a) (N man) (V saw)) (VP (NP (NP (D a) (N dog)) (PP (P in) (NP (D the) (N park)))))))",
        # VP 3-8 is over the words of NP 3-8, so that it is one constituent too many of a chain.
        {WRONG_END: 1, UNARY: 1, MISSING: 1},
    ),
    "flat": (GOLD, "(TOP (S (D a) (N man) (V saw) (D a) (N dog) (P in) (D the) (N park)))", {MISSING: 6}),
    "not flat": ("(TOP (S (D a) (N man) (V saw)))", "(TOP (S (NP (D a) (N man)) (V saw)))", {EXTRA: 1}),
}


@pytest.mark.parametrize(("gold", "candidate", "expected"), CASES.values(), ids=CASES.keys())
def test_kinds_of_errors(gold, candidate, expected):
    ((compared,), _) = compare_trees([gold], [candidate])
    assert parse_errors.kinds_of_errors(compared.gold.brackets, compared.candidate.brackets) == expected


def rows(lines, title):
    """The rows of the table whose first column has this title, by their first column."""
    start = next(i for i, line in enumerate(lines) if line.startswith(title))
    table = {}
    for line in lines[start + 1 :]:
        if not line:
            break
        name, *cells = line.split("  ")
        table[name] = [cell.strip() for cell in cells if cell.strip()]
    return table


LONG = "(TOP (S " + "(NP (N dog)) " * 11 + "))"  # 12 brackets, 11 words
GO = "(TOP (S (VP (V go))))"
# The first sentence has 6 of 7 brackets right, the second all 12, the third 1 of 2, the last one is malformed.
GOLDS = [GOLD, LONG, GO, GO]
CANDIDATES = [GOLD.replace("(NP (D a) (N man))", "(ADJP (D a) (N man))"), LONG, "(TOP (S (V go)))", "(TOP"]


def test_tables():
    lines = error_report(GOLDS, CANDIDATES, known_words={"a", "man", "saw", "dog", "in", "the"})
    # Sentences of 8 and 1 words: 7 of 9 gold brackets and of 8 candidate brackets. F1 is 2 * 7 / (9 + 8).
    assert rows(lines, "words") == {
        "1 to 10": ["2", "77.78", "87.50", "82.35"],
        "11 to 20": ["1", "100.00", "100.00", "100.00"],
    }
    # "park" and "go" are unknown; "dog" in the second sentence is not.
    assert rows(lines, "unknown words") == {
        "0": ["1", "100.00", "100.00", "100.00"],
        "1": ["2", "77.78", "87.50", "82.35"],
    }
    assert rows(lines, "label") == {
        "NP": ["15", "93.33", "100.00", "96.55"],
        "S": ["3", "100.00", "100.00", "100.00"],
        "VP": ["2", "50.00", "100.00", "66.67"],
        "PP": ["1", "100.00", "100.00", "100.00"],
        "others": ["0", "0.00", "0.00", "0.00"],
    }
    kinds = rows(lines, "kind of error")
    assert kinds.pop(LABEL) == kinds.pop(UNARY) == ["1", "50.0%"]
    assert set(map(tuple, kinds.values())) == {("0", "0.0%")}
    assert not any(line.startswith("oracle") for line in lines)


def test_the_oracle_takes_the_best_tree_of_each_beam():
    beams = [[CANDIDATES[0], "(TOP", GOLD], [LONG], [CANDIDATES[2]], [GO]]
    lines = error_report(GOLDS, CANDIDATES, n_best=beams)
    # Of 21 gold brackets, the first trees have 19, among 20 brackets; the best have one more.
    assert rows(lines, "oracle") == {
        "the parser's tree": ["90.48", "95.00", "92.68"],
        "the best of 3 trees": ["95.24", "100.00", "97.56"],
        "The beam has a better tree for 1 of 3 sentences.": [],
    }
    assert not any(line.startswith("unknown words") for line in lines)


def test_beams_of_other_sentences_are_refused():
    with pytest.raises(UserError, match="there are 4 sentences but 1 beams; decode the same file for both"):
        error_report(GOLDS, CANDIDATES, n_best=[[GOLD]])
