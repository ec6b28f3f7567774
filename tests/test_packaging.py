"""The distribution: what setup.cfg packs, and an installed wheel that is used without the checkout."""

import configparser
import importlib.metadata
import os
import re
import shutil
import site
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from support.commands import user_environment
from support.server import SENTENCES, Server

import t2t_lite as t2t

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
# The folders at the root and the packages that they become.
FOLDERS = {"t2t_lite": "t2t_lite"} | {name: f"t2t_lite.{name}" for name in ("problems", "hparams", "bin")}
FILES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE")


def setup_cfg():
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    return settings


def requirements_in(section, name):
    lines = setup_cfg()[section][name].split("\n")
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


INSTALL_COMMANDS = "from t2t_lite.system import installed; "
INSTALL_COMMANDS += "print(*map(installed.install_command, ('plot', '')), sep='\\n')"
OTHER_PYTHON = "needs Python 3.11 to 3.13, which {python} is not; install it (on Debian and Ubuntu: apt-get"
NO_VENV = "{python} cannot make an environment; install its module venv (on Debian and Ubuntu: apt-get install "
NO_VENV += f"python3.{sys.version_info[1]}-venv)"
IMITATED = "exec " + sys.executable + " -c 'import sys; %s; exec(sys.argv[1])' \"$2\""
MACHINES = {
    "no python": ("exit 127", OTHER_PYTHON),
    "another version": (IMITATED % "sys.version_info = (3, 10)", OTHER_PYTHON),
    "no venv": (IMITATED % 'sys.modules["ensurepip"] = None', NO_VENV),
}


@pytest.mark.parametrize(("program", "said"), MACHINES.values(), ids=MACHINES)
def test_a_machine_that_cannot_install_is_told_in_one_line_what_to_install(tmp_path, program, said):
    (tmp_path / "bin").mkdir()
    shutil.copy(ROOT / "bin" / "install", tmp_path / "bin")
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{program}\n")
    python.chmod(0o755)
    message = run(tmp_path / "bin" / "install", cwd=tmp_path, status=1, PYTHON=str(python)).stderr
    assert message.startswith("bin/install: " + said.format(python=python))
    assert message.count("\n") == 1 and not (tmp_path / ".venv").exists()


def test_a_package_that_is_not_installed_names_the_command_of_the_documentation(tmp_path):
    (tmp_path / "t2t_lite").symlink_to(ROOT / "t2t_lite")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {INSTALL_COMMANDS}"
    printed = run(sys.executable, "-I", "-S", "-c", program, cwd=tmp_path).stdout.splitlines()
    assert [line.partition("pip install ")[2] for line in printed] == ["-e '.[plot]'", "-e ."]


def run(*command, cwd, status=0, **environment):
    options = {"capture_output": True, "text": True, "timeout": 600, "check": False}
    environment = user_environment(XDG_CACHE_HOME=str(cwd / "cache"), **environment)
    finished = subprocess.run(list(map(str, command)), cwd=cwd, env=environment, **options)
    assert finished.returncode == status, finished.stdout + finished.stderr
    return finished


def pip(*arguments, cwd):
    return run(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments, cwd=cwd)


def environment_with(wheel, folder):
    """Makes an environment with a wheel, without its dependencies; returns its bin/ and site-packages/."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    pip("--python", folder / "bin" / "python", "install", "--no-deps", "--no-index", wheel, cwd=folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    return folder / "bin", packages


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A copy of the checkout in which bin/build has written dist/."""
    source = tmp_path_factory.mktemp("packaging") / "source"
    source.mkdir()
    # A copy, because setuptools leaves files beside the source.
    for name in FILES:
        shutil.copy(ROOT / name, source)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    # As without a network: the packages that build are those of this environment.
    printed = run(sys.executable, source / "bin" / "build", cwd=source, PIP_NO_INDEX="1", PIP_NO_BUILD_ISOLATION="0")
    assert re.fullmatch(r"dist/requirements-serve.txt .*\ndist/t2t_lite-.*\.whl +0\.\d MB\n", printed.stdout)
    return source


