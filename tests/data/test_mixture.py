import collections
import contextlib
import itertools

import pytest
from support.letters import contents_of, records_of, silent
from support.vocabularies import vocabulary_paths

from t2t_lite.data.generation.generate import generate
from t2t_lite.data.manifest import read_manifest
from t2t_lite.data.mixture import Mixture, Part
from t2t_lite.data.problem import SIDES, SPLITS, Example, Problem, get_problem
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.errors import UserError
from t2t_lite.registry import PROBLEMS


class MixtureTestProblem(Problem):
    """Numbered pairs that contain the name of their problem."""

    word = ""
    sizes = {"train": 0, "dev": 0, "test": 0}
    vocab_size = 300
    byte_fallback = False

    def examples(self, split, files):
        for number in range(self.sizes[split]):
            yield Example(f"{self.word} {split} {number}", f"{number} {split} {self.word}".upper())


class Dropped(MixtureTestProblem):
    """Every fourth pair is dropped."""

    def examples(self, split, files):
        for number, pair in enumerate(super().examples(split, files)):
            yield Example("", pair.targets) if number % 4 == 3 else pair


def problem_of(word, *sizes, base=MixtureTestProblem):
    kind = type("Sized", (base,), {"word": word, "sizes": dict(zip(SPLITS, sizes)), "__doc__": "For tests."})
    PROBLEMS.register(kind, name=f"mixture_test_{word}")
    return f"mixture_test_{word}"


APPLES, PEARS, HOLLOW = problem_of("apple", 400, 3, 2), problem_of("pear", 150, 1, 4), problem_of("hollow", 0, 0, 0)
DROPPED, MANY = problem_of("plum", 100, 8, 8, base=Dropped), problem_of("many", 30_000, 1, 1)
SOME = problem_of("some", 7_001, 1, 1)


def mixture_of(*its_parts, **settings):
    return type("MixtureTest", (Mixture,), {"parts": its_parts, "vocab_size": 300, "num_shards": 3, **settings})


def pairs_of(problem, split="train"):
    return list(problem.examples(split, {}))


def counts_of(pairs):
    """The number of copies of each pair of each fruit: {"apple": Counter of pairs}."""
    counts = collections.defaultdict(collections.Counter)
    for pair in pairs:
        word = next(word for word in ("apple", "pear", "plum", "many", "some") if word in f"{pair}".lower())
        counts[word][pair] += 1
    return counts


def test_without_weights_every_pair_occurs_once():
    both = pairs_of(get_problem(APPLES)) + pairs_of(get_problem(PEARS))
    assert sorted(pairs_of(mixture_of(Part(APPLES), Part(PEARS))())) == sorted(both) and len(both) == 550


@pytest.mark.parametrize(
    "weights, apples, pears",
    [
        ((1, 1), 400, 400),  # the 150 pears twice, and 100 of them once more
        ((2, 1), 400, 200),
        ((1, 2), 400, 800),  # 5 times, and 50 once more
        ((8, 3), 400, 150),  # in proportion to their sizes
        ((4, 1), 600, 150),  # the apples must be four times as many, although there are already more of them
        ((0.5, 0.25), 400, 200),
        ((1, 0.1), 1500, 150),
        ((3, 7), 400, 933),  # 933.3
    ],
)
def test_weights_decide_the_counts_and_repeat_pairs_evenly(weights, apples, pears):
    parts = [Part(name, weight) for name, weight in zip((APPLES, PEARS), weights)]
    counts = counts_of(pairs_of(mixture_of(*parts)()))
    assert (counts["apple"].total(), counts["pear"].total()) == (apples, pears)
    for word, name in (("apple", APPLES), ("pear", PEARS)):
        assert set(counts[word]) == set(pairs_of(get_problem(name)))
        assert max(counts[word].values()) - min(counts[word].values()) <= 1


