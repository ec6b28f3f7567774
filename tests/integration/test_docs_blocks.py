"""Every code block of every page is run by a test, or is marked in the page with the reason why it is not.

ELSEWHERE names the tests that run blocks by themselves; support/page_runs.py says how this file runs the others.
"""

import dataclasses
import gzip
import itertools
import random
import re
import shutil
import tomllib
from pathlib import Path

import pytest
from integration.test_parsing import sentence
from support.page_blocks import ROOT, Fence, Shell, command_lines, commands_within, fences, names_of_tests, parse
from support.page_runs import RUNS, Run
from support.server import Server

import t2t_lite as t2t
from t2t_lite.metric import SummedStatistics
from t2t_lite.options import option
from t2t_lite.plugins import GROUP
from t2t_lite.problems.grammar import GrammarEnde
from t2t_lite.registry import HPARAMS, POSITION_ENCODINGS, REGISTRIES, SELF_ATTENTION_TYPES

# Pages whose blocks have tests of their own, which read the whole page.
WHOLE_PAGES = ("docs/tutorial*.md",)
PAGES = [
    page.relative_to(ROOT).as_posix()
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
    if not any(page.relative_to(ROOT).match(pattern) for pattern in WHOLE_PAGES)
]

# Marked here, because these two pages have no line to spare: the page and the start of the block.
MARKED = {
    ("README.md", "bin/demo"): "runs the demo and all tests",
    ("CONTRIBUTING.md", "bin/demo"): "runs the demo and all tests",
}

DOCS = "tests/integration/test_docs.py::"
TROUBLE = "tests/integration/test_troubleshooting.py::"
DEPLOY = "tests/integration/test_deploy.py::"
UPDATED = f"{DEPLOY}test_the_model_is_updated_behind_nginx_without_a_lost_request"
T2T = (
    "tests/importing/test_t2t_data.py::test_the_page_leads_from_a_model_of_tensor2tensor_to_one_that_is_trained_further"
)
OWN = "tests/integration/test_docs_blocks.py::"
VERBATIM = f"{DOCS}test_the_problems_in_the_documentation_can_be_registered_verbatim"
FRAGMENTS = f"{OWN}test_the_encoding_and_the_model_of_the_page_can_be_registered"
HERE = f"{OWN}test_the_blocks_of_a_page_run_one_after_the_other"
# Blocks that tests with their own names run: the page, the kind and the start of the blocks.
ELSEWHERE = {
    ("CONTRIBUTING.md", "python", "from t2t_lite.data.problem"): VERBATIM,
    ("docs/cluster.md", "sh", "#!/bin/bash"): (
        "tests/integration/test_slurm.py::test_two_tasks_train_the_parameters_of_one_process"
    ),
    ("docs/cluster.md", "yaml", ""): f"{DOCS}test_each_pod_of_the_manifest_has_the_tf_config_of_its_index",
    ("docs/data.md", "python", "from t2t_lite.data.problem"): VERBATIM,
    ("docs/mixtures.md", "python", ""): VERBATIM,
    ("docs/data.md", "python", "from t2t_lite.registry"): f"{OWN}test_the_sets_of_the_pages_can_be_registered",
    ("docs/reproduce.md", "python", ""): f"{OWN}test_the_sets_of_the_pages_can_be_registered",
    ("docs/decoding.md", "python", ""): f"{DOCS}test_the_example_of_decoding_runs",
    ("docs/deploy.md", "ini", ""): f"{DEPLOY}test_the_unit_of_systemd_starts_a_server_with_flags_that_exist",
    ("docs/deploy.md", "nginx", ""): UPDATED,
    ("docs/deploy.md", "sh", "openssl"): UPDATED,
    ("docs/deploy.md", "yaml", ""): f"{DEPLOY}test_prometheus_finds_the_metrics_of_its_alerts",
    ("docs/install.md", "sh", "pip install -r"): (
        "tests/test_packaging.py::test_a_serving_machine_decodes_scores_and_serves_without_tensorflow"
    ),
    ("docs/from-tensor2tensor.md", "sh", "t2t-lite-import"): T2T,
    ("docs/from-tensor2tensor.md", "sh", "t2t-lite-datagen --from=t2t"): T2T,
    ("docs/from-tensor2tensor.md", "sh", "t2t-lite-trainer --problem=text_pairs"): T2T,
    ("docs/from-tensor2tensor.md", "sh", "t2t-lite-trainer --generate_data"): T2T,
    ("docs/paper.md", "python", ""): f"{DOCS}test_the_blocks_of_the_paper_in_code_print_what_the_page_says",
    ("docs/parsing.md", "python", ""): (
        "tests/integration/test_parsing.py::test_the_example_of_the_documentation_runs"
    ),
    ("docs/python.md", "python", ""): f"{DOCS}test_the_examples_of_the_python_api_run_one_after_the_other",
    ("docs/plugins.md", "python", "@POSITION_ENCODINGS"): FRAGMENTS,
    ("docs/plugins.md", "python", "@dataclasses"): FRAGMENTS,
    ("docs/plugins.md", "python", "def resampled"): f"{OWN}test_the_resampled_metric_of_the_page_equals_the_metric",
    ("docs/plugins.md", "toml", ""): f"{OWN}test_the_entry_point_of_the_page_is_that_of_plug_ins",
    ("docs/plugins.md", "python", "from t2t_lite"): HERE,
    ("docs/plugins.md", "python", "import dataclasses"): HERE,
    ("docs/troubleshooting.md", "sh", "t2t-lite-datagen --problem=text_pairs"): (
        f"{TROUBLE}test_copied_lines_are_counted_and_the_cure_removes_them"
    ),
    ("docs/troubleshooting.md", "sh", "t2t-lite-datagen --inspect"): (
        f"{TROUBLE}test_characters_that_the_vocabulary_lacks_are_shown_as_unknown"
    ),
}

