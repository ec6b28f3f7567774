"""Options of a search: length limits, prefixes, no repeats, coverage, groups, samples."""

import dataclasses
from typing import ClassVar

import numpy as np
import pytest
import tensorflow as tf
from support.beams import beam_search
from support.random_model import EOS, LENGTH, SENTENCES, SOURCE, VOCAB, WIDE, Random, assert_finds, plain_search

from t2t_lite.decoding.search.beam_search import BeamSearch, Sampling, sample_tokens
from t2t_lite.decoding.search.beam_state import SearchInputs
from t2t_lite.decoding.search.scorer_terms import coverage_penalty


def without_repeats(size):
    def allowed(sentence, tokens):
        grams = [tokens[i : i + size] for i in range(len(tokens) - size + 1)]
        return len(set(grams)) == len(grams)

    return allowed


LEAST, PREFIXES = (1, 3, 4), ((2, 3), (), (3,))
# Rules of a search, and which outputs they allow a sentence.
RULES = {
    "min_lengths": ({"min_lengths": tf.constant(LEAST)}, lambda sentence, tokens: len(tokens) >= LEAST[sentence]),
    "min_length 1": ({"min_length": 1}, lambda sentence, tokens: EOS not in tokens[:1]),
    "min_length 3": ({"min_length": 3}, lambda sentence, tokens: EOS not in tokens[:3]),
    "prefixes": (
        {"prefixes": tf.constant([[2, 3], [0, 0], [3, 0]])},  # 0 is padding
        lambda sentence, tokens: tokens[: len(PREFIXES[sentence])] == PREFIXES[sentence],
    ),
    "no token twice": ({"no_repeat_ngram_size": 1}, without_repeats(1)),
    "no pair twice": ({"no_repeat_ngram_size": 2}, without_repeats(2)),
    "no triple twice": ({"no_repeat_ngram_size": 3}, without_repeats(3)),
    "no padding": ({"never": (0,)}, lambda sentence, tokens: 0 not in tokens),
    "forbidden tokens": ({"never": (0, 2)}, lambda sentence, tokens: not {0, 2} & {*tokens}),
}


@pytest.mark.parametrize("name", RULES)
def test_a_wide_beam_finds_all_outputs_that_a_rule_allows_best_first(name):
    rules, allowed = RULES[name]
    model = Random(length=6, vocab_size=3) if "twice" in name else Random()
    if "never" in rules:
        model.logits[:, :, :, list(rules["never"])] += 3.0  # a search would find them
    result = model.search(**rules)
    for sentence in range(SENTENCES):
        expected = model.best(sentence, lambda tokens, sentence=sentence: allowed(sentence, tokens))
        assert_finds(result, sentence, expected)


def test_a_prefix_overrides_the_other_rules():
    prefix = {"prefixes": tf.constant([[2, 2]] * SENTENCES)}
    for rule in ({"no_repeat_ngram_size": 1}, {"min_lengths": tf.fill([SENTENCES], 4)}, {"never": (0, 2)}):
        result = Random().search(4, **prefix, **rule)
        assert (result.ids[:, 0, :2].numpy() == 2).all() and (result.log_probs[:, 0].numpy() > -1e8).all()
        if "min_lengths" not in rule:  # the tokens after it obey the rule
            assert not (result.ids[:, 0, 2:].numpy() == 2).any()
    given = Random().search(4, min_length=3, prefixes=tf.constant([[EOS]] * SENTENCES))
    assert (given.ids[:, 0, 0].numpy() == EOS).all()


