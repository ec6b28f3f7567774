"""Exports trained models, with a model card: a README.md with the scores of the run."""

import contextlib
import dataclasses
import datetime
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from t2t_lite.data.manifest import read_manifest
from t2t_lite.decoding.ctranslate2_engine import check_settings
from t2t_lite.decoding.export_dir import MODEL_CARD, ExportDir, check_target, open_export, write_export
from t2t_lite.decoding.loading import ModelSource, open_model
from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.evaluation.stored import SplitScores, figure_table, stored_evaluations
from t2t_lite.exporting.options import ExportOptions
from t2t_lite.files import is_pattern
from t2t_lite.runs.checkpoint_files import checkpoint_digest, checkpoint_step, list_checkpoints
from t2t_lite.runs.evaluations import read_evaluations
from t2t_lite.runs.run_dir import RunDir
from t2t_lite.runs.selection import AVERAGE
from t2t_lite.system.tensorflow import tensorflow_job

_PACKAGES = {
    **{"saved_model": ("tensorflow", "tensorflow-text"), "ctranslate2": ("ctranslate2",), "keras": ("keras",)},
    "argos": ("ctranslate2", "sentencepiece"),
}
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
{{ending}} `</s>`.""",
    "keras": f"""\
{_WITH_T2T_LITE}

`t2t.load_model({{quoted}} + "/model.keras")` loads the Keras model itself, which takes a pair (inputs, targets).""",
    "argos": """\
For Argos Translate and LibreTranslate, in their environment:

```
python -c "from argostranslate import package; package.install_from_path('{argos[package]}')"
argos-translate --from-lang {argos[from_code]} --to-lang {argos[to_code]} {example}
```

