"""The table of imports in docs/architecture.md, made from import_rules.py.

`PYTHONPATH=tests .venv/bin/python -m support.import_table` writes it again.
"""

import re
from pathlib import Path

from support.import_rules import BASIS, RULES, RULES_AT_LOADING

PAGE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"
# Why a part may not import more.
REASONS = {
    "layers": "they run on every Keras backend",
    "models": "the same; `traced_cost` also reads graphs of TensorFlow",
    "checkpoints": "training writes them, decoding reads them",
    "decoding": "a model is known only by `Seq2SeqModel`",
    "parsing": "decoding does not know that trees exist",
    "trees": "trees need no TensorFlow",
    "visualization": "a model is known only by `attention` and `attention_layers`",
    "report": "it reads what training and evaluation have stored, without TensorFlow",
    "reproduce": "it runs the commands in processes of their own: one that fails or is killed harms no other",
    "benchmark": "it measures in processes of its own",
    "problems": "listings load all of them, and must answer at once",
    "hparams": "the same",
    "api": "checks come before TensorFlow, which takes seconds to import",
}


def import_table() -> str:
    """Returns the table in Markdown."""
    lines = ["| part | may import | because |", "|---|---|---|"]
    lines.append(f"| {_names(BASIS)} | the standard library | every part may import them, `--help` too |")
    at_loading = [part for part in RULES_AT_LOADING if part in ("problems", "hparams", "api")]
    for part in sorted(RULES) + at_loading:
        modules, packages = RULES[part] if part in RULES else RULES_AT_LOADING[part]
        own = sorted({name for name in modules if name not in BASIS and name != part})
        allowed = "; ".join(_names(names) for names in (own, sorted(packages)) if names) or "nothing more"
        when = "" if part in RULES else "when loaded: "
        lines.append(f"| `{part}` | {when}{allowed} | {REASONS.get(part, '')} |")
    return "\n".join(lines) + "\n"


def with_table(page: str) -> str:
    """Returns the page with the table in the place of the present one."""
    return re.sub(r"\| part \| may import .*?\n\n", lambda _: import_table() + "\n", page, flags=re.DOTALL)


def _names(names: "tuple[str, ...] | list[str]") -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
