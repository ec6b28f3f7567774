"""Checks that a change of texts left the code alone: syntax trees without strings are those of a revision.

`.venv/bin/python tests/support/same_code.py REVISION` lists the files whose code differs.
"""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def code_of(source: str) -> str:
    """Returns the syntax tree of a file as text, without the content of docstrings and strings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):  # the order of the values that are put in may change
            node.values = sorted((part for part in node.values if isinstance(part, ast.FormattedValue)), key=ast.dump)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return ast.dump(tree)


def main() -> None:
    """Compares all Python files with those of a revision."""
    revision = sys.argv[1]
    names = subprocess.check_output(["git", "diff", "--name-only", revision, "--", "*.py"], cwd=ROOT, text=True).split()
    differing = []
    for name in names:
        before = subprocess.run(
            ["git", "show", f"{revision}:{name}"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        path = ROOT / name
        if (
            before.returncode
            or not path.exists()
            or code_of(before.stdout) != code_of(path.read_text(encoding="utf-8"))
        ):
            differing.append(name)
    print("\n".join(differing) or f"{len(names)} files have other texts only")
    sys.exit(bool(differing))


if __name__ == "__main__":
    main()
