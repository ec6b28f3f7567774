"""Every setting does something: a field that no code reads is an error."""

import ast
import dataclasses
from pathlib import Path

import pytest

from t2t_lite.config import DecodeHParams, HParams

ROOT = Path(__file__).resolve().parent.parent


def object_name(node):
    """The last name of an expression: `self.model.hparams` -> "hparams"; "" for other expressions."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


CONFIG = ROOT / "t2t_lite" / "config.py"


def reads():
    """(name of the object, attribute) of every attribute that the code reads, outside config.py.

    A property of the settings that is read there reads what it is made of.
    """
    found = set()
    for folder in ("t2t_lite", "bin"):
        for path in (ROOT / folder).rglob("*.py"):
            if path != CONFIG:
                found |= reads_of(ast.parse(path.read_text(encoding="utf-8")))
    for node in ast.walk(ast.parse(CONFIG.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and any(object_name(mark) == "property" for mark in node.decorator_list):
            readers = {name for name, attribute in found if attribute == node.name}
            found |= {(reader, attribute) for reader in readers for _, attribute in reads_of(node)}
    return found


def reads_of(tree):
    """The same for one file; after `settings = self.decode_hparams` the object's name is the longer one."""
    renamed = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            (target,), value = node.targets[:1], node.value
            are_pairs = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            parts = zip(target.elts, value.elts) if are_pairs else [(target, value)]
            renamed.update({object_name(a): object_name(b) for a, b in parts if object_name(b).endswith("hparams")})
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and object_name(node.func) == "stored_setting":
            found |= {("hparams", node.args[1].value)} if isinstance(node.args[1], ast.Constant) else set()
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            name = object_name(node.value)
            found.add((renamed.get(name, name), node.attr))
    return found


READS = reads()


def is_read(kind, field):
    """Whether `field` is read of an object that is called as settings of this kind are: (decode_)hparams."""
    names = {name for name, attribute in READS if attribute == field}
    if kind is HParams:  # "decode_hparams" ends so, too
        names = {name for name in names if not name.endswith(DecodeHParams.FLAG)}
    return any(name.endswith(kind.FLAG) for name in names)


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(HParams)])
def test_every_model_setting_is_read(field):
    assert is_read(HParams, field), f"nothing in t2t_lite/ or bin/ reads hparams.{field}"


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(DecodeHParams)])
def test_every_decoding_setting_is_read(field):
    assert is_read(DecodeHParams, field), f"nothing in t2t_lite/ or bin/ reads decode_hparams.{field}"


def test_an_unread_setting_is_detected():
    assert not is_read(HParams, "no_such_setting")
    assert not is_read(DecodeHParams, "hidden_size")  # read of `hparams` only
