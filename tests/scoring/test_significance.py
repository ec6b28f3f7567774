"""Intervals and paired tests against sacreBLEU's own, and against a bootstrap in NumPy."""

import math

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from t2t_lite.data.text_files import read_lines
from t2t_lite.errors import UserError
from t2t_lite.metric import Metric, make_metric, report
from t2t_lite.registry import METRICS
from t2t_lite.scoring.significance import TESTS, compare, holm, interval

HYPOTHESES = ["a cat sat on the mat", "two dogs are playing in the snow", "she sings", "the old man sleeps", ""]
OTHERS = ["a cat sat on a mat", "two dogs play in the snow", "she sings", "an old man is asleep", "yes"]
REFERENCES = ["the cat sat on the mat", "two dogs play in the snow", "she sings", "the old man is asleep", "no"]
MORE = ["a cat sits on a mat", "two dogs are playing in snow", "she is singing", "an old man sleeps", "no no"]
TREES = [
    "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ runs))))",
    "(TOP (S (NP (DT a) (NN cat)) (VP (VBZ sees) (NP (DT the) (NN dog)))))",
    "(TOP (S (NP (NN rain)) (VP (VBZ falls))))",
]
# A wrong constituent, other words (an error in EVALB's sense), no parse.
PARSES = ["(TOP (S (XP (DT the) (NN dog)) (VP (VBZ runs))))", "(TOP (S (NP (DT a) (NN dog))))", ""]


def p_of(system):
    """The p-value of the only test, or None."""
    return system.p_bootstrap if system.p_bootstrap is not None else system.p_randomisation


@pytest.fixture(scope="module")
def translations(multibleu_dir):
    """A decoded test set, its references, and a copy in which every tenth line is that of another sentence."""
    found, references = (list(read_lines(multibleu_dir / f"ende.{side}.de.gz")) for side in ("hyp", "ref"))
    damaged = [found[line - 1] if line % 10 == 0 else text for line, text in enumerate(found)]
    return found, damaged, references


def test_a_damaged_copy_differs_significantly_and_the_file_itself_does_not(translations):
    found, damaged, references = translations
    systems = {"found": found, "damaged": damaged, "again": list(found)}
    for test in ("bootstrap", "randomisation"):
        first, worse, same = compare("bleu", systems, references, tests=(test,), num_samples=1000)
        assert p_of(first) is None and p_of(worse) < 0.05 and p_of(same) == 1.0
        assert worse.high < first.score and same[1:4] == first[1:4]
    # Both tests at once are those of each.
    found, damaged, references = (lines[:200] for lines in translations)
    systems = {"found": found, "other": [*damaged[:40], *found[40:]]}
    both = compare("bleu", systems, references, tests=TESTS)
    each = [compare("bleu", systems, references, tests=(test,)) for test in ("bootstrap", "randomisation")]
    assert both == [first._replace(p_randomisation=second.p_randomisation) for first, second in zip(*each)]
    assert both[1].p_bootstrap is not None and both[1].p_randomisation is not None


@pytest.mark.heavy
def test_equal_systems_differ_by_chance_as_often_as_the_level_of_randomisation_says():
    random, references = np.random.default_rng(0), ["yes"] * 200
    p_values = {"bootstrap": [], "randomisation": []}
    for _ in range(150):
        systems = {name: np.where(random.random(200) < 0.7, "yes", "no").tolist() for name in "ab"}
        for test, found in p_values.items():
            found.append(p_of(compare("exact_match", systems, references, tests=(test,), num_samples=200)[1]))
    rates = {test: np.mean(np.array(found) < 0.05) for test, found in p_values.items()}
    # The standard error of a rate of 5% is 1.8%. sacreBLEU's bootstrap is in effect one-sided.
    assert 0.01 < rates["randomisation"] < 0.09 < rates["bootstrap"] < 0.16


@pytest.mark.slow
def test_few_lines_that_differ_are_no_significant_difference():
    # With k lines that are better, all 2**k exchanges but two give a smaller difference.
    references = [f"line {number} of the references" for number in range(100)]
    for changed, exact in ((1, 1.0), (2, 0.5), (3, 0.25)):
        worse = ["something else" if number < changed else text for number, text in enumerate(references)]
        for metric in ("bleu", "chrf", "exact_match"):
            _, found = compare(metric, {"a": references, "b": worse}, references, tests=("randomisation",))
            assert p_of(found) == pytest.approx(exact, abs=0.02)


def test_tests_equal_those_of_sacrebleu(translations):
    found, _, references = (lines[:200] for lines in translations)
    # Some lines are better and others worse, so that the difference is not certain.
    slightly = [theirs if line % 50 == 0 else ours for line, (ours, theirs) in enumerate(zip(found, references))]
    slightly = [text[:-3] if line % 9 == 1 else text for line, text in enumerate(slightly)]
    for name, theirs in (("bleu", BLEU()), ("chrf", CHRF())):
        for test, kind in (("bootstrap", "bs"), ("randomisation", "ar")):
            named = [("a", found), ("b", slightly)]
            _, results = PairedTest(named, {name: theirs}, [references], kind, n_samples=400)()
            expected = next(values for key, values in results.items() if key != "System")
            _, ours = compare(name, dict(named), references, tests=(test,), num_samples=400)
            assert ours.score == pytest.approx(expected[1].score)
            assert p_of(ours) == expected[1].p_value
            assert p_of(ours) > 1 / 401


