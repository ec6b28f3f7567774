import itertools

import pytest
from support.letters import records_of
from support.vocabularies import vocabulary_paths

from t2t_lite.data.generation.generate import generate
from t2t_lite.data.problem import SPLITS, Example, get_problem
from t2t_lite.data.vocab import EOS_ID, open_vocabulary
from t2t_lite.problems.algorithmic import LETTERS, MAX_LENGTH

NAMES = ("algorithmic_copy", "algorithmic_reverse", "algorithmic_sort")
SIZES = {"train": 50_000, "dev": 500, "test": 500}


def pairs_of(name, split):
    return list(get_problem(name).examples(split, {}))


def is_right(name, letters, answer):
    if name == "algorithmic_copy":
        return len(letters) == len(answer) and all(one == other for one, other in zip(letters, answer))
    if name == "algorithmic_reverse":
        last = len(letters) - 1
        return len(letters) == len(answer) and all(answer[last - place] == one for place, one in enumerate(letters))
    in_order = all(ord(one) <= ord(next_one) for one, next_one in itertools.pairwise(answer))
    return in_order and all(letters.count(letter) == answer.count(letter) for letter in {*letters, *answer})


def test_answers_equal_those_written_by_hand():
    for name, answer in zip(NAMES, ("tabca", "acbat", "aabct")):
        assert get_problem(name).solve("tabca") == answer


@pytest.mark.parametrize("name", NAMES)
def test_every_answer_is_right_for_words_of_all_letters_and_lengths(name):
    for split in SPLITS:
        pairs = pairs_of(name, split)
        assert len(pairs) == SIZES[split]
        assert [pair for pair in pairs if not is_right(name, *pair)] == []
        assert {len(word) for word, _ in pairs} == set(range(1, 21)) and MAX_LENGTH == 20
        assert {letter for word, _ in pairs for letter in word} == set("abcdefghijklmnopqrst") == set(LETTERS)
    assert not is_right(name, "abc", "bca")  # the check can fail
    assert list(get_problem(f"{name}_rev").examples("test", {})) == pairs
    assert get_problem(f"{name}_rev").in_direction(Example("bca", "abc")) == ("abc", "bca")


@pytest.mark.parametrize("name", NAMES)
def test_long_words_are_in_one_split_only(name):
    words = {split: {inputs for inputs, _ in pairs_of(name, split) if len(inputs) >= 10} for split in SPLITS}
    for one, other in itertools.combinations(SPLITS, 2):
        assert words[one] and words[other] and not words[one] & words[other]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_each_letter_is_exactly_one_token_of_the_generated_data(name, tmp_path):
    class Few(type(get_problem(name))):
        data_name = name
        num_examples = {"train": 600, "dev": 30, "test": 30}

    problem = Few()
    manifest = generate(problem, tmp_path, tmp_path / "none", say=lambda line: None)
    vocabulary = open_vocabulary(vocabulary_paths(tmp_path, problem)[0])
    ids = {letter: vocabulary.encode_all([letter]).to_list()[0] for letter in LETTERS}
    assert all(len(tokens) == 2 and tokens[1] == EOS_ID for tokens in ids.values())
    assert len({tokens[0] for tokens in ids.values()}) == 20
    for split in SPLITS:
        source = pairs_of(name, split)[: problem.num_examples[split]]
        records = records_of(problem, tmp_path, split)
        rows = [[record["inputs"], record["targets"]] for record in records]
        found = [Example(*vocabulary.decode(each)) for each in rows]
        assert rows == [[[*(ids[letter][0] for letter in text), EOS_ID] for text in pair] for pair in found]
        assert sorted(found) == sorted(source)
        assert manifest.splits[split]["examples"] == len(source)
        assert {int(length) for length in manifest.splits[split]["lengths"]["inputs"]} <= set(range(2, 22))
