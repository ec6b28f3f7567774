"""Lists of tokens and bytes of tensor2tensor have the ids of its TokenTextEncoder and ByteTextEncoder."""

import pytest
import tensorflow as tf

from t2t_lite.data.vocab import import_vocabulary, open_vocabulary
from t2t_lite.errors import UserError
from t2t_lite.importing.t2t_model import import_t2t_vocabulary

# Of such a list as that of its problem translate_ende_wmt_bpe32k, whose unknown words are UNK.
LIST = "<pad>\n<EOS>\nUNK\nthe\nho@@\nuse\n.\né\n"


def token_list(folder, text=LIST):
    (folder / "vocab.bpe").write_text(text, encoding="utf-8")
    import_vocabulary(folder / "vocab.bpe", folder / "made")
    return open_vocabulary(folder / "made")


# The ids were computed by TokenTextEncoder("vocab.bpe", replace_oov="UNK").encode of tensor2tensor 1.15.7.
TOKENS = {
    "the ho@@ use .": [3, 4, 5, 6],
    "  the\tnew\u3000use\x1c. é ": [3, 2, 5, 6, 7],
    "The ho@@use\u00a0the": [2, 2, 3],
    "": [],
}
# And those by ByteTextEncoder().encode.
BYTES = {"aé\n": [99, 197, 171, 12], "\x00 ÿ": [2, 34, 197, 193], "": []}


def test_tokens(tmp_path):
    vocabulary = token_list(tmp_path)
    expected = [[*ids, 1] for ids in TOKENS.values()]
    assert vocabulary.size == 8 and vocabulary.unknown_id == 2
    assert vocabulary.ids_of(list(TOKENS)) == expected
    assert tf.function(vocabulary.encode)(tf.constant(list(TOKENS))).to_list() == expected
    texts = ["the ho@@ use .", "the UNK use . é", "UNK UNK the", ""]
    assert vocabulary.decode(expected) == texts
    padded = tf.ragged.constant(expected, tf.int32).to_tensor()
    assert [text.decode() for text in vocabulary.decode_in_graph(padded).numpy()] == texts


def test_without_a_token_for_unknown_words_they_are_errors(tmp_path):
    vocabulary = token_list(tmp_path, LIST.replace("UNK", "no"))
    assert vocabulary.unknown_id is None and vocabulary.ids_of(["no use"]) == [[2, 5, 1]]
    with pytest.raises(UserError, match="has no token 'house', and no UNK"):
        vocabulary.encode_all(["the house"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="lacks a token"):
        tf.function(vocabulary.encode)(tf.constant(["the house"]))


def test_bytes(tmp_path):
    import_t2t_vocabulary("bytes", tmp_path / "vocab")
    vocabulary = open_vocabulary(tmp_path / "vocab")
    expected = [[*ids, 1] for ids in BYTES.values()]
    assert vocabulary.size == 258 and vocabulary.unknown_id is None
    assert vocabulary.ids_of(list(BYTES)) == expected
    assert tf.function(vocabulary.encode)(tf.constant(list(BYTES))).to_list() == expected
    assert vocabulary.decode(expected) == list(BYTES)
    assert vocabulary.decode([[99, 197, 1]]) == ["a\ufffd"]
    assert len(set(vocabulary.tokens())) == 258
