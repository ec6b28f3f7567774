"""Writes an imported model as a run directory; imports a model from an export in the format keras."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t_lite.config import HParams
from t2t_lite.data.problem import LANGUAGES_OPTION, Problem, get_problem, joined_languages, language_pair
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.decoding.export_dir import open_keras_export
from t2t_lite.errors import UserError
from t2t_lite.files import written_folder
from t2t_lite.importing.options import Imported, ImportOptions
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.models.building import load_model_file, make_model, symbolic_model
from t2t_lite.models.transformer import Transformer
from t2t_lite.runs.checkpoints import TrainingState
from t2t_lite.runs.run_dir import prepare_run_dir, record_alignment_layer
from t2t_lite.training.optimizers import make_optimizer


def write_run(
    output_dir: Path,
    model: Seq2SeqModel,
    step: int,
    problem: Problem,
    targets: Path,
    inputs: Path,
    alignment_layer: int | None = None,
    languages: str = "",
    decode_hparams: Mapping[str, Any] | None = None,
) -> Imported:
    """Writes a run directory with one checkpoint, which has a new optimizer. The directory is written atomically.

    `step` is the number of steps for which the model was trained; without an `alignment_layer`, none is recorded.
    `languages` are those of inputs and outputs, such as "en-de"; "": those of the problem. `decode_hparams` replace the
    search settings of the problem.
    """
    if languages:
        pair = language_pair(languages)
        own = problem.in_direction((problem.source_language, problem.target_language))
        if LANGUAGES_OPTION.keys() <= problem.flags.keys():
            problem.set_languages({"languages": joined_languages(*problem.in_direction(pair))})
        elif pair != own:
            its = joined_languages(*own) or "not between two languages"
            raise UserError(f"`languages={languages}`: the problem '{problem.name}' is {its}; omit it", status=2)
    problem.decode_hparams = problem.decode_hparams.replace(**decode_hparams or {})
    optimizer = make_optimizer(model.trainable_variables, model.hparams)
    optimizer.iterations.assign(step)
    with written_folder(output_dir, "`output_dir`") as partial:
        prepare_run_dir(partial, model.hparams, problem, targets, inputs_vocabulary=inputs)
        if alignment_layer is not None:
            record_alignment_layer(partial, alignment_layer)
        name = TrainingState(model, optimizer).save(partial, 1).name
    return Imported(output_dir, output_dir / name, model.count_params(), problem.name)


def filled_model(
    hparams: HParams,
    targets: Path,
    inputs: Path,
    values_of: Callable[[Transformer], Iterable[tuple[Any, np.ndarray]]],
    source: Path,
    settings: str,
) -> Transformer:
    """Returns a model with the given values: (a variable of the given model, its value) for all variables.

    Raises UserError if a value has another shape than `settings`, the file with the settings, says. The values are from
    the checkpoint `source`.
    """
    sizes = [open_vocabulary(path).size for path in (targets, inputs)]
    expected = symbolic_model(hparams, *sizes)  # a model of the wrong size may not fit in memory
    assert isinstance(expected, Transformer)
    values: dict[str, np.ndarray] = {}
    for variable, value in values_of(expected):
        if value.shape != tuple(variable.shape):
            raise UserError(
                f"{source} does not match its {settings}: {variable.path} has the shape {tuple(variable.shape)} there "
                f"but {value.shape} in the checkpoint; copy the whole folder again"
            )
        values[variable.path] = value
    model = make_model(hparams, *sizes)
    assert isinstance(model, Transformer)
    for variable, of_expected in zip(model.variables, expected.variables, strict=True):
        variable.assign(values[of_expected.path])
    return model


def import_keras(
    source: Path, output_dir: Path, options: ImportOptions, say: Callable[[str], None] = lambda line: None
) -> Imported:
    """Converts an export into a run directory, which is written atomically.

    A model that came from another toolkit before it was exported keeps the search settings of the export.
    """
    export = open_keras_export(source)
    model = load_model_file(source / "model.keras")
    assert isinstance(model, Seq2SeqModel)
    problem = get_problem(options.problem or export.content["problem"])
    step = export.content["checkpoint"]["step"]
    layer = export.content["alignment_layer"]
    languages = options.languages
    if not languages and LANGUAGES_OPTION.keys() <= problem.flags.keys():
        languages = joined_languages(export.content.get("source_language"), export.content.get("output_language"))
    # Models of other toolkits have biases that no set of ours has.
    search = vars(export.decode_hparams) if model.hparams.projection_biases else {}
    vocabularies = export.vocabulary, export.inputs_vocabulary
    return write_run(output_dir, model, step, problem, *vocabularies, layer, languages, search)
