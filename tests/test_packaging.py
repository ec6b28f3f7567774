"""The distribution: what setup.cfg packs, and an installed wheel that is used without the checkout."""

import configparser
import shutil
import site
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from support.commands import user_environment

ROOT = Path(__file__).resolve().parent.parent
# The folders at the root and the packages that they become.
FOLDERS = {
    "t2t_lite": "t2t_lite",
    "problems": "t2t_lite.problems",
    "hparams": "t2t_lite.hparams",
    "bin": "t2t_lite.bin",
}
FILES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE")


def setup_cfg():
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    return settings


def commands():
    lines = setup_cfg()["options.entry_points"]["console_scripts"].split("\n")
    return [line.partition("=")[0].strip() for line in lines if line]


def packages_of_the_tree():
    found = set()
    for folder, package in FOLDERS.items():
        for file in (ROOT / folder).rglob("__init__.py"):
            found.add(".".join([package, *file.parent.relative_to(ROOT / folder).parts]))
    return found


def test_every_package_of_the_tree_is_packed():
    listed = setup_cfg()["options"]["packages"].split()
    assert sorted(listed) == sorted(packages_of_the_tree())


def test_every_folder_with_modules_is_a_package():
    for folder in FOLDERS:
        for file in (ROOT / folder).rglob("*.py"):
            assert (file.parent / "__init__.py").exists(), f"{file.parent} has no __init__.py"


def run(*command, cwd):
    finished = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=user_environment(XDG_CACHE_HOME=str(cwd / "cache")),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished


def pip(*arguments, cwd):
    return run(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments, cwd=cwd)


def make_wheel(source, folder):
    pip("wheel", "--no-deps", "--no-index", "--no-build-isolation", f"--wheel-dir={folder}", source, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """A wheel of the checkout, and a wheel of the source distribution."""
    top = tmp_path_factory.mktemp("packaging")
    source, direct, unpacked, from_sdist = (top / name for name in ("source", "direct", "unpacked", "from_sdist"))
    for folder in (source, direct, unpacked, from_sdist):
        folder.mkdir()
    # A copy, because setuptools leaves files beside the source.
    for name in FILES:
        shutil.copy(ROOT / name, source)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    program = f"import setuptools.build_meta as backend; backend.build_sdist({str(top)!r})"
    run(sys.executable, "-c", program, cwd=source)
    (archive,) = top.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(unpacked, filter="data")
    return make_wheel(source, direct), make_wheel(next(unpacked.iterdir()), from_sdist)


@pytest.fixture(scope="module")
def environment(wheels, tmp_path_factory):
    """The bin/ folder of an environment with the installed wheel; the dependencies are those of this environment."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    python = folder / "bin" / "python"
    pip("--python", python, "install", "--no-deps", "--no-index", wheels[1], cwd=folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    # The .pth files in a folder that a .pth file names are not read, so the editable installation does not count.
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return folder / "bin"


def test_the_wheel_has_every_module_and_nothing_else(wheels):
    contents = []
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as file:
            contents.append({name: file.read(name) for name in file.namelist() if not name.endswith("/RECORD")})
    assert contents[0] == contents[1]
    packed = {name for name in contents[0] if ".dist-info/" not in name}
    modules = {
        "/".join([*package.split("."), *file.relative_to(ROOT / folder).parts])
        for folder, package in FOLDERS.items()
        for file in (ROOT / folder).rglob("*.py")
    }
    others = {
        str(file.relative_to(ROOT)) for kind in ("static", "templates") for file in ROOT.glob(f"t2t_lite/*/{kind}/*")
    }
    assert packed == modules | others | {"t2t_lite/py.typed"}
    (license,) = [name for name in contents[0] if name.endswith("LICENSE")]
    assert contents[0][license] == (ROOT / "LICENSE").read_bytes()
    (metadata,) = [text.decode() for name, text in contents[0].items() if name.endswith("/METADATA")]
    assert (ROOT / "README.md").read_text(encoding="utf-8").strip() in metadata


def test_the_installed_package_is_imported_and_not_the_checkout(environment, tmp_path):
    program = "import t2t_lite, t2t_lite.bin, t2t_lite.problems as p; print(t2t_lite.__file__, p.__file__, sep='\\n')"
    for path in run(environment / "python", "-c", program, cwd=tmp_path).stdout.split():
        assert Path(path).is_relative_to(environment.parent)


@pytest.mark.parametrize("name", commands())
def test_every_command_of_the_wheel_explains_itself(environment, tmp_path, name):
    assert f"usage: {name}" in run(environment / name, "--help", cwd=tmp_path).stdout


@pytest.mark.slow
def test_the_wheel_trains_outside_the_checkout(environment, tmp_path):
    run(
        environment / "t2t-lite-trainer",
        "--problem=algorithmic_reverse",
        "--hparams_set=transformer_tiny",
        "--hparams=hidden_size=32,filter_size=64,num_heads=2,batch_tokens=512",
        "--data_dir=data",
        "--tmp_dir=tmp",
        "--output_dir=run",
        "--generate_data",
        "--train_steps=2",
        "--peak_tflops=1",
        cwd=tmp_path,
    )
    assert (tmp_path / "run" / "ckpt-2.index").exists()
