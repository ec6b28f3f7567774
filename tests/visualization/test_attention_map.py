import numpy as np
import pytest

from t2t_lite.errors import UserError
from t2t_lite.reproduce.figures import draw_figure, sentence_for
from t2t_lite.visualization import attention, attention_map
from t2t_lite.visualization.attention import AttentionPicture, find_query
from t2t_lite.visualization.attention_map import attention_data, chosen_layers, head_statistics


class Weights:
    """Gives random weights for tokens that are written with "|" between them."""

    attention_layers = {"encoder": 2, "decoder": 2, "cross": 2}

    def attention(self, lines, outputs, kind, layer):
        return [self.of_line(line, output, kind, layer) for line, output in zip(lines, outputs, strict=True)]

    def of_line(self, line, output, kind, layer):
        sides = [[*text.split("|"), ""] if text else [""] for text in (line, output)]
        queries, keys = {"encoder": (0, 0), "decoder": (1, 1), "cross": (1, 0)}[kind]
        shape = 3, len(sides[queries]), len(sides[keys])
        weights = np.random.default_rng(layer % 2).random(shape)
        if kind == "decoder":
            weights = np.tril(weights)
        return weights / weights.sum(-1, keepdims=True), sides[queries], sides[keys]


def map_of(line, output="", kind="encoder", layer=0):
    return attention_map.attention_map(Weights(), line, output, kind, layer)


@pytest.mark.parametrize(
    ("tokens", "labels", "words"),
    [
        ("The| ani|mal| sleeps|.", ["The", "ani@@", "mal", "sleeps", ".", "<end>"], [0, 1, 1, 2, 3, 4]),
        # Blanks may stand after words, or be tokens; punctuation is a word of its own at the edges of a word only.
        ("a |(|b|) |.", ["a", "(", "b", ")", ".", "<end>"], [0, 1, 2, 3, 4, 5]),
        ("don|'|t|!|?", ["don@@", "'@@", "t", "!@@", "?", "<end>"], [0, 0, 0, 1, 1, 2]),
        # An unknown character is part of its word, although its sign is punctuation.
        (" caf|⁇| x", ["caf@@", "⁇", "x", "<end>"], [0, 0, 1, 2]),
        ("a| |b|c", ["a", "␣", "b@@", "c", "<end>"], [0, 0, 1, 1, 2]),
        # The bytes of a character: the first has the text.
        (" é||y| z|", ["é@@", "·@@", "y", "z", "·", "<end>"], [0, 0, 0, 1, 1, 2]),
        ("", ["<end>"], [0]),
    ],
)
def test_labels_and_words(tokens, labels, words):
    axis = map_of(tokens).keys
    assert (axis.labels, axis.words) == (labels, words)
    assert axis.special == [False] * (len(labels) - 1) + [True]


def test_the_decoder_reads_what_it_has_written_before():
    each = map_of("x", "Er| hebt|.", "decoder")
    assert each.queries.labels == ["Er", "hebt", ".", "<end>"]
    assert each.keys.labels == ["<start>", "Er", "hebt", "."]
    assert map_of("x| y", "Er", "cross").keys.labels == ["x", "y", "<end>"]


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_words_sum_keys_and_average_queries(kind):
    line, output = "The| ani|mal|s| sleep|.", "Die| Ti|ere| schla|fen|."
    tokens, words = map_of(line, output, kind), map_of(line, output, kind).in_words()
    for head in range(3):
        for query in range(len(words.queries)):
            rows = [place for place, word in enumerate(tokens.queries.words) if word == query]
            for key in range(len(words.keys)):
                columns = [place for place, word in enumerate(tokens.keys.words) if word == key]
                expected = np.mean([sum(tokens.weights[head, row, column] for column in columns) for row in rows])
                assert words.weights[head, query, key] == pytest.approx(expected, abs=1e-12)
    np.testing.assert_allclose(words.weights.sum(-1), 1.0, atol=1e-12)
    assert words.in_words().keys.labels == words.keys.labels
    assert [label for axis in (words.queries, words.keys) for label in axis.labels if "@" in label] == []
    if kind == "encoder":
        assert words.queries.labels == ["The", "animals", "sleep", ".", "<end>"]


def test_layers_are_chosen_by_kind():
    few = Weights()
    few.attention_layers = {"encoder": 4, "cross": 2}
    assert chosen_layers(few) == {"encoder": [0, 1, 2, 3], "cross": [0, 1]}
    assert chosen_layers(few, layers=[3, -1, 0]) == {"encoder": [3, 0], "cross": [1, 0]}
    assert chosen_layers(few, ["cross"], [-1]) == {"cross": [1]}
    last = attention_map.attention_map(few, "a", "b", "cross", -1)
    assert (last.kind, last.layer) == ("cross", 1)
    for choices, said in (
        ({"layers": [4]}, "there is no layer 4; choose from 0 to 3"),
        ({"kinds": ["decoder"]}, r"returns no attention weights of single heads \(decoder\)"),
        ({"layers": []}, "`layers` is empty"),
        ({"kinds": ["memory"]}, "'memory' is not a kind of attention"),
    ):
        with pytest.raises(UserError, match=said):
            chosen_layers(few, **choices)


