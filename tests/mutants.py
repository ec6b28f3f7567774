"""Do the tests notice a changed line? Draws one-line mutants of the core, and runs tests on each until one fails.

python tests/mutants.py --count=40 --seed=1 --log=mutants.jsonl

It changes the files of this checkout, one at a time, and restores them: run it in a clone of its own, with nothing
uncommitted. All mutants are first tried with the tests of the changed module and of its folder, which takes a minute
each. What these do not find is then tried with all tests, the slow ones last: what remains is what `bin/test --all`
does not find. A run that was stopped is continued from its log.
"""

import argparse
import ast
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CORE = (
    *(f"t2t_lite/{part}" for part in ("data", "layers", "models", "training", "decoding", "runs", "parsing", "trees")),
    *(f"t2t_lite/{part}" for part in ("scoring", "evaluation", "exporting", "importing", "serving")),
    "bin",
)
OPERATORS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}
NOT_SLOW = ("-m", "not slow")
ALL_TESTS = ((*NOT_SLOW, "tests"), ("-m", "slow", "tests"))
TIMEOUT = 7200  # seconds of one run of tests; a mutant may make a loop endless, and is found by that


class Mutant(NamedTuple):
    """A change of one line."""

    path: str  # from the root of the checkout
    line: int  # from 1
    before: str
    after: str


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yields all mutants of a file."""
    text = path.read_text(encoding="utf-8")
    lines, name = text.splitlines(), str(path.relative_to(ROOT))
    for start, end, new in _changes(ast.parse(text), lines):
        number, before = start[0], lines[start[0] - 1]
        after = (before.encode()[: start[1]] + new.encode() + before.encode()[end[1] :]).decode()
        yield Mutant(name, number, before, after)


def _changes(tree: ast.AST, lines: list[str]) -> Iterator[tuple[tuple[int, int], tuple[int, int], str]]:
    """Yields (start, end, new text) of changes within a line; positions are line and byte."""
    for node in _computing(tree):
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            for left, operator, right in zip(operands, node.ops, operands[1:]):
                yield from _operator(left, operator, right, lines)
        elif isinstance(node, ast.BinOp) and not any(map(_is_text, (node.left, node.right))):
            yield from _operator(node.left, node.op, node.right, lines)
        elif isinstance(node, ast.BoolOp):
            for left, right in zip(node.values, node.values[1:]):
                yield from _operator(left, node.op, right, lines)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            start = (node.lineno, node.col_offset)
            yield start, (node.lineno, node.col_offset + len("not ")), ""
        elif isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
            new = not node.value if isinstance(node.value, bool) else node.value + 1
            yield (node.lineno, node.col_offset), (node.lineno, node.end_col_offset or 0), repr(new)


def _computing(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes that compute: no types, decorators, assertions, texts, and no message of an error."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.Assert | ast.JoinedStr | ast.Raise):
                yield child
                yield from _computing(child)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _operator(
    left: ast.expr, operator: ast.AST, right: ast.expr, lines: list[str]
) -> Iterator[tuple[tuple[int, int], tuple[int, int], str]]:
    """Yields the change of one operator, if it is on the line on which its left side ends."""
    old, new = OPERATORS.get(type(operator), ("", ""))
    line, start = left.end_lineno or 0, left.end_col_offset or 0
    end = right.col_offset if right.lineno == line else len(lines[line - 1].encode())
    between = lines[line - 1].encode()[start:end].decode()
    pattern = rf"\b{old}\b" if old.isalpha() else re.escape(old)
    if old and (found := re.search(pattern, between)):
        at = start + len(between[: found.start()].encode())
        yield (line, at), (line, at + len(old)), new


def near_tests(mutant: Mutant) -> list[list[str]]:
    """Returns the arguments of pytest for the tests of a mutant's module, and of its folder."""
    path = mutant.path if mutant.path.startswith("t2t_lite/") else f"t2t_lite/{mutant.path}"
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    package, _, name = module.rpartition(".")
    imports = re.compile(rf"\b({re.escape(module)}\b|from {re.escape(package)} import .*\b{name}\b)")
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    near = [str(path) for path in tests if imports.search(path.read_text(encoding="utf-8"))]
    part = Path(path).parts[1]
    folder = ROOT / "tests" / ("integration" if part == "bin" else part)
    return [[*NOT_SLOW, *paths] for paths in (near, [str(folder)] if folder.is_dir() else []) if paths]


def found_by(mutant: Mutant, runs: Iterable[Sequence[str]], processes: int) -> str:
    """Returns the first test that fails with a mutant in one of the runs of pytest; "" if none does."""
    path = ROOT / mutant.path
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    assert lines[mutant.line - 1].rstrip("\n") == mutant.before
    lines[mutant.line - 1] = mutant.after + "\n"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", f"-n{processes}", "--dist=loadfile"]
    try:
        path.write_text("".join(lines), encoding="utf-8")
        for arguments in runs:
            try:
                done = subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT)
            except subprocess.TimeoutExpired:
                return "a run without an end"
            if done.returncode not in (0, 5):  # 5: no test is selected
                failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
                return failed[1] if failed else f"pytest's status {done.returncode}"
    finally:
        path.write_text(text, encoding="utf-8")
    return ""


def main() -> None:
    """Draws, runs and reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--log", type=Path, help="a line of JSON for each result; without it mutants are only shown")
    arguments = parser.parse_args()
    paths = sorted(path for part in CORE for path in (ROOT / part).rglob("*.py"))
    known = [mutant for path in paths for mutant in mutants_of(path)]
    drawn = random.Random(arguments.seed).sample(known, arguments.count)
    for number, mutant in enumerate(drawn, start=1):
        print(f"{number}. {mutant.path}:{mutant.line}\n  -{mutant.before.strip()}\n  +{mutant.after.strip()}")
    print(f"drawn out of {len(known):,} mutants")
    if not arguments.log:
        return
    log = arguments.log.read_text().splitlines() if arguments.log.exists() else []
    results = {(row["tests"], row["number"]): row["found_by"] for row in map(json.loads, log)}
    for tests in ("near", "all"):
        for number, mutant in enumerate(drawn, start=1):
            if (tests, number) not in results and not (tests == "all" and results["near", number]):
                runs = near_tests(mutant) if tests == "near" else ALL_TESTS
                found = results[tests, number] = found_by(mutant, runs, arguments.processes)
                with arguments.log.open("a") as file:
                    file.write(json.dumps({"tests": tests, "number": number, "found_by": found}) + "\n")
                print(f"{number}: {found or 'not found'} ({tests} tests)", flush=True)
    print(f"{sum(map(bool, results.values()))} of {len(drawn)} found")


if __name__ == "__main__":
    main()
