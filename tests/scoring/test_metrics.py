"""Each registered metric against the command of sacreBLEU, or a calculation by hand."""

import importlib.util
import math

import pytest
import sacrebleu

from t2t_lite.errors import UserError
from t2t_lite.metric import metric_needs, report
from t2t_lite.registry import METRICS
from t2t_lite.scoring.significance import interval
from t2t_lite.scoring.token_metrics import TokenSums

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
OF_OUTPUTS = [name for name in METRICS if metric_needs(name) != "tokens" and "tests" not in METRICS[name].__module__]


def score(name, hypotheses=HYPOTHESES, references=REFERENCES, **options):
    return METRICS[name](**options).score(hypotheses, references)


@pytest.mark.parametrize(
    ("name", "lowercase", "expected", "signature"),
    [
        # By "sacrebleu references -i hypotheses -m bleu chrf ter -w 6" of sacreBLEU 2.6.0, and the same with
        # "--lowercase --chrf-lowercase".
        ("bleu", False, 49.160297, "BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2."),
        ("bleu", True, 54.659314, "BLEU|nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:2."),
        ("chrf", False, 78.046405, "chrF2|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2."),
        ("chrf", True, 81.502425, "chrF2|nrefs:1|case:lc|eff:yes|nc:6|nw:0|space:no|version:2."),
        ("ter", None, 21.428571, "TER|nrefs:1|case:lc|tok:tercom|"),
    ],
)
def test_scores_equal_those_of_sacrebleu_and_the_line_carries_the_signature(name, lowercase, expected, signature):
    options = {} if lowercase is None else {"lowercase": lowercase}
    assert score(name, **options) == pytest.approx(expected, abs=1e-4)
    (line,) = report(name, HYPOTHESES, REFERENCES, **options)
    assert line.startswith(signature) and "\n" not in line


def test_scores_equal_calculations_by_hand():
    # In the three sentences: "jumped"; "is", "standing" and the comma; "are" and "playing". 28 words.
    assert score("ter") == pytest.approx(100 * (1 + 3 + 2) / 28)
    # One shift of "e f" to the front and one insertion of "d": 2 edits against 6 words.
    assert score("ter", ["a b c e f"], ["e f a b c d"]) == pytest.approx(100 * 2 / 6)
    assert score("ter", ["x y z"], ["a"]) == pytest.approx(300.0)
    lines = ["a b", "A b", "a  b", ""], ["a b", "a b", "a b", ""]
    assert score("exact_match", *lines) == 50.0 and score("exact_match", *lines, lowercase=True) == 75.0
    assert report("exact_match", ["a", "b", "c"], ["a", "x", "y"]) == ["exact_match = 33.33"]
    for name, best, worst in (("bleu", 100, 0), ("chrf", 100, 0), ("exact_match", 100, 0), ("ter", 0, 100)):
        assert score(name, REFERENCES, REFERENCES) == pytest.approx(best), name
        assert score(name, ["", ""], ["a b c d e", "f g h i j"]) == worst, name


def test_metrics_of_tokens_are_ratios_of_the_sums():
    sums = TokenSums(smoothed=30.0, plain=20.0, tokens=10.0, correct=4.0)
    expected = {"loss": 3.0, "nll_loss": 2.0, "perplexity": math.exp(2.0), "accuracy": 0.4}
    found = {name: METRICS[name]().score(sums) for name in METRICS.having("needs", "tokens")}
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert METRICS["perplexity"]().score(TokenSums(1e9, 1e9, 1.0, 0.0)) == pytest.approx(math.exp(88))


@pytest.mark.parametrize("name", OF_OUTPUTS)
def test_unequal_counts_and_nothing_to_score_are_errors(name):
    options = {"language": "en"} if METRICS.fact(name, "needs_language", False) else {}
    with pytest.raises(UserError, match=r"3 hypotheses but 2 references|2 gold trees but 3 candidates"):
        score(name, HYPOTHESES, REFERENCES[:2], **options)
    with pytest.raises(UserError, match="empty"):
        score(name, [], [], **options)