def test_unusable_pairs_of_a_part_are_dropped_and_not_counted():
    mixture = mixture_of(Part(DROPPED, 1, tag="<p>"), Part(PEARS, 1))()
    counts = counts_of(pairs_of(mixture))
    assert (counts["plum"].total(), counts["pear"].total()) == (150, 150)
    assert len(counts["plum"]) == 75 and set(counts["plum"].values()) == {2}
    assert len(pairs_of(mixture, "dev")) == 6 + 1
    assert not [
        pair for split in ("train", "dev") for pair in pairs_of(mixture, split) if mixture.drop_reason(split, pair)
    ]


@pytest.mark.parametrize("weight", [0, 1])
def test_parts_are_interleaved_evenly(weight):
    pairs = pairs_of(mixture_of(Part(MANY, 3 * weight), Part(APPLES, weight), Part(SOME, 2 * weight))())
    totals = {"many": 30_000, "apple": 10_000 if weight else 400, "some": 20_000 if weight else 7_001}
    assert len(pairs) == sum(totals.values())
    seen = collections.Counter()
    for done, pair in enumerate(pairs, start=1):
        seen[pair.inputs.split()[0]] += 1
        if done % 97 == 0 or done == len(pairs):
            for word, total in totals.items():
                assert abs(seen[word] - total * done / len(pairs)) <= 1000, (done, seen)
    assert seen == totals


@pytest.mark.parametrize("weights", [(0, 0, 0), (1, 1, 1)])
def test_a_part_contributes_to_its_splits_only(weights):
    first, second, third = weights
    mixture = mixture_of(
        Part(APPLES, first, splits=("train",)), Part(PEARS, second), Part(MANY, third, splits=("dev", "test"))
    )()
    counts = counts_of(pairs_of(mixture))
    assert {word: count.total() for word, count in counts.items()} == {"apple": 400, "pear": 400 if second else 150}
    for split in ("dev", "test"):
        assert pairs_of(mixture, split) == pairs_of(get_problem(PEARS), split) + pairs_of(get_problem(MANY), split)


def test_a_reversed_part_swaps_its_sides_and_tags_come_before_the_source():
    mixture = mixture_of(Part(PEARS, tag="<to>"), Part(f"{PEARS}_rev", tag="<fro>"))()
    forward = [Example(f"<to> {inputs}", targets) for inputs, targets in pairs_of(get_problem(PEARS))]
    backward = [Example(f"<fro> {targets}", inputs) for inputs, targets in pairs_of(get_problem(PEARS))]
    assert sorted(pairs_of(mixture)) == sorted(forward + backward)
    assert pairs_of(mixture, "dev") == [("<to> pear dev 0", "0 DEV PEAR"), ("<fro> 0 DEV PEAR", "pear dev 0")]
    assert mixture.symbols == ("<to>", "<fro>")


@pytest.mark.parametrize("weights", [(1, 0), (0, 0.5), (-1, 1), (-1, -1)])
def test_weights_below_zero_or_for_only_some_parts_are_refused(weights):
    with pytest.raises(UserError, match="'mixture_test': set a weight above 0 for all parts or for none"):
        mixture_of(Part(APPLES, weights[0]), Part(PEARS, weights[1]))()


ONCE = "apple: 400 train pairs, each once"


def of_epoch(times, pairs):
    return f"pear: 150 train pairs, each {times} in all", f"an epoch has {pairs} times as many as the parts"


