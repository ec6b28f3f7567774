"""Draws the attention that --draw_attention asks for."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from t2t_lite.bin import cli
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.parsing.parser import Parser
from t2t_lite.visualization.attention import AttentionPicture
from t2t_lite.visualization.figures import FORMS, MAX_SENTENCES


def check_model(arguments: argparse.Namespace, translator: Translator) -> None:
    _picture(arguments, translator, [("a", "a")]).check(Path(arguments.draw_attention))


def draw_attention(
    arguments: argparse.Namespace, translator: Translator | Parser, pairs: Sequence[tuple[str, str]], lines: int
) -> None:
    """Draws the attention for the first of `pairs`.

    These are the first lines that are not blank, with their translations or trees; `lines` is the number of all such
    lines.
    """
    file = Path(arguments.draw_attention)
    chosen = pairs[: MAX_SENTENCES if file.suffix.lower() == ".html" else 1]
    if not chosen:
        raise UserError(f"{file} was not written because there is no line to draw")
    _picture(arguments, translator, chosen).save(file)
    left = lines - len(chosen)
    what = f"{len(chosen)} lines" if len(chosen) > 1 else "one line"
    cli.warn(f"drew the attention of {what} in {file}{f'; {left:,} more are left out' if left else ''}")


def _picture(
    arguments: argparse.Namespace, translator: Translator | Parser, pairs: Sequence[tuple[str, str]]
) -> AttentionPicture:
    options: dict[str, Any] = {name: getattr(arguments, name) for name in ("layers", "heads", "query")}
    options["words"] = arguments.words or None
    return AttentionPicture(translator, pairs, kinds=arguments.kind, form=arguments.form or FORMS[0], **options)