def test_the_coverage_penalty_sums_the_attention_to_each_source_token():
    model, beta = Random(), 0.7
    mask = np.arange(SOURCE)[None, :] < np.array([5, 3, 4])[:, None]
    result = model.search(coverage_beta=beta, source_mask=tf.constant(mask))
    plain = model.search()
    for sentence in range(SENTENCES):

        def added(tokens, sentence=sentence):
            covered = np.clip(model.coverage(sentence, tokens)[mask[sentence]], 1e-6, 1.0)
            return beta * np.log(covered).sum()

        assert_finds(result, sentence, model.best(sentence, lambda tokens: True, added))
    assert (result.ids[:, 0].numpy() != plain.ids[:, 0].numpy()).any()
    # log 0.5 + log 1 + log 1, because coverage above 1 counts as 1; the last token is padding
    found = coverage_penalty(tf.constant([0.5, 1.0, 1.7, 0.0]), tf.constant([True, True, True, False]), 0.2)
    np.testing.assert_allclose(found, 0.2 * np.log(0.5), rtol=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_a_search_for_the_best_output_only_stops_earlier(alpha):
    model = Random(sentences=20, vocab_size=6, length=30)
    model.logits[..., EOS] += 1
    found, most, sentences = [], [], SearchInputs(tf.fill([20], 30))
    for wanted in (0, 1):
        search = BeamSearch(6, 4, alpha, num_wanted=wanted)
        model.positions_run = 0
        found.append(search.advance(model.step(), search.start(sentences, (), 30), sentences).finished)
        most.append(model.positions_run)
    np.testing.assert_array_equal(found[0].ids[:, 0], found[1].ids[:, 0])
    np.testing.assert_array_equal(found[0].scores[:, 0], found[1].scores[:, 0])
    assert most[1] < most[0]


@dataclasses.dataclass(frozen=True)
class AtMost:
    """Token 2 occurs at most `most` times, and lowers the score by 1 each time."""

    most: int
    name: ClassVar[str] = "twos"

    def start(self, inputs, beam_size):
        return tf.zeros([tf.shape(inputs.limits)[0], beam_size], tf.int32)

    def apply(self, logits, unconstrained, state, inputs):
        is_two = tf.range(tf.shape(logits)[2]) == 2
        return tf.where(is_two & (state.features[self.name] >= self.most)[:, :, tf.newaxis], -1e9, logits)

    def extended(self, state, candidates, attention, inputs):
        before = tf.gather(state.features[self.name], candidates.parents, batch_dims=1)
        return before + tf.cast(candidates.tokens == 2, tf.int32)

    def score(self, extended, inputs):
        return -tf.cast(extended, tf.float32)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_constraint_may_keep_data_about_hypotheses(groups):
    model = Random()
    options = {"beam_size": WIDE * groups, "alpha": 0.6, "max_length": LENGTH, "never": (), "groups": groups}
    result = beam_search(model.step(), (), SENTENCES, VOCAB, **options, constraints=(AtMost(1),))
    for sentence in range(SENTENCES):
        allowed = model.best(sentence, lambda tokens: tokens.count(2) <= 1, lambda tokens: -tokens.count(2))
        assert_finds(result, sentence, [each for each in allowed for _ in range(groups)])
    with pytest.raises(ValueError, match="of its own"):
        BeamSearch(VOCAB, 4, 0.6, constraints=(AtMost(1), AtMost(2)))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("width", "groups", "strength"), [(2, 2, 0.5), (3, 2, 1.0), (2, 3, 0.3), (1, 3, 0.7)])
def test_groups_find_what_a_plain_diverse_search_finds(width, groups, strength, seed):
    model = Random(sentences=3, vocab_size=7, length=4, seed=seed, spread=1.0)
    result = model.search(width * groups, groups=groups, diversity_strength=strength)
    for sentence in range(3):
        expected = plain_search(model, sentence, width, 0.6, 4, groups, strength)
        rows = zip(result.ids[sentence].numpy(), result.lengths[sentence].numpy())
        assert sorted(tuple(ids[:length]) for ids, length in rows) == sorted(tokens for *_, tokens in expected)
        log_probs = sorted(log_prob for _, log_prob, _ in expected)
        np.testing.assert_allclose(sorted(result.log_probs[sentence].numpy()), log_probs, atol=1e-4)


NARROW = {
    "greedy": {"beam_size": 1},
    "groups": {"groups": 2, "diversity_strength": 0.5, "beam_size": 4},
    "sampling": {"groups": 4, "sampling": Sampling(0.8, 3, 0.9), "uniforms": tf.fill([SENTENCES, 4, LENGTH], 0.6)},
    "prefixes": {"prefixes": tf.constant([[3], [3], [0]]), "beam_size": 4},
}


@pytest.mark.parametrize("rules", NARROW.values(), ids=NARROW)
def test_forbidden_tokens_and_early_ends_are_in_no_output_and_do_not_change_other_scores(rules):
    model = Random()
    model.logits[:, :, :, [0, 2]] += 3.0
    result = model.search(**({"beam_size": 4, "never": (0, 2), "min_length": 2} | rules))
    for sentence in range(SENTENCES):
        exists = np.flatnonzero(result.log_probs[sentence].numpy() > -1e8)
        assert len(exists)
        for place in exists:
            tokens = tuple(result.ids[sentence, place, : result.lengths[sentence, place]].numpy().tolist())
            assert not {0, 2} & {*tokens} and EOS not in tokens[:2]
            np.testing.assert_allclose(result.log_probs[sentence, place], model.log_prob(sentence, tokens), atol=1e-4)


