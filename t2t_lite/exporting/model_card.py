"""Writes the model card of an export, a README.md with the scores of the run."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_lite.evaluation.report import figure_table
from t2t_lite.evaluation.stored import SplitScores

# `str.format` replaces the placeholders here and in `_USE`.
_WITH_T2T_LITE = """\
```
t2t-lite-decoder --export_dir={name} --decode_from_file=in.txt --decode_to_file=out.txt
```

```python
import t2t_lite as t2t

translator = t2t.{front_door}.from_export({quoted})
print(translator.translate({example}))
```"""
_USE = {
    "saved_model": """\
With TensorFlow and tensorflow-text alone:

```python
import tensorflow as tf
import tensorflow_text  # its operations tokenize

model = tf.saved_model.load({quoted})
translate = model.signatures["serving_default"]
found = translate(inputs=tf.constant([{example}]))
print(found["outputs"].numpy()[0, 0].decode(), found["scores"].numpy()[0, 0])
```

`serving_default` takes `inputs`, strings [batch], and returns `outputs`, strings [batch, {beam_size}], best first, with
`scores` and `log_probs`. `with_alpha` also takes `alpha`, the exponent of the length penalty. `token_ids` takes
`inputs` as int32 [batch, length], padded with 0, and returns `ids` instead of `outputs`. The beam size and the other
search settings are fixed.""",
    "ctranslate2": f"""\
This export needs no TensorFlow. Run `bin/build` in a checkout of t2t-lite, which writes a wheel and
`requirements-serve.txt`. Then run `pip install -r requirements-serve.txt` and `pip install --no-deps t2t_lite-*.whl`.

{_WITH_T2T_LITE}

With CTranslate2 alone, `ctranslate2.Translator({{quoted}})` takes and returns tokens of the vocabulary. An input must
end with `</s>`.""",
    "keras": f"""\
{_WITH_T2T_LITE}

`t2t.load_model({{quoted}} + "/model.keras")` loads the Keras model itself, which takes a pair (inputs, targets).""",
}


def model_card(content: Mapping[str, Any], name: str, scores: Sequence[SplitScores], example: str) -> str:
    """Returns the text of the model card from the content of export.json and the name of the export directory.

    `scores` are the stored evaluations of the checkpoint with its search settings. `example` is an input.
    """
    settings, checkpoint = content["decode_hparams"], content["checkpoint"]
    members = checkpoint["members"]
    average = f", the average of the checkpoints at steps {', '.join(map(str, members))}" if members else ""
    languages = " to ".join(filter(None, (content["source_language"], content["output_language"])))
    precision = content["quantization"] or "float32"
    versions = ", ".join(f"{package} {version}" for package, version in content["versions"].items())
    longest = min(settings["max_input_length"], content["max_positions"] or settings["max_input_length"])
    limits = [f"An input is one sentence of at most {longest:,} tokens; longer inputs are truncated."]
    if content["writes_trees"]:
        limits.append("The words and punctuation marks of an input are separated by spaces.")
        if content["format"] == "saved_model":
            limits.append("Outputs are sequences of tree symbols, without words; malformed trees are not repaired.")
    if not content["has_inputs"]:
        limits.append("The model has no inputs: a line is the beginning of its output.")
    if content["quantization"]:
        limits.append(f"The weights are rounded to {content['quantization']}, but the scores below are for float32.")
    lines = [
        f"# {content['run']}: {content['problem']}",
        "",
        f"- model: {content['hparams']['model']}, {content['parameters']:,} parameters, trained with t2t-lite",
        *([f"- languages: {languages}"] if languages else []),
        f"- checkpoint: {checkpoint['name']}{average}",
        f"- format: {content['format']}, weights in {precision}",
        f"- search: beam_size={settings['beam_size']}, alpha={settings['alpha']:g}; all settings are in export.json",
        f"- written with {versions}, {content['date']}",
        "",
        "## Use",
        "",
        _USE[content["format"]].format(
            name=name,
            quoted=json.dumps(name, ensure_ascii=False),
            example=json.dumps(example, ensure_ascii=False),
            beam_size=settings["beam_size"],
            front_door="Parser" if content["writes_trees"] else "Translator",
        ),
        "",
        "## Limits",
        "",
        *(f"- {line}" for line in limits),
        "",
        "## Scores",
        "",
        *_scores(content, scores),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _scores(content: Mapping[str, Any], scores: Sequence[SplitScores]) -> list[str]:
    if not scores:
        return ["The run has no scores for this checkpoint with these search settings; `t2t-lite-eval` computes them."]
    lines = []
    for each in scores:
        lines += [f"On {each.split} of {content['problem']}:", "", *figure_table(each.figures), ""]
    meanings = {figure.label: figure.meaning for each in scores for figure in each.figures}
    return [*lines, *(f"- {label}: {meaning}" for label, meaning in meanings.items())]