CHINESE = (
    ["他昨天在图书馆读了一本很无聊的书。", "我今天去北京大学看老师。"],
    ["他昨天在图书馆读了一本很有意思的书。", "我今天去北京大学看朋友。"],
)
JAPANESE = ["私は昨日図書館で面白い本を読みました。"], ["私は昨日学校で面白い本を読みました。"]
KOREAN = ["나는 어제 학교에서 지루한 책을 읽었다."], ["나는 어제 학교에서 재미있는 책을 읽었다."]


@pytest.mark.parametrize(
    ("texts", "options", "tokenizer"),
    [
        (CHINESE, {"language": "zh"}, "zh"),
        (CHINESE, {"language": "zh-Hant-TW"}, "zh"),
        (CHINESE, {"tokenize": "char"}, "char"),
        (CHINESE, {"language": "zh", "tokenize": "intl"}, "intl"),
        (CHINESE, {}, "13a"),
        # If a package is not installed, each character is a token.
        (JAPANESE, {"language": "ja"}, "ja-mecab" if importlib.util.find_spec("MeCab") else "char"),
        (KOREAN, {"language": "ko"}, "ko-mecab" if importlib.util.find_spec("mecab_ko") else "char"),
        ((HYPOTHESES, REFERENCES), {"language": "de"}, "13a"),
        ((HYPOTHESES, REFERENCES), {"language": ""}, "13a"),
        ((HYPOTHESES, REFERENCES), {"tokenize": "none"}, "none"),
    ],
)
def test_the_tokens_of_bleu_follow_the_language_or_the_option(texts, options, tokenizer):
    hypotheses, references = texts
    theirs = sacrebleu.BLEU(tokenize=tokenizer).corpus_score(hypotheses, [references]).score
    assert score("bleu", hypotheses, references, **options) == pytest.approx(theirs)
    (line,) = report("bleu", hypotheses, references, **options)
    assert f"|tok:{tokenizer}" in line
    assert interval("bleu", hypotheses, references, **options).score == pytest.approx(theirs)


def test_each_character_of_chinese_is_a_word_for_ter():
    # 3 characters of 18 are replaced by 2 others, and 2 of 12 by 2 others.
    assert score("ter", *CHINESE, language="zh") == pytest.approx(100 * (3 + 2) / (18 + 12))
    assert score("ter", *CHINESE) == 100.0
    assert "|asian:yes|" in report("ter", *CHINESE, language="zh")[0]


@pytest.mark.parametrize("name", ["bleu", "ter"])
def test_text_with_hardly_a_blank_is_remarked_on_unless_its_tokens_are_known(name):
    def remarks(texts, **options):
        return METRICS[name](**options).remarks(*texts)

    (remark,) = remarks(CHINESE)
    assert "have hardly a blank" in remark and "--language=zh" in remark
    assert remarks(CHINESE, language="en") == remarks(JAPANESE) == [remark]
    assert remarks(CHINESE, language="zh") == remarks(JAPANESE, language="ja") == []
    assert remarks((HYPOTHESES, REFERENCES)) == remarks(KOREAN) == remarks(([""], [""])) == []
    assert METRICS["bleu"](tokenize="13a").remarks(*CHINESE) == METRICS["chrf"]().remarks(*CHINESE) == []


@pytest.mark.parametrize(
    ("tokenizer", "said"),
    [("zn", "`tokenize=zn` is unknown; the nearest are 'zh', "), ("ja-mecab", r"sacrebleu\[ja\]")],
)
def test_a_tokenizer_that_cannot_be_used_is_an_error(tokenizer, said):
    if tokenizer == "ja-mecab" and importlib.util.find_spec("MeCab"):
        pytest.skip("it is installed")
    with pytest.raises(UserError, match=said):
        METRICS["bleu"](tokenize=tokenizer)
