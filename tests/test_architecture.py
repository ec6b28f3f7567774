"""The order of the rooms, and what may be loaded with each of them.

Imports are read from the source with `ast`; tests/system/test_import_hook.py tries what a process loads.
"""

import ast
import sys
from pathlib import Path

import pytest

from t2t_lite.metric import figure_name
from t2t_lite.registry import METRICS

ROOT = Path(__file__).resolve().parent.parent
# All lines of the product. The number may only sink; what has to add lines says by how many.
LINES = 43_273
# Imports inside functions of our own modules, TensorFlow, Keras and NumPy, where a light module calls a heavy one after
# its checks. The number may only sink.
IMPORTS_IN_FUNCTIONS = 81
# A module imports only from its own room or from those before it, inside functions and for type checkers, too.
# docs/architecture.md shows the same column.
ORDER = (
    *("errors", "arrays", "aliases", "files", "options", "registry", "metric", "system", "config", "plugins"),
    *("recipes", "display", "data", "trees", "scoring", "layers", "losses", "schedules", "models", "cost", "runs"),
    *("decoding", "parsing", "visualization", "training", "evaluation", "exporting", "importing", "report"),
    *("benchmark", "reproduce", "run_training", "serving", "problems", "hparams", "bin"),
)
# What may be loaded with a module: nothing heavy, or this and what stands before it. The longest name counts.
LEVELS = ("nothing", "numpy", "keras", "tensorflow")
LOADED = {
    "nothing": (
        # Everything up to `display`, and what --help, listings and the checks before TensorFlow load.
        *ORDER[: ORDER.index("display") + 1],
        *("trees", "problems", "hparams", "bin", "cost"),
        *("data.problem", "data.mixture", "data.manifest", "data.text_files", "data.generation.options"),
        *("data.generation.generate", "data.generation.sources", "data.generation.text_checks"),
        *("runs.run_dir", "runs.checkpoint_files", "runs.selection", "runs.evaluations", "runs.tuned_settings"),
        *("decoding.export_dir",),
        *("decoding.options", "visualization.figures", "training.launcher", "training.options"),
        "training.cluster",
        *("evaluation.options",),
        *("exporting.options", "importing.import_model", "importing.options"),
        *("reproduce.runs", "reproduce.paper", "serving.options"),
    ),
    # A serving machine decodes, parses, scores and serves without TensorFlow.
    "numpy": (
        *("scoring", "visualization", "report", "reproduce", "serving", "evaluation", "data.vocab", "data.bpe_dropout"),
        *("run_training", "decoding.alignment", "decoding.engine", "decoding.ctranslate2_engine"),
        *("decoding.loading", "decoding.translator", "parsing.parser", "exporting.export"),
        "importing.ctranslate2_export",
        "benchmark.engines",
        *(f"bin.decoder.{name}" for name in ("corpus", "files", "outputs")),
        *("bin.reproduce.results", "bin.run"),
    ),
    # They run on every backend of Keras.
    "keras": ("layers", "losses", "schedules", "models", "benchmark.settings_plot"),
    "tensorflow": (
        *("data", "runs", "decoding", "parsing", "training", "exporting", "importing", "benchmark"),
        "data.vocab.in_graph",
    ),
}
# The packages of others that modules of a room import at their top; all else is imported inside functions.
PACKAGES = {
    "data": {"pyarrow", "sentencepiece"},
    "exporting": {"sentencepiece"},
    "importing": {"safetensors", "sentencepiece", "yaml"},
    "scoring": {"sacrebleu"},
    "serving": {
        *("babel", "fastapi", "fastapi_offline", "prometheus_client", "pydantic", "python_multipart", "ray"),
        *("sentencex", "starlette", "uvicorn"),
    },
    "bin": {"apache_beam", "rich"},
}
FOLDERS = {"t2t_lite": "t2t_lite"} | {name: f"t2t_lite.{name}" for name in ("problems", "hparams", "bin")}


def module_name(path):
    """t2t_lite/data/vocab.py -> t2t_lite.data.vocab; a package's own name for its __init__.py."""
    first, *others = path.relative_to(ROOT).with_suffix("").parts
    parts = [FOLDERS[first], *others]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {module_name(path): path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in PATHS.items()}


def is_within(module, package):
    return module == package or module.startswith(package + ".")


def modules_of(part):
    """The modules of a part: "data" -> t2t_lite.data and everything in it."""
    return [name for name in TREES if is_within(name, f"t2t_lite.{part}")]