def samples_of(model, count, sampling, seed=0):
    uniforms = np.random.default_rng(seed).random((len(model.logits), count, model.length), "float32")
    rules = {"groups": count, "sampling": sampling, "uniforms": tf.constant(uniforms)}
    return model.search(count, **rules)


@pytest.mark.heavy
def test_samples_have_the_probabilities_of_the_model():
    model, many = (Random(sentences=1, length=2) for _ in range(2))
    many.logits, many.attention = (np.repeat(table, 40, axis=0) for table in (model.logits, model.attention))
    result = samples_of(many, 100, Sampling(1.0))
    assert result.ids.shape == (40, 100, 2)
    tokens, counts = np.unique(result.ids.numpy().reshape(-1, 2), axis=0, return_counts=True)
    for output in model.outputs():
        if output == (EOS,) or 0 not in output:
            found = counts[(tokens == (*output, 0)[:2]).all(1)].sum() / 4000
            assert abs(found - np.exp(model.log_prob(0, output))) < 0.03


def test_samples_report_the_log_probabilities_of_the_model():
    model = Random()
    result = samples_of(model, 5, Sampling(0.7, top_k=3))
    for sentence, sample in np.ndindex(SENTENCES, 5):
        tokens = tuple(result.ids[sentence, sample, : result.lengths[sentence, sample]].numpy())
        np.testing.assert_allclose(result.log_probs[sentence, sample], model.log_prob(sentence, tokens), atol=1e-4)


def test_sampling_with_a_low_temperature_or_one_candidate_is_greedy_search():
    model = Random(sentences=10, vocab_size=6, length=8)
    greedy = model.search(1)
    for sampling in (Sampling(1e-4), Sampling(1.0, top_k=1), Sampling(1.0, top_p=1e-6)):
        np.testing.assert_array_equal(samples_of(model, 1, sampling).ids, greedy.ids)


PROBABILITIES = np.array([0.05, 0.5, 0.1, 0.3, 0.05], "float32")


SAMPLINGS = {Sampling(1.0): [0, 1, 2, 3, 4], Sampling(2.0): [0, 1, 2, 3, 4], Sampling(1.0, top_k=2): [1, 3]}
SAMPLINGS |= {Sampling(1.0, top_p=0.5): [1], Sampling(1.0, top_p=0.51): [1, 3], Sampling(1.0, top_p=0.85): [1, 2, 3]}
SAMPLINGS |= {Sampling(1.0, top_k=2, top_p=0.99): [1, 3]}


@pytest.mark.parametrize(("sampling", "kept"), SAMPLINGS.items(), ids=str)
def test_draws_are_among_the_kept_tokens_in_proportion_to_their_probabilities(sampling, kept):
    uniforms = (np.arange(10_000, dtype="float32") + 0.5) / 10_000
    logits = np.broadcast_to(np.log(PROBABILITIES), (10_000, 5))
    drawn = sample_tokens(tf.constant(logits), tf.constant(uniforms), sampling).numpy()
    expected = np.zeros(5)
    expected[kept] = PROBABILITIES[kept] ** (1 / sampling.temperature)
    np.testing.assert_allclose(np.bincount(drawn, minlength=5) / 10_000, expected / expected.sum(), atol=2e-3)


def test_both_ends_of_the_uniform_range_give_a_valid_token():
    logits = tf.constant([[-np.inf, 0.0, 0.0, -np.inf]] * 2)
    np.testing.assert_array_equal(sample_tokens(logits, tf.constant([0.0, 1.0 - 2**-24]), Sampling(1.0)), [1, 2])


COMPILED = NARROW | {
    "min_lengths": {"min_lengths": tf.constant(LEAST)},
    "min_length": {"min_length": 2},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 2},
    "coverage": {"coverage_beta": 0.5, "source_mask": tf.ones([SENTENCES, SOURCE], tf.bool)},
}


@pytest.mark.slow
@pytest.mark.parametrize("rules", COMPILED.values(), ids=COMPILED)
def test_compiled_equals_uncompiled(rules):
    model = Random()
    search = lambda: model.search(**({"beam_size": 4} | rules))  # noqa: E731
    expected = search()
    found = tf.function(search, jit_compile=True, autograph=False)()
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)


def test_beams_that_do_not_fit_the_groups_are_refused():
    with pytest.raises(ValueError, match="3 groups do not fit beam_size 4"):
        BeamSearch(VOCAB, 4, 0.6, groups=3)
    with pytest.raises(ValueError, match="1 groups do not fit beam_size 4"):
        BeamSearch(VOCAB, 4, 0.6, sampling=Sampling(1.0))
