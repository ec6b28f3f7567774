"""What t2t-lite-eval stores is as written, and answers only while the code and outputs behind it are the same."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from t2t_lite.data.text_files import read_lines
from t2t_lite.evaluation.stored import HYPOTHESES, write_lines
from t2t_lite.registry import METRICS

FROZEN = Path(__file__).parents[1] / "frozen"
METRIC = """
from t2t_lite.registry import METRICS
from t2t_lite.metric import Metric
from .constant import VALUE
@METRICS.register
class ConstantForTest(Metric):
    def score(self, hypotheses, references):
        return VALUE
@METRICS.register(needs="tokens")
class BitsForTest:
    def score(self, sums):
        return sums.plain / sums.tokens / 0.6931
"""
CONSTRAINT = """
from t2t_lite.registry import CONSTRAINTS
class NoRule:
    def apply(self, logits, unconstrained, state, inputs):
        return logits
@CONSTRAINTS.register
def no_rule_for_test(lines):
    from t2t_lite.decoding.search_requests import LineConstraint
    return LineConstraint(NoRule())
"""


@pytest.fixture
def run(tmp_path):
    """(the run directory, its flags) of a copy of a small run."""
    folder = shutil.copytree(FROZEN / "0.2" / "tied", tmp_path / "tied")
    flags = (f"--output_dir={folder / 'run'}", f"--data_dir={folder / 'data'}", "--decode_hparams=beam_size=1")
    return folder / "run", (*flags, "--xla_compile=False", "--json")


def evaluate(command, flags):
    """The only run of an evaluation's JSON, and the messages."""
    done = command("eval", *flags)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["runs"]
    return found, done.stderr


def score_of(found, name):
    return next(figure["score"] for figure in found["figures"] if figure["name"] == name)


@pytest.mark.heavy
def test_a_changed_metric_scores_the_stored_outputs_again_without_tensorflow(run, command, tmp_path):
    mine, (_, flags) = tmp_path / "mine", run
    mine.mkdir()
    (mine / "metric.py").write_text(METRIC)
    first, _ = evaluate(command, flags)
    program = (
        "import sys; from t2t_lite.bin.eval import main; status = main(sys.argv[1:]); "
        "print(status, *({'tensorflow', 'keras'} & set(sys.modules)), file=sys.stderr)"
    )

    def evaluated(*more):
        line = [sys.executable, "-c", program, *flags, *more]
        done = subprocess.run(line, capture_output=True, text=True, check=True)
        assert done.stderr.splitlines()[-1] == "0"  # no TensorFlow
        (found,) = json.loads(done.stdout)["runs"]
        assert not found["decoded_now"]
        return found

    plug_in = (f"--t2t_usr_dir={mine}", "--metric=constant_for_test")
    for value in (1.0, 2.0):
        (mine / "constant.py").write_text(f"VALUE = {value}")  # not the file that registers the metric
        found = evaluated(*plug_in)
        assert score_of(found, "constant_for_test") == value
        assert score_of(found, "bleu") == score_of(first, "bleu")
        assert evaluated(*plug_in) == found
    assert evaluated() == found  # without the plug-in, what it has computed stays
    more = evaluated("--metric=exact_match")  # also if the other metrics are computed again
    for name in ("constant_for_test", "bits_for_test"):
        assert score_of(more, name) == score_of(found, name)
    assert more["figures"][0]["name"] == "bleu"
    report = (Path(more["path"]) / "report.md").read_text()
    assert "| words | lines |  BLEU |" in report
    other = shutil.copytree(run[0], tmp_path / "other" / "run")
    both = command("eval", f"--output_dir={run[0]},{other}", *flags[1:])
    assert both.returncode == 0 and "constant_for_test" not in json.loads(both.stdout)["comparison"]["metrics"]
    (mine / "constant.py").write_text("VALUE = 3.0")
    assert score_of(evaluated(plug_in[0]), "constant_for_test") == 3.0  # though it is not asked for
    # A search that is compiled in the background is not waited for.
    late = tmp_path / "late"
    background = (
        "import pathlib, time; from concurrent.futures import ThreadPoolExecutor; from t2t_lite.bin.eval import main; "
        f"ThreadPoolExecutor().submit(lambda: (time.sleep(30), pathlib.Path({str(late)!r}).touch())); main()"
    )
    subprocess.run([sys.executable, "-c", background, *flags], capture_output=True, check=True)
    assert not late.exists()


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["hypotheses.txt", "references.txt"])
def test_replaced_outputs_are_noticed(run, command, name):
    directory, flags = run
    first, _ = evaluate(command, flags)
    file = Path(first["path"]) / name
    before = file.read_text()
    file.write_text("other\n" * before.count("\n"))
    scored = command("score", flags[0], "--metric=bleu")
    assert scored.returncode == 1 and "has no scores of" in scored.stderr
    again, said = evaluate(command, flags)
    assert again["decoded_now"] and again["figures"] == first["figures"] and file.read_text() == before
    assert f"{file} was changed after it was scored; decoding the split again" in said
    assert not evaluate(command, flags)[0]["decoded_now"]
    assert command("score", flags[0], "--metric=bleu").returncode == 0
    assert not list(directory.glob("scores/*.incomplete"))


