"""The documentation: links and names exist, commands parse, and the Python examples run as printed."""

import importlib
import json
import re
import runpy
import shlex
import subprocess
import sys

import pytest
import yaml
from support.commands import user_environment
from support.pages import ROOT, command_lines, contents, text_of

import t2t_lite as t2t
from t2t_lite.bin.cli import parse_with_problem
from t2t_lite.config import DecodeHParams
from t2t_lite.registry import HPARAMS

PAGES = sorted(page.relative_to(ROOT).as_posix() for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
# Changes to examples that take long.
SHORT = {
    'generate_data("grammar_ende", "data")': 'generate_data("grammar_ende", "data", max_cases=1500)',
    "train_steps=2000": "train_steps=4",
    "save_checkpoints_steps=500": "save_checkpoints_steps=2",
    'Translator.from_run_dir("run")': 'Translator.from_run_dir("run", {"extra_length": 5}, xla_compile=False)',
    'Parser.from_run_dir("parser")': 'Parser.from_run_dir("parser", decode_hparams="beam_size=3", xla_compile=False)',
    '"--decode_to_file=my.out"': '"--decode_to_file=my.out", "--decode_hparams=extra_length=5", "--xla_compile=False"',
}


def prose_of(page):
    return re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL)


def anchors(page):
    """The anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings(page):
    targets = re.findall(r"\]\(([^)\s]+)\)", prose_of(page)) + re.findall(r'<img src="([^"]+)"', prose_of(page))
    for target in (target for target in targets if not target.startswith("https://")):
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file.resolve().relative_to(ROOT)), target


@pytest.mark.parametrize("page", PAGES)
def test_python_examples_are_python_and_names_of_the_api_exist(page):
    for example in contents(page, "python"):
        compile(example, page, "exec")
    for name in re.findall(r"\bt2t\.([A-Za-z_]\w*)", text_of(page)):
        assert name in t2t.__all__, name


def test_the_page_of_the_python_api_mentions_every_name():
    assert [name for name in t2t.__all__ if f"t2t.{name}" not in text_of("docs/python.md")] == []


def test_the_page_of_the_options_is_made_of_their_declarations():
    assert text_of("docs/options.md") == runpy.run_path(str(ROOT / "docs/site/options.py"))["reference"]()


def test_every_page_can_be_reached_from_the_readme():
    reached, left = set(), ["README.md"]
    while left:
        page = left.pop()
        reached.add(page)
        for target in re.findall(r"\]\(([^)#\s]+\.md)[)#]", prose_of(page)):
            if not target.startswith("https://"):
                linked = ((ROOT / page).parent / target).resolve().relative_to(ROOT).as_posix()
                left += [linked] if linked not in reached else []
    assert reached >= set(PAGES)


# What only shows names, what the page leaves out, and a flag of tensor2tensor whose error the page shows.
NOT_PARSED = ("--registry_help", "...", "--worker_gpu")
# Their commands name what the page registers; tests run them.
RUN_PAGES = ("docs/plugins.md", "docs/tutorial-layer.md", "docs/tutorial-parser.md")


@pytest.mark.parametrize("page", [page for page in PAGES if page not in RUN_PAGES])
def test_commands_of_the_pages_have_flags_names_and_settings_that_exist(page):
    for block in contents(page, "sh"):
        for line in command_lines(block):
            for command in re.findall(r"\bt2t-lite-[a-z]+(?: [^|;&>]*)?", line):
                if not any(text in command for text in NOT_PARSED):
                    check_command(shlex.split(command))


def check_command(words):
    """Parses a command as it would do: its flags, problem, hparam set and settings must exist."""
    module = {"t2t-lite-import": "import_model"}.get(words[0], words[0].removeprefix("t2t-lite-"))
    parser = importlib.import_module(f"t2t_lite.bin.{module}").make_parser()
    arguments = vars(parse_with_problem(parser, words[1:]))
    for name in (arguments.get("hparams_set") or "").split(","):
        if name:
            HPARAMS[name]().override(arguments.get("hparams") or "")
    if settings := arguments.get("decode_hparams"):
        DecodeHParams().override(settings)


@pytest.mark.slow
def test_the_blocks_of_the_paper_in_code_print_what_the_page_says(capsys):
    names = {}
    for example in contents("docs/paper.md", "python"):
        exec(compile(example, "docs/paper.md", "exec"), names)
        said = re.findall(r"^(?:print.*?)?# (.*)$", example, re.MULTILINE)
        assert capsys.readouterr().out.splitlines() == said
    assert len(contents("docs/paper.md", "python")) == 8


def test_the_files_and_names_of_the_paper_in_code_exist():
    (table,) = re.findall(r"^\| in the paper .*?\n\n", text_of("docs/paper.md"), re.MULTILINE | re.DOTALL)
    for cell in re.findall(r"^\|[^|]*\|([^|]*)\|", table, re.MULTILINE):
        folder = None
        for name in re.findall(r"`([\w/.]+)`", cell):
            if "/" in name:
                assert (ROOT / name).exists(), name
                folder = (ROOT / name).parent
            elif name.endswith(".py"):
                assert (folder / name).exists(), name
    for name, file in re.findall(r"`(\w+)` in `([\w/]+\.py)`", table):
        assert re.search(rf"^(def|class) {name}\b", text_of(file), re.MULTILINE), name


@pytest.mark.heavy
def test_the_examples_of_the_python_api_run_one_after_the_other(tmp_path, commands_environment):
    program = "\n".join(contents("docs/python.md", "python"))
    for long, short in SHORT.items():
        assert long in program
        program = program.replace(long, short)
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    (tmp_path / "parser").symlink_to(ROOT / "tests" / "frozen" / "0.1" / "parsing" / "run")
    environment = user_environment(**commands_environment)
    result = subprocess.run(
        [sys.executable, "program.py"], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "retracing" not in result.stderr


@pytest.mark.slow
def test_each_pod_of_the_manifest_has_the_tf_config_of_its_index(commands_environment):
    (manifest,) = contents("docs/cluster.md", "yaml")
    service, job = yaml.safe_load_all(manifest)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    script, _, training = container["args"][0].partition("exec ")
    assert training.startswith("t2t-lite-trainer --problem=wmt_ende ")
    hosts = [f"{job['metadata']['name']}-{index}.{service['metadata']['name']}:2222" for index in range(2)]
    assert job["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"]
    environment = user_environment(JOB_COMPLETION_INDEX="1", **commands_environment)
    command = [*container["command"], f'{script}\necho "$TF_CONFIG"']
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"cluster": {"worker": hosts}, "task": {"type": "worker", "index": 1}}