These programs have their own sentence splitter, a beam of 4, a length penalty of 0.2 and at most 256 tokens. They
replace unknown tokens by words of the source, allow `<pad>` and `<unk>` in outputs, and turn "_" into a blank.
{argos[scores]}""",
}


def export(
    output_dir: str | PathLike, export_dir: str | PathLike, *, warn: Callable[[str], None] = LOG.warning, **options: Any
) -> ExportDir:
    """Exports a trained model, with its vocabularies and a model card. The directory is written atomically.

    Args:
      output_dir: the run directory.
      export_dir: the directory to write.
      warn: receives messages about the checkpoint and tuned settings.
      options: `ExportOptions`: format, quantization, checkpoint_path, decode_hparams, overwrite.

    Raises:
      UserError: if the run is unusable, the directory exists, or the format does not support the model or settings.
    """
    checked = ExportOptions.of_keywords(options, export)
    export_dir = Path(export_dir).resolve()  # resolve links, so that writing replaces the target and not the link
    check_target(export_dir, checked.overwrite)
    if checked.format == "saved_model" and is_pattern(export_dir):
        raise UserError(
            f"`export_dir={export_dir}`: TensorFlow cannot load a SavedModel from this folder, because its path has a "
            f"bracket or a backslash; pass another one"
        )
    source = open_model(output_dir, checked.checkpoint_path, checked.decode_hparams)
    for line in source.remarks:
        warn(line)
    others = list_checkpoints(source.run_dir.path)
    if checked.checkpoint_path is None and source.checkpoint.startswith(AVERAGE) and others:
        step, last = others[-1]
        of_last = read_evaluations(source.run_dir.path).get(step, {}).get("loss")
        of_average = [each.loss for each in stored_evaluations(source.run_dir, "dev", source.selection.path)]
        losses = ["" if loss is None else f" (dev loss {loss:.3f})" for loss in (next(iter(of_average), None), of_last)]
        warn(
            f"exporting {source.checkpoint}{losses[0]}, which decoder, eval and export use by default; "
            f"`checkpoint_path=last` asks for {last.name}{losses[1]}"
        )
    return _write(source, checked, export_dir, warn)


def exported_run(source: ModelSource, warn: Callable[[str], None] = LOG.warning) -> ModelSource:
    """Returns a run with its CTranslate2 export, in exports/ in the run directory. Writes it first if necessary.

    `warn` receives the remarks. A new export stores the search settings. Raises UserError if CTranslate2 is not
    installed or does not support the model.
    """
    ExportOptions(format="ctranslate2")  # checks that CTranslate2 is installed
    for line in (*source.settings_remarks, *source.checkpoint_remarks):
        warn(line)
    checkpoint = source.selection.path
    path = source.run_dir.path / "exports" / f"ctranslate2.{checkpoint.name}"
    export = None
    with contextlib.suppress(UserError):
        export = open_export(path)
    if export is None or export.content["checkpoint"].get("sha256") != checkpoint_digest(checkpoint):
        warn(f"exporting {checkpoint} to {path}")
        export = _write(source, ExportOptions(format="ctranslate2"), path, warn)
    return dataclasses.replace(source, export=export, checkpoint_remarks=(), settings_remarks=())


def _write(source: ModelSource, options: ExportOptions, path: Path, warn: Callable[[str], None]) -> ExportDir:
    format, quantization = options.format, options.quantization or ("int8" if options.format == "argos" else None)

    def write_files(folder: Path) -> dict[str, Any]:
        """Writes all files except export.json. Returns the content of export.json without checksums."""
        import importlib.metadata  # slow, and commands import this module for their flags

        from t2t_lite.runs.checkpoints import average_members

        run_dir, checkpoint, settings = source.run_dir, source.selection.path, source.settings
        targets, inputs = source.vocabularies
        stored = [each for split in ("test", "dev") for each in stored_evaluations(run_dir, split, checkpoint)]
        scores = [each for each in stored if each.decode_hparams == vars(settings)]
        (model,) = source.models("float32")  # the weights are float32, whatever precision the training used
        about, max_positions = {}, model.max_positions
        if format in ("ctranslate2", "argos"):
            from t2t_lite.exporting import argos, ctranslate2_model

            check_settings(settings.replace(only_trees=False))
            if format == "argos":
                about = argos.write(folder, model, source, options, scores, warn)
            else:
                tokens = targets.tokens(), inputs.tokens()
                ctranslate2_model.write(model, *tokens, folder, quantization, targets.unknown_id)
            max_positions = max_positions or ctranslate2_model.POSITIONS
        elif format == "saved_model":
            from t2t_lite.exporting import saved_model

            saved_model.check(settings, source.has_inputs)
            saved_model.write(model, targets, inputs, settings, folder)
        else:
            model.save(folder / "model.keras")
        for file in dict.fromkeys((run_dir.vocabulary, run_dir.inputs_vocabulary)):
            shutil.copyfile(file, folder / file.name)
        alignment_layer = None
        with contextlib.suppress(UserError):  # a model without word alignments
            alignment_layer = model.alignment_layer
        content = {
            "run": run_dir.path.resolve().name,
            "problem": source.problem,
            "has_inputs": source.has_inputs,
            "writes_trees": source.writes_trees,
            "source_language": source.source_language,
            "output_language": source.target_language,
            "checkpoint": {
                "name": checkpoint.name,
                "step": checkpoint_step(checkpoint),
                "members": average_members(checkpoint),
                "sha256": checkpoint_digest(checkpoint),
            },
            "hparams": vars(model.hparams),
            "parameters": model.count_params(),
            "decode_hparams": vars(settings),
            "vocabulary": run_dir.vocabulary.name,
            "inputs_vocabulary": run_dir.inputs_vocabulary.name,
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
            "format": format,
            "quantization": quantization,
            "max_positions": max_positions,
            "alignment_layer": alignment_layer,
            "versions": {package: importlib.metadata.version(package) for package in ("t2t-lite", *_PACKAGES[format])},
        }
        content |= {"license": options.license} if options.license else {}
        content |= {"argos": about} if about else {}
        example = (scores[0].inputs or [""])[0] if scores else "..."
        card = model_card(content, path.name, scores, example, _sources(run_dir))
        (folder / MODEL_CARD).write_text(card, encoding="utf-8")
        if format == "argos":
            argos.pack(folder / Path(about["package"]).stem, card)
        return content

    with tensorflow_job():
        return write_export(path, write_files)


def _sources(run_dir: RunDir) -> list[str]:
    """Returns the names of the files that the training data was made from; [] if that data is gone."""
    manifest = read_manifest(run_dir.data_dir, run_dir.problem) if run_dir.data_dir else None
    names = [Path(name).name for name in manifest.sources] if manifest else []
    return [name for name in names if not name.endswith(".toml")]  # a mixture is no text


def model_card(
    content: Mapping[str, Any], name: str, scores: Sequence[SplitScores], example: str, sources: Sequence[str] = ()
) -> str:
    """Returns the text of the model card from the content of export.json and the name of the export directory.

    `scores` are the stored evaluations of the checkpoint with its search settings. `example` is an input. `sources` are
    the names of the files with the training data.
    """
    settings, checkpoint = content["decode_hparams"], content["checkpoint"]
    members = checkpoint["members"]
    average = f", the average of the checkpoints at steps {', '.join(map(str, members))}" if members else ""
    languages = " to ".join(filter(None, (content["source_language"], content["output_language"])))
    precision = content["quantization"] or "float32"
    penalty = "" if settings["length_penalty"] == "wu" else f", length_penalty={settings['length_penalty']}"
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
        *([f"- licence: {content['license']}"] if content.get("license") else []),
        *([f"- trained on: {', '.join(sources)}"] if sources else []),
        f"- checkpoint: {checkpoint['name']}{average}",
        f"- format: {content['format']}, weights in {precision}",
        f"- search: beam_size={settings['beam_size']}, alpha={settings['alpha']:g}{penalty}; all settings are in "
        f"export.json",
        f"- written with {versions}, {content['date']}",
        "",
        "## Use",
        "",
        _USE[content["format"]].format(
            name=name,
            quoted=json.dumps(name, ensure_ascii=False),
            example=json.dumps(example, ensure_ascii=False),
            beam_size=settings["beam_size"],
            ending="end with" if content["hparams"].get("source_end_symbol", True) else "not have",
            front_door="Parser" if content["writes_trees"] else "Translator",
            argos=content.get("argos"),
        ),
        "",
        "## Limits",
        "",
        *(f"- {line}" for line in limits),
        "",
        "## Scores",
        "",
    ]
    for each in scores:
        lines += [f"On {each.split} of {content['problem']}:", "", *figure_table(each.figures), ""]
    if not scores:
        lines.append(
            "The run has no scores for this checkpoint with these search settings; `t2t-lite-eval` computes them."
        )
    meanings = {figure.label: figure.meaning for each in scores for figure in each.figures}
    lines += [f"- {label}: {meaning}" for label, meaning in meanings.items()]
    return "\n".join(lines).rstrip() + "\n"
