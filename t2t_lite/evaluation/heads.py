"""Measures how far and how sharply the attention heads of a checkpoint attend, and reports it."""

import dataclasses
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from t2t_lite.decoding.loading import open_model
from t2t_lite.decoding.options import EngineOptions
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.evaluation.evaluate import make_request
from t2t_lite.evaluation.options import EvalOptions
from t2t_lite.evaluation.stored import table
from t2t_lite.parsing.parser import Parser
from t2t_lite.visualization import attention_map
from t2t_lite.visualization.attention_map import MEASURES

_FORMATS = {measure.name: "{:.1%}" if measure.is_share else "{:.2f}" for measure in MEASURES}


@dataclasses.dataclass(frozen=True)
class HeadsReport:
    """Measurements of a checkpoint's attention heads.

    Args:
      content: JSON data: "run", "checkpoint", "split", the number of "lines", and "layers": for each, its "kind" of
        attention, its index "layer", the measures of its "heads" and of "uniform" attention by name, and the number of
        measured "queries".
    """

    content: Mapping[str, Any] = dataclasses.field(hash=False)

    def report(self) -> str:
        """Returns the report in Markdown: the most unusual heads, then all heads."""
        content, layers = self.content, self.content["layers"]
        lines = [
            f"# {content['run']}: attention heads of {content['checkpoint']} on {content['lines']:,} lines of "
            f"{content['split']}",
            "",
            "Measured with teacher forcing on the references. Uniform attention over the same tokens is the baseline. "
            "Distances are in tokens, entropies in bits.",
            "",
            *table(["", "head", "measured", "uniform"], _most_unusual(layers)),
        ]
        for kind in dict.fromkeys(layer["kind"] for layer in layers):
            of_kind = [each for each in layers if each["kind"] == kind]
            uniform = of_kind[0]["uniform"]
            rows = [
                [
                    f"layer {layer['layer']}, head {head}",
                    *(_FORMATS[name].format(layer["heads"][name][head]) for name in layer["uniform"]),
                ]
                for layer in of_kind
                for head in range(len(next(iter(layer["heads"].values()))))
            ]
            rows.append(["uniform", *(_FORMATS[name].format(value) for name, value in uniform.items())])
            titles = ["", *(measure.label for measure in MEASURES if measure.name in uniform)]
            lines += ["", f"All heads, {kind}:", "", *table(titles, rows)]
        return "\n".join(lines) + "\n"


def measure_heads(
    output_dir: str | PathLike,
    split: str = "dev",
    *,
    data_dir: str | PathLike | None = None,
    checkpoint_path: str | PathLike | None = None,
    lines: int = 500,
) -> HeadsReport:
    """Measures the attention heads of a checkpoint on a split, as t2t-lite-eval --heads does.

    The measures are how far and how sharply each head attends, and how much weight each neighbour receives, compared
    with uniform attention.

    Args:
      output_dir: the run directory.
      split: "dev" or "test"; the decoder reads its references (teacher forcing).
      data_dir: the folder with the data of the run's problem; None: the folder that the training used.
      checkpoint_path: which checkpoint, see `evaluate`.
      lines: the maximum number of lines to measure, from the start of the split.

    Raises:
      UserError: if the run, the checkpoint or the data is unusable, or the model provides no attention weights.
    """
    options = EvalOptions(checkpoint_path, split=split, data_dir=data_dir)
    request = make_request(open_model(output_dir, checkpoint_path), options)
    inputs, (targets, *_) = request.texts()
    if not (pairs := [pair for pair in zip(inputs, targets) if all(text.strip() for text in pair)][:lines]):
        raise UserError("cannot measure heads: no line has text on both sides; check the texts in `data_dir`")
    source = request.source
    translator = Translator.of(source, EngineOptions(lambda line: None))
    model: attention_map.HasAttention = Parser(translator) if source.writes_trees else translator
    measured = []
    for kind, numbers in attention_map.chosen_layers(model).items():
        for layer in numbers:
            attentions = model.attention(*map(list, zip(*pairs)), kind, layer)
            maps = [attention_map.make_map(kind, layer, *of_line) for of_line in attentions]
            measured.append(attention_map.statistics_json(attention_map.head_statistics(maps)))
    about = {"run": source.run_dir.path.name, "checkpoint": source.checkpoint, "split": split}
    return HeadsReport({**about, "lines": len(pairs), "layers": measured})


def _most_unusual(layers: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Returns a row for each kind of attention and measure: the head that differs most from uniform attention."""
    rows = []
    for kind in dict.fromkeys(layer["kind"] for layer in layers):
        of_kind = [layer for layer in layers if layer["kind"] == kind]
        for measure in MEASURES:
            if measure.name not in of_kind[0]["uniform"]:
                continue
            candidates = [
                (value, layer["layer"], head, layer["uniform"][measure.name])
                for layer in of_kind
                for head, value in enumerate(layer["heads"][measure.name])
            ]
            # Large shares and small entropies stand out; distances stand out at both ends.
            for end in [max] if measure.is_share else [min] if measure.name == "entropy" else [min, max]:
                value, layer, head, uniform = end(candidates)
                name = f"{kind}: {'least' if end is min else 'most'} {measure.label}"
                shown = [_FORMATS[measure.name].format(each) for each in (value, uniform)]
                rows.append([name, f"layer {layer}, head {head}", *shown])
    return rows
