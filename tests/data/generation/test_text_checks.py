import itertools
import os
import random
import subprocess
import sys

import pytest

from t2t_lite.data.generation import text_checks
from t2t_lite.data.generation.text_checks import TextChecks, corpus_statistics, find_entity, find_invisible, find_tag
from t2t_lite.data.problem import Example, Problem, Unusable
from t2t_lite.data.text_files import read_parallel

REPEATED = "a repeated pair"
IDENTICAL = "both sides are the same"
SWAPPED = "the sides seem to be swapped"


def checked(pairs, drop_reasons=None):
    """The checks after these pairs; `drop_reasons` maps the number of a pair, from 1, to its drop reason."""
    checks = TextChecks()
    for number, pair in enumerate(pairs, start=1):
        checks.add(pair, (drop_reasons or {}).get(number))
    return checks


def by_kind(checks):
    findings = checks.findings()
    assert len({finding.kind for finding in findings}) == len(findings)
    return {finding.kind: finding for finding in findings}


def described(finding):
    return finding.count, finding.lines, finding.dropped, finding.is_estimate


def numbered_pairs(first, last):
    return (Example(f"line {number}", f"Zeile {number}") for number in range(first, last + 1))


@pytest.fixture(scope="module")
def captions(multi30k_dir):
    """The 29,000 training pairs of Multi30k from English to German."""
    return list(read_parallel(*(multi30k_dir / f"train.{language}.gz" for language in ("en", "de"))))


def test_each_finding_has_its_exact_count_and_its_first_line_numbers():
    assert [described(finding) for finding in checked([]).findings()] == 3 * [(0, [], False, False)]
    same, other, bonn, empty = Example("one", "eins"), Example("two", "zwei"), Example("Bonn", "Bonn"), Example("", "a")
    # 3 and 8 are identical, 5 but for its blanks; 4, 7, 8 and 12 are repeated; 6, 10 and 11 are dropped.
    pairs = [same, other, bonn, same, Example(" Bonn\t", "Bonn"), empty, same, bonn, Example("Bonn", "bonn")]
    checks = checked([*pairs, Example("x" * 99, "y"), empty, other], {6: "empty", 10: "long", 11: "empty"})
    assert [(finding.kind, *described(finding)) for finding in checks.findings()] == [
        ("empty", 2, [6, 11], True, False),
        ("long", 1, [10], True, False),
        (REPEATED, 4, [4, 7, 8, 12], False, False),
        (IDENTICAL, 3, [3, 5, 8], False, False),
        (SWAPPED, 0, [], False, False),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("by_chance", [0, 1])
def test_a_text_that_is_shifted_from_its_first_line_is_apart_as_a_whole(by_chance):
    """Among many blocks of unrelated lengths, one may be correlated by chance."""
    draw, checks = random.Random(1), TextChecks({})
    for block in range(100):
        for _ in range(text_checks.BLOCK):
            source = draw.randrange(5, 60)
            target = source if block == 50 and by_chance and draw.random() < 0.35 else draw.randrange(5, 60)
            checks.add(Example("a" * source, "b" * target), None)
    assert checks.stretches_apart() == [(1, 100 * text_checks.BLOCK)]


def test_repeats_are_exact_while_all_distinct_pairs_fit_in_memory():
    checks = checked(numbered_pairs(1, text_checks.MAX_HASHES))
    for pair in itertools.chain(numbered_pairs(1, 1000), numbered_pairs(1, 500)):
        checks.add(pair, None)
    first = text_checks.MAX_HASHES + 1
    assert described(by_kind(checks)[REPEATED]) == (1500, list(range(first, first + 5)), False, False)
    checks.add(Example("one", "more"), None)
    finding = by_kind(checks)[REPEATED]
    assert finding.is_estimate and finding.lines == list(range(first, first + 5))


@pytest.mark.heavy
def test_among_many_distinct_pairs_almost_no_repeats_are_estimated():
    finding = by_kind(checked(numbered_pairs(1, 600_000)))[REPEATED]
    assert finding.is_estimate and 0 <= finding.count <= 0.02 * 600_000 and finding.lines == []


def test_pair_hashes_are_the_same_in_another_process_and_differ_between_pairs():
    code = "from t2t_lite.data.generation.text_checks import *; print(pair_hash(Example('grün', 'vert')))"
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        printed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=environment).stdout
        assert int(printed) == text_checks.pair_hash(Example("grün", "vert"))
    pairs = [Example("a b", "c"), Example("a", "b c"), Example("c", "a b"), Example("", "a b c"), Example("a b c", "")]
    assert len({text_checks.pair_hash(pair) for pair in pairs}) == 5
    assert all(0 <= text_checks.pair_hash(pair) < 2**64 for pair in pairs)


@pytest.mark.heavy  # all pairs are judged
def test_almost_no_pair_of_multi30k_is_judged_swapped(captions):
    assert len(text_checks.swapped(list(enumerate(captions, start=1)))) <= 3


def turned(captions, numbers):
    """Numbered pairs, from 1; those with some of the numbers are swapped."""
    return [
        (number, Example(*reversed(pair)) if number in numbers else pair) for number, pair in enumerate(captions, 1)
    ]


@pytest.mark.slow
def test_nearly_all_swapped_pairs_are_found_with_their_line_numbers(captions):
    chosen = set(random.Random(1).sample(range(1, 5001), 200))
    found = text_checks.swapped(turned(captions[:5000], chosen))
    assert found == sorted(set(found))
    assert len(chosen & set(found)) >= 190 and len(set(found) - chosen) <= 3
    # Few pairs are judged only by the others.
    pairs = turned(captions[:500], range(0, 501, 10))
    found = [number for first in range(0, 500, 50) for number in text_checks.swapped(pairs[first : first + 50])]
    assert len(found) >= 47 and not [number for number in found if number % 10]


