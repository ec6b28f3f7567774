"""The paper's BLEU against multi-bleu.perl and against a calculation by hand."""

import collections
import itertools
import json
import math

import pytest

from t2t_lite.data.problem import Problem, get_problem
from t2t_lite.data.text_files import read_lines
from t2t_lite.errors import UserError
from t2t_lite.evaluation.evaluate import requested_metrics, usual_metrics
from t2t_lite.metric import check_metric, make_metric, report
from t2t_lite.registry import PROBLEMS
from t2t_lite.scoring.text_metrics import tokens_with_split_compounds

LABEL = "BLEU (tokenised, compounds split; as in Vaswani et al. 2017)"


@pytest.mark.parametrize("pair", ["ende", "enfr", "deen"])
@pytest.mark.parametrize("lower_cased", [False, True])
@pytest.mark.parametrize("split", [False, True])
def test_every_printed_digit_equals_that_of_multi_bleu(multibleu_dir, pair, lower_cased, split):
    results = json.loads((multibleu_dir / "expected.json").read_text())["results"]
    (theirs,) = [each for each in results if (each["pair"], each["lower_cased"]) == (pair, lower_cased)]
    kind, language = (".split" if split else ""), theirs["language"]
    texts = [list(read_lines(multibleu_dir / f"{pair}.{side}{kind}.{language}.gz")) for side in ("hyp", "ref")]
    options = {"tokenized": True} if split else {"language": language}
    (line,) = report("paper_bleu", *texts, lowercase=lower_cased, **options)
    assert line.startswith(f"{LABEL}|nrefs:1|case:{'lc' if lower_cased else 'mixed'}|")
    assert ("tok:given" if split else f"lang:{language}|tok:sacremoses-") in line
    assert line.partition(" = ")[2] == theirs["multi_bleu"].removeprefix("BLEU = ")


def test_compounds_are_split_at_hyphens_between_other_characters_than_blanks():
    text = "The well-known man's - e-mail, a b-c-d (x) & more."
    tokens = "The well #-# known man &apos;s - e #-# mail , a b #-# c-d ( x ) &amp; more ."
    assert tokens_with_split_compounds(text, "en") == tokens.replace("#-#", "##AT##-##AT##")
    # The apostrophe belongs to the word before it in French, and to the next in English.
    assert tokens_with_split_compounds("l'homme", "fr") == "l&apos; homme"
    assert tokens_with_split_compounds("l'homme", "en") == "l &apos;homme"


def by_hand(hypotheses, *references):
    """BLEU of lines of tokens by its definition (Papineni et al. 2002): closest lengths, no smoothing."""
    matched, total, length, reference_length = [0] * 4, [0] * 4, 0, 0
    for ours, *theirs in zip(hypotheses, *references):
        ours, theirs = ours.split(" "), [each.split(" ") for each in theirs]
        length += len(ours)
        reference_length += min((abs(len(each) - len(ours)), len(each)) for each in theirs)[1]
        for n in range(4):
            grams, *others = (
                collections.Counter(zip(*(itertools.islice(each, at, None) for at in range(n + 1))))
                for each in (ours, *theirs)
            )
            total[n] += grams.total()
            matched[n] += sum(min(count, max(other[gram] for other in others)) for gram, count in grams.items())
    penalty = math.exp(min(0, 1 - reference_length / length))
    return 100 * penalty * math.prod(part / whole for part, whole in zip(matched, total)) ** 0.25


def test_several_references_equal_a_calculation_by_hand():
    hypotheses = ["A well-known man sleeps in the old house.", "Two dogs play in the snow"]
    references = [
        ["The well-known man sleeps in an old house.", "Two dogs are playing in the snow."],
        ["A well-known man sleeps at home.", "Two dogs play in the snow today."],
    ]
    prepared = [[tokens_with_split_compounds(line, "en") for line in lines] for lines in (hypotheses, *references)]
    found = make_metric("paper_bleu", language="en").score(hypotheses, *references)
    assert found == pytest.approx(by_hand(*prepared))
    assert found > make_metric("paper_bleu", language="en").score(hypotheses, references[0])
    assert make_metric("paper_bleu", tokenized=True).score(*prepared) == pytest.approx(by_hand(*prepared))


def test_only_ascii_blanks_separate_tokens_as_in_perl_nothing_is_smoothed_and_the_case_counts():
    score = make_metric("paper_bleu", tokenized=True).score
    # As one token, the no-break space is part of a word that does not match.
    lines = ["a b c d e\u00a0f", "g h i j"], ["a b c d e f", "g h i j"]
    assert score(*lines) == pytest.approx(by_hand(*lines)) and score(*lines) < 100
    score = make_metric("paper_bleu", language="en").score
    assert score(["a b c x y z"], ["a b c d e f"]) == 0.0  # no 4-gram
    assert score(["A B C D E"], ["a b c d e"]) == score([""], ["a b c d"]) == 0.0
    lowercase = make_metric("paper_bleu", language="en", lowercase=True)
    assert lowercase.score(["A B C D E"], ["a b c d e"]) == pytest.approx(100)


def test_it_is_computed_on_request_only_for_outputs_in_a_known_language():
    known, unknown = get_problem("multi30k_enfr"), get_problem("multi30k_endefr")
    assert requested_metrics(["paper_bleu"], known) == ["paper_bleu", "bleu"]
    check_metric("paper_bleu", known)
    said = "paper_bleu` needs the language of the outputs, which 'multi30k_endefr' does not name"
    with pytest.raises(UserError, match=f"`metric={said}"):
        requested_metrics(["chrf", "paper_bleu"], unknown)
    with pytest.raises(UserError, match=f"`eval_metric={said}"):
        check_metric("paper_bleu", unknown)
    check_metric("bleu", unknown)
    with pytest.raises(UserError, match="metric 'paper_bleu' needs the language of the texts"):
        make_metric("paper_bleu")
    for language in ("german!", "../de", "d"):
        with pytest.raises(UserError, match="is not a language code"):
            make_metric("paper_bleu", language=language)


def test_it_is_computed_unasked_only_for_the_papers_problems_and_those_whose_metric_it_is(registered):
    for name in ("wmt_ende", "wmt_enfr"):
        assert usual_metrics(get_problem(name)) == ["bleu", "paper_bleu", "chrf", "ter"]
    for name in ("wmt_ende_rev", "grammar_ende", "multi30k_endefr"):
        assert usual_metrics(get_problem(name)) == ["bleu", "chrf", "ter"]

    class OfUnknown(Problem):
        metric = "paper_bleu"

        def examples(self, split, files):
            return iter(())

    registered(PROBLEMS, "of_unknown", OfUnknown)
    with pytest.raises(UserError, match="needs the language of the outputs"):
        usual_metrics(get_problem("of_unknown"))
    OfUnknown.target_language = "fr"
    assert usual_metrics(get_problem("of_unknown")) == ["paper_bleu", "bleu"]