# The files of the plug-in in docs/plugins.md, each with a text of its block. The constraint has a folder of its own:
# if a folder has an __init__.py, its other files are not loaded.
PLUG_IN = {
    "class DigitsInWords": "mine/digits.py",
    "def transformer_wide": "mine/wide.py",
    "class AverageAttention": "mine/average.py",
    "def rmsprop": "mine/learning.py",
    "class LengthError": "mine/length_error.py",
    "class NoNewDigits": "constraint/no_new_digits.py",
    "CONSTRAINTS.register_lazily": "constraint/__init__.py",
}


def block_with(page: str, text: str) -> Fence:
    """The Python block of a page with a text."""
    (found,) = [fence for fence in fences(page) if fence.kind == "python" and text in fence.content]
    return found


def run_of(fence: Fence) -> Run | None:
    """How this file runs a block, or None."""
    found = [run for run in RUNS.get(fence.page, ()) if fence.content.startswith(run.start)]
    assert len(found) <= 1, fence.place
    return found[0] if found else None


def named_test(fence: Fence) -> str | None:
    """The test that is named for a block, or None."""
    found = [
        test
        for (page, kind, start), test in ELSEWHERE.items()
        if (page, kind) == fence[:1] + fence[2:3] and fence.content.startswith(start)
    ]
    assert len(found) <= 1, fence.place
    return found[0] if found else None


def reason_of(fence: Fence) -> str:
    """Why no test runs a block; "" if one does."""
    found = [why for (page, start), why in MARKED.items() if page == fence.page and fence.content.startswith(start)]
    return fence.reason or (found[0] if found else "")


ALL = [fence for page in PAGES for fence in fences(page)]


def test_every_block_is_run_or_marked_or_output():
    for fence in ALL:
        assert fence.kind, f"{fence.place} has no kind, such as ```sh, or ```text for output"
        ways = [fence.kind == "text", run_of(fence) is not None, named_test(fence) is not None, bool(reason_of(fence))]
        assert sum(ways) > 0, (
            f"{fence.place} is not run by a test: add it to a table of tests/integration/test_docs_blocks.py, or write "
            "<!-- not run by a test: REASON --> in the line before it"
        )
        assert sum(ways) == 1, f"{fence.place}: output, run here, run elsewhere, marked: {ways}; only one can be true"
    for page, number in ((page, (ROOT / page).read_text(encoding="utf-8").count("<!-- not run")) for page in PAGES):
        assert number == len([fence for fence in fences(page) if fence.reason]), f"{page}: a mark without a block"


