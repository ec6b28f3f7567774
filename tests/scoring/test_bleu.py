import math
import re
import subprocess
import sys

import pytest

from t2t_lite.errors import UserError
from t2t_lite.scoring.bleu import corpus_bleu, score_lines

HYPOTHESES = [
    "The quick brown fox jumped over the lazy dog.",
    "A man in a blue shirt is standing on a ladder, cleaning a window.",
    "Two dogs are playing in the snow.",
]
REFERENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "A man in a blue shirt stands on a ladder cleaning a window.",
    "Two dogs play in the Snow.",
]
# By "sacrebleu references -i hypotheses -m bleu chrf -w 6" of sacreBLEU 2.6.0, and the same with
# "--lowercase --chrf-lowercase".
BLEU, CHRF = 49.160297, 78.046405
BLEU_LOWERCASE, CHRF_LOWERCASE = 54.659314, 81.502425


def score_of(line):
    return float(re.search(r" = ([0-9.]+)", line)[1])


def test_scores_equal_those_of_sacrebleu():
    bleu, chrf = score_lines(HYPOTHESES, REFERENCES)
    assert score_of(bleu) == pytest.approx(BLEU, abs=0.01)
    assert score_of(chrf) == pytest.approx(CHRF, abs=0.01)
    assert corpus_bleu(HYPOTHESES, REFERENCES) == pytest.approx(BLEU, abs=0.0001)


def test_lower_cased_scores_equal_those_of_sacrebleu():
    bleu, chrf = score_lines(HYPOTHESES, REFERENCES, lowercase=True)
    assert score_of(bleu) == pytest.approx(BLEU_LOWERCASE, abs=0.01)
    assert score_of(chrf) == pytest.approx(CHRF_LOWERCASE, abs=0.01)
    assert corpus_bleu(HYPOTHESES, REFERENCES, lowercase=True) == pytest.approx(BLEU_LOWERCASE, abs=0.0001)


def test_the_sacrebleu_command_prints_the_same_scores(tmp_path):
    for name, lines in (("hypotheses", HYPOTHESES), ("references", REFERENCES)):
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "sacrebleu",
            "references",
            "-i",
            "hypotheses",
            "-m",
            "bleu",
            "chrf",
            "-f",
            "text",
            "-w",
            "2",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split() for line in score_lines(HYPOTHESES, REFERENCES)] == [
        line.split() for line in result.stdout.splitlines()
    ]


def test_bleu_of_a_small_example_equals_a_calculation_by_hand():
    # 5 words against 6: 5 of 5 words, 3 of 4 bigrams, 1 of 3 trigrams and 0 of 2 4-grams match. sacreBLEU's default
    # smoothing ("exp") counts 1 / 2 match for the first order without any.
    precisions = (5 / 5, 3 / 4, 1 / 3, 0.5 / 2)
    by_hand = 100 * math.exp(1 - 6 / 5) * math.prod(precisions) ** 0.25
    assert corpus_bleu(["a b c e f"], ["a b c d e f"]) == pytest.approx(by_hand)


def test_equal_text_scores_100_and_text_with_nothing_in_common_0():
    assert corpus_bleu(REFERENCES, REFERENCES) == pytest.approx(100.0)
    assert corpus_bleu(["", ""], ["a b c d e", "f g h i j"]) == 0.0


@pytest.mark.parametrize("lowercase, case", [(False, "mixed"), (True, "lc")])
def test_every_line_carries_its_signature(lowercase, case):
    bleu, chrf = score_lines(HYPOTHESES, REFERENCES, lowercase)
    assert bleu.startswith(f"BLEU|nrefs:1|case:{case}|eff:no|tok:13a|smooth:exp|version:2.")
    assert chrf.startswith(f"chrF2|nrefs:1|case:{case}|eff:yes|nc:6|nw:0|space:no|version:2.")
    assert "\n" not in bleu + chrf


@pytest.mark.parametrize("function", [score_lines, corpus_bleu])
def test_unequal_counts_are_an_error_that_gives_both(function):
    with pytest.raises(UserError, match="3 hypotheses but 2 references"):
        function(HYPOTHESES, REFERENCES[:2])


@pytest.mark.parametrize("function", [score_lines, corpus_bleu])
def test_nothing_to_score_is_an_error(function):
    with pytest.raises(UserError, match="empty"):
        function([], [])


def test_empty_lines_count_as_lines():
    assert 0 < corpus_bleu(["", HYPOTHESES[0]], [REFERENCES[2], REFERENCES[0]]) < 100
