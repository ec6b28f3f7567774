"""Tokenizes the texts for a model, cuts long ones and warns about each text that is cut."""

from collections.abc import Callable, Sequence

from t2t_lite.config import DecodeHParams
from t2t_lite.data.vocab import EOS_ID, Vocabulary

# A token has fewer characters than this, which bounds how much of a long text has to be tokenized.
MAX_TOKEN_CHARACTERS = 64
# What messages call the limit of a model's `max_positions`.
LEARNED_POSITIONS = "the limit of the learned positions (max_length)"


def encode_lines(
    vocabulary: Vocabulary,
    lines: Sequence[str],
    decode_hparams: DecodeHParams,
    max_positions: int | None,
    warn: Callable[[str], None],
    first_line: int,
    name: str,
    positions_limit: str = LEARNED_POSITIONS,
    on_cut: Callable[[int], None] = lambda row: None,
) -> list[list[int]]:
    """Returns the ids of each text, with the end symbol.

    Args:
      vocabulary: the vocabulary of the texts.
      lines: the texts.
      decode_hparams: max_input_length is used.
      max_positions: see `Seq2SeqModel.max_positions`.
      warn: receives a line about each text that is cut.
      first_line: the number of the first text, for warnings.
      name: what warnings call a text, such as "line".
      positions_limit: what warnings call the limit of `max_positions`.
      on_cut: receives the index of each text that is cut.
    """
    limit = decode_hparams.max_input_length
    reason = f"max_input_length={limit}; raise it in `decode_hparams`"
    if max_positions is not None and max_positions <= limit:
        limit = max_positions
        reason = f"{limit}, which is {positions_limit}; split it"
        if positions_limit == LEARNED_POSITIONS:
            reason += ", or train with a larger max_length"
    cut = (line[: limit * MAX_TOKEN_CHARACTERS] for line in lines)
    ids = vocabulary.ids_of([text.encode("utf-8", errors="replace").decode() for text in cut])
    for number, row in enumerate(ids):
        if len(row) > limit:
            warn(f"{name} {first_line + number} has {len(row)} tokens and was cut to {reason}")
            on_cut(number)
            # Cut before the end symbol, so that every source still ends with one.
            ids[number] = [*row[: limit - 1], EOS_ID]
    return ids
