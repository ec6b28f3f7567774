"""Imports models of other toolkits."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_lite.display import LOG

if TYPE_CHECKING:
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