def test_intervals_equal_those_of_sacrebleu(translations, registered):
    found, _, references = (lines[:300] for lines in translations)
    for name, theirs in (("bleu", BLEU()), ("chrf", CHRF())):
        expected = theirs.corpus_score(found, [references], n_bootstrap=500)
        (ours,) = compare(name, {"found": found}, references, num_samples=500)
        assert ours.score == pytest.approx(expected.score)
        assert (ours.high - ours.low) / 2 == pytest.approx(expected._ci, rel=1e-6)
        assert ours.low < expected._mean < ours.high

    class OfSacrebleu(Metric):  # a metric may resample as sacreBLEU
        def resampled(self):
            return BLEU()

    registered(METRICS, "of_sacrebleu", OfSacrebleu)
    assert interval("of_sacrebleu", HYPOTHESES, REFERENCES) == interval("bleu", HYPOTHESES, REFERENCES)


def bleu_of(sums):
    """BLEU of summed statistics [..., length, reference length, 4 matches, 4 totals]."""
    length, reference_length, matches, totals = sums[..., 0], sums[..., 1], sums[..., 2:6], sums[..., 6:]
    penalty = np.exp(np.minimum(0, 1 - reference_length / length))
    return 100 * penalty * np.exp(np.log(matches / totals).mean(-1))


def test_an_interval_agrees_with_a_bootstrap_by_weights_of_lines(translations):
    found, _, references = translations
    statistics = np.array(BLEU()._extract_corpus_statistics(found, [references]), dtype=float)
    lines = len(found)
    # How often each line is drawn, with other random numbers.
    weights = np.random.default_rng(1).multinomial(lines, np.full(lines, 1 / lines), size=1000)
    low, high = np.quantile(bleu_of(weights @ statistics), [0.025, 0.975])
    ours = interval("bleu", found, references)
    assert ours.score == pytest.approx(bleu_of(statistics.sum(0)))
    # The standard error of such a quantile is about 0.07 here.
    assert ours.low == pytest.approx(low, abs=0.25) and ours.high == pytest.approx(high, abs=0.25)
    assert interval("bleu", found, references) == ours


def test_the_score_of_sums_is_the_score_of_each_metric():
    texts = [name for name in METRICS.having("several_references", True) if "tests" not in METRICS[name].__module__]
    assert {"bleu", "chrf", "ter", "paper_bleu", "exact_match"} <= set(texts)
    for name in texts:
        options = {"language": "en"} if METRICS.fact(name, "needs_language", False) else {}
        found = interval(name, HYPOTHESES, REFERENCES, MORE, **options)
        assert found.score == pytest.approx(make_metric(name, **options).score(HYPOTHESES, REFERENCES, MORE)), name
        assert found.low <= found.score <= found.high and found.low < found.high, name
    for parses in (PARSES, TREES, ["", "", ""]):
        found = interval("parseval", parses, TREES)
        assert found.score == pytest.approx(make_metric("parseval").score(parses, TREES))
    better, worse = compare("parseval", {"gold": TREES * 10, "parsed": PARSES * 10}, TREES * 10)
    assert better.score == better.low == 100 and worse.score < 100 and p_of(worse) < 0.05


def test_several_references_count_the_best_match():
    assert make_metric("exact_match").score(HYPOTHESES, REFERENCES) == 20.0
    assert make_metric("exact_match").score(OTHERS, REFERENCES, OTHERS) == 100.0
    for name in ("bleu", "chrf"):
        assert make_metric(name).score(OTHERS, REFERENCES, MORE) > make_metric(name).score(OTHERS, REFERENCES)
    with pytest.raises(UserError, match="5 hypotheses but 4 references in set 2; pass one reference per line"):
        make_metric("bleu").score(HYPOTHESES, REFERENCES, MORE[:4])


def test_a_metric_that_has_only_score_has_no_interval_and_takes_one_set_of_references(registered):
    class Length(Metric):
        """Mean length."""

        def score(self, hypotheses, references):
            return sum(map(len, hypotheses)) / len(references)

    registered(METRICS, "length", Length)
    assert report("length", HYPOTHESES, REFERENCES) == [f"length = {sum(map(len, HYPOTHESES)) / 5:.2f}"]
    assert interval("length", HYPOTHESES, REFERENCES) is None
    with pytest.raises(UserError, match="metric 'length' cannot be resampled"):
        compare("length", {"a": HYPOTHESES, "b": OTHERS}, REFERENCES)
    several = "'length' takes one set of references, not 2; metrics that take several: bleu, chrf"
    with pytest.raises(UserError, match=several):
        report("length", HYPOTHESES, REFERENCES, MORE)
    with pytest.raises(UserError, match="'parseval' takes one set of references, not 2"):
        interval("parseval", TREES, TREES, TREES)


def test_limits_and_mistakes():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])  # Holm 1979, by hand
    assert holm([0.9, 0.5]) == [1.0, 1.0] and holm([0.2]) == [0.2] and holm([]) == []
    found = interval("chrf", ["a cat"], ["a dog"])
    assert found.low == found.high == pytest.approx(found.score) and math.isfinite(found.score)
    with pytest.raises(UserError, match="`test=t` is unknown; use bootstrap or randomisation"):
        compare("bleu", {"a": HYPOTHESES}, REFERENCES, tests=("t",))
    texts, trees = ["a b"], ["(TOP (S (X a) (X b)))"]
    for scored in (
        lambda: make_metric("parseval").score(texts, trees),
        lambda: interval("parseval", texts, trees),
        lambda: compare("parseval", {"trees": trees, "texts": texts}, trees),
    ):
        with pytest.raises(UserError, match="no trees in"):
            scored()