@pytest.mark.parametrize(
    ("first", "weights", "lines", "refused"),
    [
        (APPLES, (0, 0), [ONCE, "pear: 150 train pairs, each once"], ""),
        (APPLES, (3, 7), [ONCE, *of_epoch("6.2 times, 933", "1,333 pairs, 2.4")], ""),
        (
            APPLES,
            (0.001, 1),
            [ONCE, *of_epoch("2,666.7 times, 400,000", "400,400 pairs, 728.0")],
            "pear 2,666.7 times, in an epoch of 400,400 pairs, 728.0 times",
        ),
        (APPLES, (1, 25), [], ""),
        (APPLES, (25, 1), [], ""),
        (APPLES, (1, 36), [], "pear 96.0 times, in an epoch of 14,800 pairs, 26.9 times"),
        (MANY, (1, 1), [], "pear 200.0 times, in an epoch of 60,000 pairs, 2.0 times"),
        (APPLES, (1e-320, 1), [], "the weights are too different: 1 and "),
    ],
)
def test_an_epoch_is_described_first_and_refused_if_it_repeats_too_much(first, weights, lines, refused):
    kind = mixture_of(*(Part(*each) for each in zip((first, PEARS), weights)))
    said = []
    with pytest.raises(UserError, match=refused) if refused else contextlib.nullcontext():
        kind().check_corpus({}, said.append)
    assert [line.removeprefix("mixture_test_") for line in said][: len(lines)] == lines
    if "epoch" in refused:
        kind(allow_repeats="True").check_corpus({}, said.append)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (HOLLOW, f"the part '{HOLLOW}' has no train examples"),
        ("mixture_test_aple", f"unknown problem 'mixture_test_aple'.*'{APPLES}'"),
    ],
)
def test_a_part_that_is_unknown_or_has_no_pairs_is_an_error_that_names_it(name, message):
    with pytest.raises(UserError, match=message):
        pairs_of(mixture_of(Part(APPLES), Part(name))())


@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_a_tag_is_a_single_token_at_the_start_of_each_source(tmp_path, kind):
    tags = ("<2apple>", "<2pear>")
    parts = [Part(name, tag=tag) for name, tag in zip((APPLES, PEARS), tags)]
    mixture = mixture_of(*parts, vocab_kind=kind, vocab_size=400)()
    generate(mixture, tmp_path, tmp_path / "none", say=silent)
    vocabulary = open_vocabulary(vocabulary_paths(tmp_path, mixture)[0])
    found = []
    for record in records_of(mixture, tmp_path, "train"):
        inputs, targets = (vocabulary.tokens_of(record[side]) for side in SIDES)
        assert next(part for part in inputs if part.strip()) in tags
        assert sum(part in tags for part in inputs) == 1 and not set(tags) & set(targets)
        found.append(Example("".join(inputs).removeprefix(" "), "".join(targets).removeprefix(" ")))
    assert sorted(found) == sorted(pairs_of(mixture))


# The first pass counts; in the second, the first 32,768 pairs are kept before the rest is encoded.
@pytest.mark.slow
@pytest.mark.parametrize("where", [2, "train"])
def test_an_interrupted_generation_resumes_and_ends_with_the_same_bytes(tmp_path, where):
    kind = mixture_of(Part(MANY, 2, tag="<many>"), Part(APPLES, 0.5), Part(f"{PEARS}_rev", 0.5))
    passes = itertools.count(1)

    class Interrupted(kind):
        data_name = "mixture_test"

        def examples(self, split, files):
            stops = split == "train" and next(passes) == where
            yield from itertools.islice(super().examples(split, files), 40_000 if stops else None)
            if stops:
                raise KeyboardInterrupt

    def interrupt(line):
        if line.startswith(f"mixture_test: {where}"):
            raise KeyboardInterrupt

    generate(kind(), tmp_path / "whole", tmp_path / "none", say=silent)
    with pytest.raises(KeyboardInterrupt):
        generate(Interrupted(), tmp_path / "data", tmp_path / "none", say=interrupt)
    assert len(list((tmp_path / "data").rglob("chunk-*"))) == (where == 2)
    generate(kind(), tmp_path / "data", tmp_path / "none", say=silent)
    assert contents_of(tmp_path / "data") == contents_of(tmp_path / "whole")
    splits = read_manifest(tmp_path / "whole", kind()).splits
    assert splits["train"]["examples"] == 30_000 + 7500 + 7500
    assert splits["dev"]["examples"] == 1 + 3 + 1