@pytest.fixture(scope="module")
def wheels(built, tmp_path_factory):
    """A wheel of the checkout, and a wheel of the source distribution."""
    top = tmp_path_factory.mktemp("sdist")
    unpacked, from_sdist = top / "unpacked", top / "from_sdist"
    for folder in (unpacked, from_sdist):
        folder.mkdir()
    program = f"import setuptools.build_meta as backend; backend.build_sdist({str(top)!r})"
    run(sys.executable, "-c", program, cwd=built)
    (archive,) = top.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(unpacked, filter="data")
    (direct,) = built.glob("dist/*.whl")
    (source,) = unpacked.iterdir()
    pip("wheel", "--no-deps", "--no-index", "--no-build-isolation", f"--wheel-dir={from_sdist}", source, cwd=top)
    (indirect,) = from_sdist.glob("*.whl")
    return direct, indirect


@pytest.fixture(scope="module")
def environment(wheels, tmp_path_factory):
    """The bin/ folder of an environment with the installed wheel; the dependencies are those of this environment."""
    programs, packages = environment_with(wheels[1], tmp_path_factory.mktemp("environment"))
    # The .pth files in a folder that a .pth file names are not read, so the editable installation does not count.
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return programs


def test_the_wheel_has_every_module_and_nothing_else(wheels):
    contents = []
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as file:
            contents.append({name: file.read(name) for name in file.namelist() if not name.endswith("/RECORD")})
    assert contents[0] == contents[1]
    packed = {name for name in contents[0] if ".dist-info/" not in name}
    expected = {"t2t_lite/py.typed"}
    for folder, package in FOLDERS.items():
        files = (file.relative_to(ROOT / folder).parts for file in (ROOT / folder).rglob("*.py"))
        expected |= {"/".join([*package.split("."), *parts]) for parts in files}
    for kind in ("static", "templates"):
        expected |= {str(file.relative_to(ROOT)) for file in ROOT.glob(f"t2t_lite/*/{kind}/*")}
    expected |= {f"t2t_lite/{file.relative_to(ROOT)}" for file in ROOT.glob("bin/run/examples/*")}
    assert packed == expected
    (license,) = [name for name in contents[0] if name.endswith("LICENSE")]
    assert contents[0][license] == (ROOT / "LICENSE").read_bytes()
    (metadata,) = [text.decode() for name, text in contents[0].items() if name.endswith("/METADATA")]
    assert (ROOT / "README.md").read_text(encoding="utf-8").strip() in metadata


def test_every_command_of_the_wheel_explains_itself(environment, tmp_path):
    lines = setup_cfg()["options.entry_points"]["console_scripts"].split()
    names = [line for line in lines if line.startswith("t2t-lite-")]
    assert len(names) > 10
    for name in names:
        assert f"usage: {name}" in run(environment / name, "--help", cwd=tmp_path).stdout


@pytest.mark.heavy
def test_the_wheel_trains_outside_the_checkout(environment, tmp_path):
    settings = "--hparams=hidden_size=32,filter_size=64,num_heads=2,batch_tokens=512"
    flags = ("--problem=algorithmic_reverse", "--hparams_set=transformer_tiny", settings, "--generate_data")
    folders = ("--data_dir=data", "--tmp_dir=tmp", "--output_dir=run")
    trainer = environment / "t2t-lite-trainer"
    run(trainer, *flags, *folders, "--train_steps=2", "--peak_tflops=1", cwd=tmp_path)
    assert (tmp_path / "run" / "ckpt-2.index").exists()


def closure(requirements):
    """The distributions that the requirements need, with all that these need."""
    found, left = {}, [Requirement(line) for line in requirements]
    while left:
        requirement = left.pop()
        name, extras = re.sub(r"[-_.]+", "-", requirement.name.lower()), requirement.extras or {""}
        if name in found and extras <= found[name][1]:
            continue
        distribution = importlib.metadata.distribution(name)
        found[name] = distribution, extras | found.get(name, (None, set()))[1]
        for line in distribution.requires or []:
            needed = Requirement(line)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                left.append(needed)
    return [distribution for distribution, _ in found.values()]


@pytest.fixture(scope="module")
def serving(built, wheels, tmp_path_factory):
    """The bin/ folder of an environment with what requirements-serve.txt names, and the wheel without dependencies."""
    lines = (built / "dist" / "requirements-serve.txt").read_text().splitlines()[1:]
    programs, packages = environment_with(wheels[0], tmp_path_factory.mktemp("serving"))
    for distribution in closure(lines):
        for top in {file.parts[0] for file in distribution.files} - {"..", "__pycache__"}:
            if not (packages / top).exists():  # a folder of several distributions
                os.symlink(distribution.locate_file(top), packages / top)
    return programs


