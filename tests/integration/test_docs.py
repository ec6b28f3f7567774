"""The examples of the documentation run as printed, its links resolve, and the names that it mentions exist."""

import importlib
import json
import re
import runpy
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from support.commands import user_environment

import t2t_lite as t2t
from t2t_lite.registry import snake_case

ROOT = Path(__file__).resolve().parents[2]
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


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def examples(page):
    return re.findall(r"```python\n(.*?)```", text_of(page), re.DOTALL)


def prose_of(page):
    return re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL)


def anchors(page):
    """The anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_page_of_options_has_every_flag_of_every_command():
    names = set(re.findall(r"^\| `(.*?)` \|", text_of("docs/options.md").replace("`, `", "` |\n| `"), re.MULTILINE))
    commands = [each for each in metadata.distribution("t2t-lite").entry_points if each.name.startswith("t2t-lite-")]
    assert len(commands) == 13
    for command in commands:
        actions = importlib.import_module(command.module).make_parser()._actions
        flags = {action.option_strings[-1].removeprefix("--") for action in actions if action.option_strings}
        assert flags - {"help"} <= names, command.name


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
    for example in examples(page):
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


@pytest.mark.slow
def test_the_blocks_of_the_paper_in_code_print_what_the_page_says(capsys):
    names = {}
    for example in examples("docs/paper.md"):
        exec(compile(example, "docs/paper.md", "exec"), names)
        said = re.findall(r"^(?:print.*?)?# (.*)$", example, re.MULTILINE)
        assert capsys.readouterr().out.splitlines() == said
    assert len(examples("docs/paper.md")) == 8


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


@pytest.mark.slow
def test_the_example_of_decoding_runs(small_run, tmp_path, monkeypatch, capsys):
    (example,) = [example for example in examples("docs/decoding.md") if "RUN" in example]
    (tmp_path / "RUN").symlink_to(small_run)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "docs/decoding.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) >= 1


@pytest.mark.heavy
def test_the_examples_of_the_python_api_run_one_after_the_other(tmp_path, commands_environment):
    program = "\n".join(examples("docs/python.md"))
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


def test_the_script_of_the_readme_is_the_one_whose_output_it_states():
    (script,) = examples("README.md")
    assert script == (Path(__file__).parent / "readme_script.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "page, name",
    [
        ("docs/plugins.md", "digits_in_words"),
        ("docs/mixtures.md", "captions_into_two"),
        ("docs/data.md", "my_pairs"),
        ("CONTRIBUTING.md", "recipes_ende"),
    ],
)
def test_the_problems_in_the_documentation_can_be_registered_verbatim(page, name, tmp_path, process):
    classes = {example: re.findall(r"^class (\w+)", example, re.MULTILINE) for example in examples(page)}
    (example,) = [example for example, found in classes.items() if name in map(snake_case, found)]
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    result = process("trainer", f"--t2t_usr_dir={tmp_path}", f"--registry_help={name}")
    assert result.returncode == 0, result.stderr
    assert f"problem {name} " in result.stdout and f"from the plug-in {tmp_path}" in result.stdout


@pytest.mark.heavy
def test_the_plug_ins_of_the_documentation_train_resume_decode_and_are_exported(tmp_path, process):
    """The problem of docs/plugins.md, with its layer, which has a setting of its own."""
    for part in ("PROBLEMS.register", "class AverageAttention"):
        (example,) = [example for example in examples("docs/plugins.md") if part in example]
        (tmp_path / f"part_{len(part)}.py").write_text(example, encoding="utf-8")
    plug_in, run = f"--t2t_usr_dir={tmp_path}", f"--output_dir={tmp_path / 'run'}"

    def succeeded(name, *flags, **options):
        result = process(name, plug_in, *flags, **options)
        assert result.returncode == 0, result.stderr
        return result

    flags = ("--problem=digits_in_words", "--hparams_set=transformer_tiny", "--generate_data")
    flags += ("--hparams=self_attention_type=average,average_decay=0.9", f"--data_dir={tmp_path / 'data'}", run)
    succeeded("trainer", *flags, "--train_steps=1")
    assert "resuming from" in succeeded("trainer", *flags, "--train_steps=2").stdout
    assert json.loads((tmp_path / "run" / "hparams.json").read_text())["average_decay"] == 0.9
    decoded = succeeded("decoder", run, "--xla_compile=False", stdin=b"1706\n").stdout
    assert len(decoded.splitlines()) == 1
    export = f"--export_dir={tmp_path / 'export'}"
    succeeded("export", run, export, "--format=keras")
    assert succeeded("decoder", export, "--xla_compile=False", stdin=b"1706\n").stdout == decoded
    result = process("export", plug_in, run, f"{export}-2", "--format=ctranslate2")
    assert result.returncode == 1 and "CTranslate2 has no equivalent of self_attention_type=average" in result.stderr
    assert "\n  average_decay = 1.0  how much" in succeeded("trainer", "--registry_help=average").stdout
    result = process("decoder", export, stdin=b"1706\n")
    assert result.returncode == 1 and "self_attention_type=average is out of range: it must be" in result.stderr


@pytest.mark.slow
def test_each_pod_of_the_manifest_has_the_tf_config_of_its_index(commands_environment):
    (manifest,) = re.findall(r"```yaml\n(.*?)```", text_of("docs/cluster.md"), re.DOTALL)
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
