import sys

import pytest

from t2t_lite import registry as registry_module
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


def test_a_class_is_found_under_its_name_in_snake_case_or_the_name_that_is_given(registry):
    @registry.register("by_this_name")  # as in tensor2tensor
    def thing():
        pass

    assert registry.names() == list(registry) == ["by_this_name", "parsing", "translate_ende"] and len(registry) == 3
    assert [registry[name].__name__ for name in registry] == ["thing", "Parsing", "TranslateEnde"]
    assert "parsing" in registry and "Parsing" not in registry
    for name, expected in (("Multi30kEnde", "multi30k_ende"), ("Copy", "copy"), ("already_so", "already_so")):
        assert snake_case(name) == expected
    with pytest.raises(UserError, match="known: by_this_name, parsing, translate_ende"):
        registry["zzz"]


def test_a_name_registered_twice_is_an_error_that_names_both_places(registry):
    def clash():
        pass

    with pytest.raises(UserError) as caught:
        registry.register(clash, name="parsing")
    for said in ("'parsing' is registered twice", ".Parsing", ".clash"):
        assert said in str(caught.value)
    assert registry["parsing"].__name__ == "Parsing"


def test_loading_the_same_definition_again_replaces_it(registry):
    def define():
        @registry.register
        class Again:
            pass

        return Again

    first, second = define(), define()
    assert registry["again"] is second is not first


def test_a_lazy_entry_is_imported_on_first_use(tmp_path, monkeypatch):
    (tmp_path / "lazy_module_of_this_test.py").write_text("class Thing:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry("model", "model")
    registry.register_lazily("thing", "lazy_module_of_this_test:Thing", "A thing.")
    assert registry.names() == ["thing"] and registry.summary("thing") == "A thing."
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
    with pytest.raises(ZeroDivisionError), registering(Origin("package", "broken")):
        raise ZeroDivisionError
    registry.register_lazily("later", "a:later", "")
    origins = [registry.origin(name) for name in ("built_in", "first", "second", "third", "later", "unknown")]
    assert origins == [None, ("package", "outer"), ("t2t_usr_dir", "/home/me/mine"), ("package", "outer"), None, None]


def test_tensor2tensor_registry_functions_are_refused_with_our_name():
    for name in ("register_problem", "register_hparams", "register_model"):
        with pytest.raises(AttributeError, match=rf"tensor2tensor's {name} is [A-Z]+\.register here: from t2t_"):
            getattr(registry_module, name)
    with pytest.raises(AttributeError, match="has no attribute 'no_such_thing'"):
        registry_module.no_such_thing  # noqa: B018
