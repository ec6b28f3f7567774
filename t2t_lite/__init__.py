"""t2t-lite: the Transformer system of "Attention Is All You Need" on current TensorFlow and Keras.

    import t2t_lite as t2t

Names are imported on first use, so this import takes milliseconds. TensorFlow is loaded when something needs it.
"""

import importlib
from typing import TYPE_CHECKING

from t2t_lite import built_in, registry

if TYPE_CHECKING:
    from t2t_lite import layers, losses, models, schedules
    from t2t_lite.api.attention import draw_attention
    from t2t_lite.api.checkpoints import AveragedCheckpoints, average_checkpoints
    from t2t_lite.api.data import GeneratedData, generate_data
    from t2t_lite.api.evaluation import EvaluationResult, evaluate, measure_heads, score_split
    from t2t_lite.api.export import export
    from t2t_lite.api.importing import import_data, import_model
    from t2t_lite.api.models import load_model
    from t2t_lite.api.settings import get_hparams
    from t2t_lite.api.training import TrainResult, train
    from t2t_lite.config import DecodeHParams, HParams
    from t2t_lite.data.problem import Example, Problem, get_problem
    from t2t_lite.decoding.translator import Hypothesis, Translator
    from t2t_lite.display import Display, log_to_stdout
    from t2t_lite.errors import UserError
    from t2t_lite.evaluation.split_scores import SplitScores
    from t2t_lite.parsing.parser import Parser
    from t2t_lite.registry import HPARAMS, MODELS, PROBLEMS
    from t2t_lite.report.writing import write_report
    from t2t_lite.training.callbacks import Callback

__version__ = "0.10.0"

# Maps each module to the public names that it defines. A module that lists its own name is itself public.
_NAMES = {
    "api.attention": "draw_attention",
    "api.checkpoints": "AveragedCheckpoints average_checkpoints",
    "api.data": "GeneratedData generate_data",
    "api.evaluation": "EvaluationResult evaluate measure_heads score_split",
    "api.export": "export",
    "api.importing": "import_data import_model",
    "api.models": "load_model",
    "report.writing": "write_report",
    "api.settings": "get_hparams",
    "api.training": "TrainResult train",
    "config": "DecodeHParams HParams",
    "data.problem": "Example Problem get_problem",
    "decoding.translator": "Hypothesis Translator",
    "display": "Display log_to_stdout",
    "errors": "UserError",
    "evaluation.split_scores": "SplitScores",
    "layers": "layers",
    "losses": "losses",
    "models": "models",
    "parsing.parser": "Parser",
    "registry": "HPARAMS MODELS PROBLEMS",
    "schedules": "schedules",
    "training.callbacks": "Callback",
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
    from t2t_lite import plugins  # imported late, because it imports the slow importlib.metadata

    plugins.load_all_once()


assert built_in  # importing it registers the built-in objects
registry.set_loader(_load_all_once)
