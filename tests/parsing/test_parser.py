"""Trees from a fake model with known outputs: each input word determines the symbol that it writes."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.config import DecodeHParams
from t2t_lite.data.vocab import open_vocabulary, train_vocabulary
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.parsing.parser import Parser
from t2t_lite.trees.tokenizer import split_as_treebank
from t2t_lite.trees.tree import parse_brackets, tree_words

SAYS = {"open": "(S", "leaf": "XX", "close": ")S", "wrong": ")NP", "noun": "(NP"}


class Dictionary:
    """Replaces a model: writes the symbols named by its words, in order, and the end symbol, with low confidence."""

    max_positions = None

    def __init__(self, says):
        self.says = tf.constant(says, tf.int32)
        self.vocab_size = len(says)

    def start_decoding(self, inputs, beam_size, max_length):
        return tf.gather(self.says, inputs), tf.zeros([tf.shape(inputs)[0], 1])

    def grow_state(self, state, beam_size, max_length):
        return state

    def decode_step(self, ids, position, encoded_source, state, ancestry):
        place = tf.minimum(position, tf.shape(encoded_source)[1] - 1)
        logits = 5.0 * tf.one_hot(encoded_source[:, place], self.vocab_size)
        return tf.repeat(logits[:, tf.newaxis], ids.shape[1], axis=1), state, None

    def __call__(self, inputs, targets):
        said = tf.gather(self.says, inputs)[:, : tf.shape(targets)[1]]
        said = tf.pad(said, [[0, 0], [0, tf.shape(targets)[1] - tf.shape(said)[1]]])
        return 5.0 * tf.one_hot(said, self.vocab_size)


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabularies")
    train_vocabulary([" ".join(SAYS)], 100, folder / "inputs", "words")
    train_vocabulary([" ".join([*SAYS.values(), ")NP", "(NP"])], 100, folder / "targets", "words")
    return open_vocabulary(folder / "inputs"), open_vocabulary(folder / "targets")


@pytest.fixture
def make(vocabularies):
    """Creates a parser with the given settings."""
    inputs, targets = vocabularies
    says = [0, 1, 2, *(targets.tokens().index(SAYS[word]) for word in inputs.tokens()[3:])]

    def make(settings="beam_size=1", **options):
        how = {"inputs_vocabulary": inputs, "xla_compile": False, "num_threads": 1}
        return Parser(Translator(Dictionary(says), targets, DecodeHParams().override(settings), **how), **options)

    return make


# line: (its tree, its repairs)
LINES = {
    "leaf leaf": ("(TOP (XX leaf) (XX leaf))", []),
    "open leaf close": ("(TOP (S (XX open) (XX leaf) (XX close)))", ["too few leaves"]),
    "leaf wrong": ("(TOP (XX leaf) (XX wrong))", ["unmatched brackets", "too few leaves"]),
    "open noun close": (
        "(TOP (S (XX open) (XX noun) (XX close)))",
        ["unmatched brackets", "brackets around nothing", "too few leaves"],
    ),
    "other leaf leaf": ("(TOP (XX other) (XX leaf) (XX leaf))", ["unknown symbols", "too few leaves"]),
}


def test_every_line_gets_a_tree_over_its_words_and_repairs_are_counted(make):
    parser = make("beam_size=1,allow_unk=True")
    assert parser.translate(list(LINES)) == [tree for tree, _ in LINES.values()]
    assert (parser.parsed, parser.repaired) == (5, 4)
    assert parser.repairs == collections.Counter(kind for _, needed in LINES.values() for kind in needed)
    assert parser.report() == (
        "4 of 5 trees (80.0%) needed repair: "
        "unknown symbols 1, unmatched brackets 2, brackets around nothing 1, too few leaves 4"
    )


def test_only_trees_leaves_nothing_to_repair(make):
    parser = make("beam_size=4,only_trees=True")
    for line, beams in zip(LINES, parser.n_best(list(LINES))):
        assert len(beams) > 1
        for hypothesis in beams:
            assert tree_words(*parse_brackets(hypothesis.text)) == line.split()
    assert parser.repaired == 0 and parser.parsed == 5
    parser = make("beam_size=2,only_trees=True,extra_length=0")
    parser.translate(list(LINES))
    assert parser.repaired == 0


def test_all_words_leaves_no_word_without_its_leaf(make):
    parser = make("beam_size=4,constraints=all_words")
    lines = [*LINES, "leaf\u00a0leaf leaf"]  # two words: only ASCII blanks separate words
    for tree, line in zip(parser.translate(lines), lines, strict=True):
        assert tree_words(*parse_brackets(tree)) == line.split(" ")
    assert parser.parsed == 6 and not {"too few leaves", "too many leaves", "empty output"} & set(parser.repairs)


@pytest.mark.parametrize("setting", [{"constraints": "all_words"}, {"only_trees": True}])
def test_constraints_on_trees_are_refused_by_a_model_that_writes_none(vocabularies, setting):
    inputs, _ = vocabularies
    translator = Translator(Dictionary(range(inputs.size)), inputs, DecodeHParams(), xla_compile=False, num_threads=1)
    ((name, value),) = setting.items()
    with pytest.raises(UserError, match=f"{name}={value} is for parsing"):
        translator.translate(["leaf"], **setting)


@pytest.mark.slow
def test_hypotheses_keep_the_scores_of_their_symbols(make):
    parser = make("beam_size=3")
    best, *others = parser.n_best(["leaf leaf"])[0]
    assert best.text == "(TOP (XX leaf) (XX leaf))"
    # The three tokens, end symbol included, have a logit of 5 and all others 0.
    assert best.log_prob == pytest.approx(3 * (5 - np.log(np.exp(5) + 7)), abs=1e-4)
    assert all(other.score <= best.score for other in others)
    assert parser.translate(["leaf leaf"], return_scores=True) == [best]
    assert parser.parsed == 2  # the same line twice; only its best tree counts


@pytest.mark.parametrize("settings", ["beam_size=8", "beam_size=4,only_trees=True"])
def test_a_list_has_each_tree_once_with_its_best_score(make, settings):
    parser = make(settings)
    for line, beams in zip(LINES, parser.n_best(list(LINES)), strict=True):
        # For example, "(S XX )S" and "(S XX )S )NP" are the same tree after repair, but "(S XX )S XX" is another one.
        assert len({each.text for each in beams}) == len(beams) > 1
        assert beams[0] == parser.translate(line, return_scores=True)
        assert [each.score for each in beams] == sorted((each.score for each in beams), reverse=True)


def test_given_trees_are_cleaned_and_scored_without_their_words(make):
    parser = make("beam_size=1,alpha=0.3")
    (best,) = parser.translate(["leaf leaf"], return_scores=True)
    trees = ["(TOP (NN rain) (VBZ falls))", "(TOP (S (NN rain) (VBZ falls)))", "(TOP (S (NP (NN rain)) (VBZ falls)))"]
    scored, other, plain = parser.score(3 * ["leaf leaf"], trees)
    assert scored.log_prob == pytest.approx(best.log_prob, abs=1e-4) and other.log_prob < scored.log_prob
    assert scored.score == pytest.approx(best.score, abs=1e-4)
    assert scored.text == "(TOP (NN rain) (VBZ falls))"
    same = ["(S (NP (NN rain)) (VBZ falls))", "( (S (NP-SBJ (NN rain)) (VBZ falls)))"]
    same.append("(ROOT (S (NP (NN rain)) (VP (-NONE- *)) (VBZ falls)))")
    for each in parser.score(3 * ["leaf leaf"], same):
        assert each.log_prob == pytest.approx(plain.log_prob, abs=1e-4)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ("(TOP rain", r"'\(TOP rain' is not a tree in brackets"),
        ("", "'' is not one tree in brackets"),
        ("(TOP (NN a)) (TOP (NN b))", "is not one tree"),
        ("(TOP (-NONE- *))", "is not one tree"),
        ("(TOP (XX leaf) (XX leaf))", "the tree has 2 words, but the line has 1"),
    ],
)
def test_a_given_tree_that_does_not_match_its_line_is_an_error_with_the_line_number(make, tree, message):
    with pytest.raises(UserError, match=f"line 8: .*{message}|line 8: {message}"):
        make().score(["leaf", "leaf"], ["(TOP (XX leaf))", tree], first_line=7)


@pytest.mark.slow
def test_lines_are_tokenised_as_requested(make):
    assert "(-LRB- -LRB-) (XX do) (XX n't) (-RRB- -RRB-)" in make(split=split_as_treebank).translate(["(don't)"])[0]
    (tree,) = make().translate(["( leaf )"])
    assert tree_words(*parse_brackets(tree)) == ["-LRB-", "leaf", "-RRB-"]
