"""Searches in chunks, buckets and shrinking batches find the same outputs as one plain search."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.config import DecodeHParams, HParams
from t2t_lite.decoding.engine import Pairs
from t2t_lite.decoding.ensemble import Ensemble
from t2t_lite.decoding.options import EngineOptions
from t2t_lite.decoding.search.beam_search import BeamSearch
from t2t_lite.decoding.search.beam_state import SearchInputs, SearchResult
from t2t_lite.decoding.search.constraints import MinLength, NoRepeatNgram, Prefix
from t2t_lite.decoding.search.searcher import Searcher
from t2t_lite.decoding.tensorflow_engine import TensorFlowEngine
from t2t_lite.models.building import make_model

VOCAB = 24
SIZES = {"num_encoder_layers": 1, "num_decoder_layers": 2, "hidden_size": 16, "filter_size": 16, "num_heads": 2}
SIZES |= {"max_length": 150, "neighborhood_size": 8}


def make(seed=1, **changes):
    """A model whose outputs have many lengths; some never end."""
    model = make_model(HParams(**SIZES | changes), VOCAB)
    random = np.random.default_rng(seed)
    for variable in model.variables:
        if "norm" not in variable.path:
            spread = 1.0 if "embedding" in variable.path else variable.shape[0] ** -0.5
            variable.assign(random.normal(0.0, spread, variable.shape).astype("float32"))
    return model


def sources(lengths, seed=0):
    random = np.random.default_rng(seed)
    inputs = np.zeros((len(lengths), max(lengths)), "int32")
    for row, length in zip(inputs, lengths):
        row[: length - 1] = random.integers(2, VOCAB, length - 1)
        row[length - 1] = 1
    return inputs


def plain(model, search, inputs, limits, **known):
    """One search without buckets, chunks or compilation, with caches of full capacity from the start."""

    @tf.function(autograph=False)  # eager execution takes four times as long
    def run():
        sentences = SearchInputs(tf.constant(limits), **tf.nest.map_structure(tf.constant, known))
        encoded_source, state = model.start_decoding(tf.constant(inputs), search.beam_size, max(limits))
        loop = search.start(sentences, state, max(limits))

        def step(ids, position, state, ancestry):
            return model.decode_step(ids, position, encoded_source, state, ancestry)

        return search.result(search.advance(step, loop, sentences).finished)

    return SearchResult(*(part.numpy() for part in run()))


def assert_same(found, expected):
    longest = min(found.ids.shape[2], expected.ids.shape[2])
    np.testing.assert_array_equal(found.ids[:, :, :longest], expected.ids[:, :, :longest])
    assert not found.ids[:, :, longest:].any() and not expected.ids[:, :, longest:].any()
    np.testing.assert_array_equal(found.lengths, expected.lengths)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5, atol=5e-6)
    np.testing.assert_allclose(found.log_probs, expected.log_probs, rtol=1e-5, atol=5e-6)


LENGTHS = [3, 9, 17, 33, 40, 2, 7, 7, 12, 30, 31, 32]
PARTS = (64, 4096)  # positions per batch: single long sentences; all sentences together
LIMITS = np.array([40, 9, 100, 70, 45, 1, 64, 65, 32, 33, 5, 90], "int32")
# Settings of the model, of the search, and of the searcher: pairwise combinations, and every kind of cache.
SEARCHES = [
    *(({}, *row) for row in ((1, PARTS[0], True), (1, PARTS[1], False), (3, PARTS[0], False), (3, PARTS[1], True))),
    ({"hard_alignment_token": 4}, 3, 256, False),
    ({"self_attention_type": "local"}, 3, 256, True),
    ({"position_encoding": "rotary", "norm_position": "pre"}, 3, 256, True),
    ({"self_attention_type": "recurrent", "position_encoding": "learned"}, 3, 256, True),
    ({"self_attention_type": "convolution"}, 3, 256, True),
    ({"position_encoding": "relative", "hard_alignment_token": 4}, 3, 256, True),
]


@pytest.mark.heavy
@pytest.mark.parametrize(("changes", "beam_size", "batch_tokens", "xla_compile"), SEARCHES, ids=str)
def test_the_searcher_finds_what_a_plain_search_finds(changes, beam_size, batch_tokens, xla_compile):
    model, search, inputs = make(**changes), BeamSearch(VOCAB, beam_size, 0.6), sources(LENGTHS)
    expected = plain(model, search, inputs, LIMITS)
    # Sentences end at different positions, and in more than two capacities of the caches.
    assert len(set(expected.lengths[:, 0])) > 4 and expected.lengths[:, 0].max() > (32 if changes else 64)
    assert_same(Searcher(model, search, batch_tokens, xla_compile)(inputs, SearchInputs(LIMITS)), expected)
    if not xla_compile:
        pair = Ensemble([model, model])
        assert_same(Searcher(pair, search, batch_tokens, xla_compile)(inputs, SearchInputs(LIMITS)), expected)


@pytest.mark.heavy
@pytest.mark.parametrize(("batch_tokens", "xla_compile"), [(PARTS[1], True), (PARTS[0], False)])
def test_a_search_that_is_looked_at_finds_the_same_and_can_be_ended(batch_tokens, xla_compile):
    searcher, inputs = Searcher(make(), BeamSearch(VOCAB, 3, 0.6), batch_tokens, xla_compile), sources(LENGTHS)
    calls = []
    found = searcher(inputs, SearchInputs(LIMITS), lambda: calls.append(True))
    assert_same(found, searcher(inputs, SearchInputs(LIMITS)))
    longest = found.lengths.max()
    assert len(calls) > 5 and longest > 64  # caches grow more seldom: their capacity doubles

    def end():
        calls.pop()
        if not calls:
            raise InterruptedError

    del calls[4:]
    with pytest.raises(InterruptedError):
        searcher(inputs, SearchInputs(LIMITS), end)
    assert_same(searcher(inputs, SearchInputs(LIMITS)), found)


@pytest.mark.heavy
def test_sentences_that_leave_the_batch_at_different_times_do_not_change_results():
    model, search = make(), BeamSearch(VOCAB, 2, 1.0)
    inputs = sources([5 + i % 9 for i in range(60)])
    limits = np.array([2 + (7 * i) % 90 for i in range(60)], "int32")
    expected = plain(model, search, inputs, limits)
    for batch_tokens in (100, 2048):
        assert_same(Searcher(model, search, batch_tokens, xla_compile=False)(inputs, SearchInputs(limits)), expected)


@pytest.mark.heavy
def test_constraints_stay_with_their_sentences():
    model, inputs = make(), sources(LENGTHS)
    prefixes = np.array([[2 + i % 20, 3, 0] if i % 2 else [0, 0, 0] for i in range(12)], "int32")
    known = {"min_lengths": np.minimum(LIMITS, 35).astype("int32"), "prefixes": prefixes}
    constraints = (MinLength(), NoRepeatNgram(3), Prefix((0,)))
    search = BeamSearch(VOCAB, 4, 0.6, groups=2, constraints=constraints, never=(), coverage_beta=0.1)
    expected = plain(model, search, inputs, LIMITS, source_mask=inputs != 0, constraint_inputs=known)
    found = Searcher(model, search, 128, xla_compile=False)(inputs, SearchInputs(LIMITS, constraint_inputs=known))
    assert_same(found, expected)


@pytest.mark.slow
def test_an_ensemble_averages_the_probabilities():
    models, inputs = [make(0), make(1, num_decoder_layers=1)], sources([5, 3])
    targets = np.array([[4, 7, 1], [9, 1, 0]], "int32")
    mean = np.mean([tf.nn.softmax(model(inputs, targets)) for model in models], axis=0)
    np.testing.assert_allclose(np.exp(Ensemble(models)(inputs, targets)), mean, atol=1e-6)
    search = BeamSearch(VOCAB, 1, 0.0)
    result = Searcher(Ensemble(models), search, 256, xla_compile=False)(inputs, SearchInputs(np.array([6, 6], "int32")))
    tokens, log_prob = [], 0.0
    while len(tokens) < 6 and 1 not in tokens:  # greedy search with the mean, by full passes
        padded = np.array([[*tokens, 1]] * 2, "int32")
        following = np.mean([tf.nn.softmax(model(inputs, padded))[0, -1] for model in models], axis=0)
        tokens, log_prob = [*tokens, int(following.argmax())], log_prob + np.log(following.max())
    assert result.ids[0, 0, : result.lengths[0, 0]].tolist() == tokens
    np.testing.assert_allclose(result.log_probs[0, 0], log_prob, rtol=1e-4)


@pytest.mark.parametrize("batch_tokens", [1, 64, 100, 2048])
def test_a_batch_never_exceeds_batch_tokens(batch_tokens):
    searcher = Searcher(make(), BeamSearch(VOCAB, 3, 0.6), batch_tokens)
    for length in (1, 32, 33, 100, 1000):
        rows = searcher.batch_size_of(length)
        assert rows == 1 or rows * length <= batch_tokens


@pytest.mark.heavy
def test_batches_have_few_shapes():
    shapes = set()
    model, search = make(), BeamSearch(VOCAB, 2, 0.6)
    step = model.decode_step

    def counted(ids, position, encoded_source, state, ancestry):
        shapes.add((tuple(encoded_source.source_mask.shape), tuple(ancestry.ancestors.shape)))
        return step(ids, position, encoded_source, state, ancestry)

    model.decode_step = counted
    tf.config.run_functions_eagerly(True)
    try:
        searcher = Searcher(model, search, 1024, xla_compile=True)  # eagerly, so nothing is compiled
        for seed, lengths in enumerate([[3] * 20, [9], [17] * 3, [30] * 32, [5] * 11, [20]]):
            searcher(sources(lengths, seed), SearchInputs(np.full(len(lengths), 17, "int32")))
    finally:
        tf.config.run_functions_eagerly(False)
    shapes = {(mask, ancestors) for mask, ancestors in shapes if None not in mask}  # except those of the first trace
    assert {ancestors[0] for _, ancestors in shapes} <= {1, 8, 16, 32}
    assert {mask[3] for mask, _ in shapes} == {16, 32} and {ancestors[2] for _, ancestors in shapes} == {32}


@pytest.mark.heavy
def test_threads_share_a_searcher():
    model, search = make(), BeamSearch(VOCAB, 3, 0.6)
    searcher = Searcher(model, search, 512)
    batches = [sources([2 + (i + j) % 20 for j in range(6)], seed=i) for i in range(4)]
    limits = SearchInputs(np.full(6, 20, "int32"))
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda batch: searcher(batch, limits), batches))
    for batch, result in zip(batches, found):
        assert_same(result, plain(model, search, batch, limits.limits))


KINDS = {
    "the paper's": {},
    "pre": {"norm_position": "pre"},
    "modern": {"norm_position": "pre", "norm_type": "rms", "feed_forward_type": "swiglu"},
    **{name: {"position_encoding": name} for name in ("rotary", "relative", "learned")},
    **{name: {"self_attention_type": name} for name in ("local", "recurrent", "convolution")},
    "parameters": {"feed_forward_type": "attention", "parameter_heads": 2, "parameter_head_size": 8},
    "untied": {"tied_embeddings": "none", "hard_alignment_token": 5},
    "ensemble": None,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_teacher_forcing(kind):
    """A search that mixed up its cache entries would find other outputs; that happened once when caches grew."""
    if kind == "ensemble":
        model = Ensemble([make(seed=1), make(seed=2, norm_position="pre")])
    else:
        model = make(seed=3, **KINDS[kind])
    inputs, limits = sources([3, 9, 17, 33, 2, 7]), np.array([12, 9, 40, 35, 1, 40], "int32")
    searcher = Searcher(model, BeamSearch(VOCAB, 4, 0.6, never=(0, 2)), 4096, xla_compile=False)
    result = searcher(inputs, SearchInputs(limits))
    assert (result.log_probs > -1e8).all()
    assert result.lengths.max() > 24  # unused cache entries have been left out more than once
    outputs = [ids[:length].tolist() for ids, length in zip(result.ids.reshape(24, -1), result.lengths.ravel())]
    assert not any({0, 2} & set(output) for output in outputs)
    repeated = [row[row != 0].tolist() for row in np.repeat(inputs, 4, axis=0)]
    scores, log_probs = zip(*TensorFlowEngine(model, EngineOptions()).score(Pairs(repeated, outputs), DecodeHParams()))
    np.testing.assert_allclose(result.scores.ravel(), scores, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(result.log_probs.ravel(), log_probs, rtol=1e-5, atol=1e-4)


def test_padding_within_an_output_is_not_scored():
    with pytest.raises(ValueError, match="contains id 0, which is padding"):
        TensorFlowEngine(make(), EngineOptions()).score(Pairs([[3, 1]], [[4, 0, 5, 1]]), DecodeHParams())
