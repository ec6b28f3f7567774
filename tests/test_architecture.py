"""Which part may import which (the table in docs/architecture.md).

The rules are checked on the source with `ast`; that listings need no TensorFlow is tried in a process of its own.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from support.import_rules import ALSO, BASIS, RULES, RULES_AT_LOADING
from support.import_table import PAGE, import_table

from t2t_lite.metric import figure_name
from t2t_lite.registry import METRICS

ROOT = Path(__file__).resolve().parent.parent
# All lines of the product. The number may only sink; what has to add lines says by how many.
LINES = 44_089
FOLDERS = {
    "t2t_lite": "t2t_lite",
    "problems": "t2t_lite.problems",
    "hparams": "t2t_lite.hparams",
    "bin": "t2t_lite.bin",
}


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


def forbidden(found, own_modules, other_packages):
    """Those of the found imports that are neither allowed nor in the standard library."""
    wrong = []
    for module in sorted(found - {"t2t_lite"}):
        package = module.split(".")[0]
        if package == "t2t_lite":
            allowed = any(is_within(module, f"t2t_lite.{own}") for own in own_modules)
        else:
            allowed = package in sys.stdlib_module_names or package in other_packages
        if not allowed:
            wrong.append(module)
    return wrong


def test_the_source_was_found():
    assert {
        "t2t_lite.registry",
        "t2t_lite.layers.attention",
        "t2t_lite.problems.grammar",
        "t2t_lite.bin.cli.run",
    } <= set(TREES)
    assert "keras" in imports("t2t_lite.layers.attention")
    # This module imports Keras inside a function only.
    assert "keras" in imports("t2t_lite.data.generation.sources") - imports_at_loading(
        "t2t_lite.data.generation.sources"
    )


def test_the_product_does_not_grow():
    lines = sum(path.read_text(encoding="utf-8").count("\n") for path in PATHS.values())
    assert lines <= LINES, f"{lines - LINES} more than LINES; delete as many, or say in the commit why they are needed"
    assert lines > LINES - 100, f"set LINES to {lines}, so that it does not rise again"


@pytest.mark.parametrize("name", ["registry", "options", "settings", "config", "errors", "files", "aliases", "arrays"])
def test_base_modules_need_only_the_standard_library(name):
    assert forbidden(imports(f"t2t_lite.{name}"), BASIS, ()) == []


@pytest.mark.parametrize("part", RULES)
def test_a_part_imports_only_what_its_rule_allows(part):
    assert modules_of(part)
    ours, packages = RULES[part]
    wrong = {name: forbidden(imports(name), ours, (*packages, *ALSO.get(name, ()))) for name in modules_of(part)}
    assert {name: modules for name, modules in wrong.items() if modules} == {}


@pytest.mark.parametrize("part", RULES_AT_LOADING)
def test_modules_loaded_by_listings_import_nothing_heavy(part):
    assert modules_of(part)
    wrong = {name: forbidden(imports_at_loading(name), *RULES_AT_LOADING[part]) for name in modules_of(part)}
    assert {name: modules for name, modules in wrong.items() if modules} == {}


def test_the_table_of_the_documentation_is_made_of_the_rules():
    assert f"\n{import_table()}\n" in PAGE.read_text(encoding="utf-8")


SEARCH = [
    name
    for name in modules_of("decoding.search")
    if name.rpartition(".")[2] not in ("adaptive_xla", "searcher", "search_graphs", "search_memory")
]


@pytest.mark.parametrize("name", SEARCH)
def test_the_search_imports_no_model_and_no_vocabulary(name):
    own = ("decoding.search", "layers.beam_ancestry", "arrays")
    assert forbidden(imports(name), own, ("tensorflow", "numpy")) == []


def library_modules():
    outside = [f"t2t_lite.{folder}" for folder in ("problems", "hparams", "bin")]
    return [name for name in TREES if not any(is_within(name, package) for package in outside)]


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


def test_the_library_never_imports_problems_hparams_or_bin():
    for name in library_modules():
        for folder in ("problems", "hparams", "bin"):
            assert not any(is_within(module, f"t2t_lite.{folder}") for module in imports(name)), name


def test_only_plugins_names_problems_hparams_and_bin_for_lazy_import():
    prefixes = ("t2t_lite.problems", "t2t_lite.hparams", "t2t_lite.bin")
    naming = {
        name
        for name in library_modules()
        for node in ast.walk(TREES[name])
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(prefixes)
    }
    assert naming == {"t2t_lite.plugins"}


def test_problems_and_hparams_do_not_import_bin():
    for name in (*modules_of("problems"), *modules_of("hparams")):
        assert not any(is_within(module, "t2t_lite.bin") for module in imports(name)), name


def test_there_are_no_circular_imports():
    loading = {name: {module for module in imports_at_loading(name) if module in TREES} - {name} for name in TREES}
    while loading:
        free = {name for name, needs in loading.items() if not needs & loading.keys() - {"t2t_lite"}}
        assert free, f"these import one another: {sorted(loading)}"
        loading = {name: needs for name, needs in loading.items() if name not in free}


def run_python(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_loading_the_built_ins_loads_neither_tensorflow_nor_keras():
    program = """
import sys
from t2t_lite import plugins, registry
plugins.load_all()
print(*registry.PROBLEMS.names(), *registry.HPARAMS.names(), *registry.MODELS.names())
print(*sorted({name.split(".")[0] for name in sys.modules} & {"tensorflow", "keras", "numpy", "tensorflow_text"}))
"""
    names, heavy = run_python(program).split("\n")[:2]
    assert {"multi30k_ende", "transformer_base", "transformer"} <= set(names.split())
    assert heavy == ""


def test_the_commands_can_be_imported_without_tensorflow():
    modules = sorted(name for name in modules_of("bin"))
    program = f"import sys, {', '.join(modules)}\nprint('tensorflow' in sys.modules, 'keras' in sys.modules)"
    assert run_python(program).split() == ["False", "False"]
