"""Tokenizes texts for a model, cuts long ones and warns about each cut text."""

from collections.abc import Callable, Sequence

from t2t_lite.config import DecodeHParams
from t2t_lite.data.vocab import EOS_ID, Vocabulary
from t2t_lite.decoding.engine import Engine

# Tokens usually have fewer characters than this, so only the beginning of a long text must be tokenized.
MAX_TOKEN_CHARACTERS = 64
# The name of a model's limit `max_positions` in messages.
LEARNED_POSITIONS = "the limit of the learned positions (max_length)"


def encode_lines(
    vocabulary: Vocabulary,
    lines: Sequence[str],
    decode_hparams: DecodeHParams,
    engine: Engine,
    warn: Callable[[str], None],
    first_line: int,
    name: str,
) -> tuple[list[list[int]], set[int]]:
    """Returns the ids of each text, with the end symbol, and the indices of the cut texts.

    `first_line` and `name`, such as "line", are for warnings.
    """
    limit = decode_hparams.max_input_length
    reason = f"max_input_length={limit}; raise it in `decode_hparams`"
    if engine.max_positions is not None and engine.max_positions <= limit:
        limit = engine.max_positions
        reason = f"{limit}, which is {engine.positions_limit}; split it"
        if engine.positions_limit == LEARNED_POSITIONS:
            reason += ", or train with a larger max_length"
    ids = _ids_of(vocabulary, [line[: limit * MAX_TOKEN_CHARACTERS] for line in lines])
    for number, line in enumerate(lines):
        if len(ids[number]) <= limit and len(line) > limit * MAX_TOKEN_CHARACTERS:
            ids[number] = _ids_of(vocabulary, [line])[0]  # has longer tokens, or long runs of spaces
    cut = {number for number, row in enumerate(ids) if len(row) > limit}
    for number in sorted(cut):
        warn(f"{name} {first_line + number} has {len(ids[number])} tokens and was cut to {reason}")
        # Cut before the end symbol is added, so that every source still ends with one.
        ids[number] = [*ids[number][: limit - 1], EOS_ID]
    return ids, cut


def _ids_of(vocabulary: Vocabulary, texts: Sequence[str]) -> list[list[int]]:
    return vocabulary.ids_of([text.encode("utf-8", errors="replace").decode() for text in texts])


def has_letters(text: str) -> bool:
    """Returns whether a text has a letter of any script. Digits, marks, emoji and punctuation are no letters."""
    return any(map(str.isalpha, text))