def test_every_entry_of_the_tables_has_its_block_and_its_test():
    for page, runs in RUNS.items():
        for run in runs:
            found = [fence for fence in fences(page) if fence.content.startswith(run.start)]
            assert len(found) == 1, f"{page}: {len(found)} blocks begin with {run.start!r}"
            commands = command_lines(found[0].content)
            assert [text for text in run.changes if text not in found[0].content] == [], found[0].place
            assert [text for text in run.not_run if not any(line.startswith(text) for line in commands)] == []
    assert {key for key in MARKED if not any(reason_of(fence) for fence in fences(key[0]))} == set()
    for (page, kind, start), test in ELSEWHERE.items():
        assert any(fence.kind == kind and fence.content.startswith(start) for fence in fences(page)), (page, start)
        file, _, name = test.partition("::")
        assert name in names_of_tests(ROOT / file), test


NOT_RUN = [fence for fence in ALL if reason_of(fence) or ((run := run_of(fence)) and run.not_run)]


@pytest.mark.parametrize("fence", NOT_RUN, ids=lambda fence: f"{fence.page}-{fence.line}")
def test_commands_that_are_not_run_have_flags_names_and_settings_that_exist(fence, forgotten):
    if fence.page == "docs/plugins.md":  # the block trains with the layer of the page
        SELF_ATTENTION_TYPES.register_lazily("average", "mine.average:average_attention", "The mean.")
    for words in commands_within(fence.content):
        parse(words)
    for program in re.findall(r"^bin/\w+", fence.content, re.MULTILINE):
        assert (ROOT / program).exists(), program


@pytest.fixture
def forgotten():
    """Forgets at the end what the test has registered."""
    before = {id(registry): set(registry.names()) for registry in REGISTRIES}
    yield
    for registry in REGISTRIES:
        for name in set(registry.names()) - before[id(registry)]:
            registry.unregister(name)


@pytest.fixture
def mine(folder, forgotten):
    """The files of the plug-in in docs/plugins.md."""
    for text, name in PLUG_IN.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(block_with("docs/plugins.md", text).content, encoding="utf-8")


@pytest.fixture
def server_url(folder, commands_environment):
    """The address of a server."""
    with Server("--output_dir=RUN3", environment=commands_environment) as server:
        yield server.url