def test_pairs_with_identical_sides_are_not_judged_swapped(captions):
    pairs = [Example(pair.inputs, pair.inputs) if number % 10 == 0 else pair for number, pair in enumerate(captions)]
    assert not [number for number in text_checks.swapped(list(enumerate(pairs[:3000]))) if number % 10 == 0]


@pytest.mark.slow
def test_the_number_of_swapped_pairs_is_exact_if_all_were_judged_and_an_estimate_otherwise(captions):
    numbered = turned(captions[:3000], range(101))
    exact, estimated = (checked([pair for _, pair in numbered]) for _ in range(2))
    exact.judge_directions(numbered[::-1])
    finding = by_kind(exact)[SWAPPED]
    assert 95 <= finding.count <= 101 and not finding.is_estimate and not finding.dropped
    assert len(finding.lines) == 5 and finding.lines == sorted(finding.lines) and finding.lines[-1] <= 10
    estimated.judge_directions(numbered[::2])  # 50 of 1500
    finding = by_kind(estimated)[SWAPPED]
    assert 90 <= finding.count <= 102 and finding.count % 2 == 0 and finding.is_estimate
    assert all(number % 2 for number in finding.lines)


class Pairs(Problem):
    """A problem without its own text; every pair with "odd" in it goes to dev."""

    def split_of(self, example):
        return "dev" if "odd" in example.inputs else "train"


def test_a_small_text_is_its_own_sample_with_line_numbers():
    pairs = [Example("one", "eins"), Example("", "zwei"), Example("three odd", "drei"), Example("four", "vier")]
    message = []
    seen = corpus_statistics(Pairs(), pairs, None, message.append)
    assert seen == text_checks.CorpusStatistics(4, pairs, [(1, pairs[0]), (4, pairs[3])])
    assert seen.texts(["inputs"]) == ["one", "four"]
    assert sorted(seen.texts(["targets", "inputs"])) == ["eins", "four", "one", "vier"]
    assert message == [1, 2, 3, 4]
    assert corpus_statistics(Pairs(), [], None, message.append) == text_checks.CorpusStatistics(0, [], [])


def test_corpus_statistics_pass_each_pair_to_the_checks_with_its_drop_reason():
    checks = TextChecks()
    no_text = Unusable("a line without a tab")
    pairs = [Example("one", "eins"), Example(" ", "x"), Example("y", no_text), Example("one", "eins"), Example("", "")]
    assert corpus_statistics(Pairs(), pairs, checks, lambda count: None).pairs == checks.pairs == 5
    found = by_kind(checks)
    assert described(found["an empty side"]) == (2, [2, 5], True, False)
    assert described(found["a line without a tab"]) == (1, [3], True, False)
    assert described(found[REPEATED]) == (1, [4], False, False)


@pytest.mark.slow
def test_swapped_pairs_are_found_at_the_end_of_a_long_text(captions):
    assert text_checks.MAX_JUDGED < len(captions) < text_checks.SAMPLE_PAIRS
    checks = TextChecks()
    pairs = [pair for _, pair in turned(captions, range(26_001, 29_001))]
    corpus_statistics(Pairs(), pairs, checks, lambda count: None)
    finding = by_kind(checks)[SWAPPED]
    assert finding.is_estimate and 2400 <= finding.count <= 3600 and min(finding.lines) > 26_000


# What is left of web pages in a text, and what only looks like it: (text, what is found)
MARKUP = {
    find_entity: {
        **{"Tom &amp; Tim": "&amp;", "10 &nbsp;km &lt; 11": "&nbsp;", "it&#39;s": "&#39;", "it&#x27;s": "&#x27;"},
        **{"R&D; then &quot;": "&quot;"},
        **dict.fromkeys(["Q&A; AT&T; a & b; &; &#; &#x; &unknown;", "fish & chips", "?a=1&copy=2"], ""),
    },
    find_tag: {
        **{"one<br>two": "<br>", "one<BR />two": "<BR>", "one </p> two": "</p>"},
        **{'a <a href="https://example.org/?a=1">link</a>': "<a>", "a <font size=2 color='red'>word": "<font>"},
        **{'<seg id="12">text': "<seg>", "text</seg>": "</seg>", "<x/>": "<x>", "<unk> <b>": "<b>"},
        **dict.fromkeys(["1 < 2 and 3 > 2", "if a <b and c> d", "I <3 you -> <-"], ""),
        **{"x<y>z <unk> <2de> <de> <hr> <tr> <num > <s>": "", "<someone@example.org> <https://example.org>": ""},
    },
    find_invisible: {
        **{"zero\u200bwidth": "U+200B", "\u2060word": "U+2060", "two \ufefffiles": "U+FEFF"},
        **{"ภาษา\u200bไทย and zero\u200bwidth": "U+200B"},
        # Khmer separates words by U+200B; Persian and Devanagari need other characters that are not visible.
        **dict.fromkeys(["ភាសា\u200bខ្មែរ \u200bខ្មែរ ខ្មែរ\u200b.", "ภาษา\u200bไทย", "می\u200cخواهم"], ""),
        **dict.fromkeys(["क्\u200dष", "👩\u200d👩\u200d👧", "café\u00a0!"], ""),
    },
}


@pytest.mark.parametrize("find", MARKUP, ids=lambda find: find.__name__)
def test_what_is_left_of_web_pages_is_found(find):
    assert {text: find(text) for text in MARKUP[find]} == MARKUP[find]


def test_a_long_line_takes_no_more_than_linear_time():
    # A pattern that tried all divisions of these attributes would never end.
    assert find_tag("<a" + " x=1" * 10_000) == ""
    assert find_tag("<" * 10_000) == ""
