"""The example plug-in (tests/example_plugin), installed as users install a package."""

import contextlib
import importlib
import itertools
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import t2t_lite as t2t
from t2t_lite.bin.decoder.outputs import ResumableWriter
from t2t_lite.plugins import load_all
from t2t_lite.registry import REGISTRIES, Origin

EXAMPLE = Path(__file__).resolve().parents[1] / "example_plugin"


@pytest.fixture(scope="session")
def example_site(shared_folders):
    """The folder into which pip has installed the example; on PYTHONPATH it works like site-packages."""

    def make(folder):
        copy, site = folder / "source", folder / "site"
        shutil.copytree(EXAMPLE, copy)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
        subprocess.run([*pip, "--target", site, copy], check=True, capture_output=True)

    return shared_folders.get("example_site", make) / "site"


@pytest.fixture(scope="module")
def example(example_site, command):
    """Runs a command in this process, in which the example plug-in is installed; checks that it ends well."""
    sys.path.append(str(example_site))
    importlib.invalidate_caches()
    load_all()

    def run(name, *flags, **options):
        result = command(name, *flags, **options)
        assert result.returncode == 0, result.stderr
        return result.stdout

    yield run
    sys.path.remove(str(example_site))
    for name in [name for name in sys.modules if name.startswith("t2t_lite_example")]:
        del sys.modules[name]
    for registry in REGISTRIES:
        for name in registry.names():
            if registry.origin(name) == Origin("package", "t2t-lite-example"):
                registry.unregister(name)


@pytest.fixture
def stopped_after(monkeypatch):
    """Stops decoding to files after some blocks: `with stopped_after(2): command("decoder", ...)`."""

    @contextlib.contextmanager
    def stopped(blocks):
        written, append = itertools.count(1), ResumableWriter.append

        def append_and_stop(self, *args):
            append(self, *args)
            if next(written) == blocks:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(ResumableWriter, "append", append_and_stop)
            yield

    return stopped


@pytest.fixture(scope="session")
def expected(served_exports):
    """A function that translates lines as the decoder does, with one of the two exports."""
    translators = {name: t2t.Translator.from_export(served_exports / name) for name in ("new", "old")}
    return lambda lines, name="new": translators[name].translate(lines)