@pytest.fixture
def folder(tmp_path, monkeypatch, small_run):
    """The working folder, with the files and runs that pages take as given."""
    monkeypatch.chdir(tmp_path)
    for name in ("RUN", "RUN2", "RUN3"):
        shutil.copytree(small_run, name)
    pairs = [(pair.inputs, pair.targets) for pair in itertools.islice(GrammarEnde().examples("train", {}), 400)]
    texts = {"my": pairs[:300], "train": pairs[:300], "dev": pairs[300:320], "val": pairs[320:340]}
    sides = {f"{name}.{end}": each for name, part in texts.items() for end, each in zip(("en", "de"), zip(*part))}
    sources, targets = zip(*pairs[340:345])
    sides |= dict.fromkeys(("in.txt", "new.en", "news.txt"), sources) | dict.fromkeys(
        ("ref.txt", "reference.txt"), targets
    )
    sides |= {"out.txt": targets, "other.txt": targets[::-1], "base.out": targets, "big.out": targets[1:] + targets[:1]}
    sides |= {"back.en": sources, "mono.de": targets, "phrases.txt": ["Haus", "", "alte\tMann", "", ""]}
    sides |= {"texts.tsv": [f"{text}\t{len(text) % 2}" for text, _ in pairs[:300]]}
    for name, lines in sides.items():
        Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    Path("news").mkdir()
    for name in "ab":
        Path(f"news/{name}.txt.gz").write_bytes(gzip.compress(Path("in.txt").read_bytes()))
    lots = random.Random(1)
    for name in ("PTB/parsed/mrg/wsj/00/wsj_0001.mrg", "wsj_sample/wsj_0001.mrg", "gum/train.ptb.gz", "gum/dev.ptb.gz"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        trees = "\n".join(sentence(lots) for _ in range(20 if "dev" in name else 300)).encode()
        Path(name).write_bytes(gzip.compress(trees) if name.endswith("gz") else trees)
    return tmp_path


@pytest.fixture
def filled(request):
    """Puts the values of fixtures into a text that has their names in braces."""

    def value(name):
        found = request.getfixturevalue(name[1])
        return " ".join(found) if isinstance(found, tuple) else str(found)

    return lambda text: re.sub(r"\{(\w+)\}", value, text)


@pytest.mark.heavy
@pytest.mark.parametrize("page", RUNS)
def test_the_blocks_of_a_page_run_one_after_the_other(page, folder, filled, command, commands_environment, request):
    shell = Shell(command, commands_environment)
    for fence, after in itertools.zip_longest(fences(page), fences(page)[1:]):
        if not (run := run_of(fence)):
            continue
        for name in run.needs:
            request.getfixturevalue(name)
        content = fence.content
        for old, new in run.changes.items():
            content = content.replace(old, filled(new))
        if fence.kind == "sh":
            content = "\n".join(line for line in command_lines(content) if not line.startswith(tuple(run.not_run)))
        if run.before:
            shell.line(filled(run.before))
        printed = shell.block(fence.kind, content, run.status)
        assert run.status == 0 or printed == after.content
        for pattern in run.prints:
            assert re.search(pattern, printed), f"{fence.place}: no {pattern}\n{printed}"
        for name in run.writes:
            assert list(folder.glob(name)), f"{fence.place}: no {name}\n{printed}"


def test_the_sets_of_the_pages_can_be_registered(forgotten):
    for page, text, name in (
        ("docs/data.md", "HPARAMS.derive", "transformer_mine"),
        ("docs/reproduce.md", "HPARAMS.derive", "my_set"),
    ):
        block = block_with(page, text).content
        exec(block, {"__name__": name})
        changes = eval(re.search(r"\.replace(\(.*\))", block)[1].replace("(", "dict(", 1))
        assert HPARAMS[name]().replace(**changes) == HPARAMS[name]()
    assert HPARAMS.fact("my_set", "recipe", None).save_checkpoints_secs == 300


def test_the_entry_point_of_the_page_is_that_of_plug_ins():
    (block,) = [fence for fence in fences("docs/plugins.md") if fence.kind == "toml"]
    (group,) = tomllib.loads(block.content)["project"]["entry-points"]
    assert group == GROUP


def test_the_resampled_metric_of_the_page_equals_the_metric(forgotten):
    names = {"__name__": "length_error", "SummedStatistics": SummedStatistics}
    for text in ("class LengthError", "def resampled"):
        exec(block_with("docs/plugins.md", text).content, names)

    class OfLines(names["LengthError"]):
        resampled = names["resampled"]

        def counts_of_lines(self, hypotheses, references):
            pairs = [(len(ours.split()), len(theirs.split())) for ours, theirs in zip(hypotheses, references)]
            return [(abs(ours - theirs), theirs) for ours, theirs in pairs]

    texts = ["a b", "a b c"], ["a b c", "a b c d e"]
    statistics = OfLines().resampled()
    sums = [sum(numbers) for numbers in zip(*statistics.of_lines(*texts))]
    assert statistics.score_of_sums(sums) == OfLines().score(*texts) == 37.5


@pytest.mark.heavy
def test_the_encoding_and_the_model_of_the_page_can_be_registered(example, forgotten):
    from t2t_lite_example.positions import BinaryPositions

    names = {"dataclasses": dataclasses, "HParams": t2t.HParams, "MODELS": t2t.MODELS, "option": option}
    names |= {"BinaryPositions": BinaryPositions, "POSITION_ENCODINGS": POSITION_ENCODINGS}
    for text, name in (("class LengthHParams", "length_transformer"), ("def binary_positions", "binary")):
        block = block_with("docs/plugins.md", text).content
        assert f'"{name}"' in block
        exec(block.replace(f'"{name}"', f'"{name}_2"'), names)
    hparams = t2t.get_hparams("transformer_tiny")
    assert isinstance(POSITION_ENCODINGS["binary_2"](hparams), BinaryPositions)
    assert issubclass(t2t.MODELS["length_transformer_2"], t2t.models.Transformer)