def test_the_serving_requirements_have_the_ranges_of_setup_cfg(built):
    lines = (built / "dist" / "requirements-serve.txt").read_text().splitlines()[1:]
    plain = requirements_in("options", "install_requires")
    extras = [requirements_in("options.extras_require", extra) for extra in ("serve", "ctranslate2")]
    assert set(lines) - plain == extras[0] | extras[1]
    assert not {re.match(r"[\w-]+", line)[0] for line in lines} & {"tensorflow", "keras", "tensorflow-text", "pyarrow"}


def test_a_serving_machine_decodes_scores_and_serves_without_tensorflow(serving, served_exports, tmp_path):
    heavy = ("tensorflow", "keras", "tensorflow_text", "tensorflow_datasets", "tensorboard", "scipy", "pyarrow")
    program = f"from importlib.util import find_spec; print([name for name in {heavy} if find_spec(name)])"
    assert run(serving / "python", "-c", program, cwd=tmp_path).stdout == "[]\n"
    export = served_exports / "new"
    expected = t2t.Translator.from_export(export).translate(SENTENCES)
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in SENTENCES))
    files = ("--decode_from_file=in.txt", "--decode_to_file=out.txt")
    run(serving / "t2t-lite-decoder", f"--export_dir={export}", *files, cwd=tmp_path)
    assert (tmp_path / "out.txt").read_text().splitlines() == expected
    texts = ("--hypothesis=out.txt", "--reference=out.txt", "--metric=bleu,chrf,ter,paper_bleu", "--language=de")
    scored = run(serving / "t2t-lite-score", *texts, cwd=tmp_path)
    assert scored.stdout.count("100.00") >= 3
    assert "transformer_base" in run(serving / "t2t-lite-params", cwd=tmp_path).stdout
    assert "3.3e18 FLOPs" in run(serving / "t2t-lite-benchmark", "--cost", cwd=tmp_path).stdout
    languages = "--languages=en-de"
    with Server(f"--export_dir={export}", languages, program=serving / "t2t-lite-serve") as server:
        assert server.translate(SENTENCES) == expected
        assert server.get("/").status == 200


def test_a_serving_machine_says_in_one_line_what_needs_tensorflow(serving, small_run, grammar_data, wheels, tmp_path):
    train = ("--problem=grammar_ende", "--hparams_set=transformer_tiny", f"--data_dir={grammar_data}")
    for name, *flags in (
        ("trainer", *train, "--output_dir=run"),
        ("decoder", f"--output_dir={small_run}", "--decode_from_file=in.txt"),
        ("eval", f"--output_dir={small_run}", f"--data_dir={grammar_data}"),
        ("avg", f"--output_dir={small_run}", "--n=3"),
        ("export", f"--output_dir={small_run}", "--export_dir=out"),
        ("benchmark", "--layers"),
        ("datagen", "--problem=algorithmic_copy", "--data_dir=copy"),
        ("report", f"--output_dir={small_run}", "--report_file=r.html"),
    ):
        (tmp_path / "in.txt").write_text("a\n")
        errors = run(serving / f"t2t-lite-{name}", *flags, cwd=tmp_path, status=1).stderr
        wanted = "a report needs matplotlib" if name == "report" else "needs TensorFlow"
        assert errors.count("\n") == 1 and wanted in errors, errors
        # What is named installs what is missing, and not what was left out on purpose.
        command = errors.partition("; run ")[2]
        assert "-m pip install" in command and ("matplotlib" in command) == (name == "report")
        assert ("tensorflow<2.22" in command or str(wheels[0]) in command) == (name != "report"), errors


@pytest.mark.heavy
def test_a_missing_extra_is_named_with_the_wheel_or_the_checkout(environment, wheels, built, tmp_path):
    run_pip = f"{environment / 'python'} -m pip install"
    printed = run(environment / "python", "-c", INSTALL_COMMANDS, cwd=tmp_path).stdout
    assert printed == f"{run_pip} '{wheels[1]}[plot]'\n{run_pip} {wheels[1]}\n"
    for editable in ([], ["--editable"]):
        pip("--python", environment / "python", "install", "--no-deps", "--no-index", "--no-build-isolation",
            "--force-reinstall", *editable, built, cwd=tmp_path)  # fmt: skip
        # In the checkout, where setuptools has left metadata of its own.
        printed = run(environment / "python", "-c", INSTALL_COMMANDS, cwd=built).stdout
        e = "-e " if editable else ""
        assert printed == f"{run_pip} {e}'{built}[plot]'\n{run_pip} {e}{built}\n"
