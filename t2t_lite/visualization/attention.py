"""Draws attention weights."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_lite.decoding.options import EngineOptions
from t2t_lite.errors import UserError
from t2t_lite.visualization.html import check_picture_file

if TYPE_CHECKING:
    from t2t_lite.decoding.translator import Translator
    from t2t_lite.parsing.parser import Parser
    from t2t_lite.visualization.attention_picture import AttentionPicture


def draw_attention(
    model: "Translator | Parser | str | PathLike",
    inputs: str | Sequence[str],
    targets: str | Sequence[str] | None = None,
    *,
    file: str | PathLike | None = None,
    kinds: Sequence[str] | None = None,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    form: str = "lines",
    words: bool | None = None,
    query: str | int | None = None,
) -> "AttentionPicture":
    """Draws the attention weights of a model for some sentences, as in figures 3 to 5 of the paper.

    Args:
      model: a `Translator`, a `Parser`, or a run directory.
      inputs: a sentence, or a list of up to 20 sentences.
      targets: the translation (or tree) of each sentence; None: the model generates them.
      file: where to save the picture: an .html file holds all sentences; .svg, .png and .pdf files hold one sentence.
      kinds: any of "encoder", "decoder" and "cross"; None: all in HTML, else the first kind that the model has.
      layers: counted from 0, -1 is the last; None: all in HTML and in an overview, else the layer that corresponds to
        the paper's layer 5 of 6.
      heads: counted from 0; None: all.
      form: "lines", as in the paper; "matrix"; or "overview", which shows all heads with their measures.
      words: whether to show words instead of subwords; None: at first in HTML, unless `query` is given. Weights are
        summed over a word's keys and averaged over its queries.
      query: the only query to draw lines for, as in figure 3, by its text or its index from 0; None: all queries.

    Returns:
      a picture. Notebooks display it, and `save(file)` writes it to a file.

    Raises:
      UserError: if a package of the extra `plot` is missing, the model provides no attention weights, or the layer,
        head or query does not exist.
    """
    if file is not None:
        check_picture_file(Path(file), "file")
    lines = [inputs] if isinstance(inputs, str) else list(inputs)
    given = [targets] if isinstance(targets, str) else targets
    if given is not None and len(given) != len(lines):
        raise UserError(f"there are {len(lines)} inputs but {len(given)} targets; pass one target per input")
    from t2t_lite.visualization.attention_picture import AttentionPicture

    if isinstance(model, str | PathLike):
        from t2t_lite.decoding.loading import open_model
        from t2t_lite.decoding.translator import Translator
        from t2t_lite.parsing.parser import Parser

        source = open_model(model)
        translator = Translator.of(source, EngineOptions())
        model = Parser(translator) if source.writes_trees else translator
    outputs = model.translate(lines) if given is None else given
    picture = AttentionPicture(
        model,
        list(zip(lines, outputs, strict=True)),
        kinds=kinds,
        layers=layers,
        heads=heads,
        form=form,
        words=words,
        query=query,
    )
    if file is not None:
        picture.save(file)
    return picture
