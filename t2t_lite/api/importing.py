"""Imports models and data of other toolkits."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_lite.display import LOG, Display

if TYPE_CHECKING:
    from t2t_lite.api.data import GeneratedData
    from t2t_lite.data.problem import Problem
    from t2t_lite.importing.t2t_run import Imported


def import_model(
    model: str | PathLike, output_dir: str | PathLike, *, warn: Callable[[str], None] = LOG.warning, **options: Any
) -> "Imported":
    """Writes a run directory of a trained `transformer` of tensor2tensor. It is written whole or not at all.

    Args:
      model: the folder of the model (tensor2tensor's output_dir) or one of its checkpoints.
      output_dir: the run directory to write.
      warn: receives a line about each setting of the training that has no equivalent.
      options: `ImportOptions`: data_dir, vocab_file, problem, target_space_id.

    Returns:
      the path of the run, its checkpoint, number of parameters and problem.

    Raises:
      UserError: if a file is missing or damaged, a setting of the model has no equivalent, or `output_dir` has files.
    """
    from t2t_lite.importing.options import ImportOptions
    from t2t_lite.system.quiet import load_tensorflow

    checked = ImportOptions.of_keywords(options, import_model)
    load_tensorflow()
    from t2t_lite.importing.t2t_run import import_run

    return import_run(Path(model), Path(output_dir), checked, warn)


def import_data(
    source: str | PathLike,
    data_dir: str | PathLike,
    *,
    problem: "str | Problem" = "text_pairs",
    vocab_file: str | PathLike | None = None,
    t2t_problem: str = "",
    display: Display | None = None,
) -> "GeneratedData":
    """Writes the data of a problem from shards that tensor2tensor has generated. Their ids stay.

    Args:
      source: tensor2tensor's data_dir: NAME-train-00000-of-00100 ..., NAME-dev-..., vocab.NAME.32768.subwords. If there
        is no test split, that of the new data is empty.
      data_dir: the folder to write to.
      problem: the problem that the data will belong to.
      vocab_file: the vocabulary, for two vocabularies both, separated by a comma; None: the one in `source`.
      t2t_problem: the NAME of the shards; "": the only one in `source`, or that of `problem`.
      display: where to show the progress; None: the logger "t2t_lite".

    Returns:
      what is in `data_dir`, see `generate_data`.

    Raises:
      UserError: if files are missing or damaged, ids are not those of the vocabulary, or `data_dir` has data of this
        problem.
    """
    from t2t_lite.api.data import generated_data
    from t2t_lite.data.generation.options import GenerateOptions
    from t2t_lite.data.problem import get_problem
    from t2t_lite.system.quiet import load_tensorflow

    chosen = get_problem(problem) if isinstance(problem, str) else problem
    chosen = GenerateOptions(vocab_file=vocab_file).applied_to(chosen)
    load_tensorflow()
    from t2t_lite.importing.t2t_data import import_shards

    manifest = import_shards(Path(source), Path(data_dir), chosen, t2t_problem, (display or Display()).say)
    return generated_data(chosen, Path(data_dir), manifest)