def imported_by(nodes):
    """The modules that import statements name; `from package import module` names the module."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"a relative import of {node.module}"
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                found.add(submodule if submodule in TREES else node.module)
    return found


def imports(name):
    """What a module imports anywhere."""
    return imported_by(ast.walk(TREES[name]))


def imports_at_loading(name):
    """What a module imports when it is loaded: not the imports inside functions, and not those for type checkers."""
    nodes, waiting = [], [TREES[name]]
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        for_checkers = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if not for_checkers and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))
    return imported_by(nodes)


def loaded_with(name):
    """All modules that importing a module imports, itself and packages of others included."""
    found, waiting = set(), [name]
    while waiting:
        one = waiting.pop()
        if one in TREES and one not in found:
            waiting += [*imports_at_loading(one), one.rpartition(".")[0]]
        found.add(one)
    return found


def room(module):
    return module.split(".")[1] if "." in module else ""


def test_every_room_has_a_place_in_the_order_which_the_page_shows():
    assert {room(name) for name in TREES} == {"", *ORDER}
    column = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").split("```text\n")[2].split("```")[0]
    assert [line.split()[0] for line in column.splitlines()] == list(ORDER)


@pytest.mark.parametrize("name", [name for name in TREES if name != "t2t_lite"])  # the front door names all rooms
def test_no_import_goes_up(name):
    above = ORDER[ORDER.index(room(name)) + 1 :]
    assert [module for module in imports(name) if is_within(module, "t2t_lite") and room(module) in above] == []


def test_no_two_files_import_each_other():
    left = {name: {module for module in imports(name) if module in TREES} - {name, "t2t_lite"} for name in TREES}
    while left:
        free = {name for name, needs in left.items() if not needs & left.keys()}
        assert free, f"these import one another: {sorted(left)}"
        left = {name: needs for name, needs in left.items() if name not in free}


def test_few_imports_stand_inside_functions():
    heavy = ("t2t_lite", "tensorflow", "keras", "numpy", "tensorflow_text", "tensorflow_datasets")
    found = {}
    for name, tree in TREES.items():
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        inside = {node for function in functions for node in ast.walk(function)}
        for node in inside:
            if isinstance(node, ast.Import | ast.ImportFrom) and any(map(imported_by([node]).__contains__, TREES)):
                found[name, node.lineno] = len(node.names)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                found[name, node.lineno] = sum(each.split(".")[0] in heavy for each in imported_by([node]))
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "importlib.import_module":
                found[name, node.lineno] = name not in ("t2t_lite", "t2t_lite.registry", "t2t_lite.plugins")
    number = sum(found.values())
    assert number <= IMPORTS_IN_FUNCTIONS, sorted(where for where, count in found.items() if count)
    assert number > IMPORTS_IN_FUNCTIONS - 5, f"set IMPORTS_IN_FUNCTIONS to {number}, so that it does not rise again"


LEVEL_OF = {place: LEVELS.index(level) for level, places in LOADED.items() for place in places}


@pytest.mark.parametrize("name", TREES)
def test_nothing_heavier_is_loaded_with_a_module_than_the_table_says(name):
    place = name.removeprefix("t2t_lite").lstrip(".") or "errors"  # the front door loads nothing
    while place not in LEVEL_OF and "." in place:
        place = place.rpartition(".")[0]
    packages = {module.split(".")[0] for module in loaded_with(name)}
    packages |= {"tensorflow"} if packages & {"tensorflow_text", "tensorflow_datasets"} else set()
    assert [package for package in LEVELS[LEVEL_OF[place] + 1 :] if package in packages] == []


def test_the_table_names_only_what_exists_and_once():
    assert sum(map(len, LOADED.values())) == len(LEVEL_OF)
    assert {place for place in LEVEL_OF if f"t2t_lite.{place}" not in TREES} == set()


def test_packages_are_imported_at_the_top_only_where_the_table_says():
    found = {}
    for name in TREES:
        ours = {*LEVELS, "tensorflow_text", "tensorflow_datasets", "t2t_lite", *sys.stdlib_module_names}
        if packages := {module.split(".")[0] for module in imports_at_loading(name)} - ours:
            found.setdefault(room(name), set()).update(packages)
    assert found == PACKAGES


def test_the_base_needs_only_the_standard_library():
    base = [name for name in TREES if room(name) in ORDER[: ORDER.index("display") + 1]]
    packages = {module.split(".")[0] for name in base for module in imports_at_loading(name)}
    assert packages - sys.stdlib_module_names == {"t2t_lite"}


def test_only_commands_call_through_the_front_door():
    names = {
        (name, node.attr)
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("t2t", "t2t_lite")
        if room(name) != "bin"
    }
    assert {attribute for _, attribute in names} == {"__version__"}
    assert not any(is_within(module, "t2t_lite.bin") for module in imports("t2t_lite"))


def test_the_product_does_not_grow():
    lines = sum(path.read_text(encoding="utf-8").count("\n") for path in PATHS.values())
    assert lines <= LINES, f"{lines - LINES} more than LINES; delete as many, or say in the commit why they are needed"
    assert lines > LINES - 100, f"set LINES to {lines}, so that it does not rise again"


SEARCH = [name for name in modules_of("decoding.search") if name.rpartition(".")[2] != "searcher"]


@pytest.mark.parametrize("name", SEARCH)
def test_the_search_imports_no_model_and_no_vocabulary(name):
    ours = {module for module in imports(name) if is_within(module, "t2t_lite")}
    allowed = ("decoding.search", "layers.beam_ancestry", "arrays")
    assert [one for one in ours if not any(is_within(one, f"t2t_lite.{each}") for each in allowed)] == []


def test_no_part_compares_with_the_name_of_a_metric():
    # What differs between metrics is a fact of their registration, so that plug-ins can add metrics.
    names = {*METRICS, *map(figure_name, METRICS)}
    found = [
        (name, node.lineno)
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare | ast.match_case)
        for part in ast.walk(node if isinstance(node, ast.Compare) else node.pattern)
        if isinstance(part, ast.Constant) and part.value in names
    ]
    assert found == []


def test_only_commands_print():
    printing = {
        name: [node.lineno for node in ast.walk(TREES[name]) if isinstance(node, ast.Name) and node.id == "print"]
        for name in TREES
        if not is_within(name, "t2t_lite.bin")
    }
    assert {name: lines for name, lines in printing.items() if lines} == {}
