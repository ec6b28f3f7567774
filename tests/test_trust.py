"""Code that a run directory names is run only if the user has trusted its folder."""

import json
import sys

import pytest

from t2t_lite.config import HParams
from t2t_lite.data.problem import get_problem
from t2t_lite.errors import UserError
from t2t_lite.plugins import is_trusted, trust, trusted_list
from t2t_lite.registry import PROBLEMS
from t2t_lite.runs.run_dir import open_run_dir, prepare_run_dir, stored_setting, trust_run_plugins


@pytest.fixture(autouse=True)
def config(tmp_path, monkeypatch):
    """The user's configuration folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config"


@pytest.fixture
def folder(tmp_path):
    """A plug-in that leaves a trace where it is imported."""
    folder = tmp_path / "code"
    folder.mkdir()
    imports = "import pathlib\nfrom t2t_lite.data.problem import Problem\nfrom t2t_lite.registry import PROBLEMS\n"
    trace = f"pathlib.Path({str(tmp_path / 'it-ran')!r}).touch()\n"
    (folder / "plugin.py").write_text(f"{imports}{trace}@PROBLEMS.register\nclass TrustMe(Problem):\n    pass\n")
    return folder


@pytest.fixture
def run(tmp_path):
    """Makes a run directory whose run.json names a folder: run("/a/b") -> its path."""

    def make(where, kind="t2t_usr_dir"):
        vocabulary = tmp_path / "vocab"
        vocabulary.write_bytes(b"pieces")
        path = tmp_path / "run"
        if not path.exists():
            prepare_run_dir(path, HParams(), get_problem("grammar_ende"), vocabulary)
        about = json.loads((path / "run.json").read_text())
        about |= {"problem": "trust_me", "plugins": {"problem": [kind, str(where)]}}
        (path / "run.json").write_text(json.dumps(about))
        return path

    yield make
    PROBLEMS.unregister("trust_me")
    for name in [name for name in sys.modules if name.startswith("t2t_usr_dir_") and "code" in name]:
        del sys.modules[name]


def refusal(function, *arguments):
    with pytest.raises(UserError) as caught:
        function(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_folder_is_imported_once_trusted_and_not_before(run, folder, tmp_path, config):
    path = run(folder)
    message = refusal(open_run_dir, path)
    assert f"pass --t2t_usr_dir={folder}, or --trust_plugins" in message and "'trust_me'" in message
    # What needs no problem needs no plug-in.
    assert stored_setting(path, "average_checkpoints") == 5
    assert not config.exists()
    trust_run_plugins(path)
    assert json.loads((config / "t2t-lite" / "trusted_plugins.json").read_text()) == [str(folder)]
    assert not (tmp_path / "it-ran").exists()
    assert open_run_dir(path).problem.name == "trust_me"
    assert (tmp_path / "it-ran").exists()


def test_a_link_to_a_trusted_folder_is_trusted_and_its_neighbours_are_not(folder, tmp_path):
    trust(folder)
    (tmp_path / "link").symlink_to(folder)
    assert is_trusted(folder) and is_trusted(tmp_path / "link")
    assert not is_trusted(tmp_path) and not is_trusted(folder / "inner") and not is_trusted(tmp_path / "code2")


RELATIVE = "the folder {where}, which is a relative path"
INSIDE = "which is inside the run directory; pass its location with `t2t_usr_dir`"
UNTRUSTED = {
    **dict.fromkeys(("model/code", "code", ".", "../code"), RELATIVE),
    **dict.fromkeys(("{tmp}/run/code", "{tmp}/link"), INSIDE),
    # These depend on the process.
    **dict.fromkeys(("/proc/self/cwd/code", "/dev/fd/../../code"), "which is not on a disk"),
}


@pytest.mark.parametrize("where", UNTRUSTED)
def test_some_places_are_refused_even_if_the_user_trusts_them(run, folder, tmp_path, where, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = where.format(tmp=tmp_path)
    path = run(place)
    (tmp_path / "link").symlink_to(path / "code")
    if UNTRUSTED[where] is INSIDE:
        folder.rename(path / "code")
    trust(tmp_path / place)
    for function in (open_run_dir, trust_run_plugins):
        assert UNTRUSTED[where].format(where=where) in refusal(function, path)
    assert not (tmp_path / "it-ran").exists()


OF_PROBLEM = ["x", ["t2t_usr_dir", 4], ["a", "b"]]


@pytest.mark.parametrize("plugins", [4, "x", ["problem"], *({"problem": of_problem} for of_problem in OF_PROBLEM)])
def test_damaged_plug_in_entries_are_an_error_that_names_the_file(run, plugins):
    path = run("/nowhere")
    about = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps(about | {"plugins": plugins}))
    for function in (open_run_dir, trust_run_plugins):
        assert f"{path / 'run.json'} is damaged" in refusal(function, path)


@pytest.mark.parametrize("content", ["", "{}", "[", "4"])
def test_a_damaged_list_of_trusted_folders_is_an_error_that_names_it(folder, content):
    trusted_list().parent.mkdir(parents=True)
    trusted_list().write_text(content)
    for function in (is_trusted, trust):
        assert f"{trusted_list()} is damaged" in refusal(function, folder)


def test_only_needed_folders_are_trusted_and_all_or_none(run, folder, tmp_path, config):
    path = run(folder)
    about = json.loads((path / "run.json").read_text())
    plugins = {"problem": folder, "model": tmp_path, "x": "/"}
    plugins = {kind: ["t2t_usr_dir", str(where)] for kind, where in plugins.items()}
    (path / "run.json").write_text(json.dumps(about | {"plugins": plugins}))
    assert trust_run_plugins(path) == [folder]  # the model is a built-in one, and nothing is called x
    assert not is_trusted(tmp_path) and not is_trusted("/")
    trusted_list().unlink()
    settings = json.loads((path / "hparams.json").read_text())
    (path / "hparams.json").write_text(json.dumps(settings | {"model": "odd"}))
    plugins["model"][1] = str(path / "code")
    (path / "run.json").write_text(json.dumps(about | {"plugins": plugins}))
    assert "inside the run directory" in refusal(trust_run_plugins, path)
    assert not trusted_list().exists()
