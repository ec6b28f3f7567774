import sys

import pytest

from t2t_lite.errors import UserError
from t2t_lite.registry import CONSTRAINTS, HPARAMS, METRICS, MODELS, PROBLEMS, Origin, Registry, registering, snake_case


@pytest.fixture
def registry():
    registry = Registry("problem", "problem")

    @registry.register
    class TranslateEnde:
        """Text in, text out.

        More of it.
        """

    @registry.register(name="parsing")
    class Parsing:
        pass

    return registry


@pytest.mark.parametrize(
    "class_name, name",
    [
        ("Multi30kEnde", "multi30k_ende"),
        ("GrammarEnde", "grammar_ende"),
        ("Copy", "copy"),
        ("already_so", "already_so"),
    ],
)
def test_a_class_is_registered_under_its_name_in_snake_case(class_name, name):
    assert snake_case(class_name) == name


def test_a_registered_class_is_found_by_name(registry):
    assert registry.names() == ["parsing", "translate_ende"]
    assert registry["translate_ende"].__name__ == "TranslateEnde"
    assert registry["parsing"].__name__ == "Parsing"
    assert "parsing" in registry and "Parsing" not in registry


def test_an_unknown_name_without_near_names_lists_all_names(registry):
    with pytest.raises(UserError, match="known: parsing, translate_ende"):
        registry["zzz"]


def test_a_name_registered_twice_is_an_error_that_names_both_places(registry):
    def clash():
        pass

    with pytest.raises(UserError) as caught:
        registry.register(clash, name="parsing")
    assert "'parsing' is registered twice" in str(caught.value)
    assert ".Parsing" in str(caught.value)
    assert ".clash" in str(caught.value)
    assert registry["parsing"].__name__ == "Parsing"


def test_loading_the_same_definition_again_replaces_it(registry):
    def define():
        @registry.register
        class Again:
            pass

        return Again

    first, second = define(), define()
    assert first is not second
    assert registry["again"] is second


def test_a_lazy_entry_is_imported_on_first_use(tmp_path, monkeypatch):
    (tmp_path / "lazy_module_of_this_test.py").write_text("class Thing:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry("model", "model")
    registry.register_lazily("thing", "lazy_module_of_this_test:Thing", "A thing.")
    assert registry.names() == ["thing"]
    assert registry.summary("thing") == "A thing."
    registry.check("thing")
    assert "lazy_module_of_this_test" not in sys.modules
    assert registry["thing"].__name__ == "Thing"
    assert registry["thing"] is sys.modules["lazy_module_of_this_test"].Thing


def test_every_built_in_name_has_a_summary():
    for registry in (PROBLEMS, HPARAMS, MODELS, METRICS, CONSTRAINTS):
        built_in = [name for name in registry.names() if registry.source(name) is None]
        assert built_in
        assert [name for name in built_in if not registry.summary(name)] == []


def test_names_of_a_plug_in_have_its_origin_and_built_in_names_have_none():
    registry = Registry("thing", "thing")
    registry.register_lazily("built_in", "somewhere:it", "")
    with registering(Origin("package", "outer")):
        registry.register_lazily("first", "a:first", "")
        with registering(Origin("t2t_usr_dir", "/home/me/mine")):
            registry.register_lazily("second", "b:second", "")
        registry.register_lazily("third", "a:third", "")
    origins = [registry.origin(name) for name in ("built_in", "first", "second", "third", "unknown")]
    assert origins == [None, ("package", "outer"), ("t2t_usr_dir", "/home/me/mine"), ("package", "outer"), None]


def test_a_plug_in_that_fails_leaves_no_origin_behind():
    registry = Registry("thing", "thing")
    with pytest.raises(ZeroDivisionError), registering(Origin("package", "broken")):
        raise ZeroDivisionError
    registry.register_lazily("later", "a:later", "")
    assert registry.origin("later") is None


def test_a_name_may_be_the_only_argument_of_register_as_in_tensor2tensor(registry):
    @registry.register("by_this_name")
    def thing():
        pass

    assert registry["by_this_name"] is thing
    assert list(registry) == registry.names() and len(registry) == len(registry.names())


@pytest.mark.parametrize("name", ["register_problem", "register_hparams", "register_model"])
def test_tensor2tensor_registry_functions_are_refused_with_our_name(name):
    from t2t_lite import registry

    with pytest.raises(AttributeError, match=rf"tensor2tensor's {name} is [A-Z]+\.register here: from t2t_"):
        getattr(registry, name)
    with pytest.raises(AttributeError, match="has no attribute 'no_such_thing'"):
        getattr(registry, "no_such" + "_thing")
