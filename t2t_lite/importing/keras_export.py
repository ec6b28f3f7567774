"""Imports a model from an export in the format keras, for example one that was trained elsewhere since."""

from pathlib import Path

from t2t_lite.data.problem import get_problem
from t2t_lite.decoding.export_dir import open_keras_export
from t2t_lite.errors import UserError
from t2t_lite.importing.options import ImportOptions
from t2t_lite.importing.run_writing import Imported, check_new, write_run
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.models.loading import load_model_file


def import_export(source: Path, output_dir: Path, options: ImportOptions) -> Imported:
    """Converts an export into a run directory, which is written atomically.

    Of the options, only `problem` applies, because an export has its vocabularies.
    """
    check_new(output_dir)
    if given := [name for name, value in vars(options).items() if value and name != "problem"]:
        raise UserError(f"`{given[0]}` applies to tensor2tensor's models only; remove it", status=2)
    export = open_keras_export(source)
    model = load_model_file(source / "model.keras")
    assert isinstance(model, Seq2SeqModel)
    problem = get_problem(options.problem or export.content["problem"])
    step = export.content["checkpoint"]["step"]
    layer = export.content["alignment_layer"]
    return write_run(output_dir, model, step, problem, export.vocabulary, export.inputs_vocabulary, layer)