def by_hand(maps):
    """The measures of head 1, written out as sums over queries and keys."""
    sums = dict.fromkeys(("distance", "tokens", "entropy", "previous", "same", "next", "end"), 0.0)
    count = 0
    for each in maps:
        for query in range(len(each.queries) - 1):  # without the end symbol
            count += 1
            for key in range(len(each.keys)):
                weight = each.weights[1, query, key]
                sums["entropy"] -= weight * np.log2(weight) if weight else 0.0
                if each.keys.special[key]:
                    sums["end"] += weight
                    continue
                offset = key - query - (1 if each.kind == "decoder" else 0)
                sums["distance"] += abs(offset) * weight
                sums["tokens"] += weight
                for name, neighbour in (("previous", -1), ("same", 0), ("next", 1)):
                    sums[name] += weight * (offset == neighbour)
    distance = sums.pop("distance") / sums.pop("tokens")
    return {"distance": distance} | {name: value / count for name, value in sums.items()}


@pytest.mark.parametrize(("kind", "left_out"), [("encoder", 0), ("decoder", 2), ("cross", 4)])
def test_measures_against_sums_by_hand(kind, left_out):
    maps = [map_of(line, output, kind) for line, output in (("a| b| c| d", "A| B| C"), ("e| f", "E| F| G| H"))]
    found, expected = head_statistics(maps), by_hand(maps)
    assert len(found.heads) == len(found.uniform) == 6 - left_out
    for name, values in found.heads.items():
        assert values[1] == pytest.approx(expected[name], abs=1e-9), name
    assert found.queries == (6 if kind == "encoder" else 7)


def test_uniform_attention_and_a_head_that_looks_back():
    each = map_of("a| b| c| d")
    back = np.zeros([1, 5, 5])
    back[0, 0, 4] = 1.0  # the first token has none before it, and looks at the end symbol
    back[0, range(1, 5), range(4)] = 1.0
    found = head_statistics([type(each)("encoder", 0, back, each.queries, each.keys)])
    expected = {"distance": 1.0, "entropy": 0.0, "previous": 0.75, "same": 0.0, "next": 0.0, "end": 0.25}
    assert {name: value for name, (value,) in found.heads.items()} == pytest.approx(expected, abs=1e-9)
    # Of uniform attention over 5 keys: log2(5) bits, a fifth on each; the mean of |i - j| over 4 tokens is 1.25.
    uniform = {"entropy": np.log2(5), "distance": 1.25, "previous": 3 / 4 / 5, "end": 1 / 5}
    assert {name: found.uniform[name] for name in uniform} == pytest.approx(uniform)
    # A decoder attends to the start symbol and what it has read: 1, 2, 3 keys.
    decoder = head_statistics([map_of("x", "A| B| C", "decoder")])
    assert decoder.uniform["entropy"] == pytest.approx((0 + 1 + np.log2(3)) / 3)
    assert decoder.uniform["end"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)


def test_a_query_is_a_word_or_an_index():
    words = map_of("The| dog|,| it's| 2|.")
    places = {"dog": 1, "it's": 3, "It's": 3, 0: 0, 5: 5, "2": 4, 4: 4, "5": 5, "<end>": 6}
    assert {query: find_query(words, query) for query in places} == places
    with pytest.raises(UserError, match="is not one of: The dog"):
        find_query(words, "@@")
    messages = {-1: "there are 3 queries; indices start at 0", 3: "there are 3", "9": "there are 3"}
    for query, message in (messages | {"²": "not one of", "": "not one of"}).items():
        with pytest.raises(UserError, match=message):
            find_query(map_of("a| b"), query)


def test_pictures_that_nobody_could_open_are_refused_and_halves_of_characters_drawn(monkeypatch, tmp_path):
    monkeypatch.setattr(attention_map, "MAX_WEIGHTS", 500)
    assert len(attention_data(Weights(), [("a| b", "c| d")])["sentences"]) == 1
    with pytest.raises(UserError, match="more than 500 attention weights"):
        attention_data(Weights(), [("a| b", "c| d")] * 4)
    picture = AttentionPicture(Weights(), [("a \udc80", "b")])
    assert "a ?" in picture.save(tmp_path / "a.html").read_text(encoding="utf-8")
    monkeypatch.setattr(attention, "_MAX_DRAWN", 20)
    picture = AttentionPicture(Weights(), [("a| b| c", "d")])
    with pytest.raises(UserError, match="48 weights are too many for one picture, which shows at most 20"):
        picture.save("never.svg")
    with pytest.raises(UserError, match="`heads` is empty"):
        AttentionPicture(Weights(), [("a", "b")], heads=[], form="matrix").save("never.svg")


class Local(Weights):
    """Looks at the token itself and its neighbours only, but for one word."""

    def of_line(self, line, output, kind, layer):
        _, queries, keys = super().of_line(line, output, kind, layer)
        places = np.arange(len(queries))
        weights = (abs(places[:, None] - places[None]) <= 1).astype(float)
        weights[2, 9] = 0.5
        return np.stack([weights / weights.sum(-1, keepdims=True)] * 3), queries, keys


def test_figures_3_and_4_find_their_words(tmp_path):
    line = "|".join(f" w{place}" for place in range(12))  # heads that look close by
    found = draw_figure(3, Local(), line, line, tmp_path)
    assert "The attention of “w2”: averaged over all heads, 14% of the weight" in found.caption
    text = "The man says it's in the park , with his old dog ."
    assert sentence_for(4, ["The man sees a dog in the park .", text]) == text
    assert sentence_for(4, ["The man says it's in the park , with a dog ."]) is None
    found = draw_figure(4, Weights(), "|".join(f" {word}" for word in text.split()), "x", tmp_path)
    assert "then what “his” attends to most" in found.caption
