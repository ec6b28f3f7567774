"""t2t-lite: the Transformer system of "Attention Is All You Need" on current TensorFlow and Keras.

    import t2t_lite as t2t

Names are imported on first use, so this import takes milliseconds. TensorFlow is loaded when something needs it; then
its import prints nothing, see `system/import_hook.py`.
"""

import importlib
from typing import TYPE_CHECKING

from t2t_lite import registry
from t2t_lite.system import import_hook

if TYPE_CHECKING:
    from t2t_lite import layers, losses, models, schedules
    from t2t_lite.config import DecodeHParams, HParams, get_hparams
    from t2t_lite.data.generation.generate import GeneratedData, generate_data
    from t2t_lite.data.problem import Example, Problem, get_problem
    from t2t_lite.decoding.loading import load_model
    from t2t_lite.decoding.translator import Hypothesis, Translator
    from t2t_lite.display import Display, log_to_stdout
    from t2t_lite.errors import UserError
    from t2t_lite.evaluation.evaluate import EvaluationResult, evaluate, score_split
    from t2t_lite.evaluation.heads import measure_heads
    from t2t_lite.evaluation.stored import SplitScores
    from t2t_lite.exporting.export import export
    from t2t_lite.importing.import_model import import_data, import_model
    from t2t_lite.parsing.parser import Parser
    from t2t_lite.registry import HPARAMS, MODELS, PROBLEMS
    from t2t_lite.report.writing import write_report
    from t2t_lite.run_training import TrainResult, train
    from t2t_lite.runs.selection import AveragedCheckpoints, average_checkpoints
    from t2t_lite.training.options import Callback
    from t2t_lite.visualization.attention import draw_attention

__version__ = "0.10.0"

# Maps each module to the public names that it defines. A module that lists its own name is itself public.
_NAMES = {
    "config": "DecodeHParams HParams get_hparams",
    "data.generation.generate": "GeneratedData generate_data",
    "data.problem": "Example Problem get_problem",
    "decoding.loading": "load_model",
    "decoding.translator": "Hypothesis Translator",
    "display": "Display log_to_stdout",
    "errors": "UserError",
    "evaluation.evaluate": "EvaluationResult evaluate score_split",
    "evaluation.heads": "measure_heads",
    "evaluation.stored": "SplitScores",
    "exporting.export": "export",
    "importing.import_model": "import_data import_model",
    "layers": "layers",
    "losses": "losses",
    "models": "models",
    "parsing.parser": "Parser",
    "registry": "HPARAMS MODELS PROBLEMS",
    "report.writing": "write_report",
    "run_training": "TrainResult train",
    "runs.selection": "AveragedCheckpoints average_checkpoints",
    "schedules": "schedules",
    "training.options": "Callback",
    "visualization.attention": "draw_attention",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "HPARAMS",
    "MODELS",
    "PROBLEMS",
    "AveragedCheckpoints",
    "Callback",
    "DecodeHParams",
    "Display",
    "EvaluationResult",
    "Example",
    "GeneratedData",
    "HParams",
    "Hypothesis",
    "Parser",
    "Problem",
    "SplitScores",
    "TrainResult",
    "Translator",
    "UserError",
    "average_checkpoints",
    "draw_attention",
    "evaluate",
    "export",
    "generate_data",
    "get_hparams",
    "get_problem",
    "import_data",
    "import_model",
    "layers",
    "load_model",
    "log_to_stdout",
    "losses",
    "measure_heads",
    "models",
    "schedules",
    "score_split",
    "train",
    "write_report",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    value = module if _MODULES[name] == name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__"})


def _load_all_once() -> None:
    from t2t_lite import plugins

    plugins.load_all_once()


import_hook.install()
registry.set_loader(_load_all_once)