@pytest.mark.slow
def test_scores_of_earlier_versions_answer_unless_a_plug_in_is_involved(run, command, registered):
    _, flags = run
    first, _ = evaluate(command, (*flags, "--metric=exact_match"))
    file = Path(first["path"]) / "scores.json"
    content = json.loads(file.read_text())
    for name in ("texts", "scored_by", "digest"):  # version 0.8 had none of them
        del content[name]
    file.write_text(json.dumps(content))
    found, told = evaluate(command, flags)
    assert not found["decoded_now"] and found["figures"] == first["figures"]
    assert "answered from" in told and json.loads(file.read_text()) == content  # the run may be read-only
    registered(METRICS, "bleu_for_test", type("BleuForTest", (METRICS["bleu"],), {"__module__": __name__}))
    found, _ = evaluate(command, (*flags, "--metric=bleu_for_test"))
    assert score_of(found, "bleu_for_test") == score_of(first, "bleu") and not found["decoded_now"]
    stored = json.loads(file.read_text())
    assert {"bleu", "bleu_for_test", "exact_match"} <= set(stored["scored_by"])
    stored["figures"] = [figure | {"score": 1.0} for figure in stored["figures"]]
    for name in ("scored_by", "digest"):  # as version 0.8 stored them
        del stored[name]
    file.write_text(json.dumps(stored))
    found, _ = evaluate(command, flags)
    assert score_of(found, "bleu_for_test") == score_of(found, "bleu") == score_of(first, "bleu")
    assert not found["decoded_now"]


@pytest.mark.heavy  # each process imports TensorFlow
def test_a_changed_constraint_decodes_again(run, process, tmp_path):
    mine, (directory, flags) = tmp_path / "mine", run
    mine.mkdir()
    flags = [flag.replace("beam_size=1", "beam_size=1,constraints=no_rule_for_test") for flag in flags]
    for text, decoded_now in ((CONSTRAINT, True), (CONSTRAINT, False), (f"{CONSTRAINT}# changed\n", True)):
        (mine / "constraint.py").write_text(text)
        found, _ = evaluate(process, (*flags, f"--t2t_usr_dir={mine}"))
        assert found["decoded_now"] == decoded_now
    assert len(list(directory.glob("scores/dev.*"))) == 1


@pytest.mark.slow
def test_the_papers_bleu_of_an_unknown_language_is_kept_from_version_0_10_and_never_computed(run, command):
    folder, flags = run
    found, _ = evaluate(command, flags)
    assert "paper_bleu" not in [figure["name"] for figure in found["figures"]]
    (scores,) = folder.glob("scores/*/scores.json")
    content = json.loads(scores.read_text())
    theirs = {"name": "paper_bleu", "label": "the paper's", "meaning": "", "score": 12.5, "metric": "paper_bleu"}
    scores.write_text(json.dumps(content | {"figures": [*content["figures"], theirs]}))
    for more in ((), ("--metric=exact_match",)):
        found, _ = evaluate(command, (*flags, *more))
        assert score_of(found, "paper_bleu") == 12.5 and not found["decoded_now"]
    with_more, _ = evaluate(command, (*flags, f"--references={scores.parent / 'references.txt'}"))
    assert "paper_bleu" not in [figure["name"] for figure in with_more["figures"]] and not with_more["decoded_now"]
    refused = command("eval", *flags, "--metric=paper_bleu")
    assert refused.returncode == 2 and "needs the language of the outputs, which 'text_pairs'" in refused.stderr


@pytest.mark.heavy
def test_outputs_with_line_breaks_are_stored_as_the_decoder_writes_them(command, tmp_path):
    tokens_are_bytes = shutil.copytree(FROZEN / "0.1" / "bytes", tmp_path / "bytes")
    run, data, broken = tokens_are_bytes / "run", tokens_are_bytes / "data", 0
    for seed in range(1, 4):
        sampling = f"--decode_hparams=sampling_method=random,sampling_temp=8.0,beam_size=1,random_seed={seed}"
        flags = (f"--output_dir={run}", sampling, "--xla_compile=False")
        found, _ = evaluate(command, (*flags, f"--data_dir={data}", "--json"))
        assert found["lines"] == 6
        files = (f"--decode_from_file={data / 'text_pairs-dev.inputs.txt'}", f"--decode_to_file={tmp_path / 'out.txt'}")
        decoded = command("decoder", *flags, *files)
        assert decoded.returncode == 0, decoded.stderr
        stored = (Path(found["path"]) / HYPOTHESES).read_bytes()
        assert stored == (tmp_path / "out.txt").read_bytes() and stored.count(b"\n") == 6
        rescored, _ = evaluate(command, (*flags, f"--data_dir={data}", "--metric=exact_match", "--json"))
        assert not rescored["decoded_now"]
        assert [each for each in rescored["figures"] if each["metric"] != "exact_match"] == found["figures"]
        broken += len(stored.decode().splitlines()) > 6
    assert broken  # some outputs have what other programs take for the end of a line


def test_all_ends_of_lines_are_read_as_they_were_written(tmp_path):
    texts = ["a\x85b", "c\u2028d\u2029", "\x0be\x0c", "\x1cf\x1d\x1e", "", " ", "g"]
    write_lines(tmp_path / "texts", texts)
    assert list(read_lines(tmp_path / "texts")) == texts
    write_lines(tmp_path / "texts", ["a\nb", "c\r", "d\r\ne", "\n"])
    assert list(read_lines(tmp_path / "texts")) == ["a b", "c ", "d  e", " "]
