"""Draws a figure of the paper from a run."""

import argparse
from pathlib import Path

from t2t_lite.bin import cli
from t2t_lite.data.text_files import read_lines
from t2t_lite.decoding.loading import open_model
from t2t_lite.decoding.options import EngineOptions
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.parsing.parser import Parser
from t2t_lite.reproduce.figures import FIGURE_EXTENSIONS, Choices, draw_figure, sentence_for
from t2t_lite.system.tensorflow import import_tensorflow
from t2t_lite.visualization.figures import check_html, check_matplotlib


def draw(arguments: argparse.Namespace) -> None:
    folder = Path(arguments.output_dir)
    number = int(arguments.figure)
    source = open_model(arguments.run_dir)
    run_dir = source.run_dir
    check_html("figure")
    check_matplotlib("figure")
    for ending in FIGURE_EXTENSIONS if folder.is_dir() else ():
        file = folder / f"figure{number}{ending}"
        if file.is_dir():
            raise UserError(f"`output_dir={folder}`: {file} is a folder; remove it, or pass another folder")
    line = arguments.sentence
    if not line:
        side, _ = run_dir.problem.in_direction(("inputs", "targets"))
        path = run_dir.data_dir / run_dir.problem.text_filename("dev", side) if run_dir.data_dir else None
        if path is None or not path.exists():
            raise UserError(
                f"the dev split of {run_dir.path} is no longer where it was during training; pass `sentence`"
            )
        line = sentence_for(number, read_lines(path))
        if line is None:
            raise UserError(
                f"the dev split of {run_dir.path} has no suitable sentence for figure {number}; pass one with "
                f"`sentence`"
            )
    import_tensorflow()
    translator = Translator.of(source, EngineOptions(cli.warn))
    model = Parser(translator) if source.writes_trees else translator
    if not model.attention_layers.get("encoder"):
        raise UserError(f"{run_dir.path}: the encoder has no attention weights; choose a run whose encoder has")
    choices = Choices(arguments.layer, arguments.heads, arguments.word)
    drawn = draw_figure(number, model, line, model.translate(line), folder, choices)
    cli.say(drawn.caption)
    cli.say(f"wrote {', '.join(map(str, drawn.files))}")
