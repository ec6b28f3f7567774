"""The example plug-in (tests/example_plugin), installed as users install a package."""

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from t2t_lite.plugins import load_all

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


@pytest.fixture(scope="session")
def example(example_site, command):
    """Runs a command in this process, in which the example plug-in is installed; checks that it ends well."""
    if str(example_site) not in sys.path:
        sys.path.append(str(example_site))
        importlib.invalidate_caches()
        load_all()

    def run(name, *flags, **options):
        result = command(name, *flags, **options)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run
