"""t2t-lite-score: the figures of the sacrebleu command, comparisons of files, JSON, and mistakes."""

import gzip
import json
import subprocess
import sys

import pytest

from t2t_lite.data.text_files import read_lines
from t2t_lite.metric import report
from t2t_lite.registry import METRICS
from t2t_lite.runs.checkpoint_files import list_checkpoints
from t2t_lite.scoring.significance import compare, interval

AWKWARD = [  # (hypothesis, two references)
    ("The cat sat.  ", "The cat sat.", "A cat sat.\t"),
    ("", "Nothing was said.", "\u00a0"),
    ("我喜欢猫。", "我喜欢狗。", "我爱猫 。"),
    ("one line\u2028and another", "one line and\u2028another", "a line\x0band another"),
    ('  "Straße" & co. – 3,5 % ...', "“Straße” &amp; Co. - 3.5 %…", "»Straße« und Co."),
    ("a b\rc", "a b c", "a b\x85c"),
    ("The end of it all is near .", "The end of it all is near.", "The end is near."),
]


def write(path, lines):
    text = "".join(line + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return str(path)


@pytest.fixture(scope="module")
def files():
    """Lines: translations a and b, references r and q, sources s; and trees."""
    a = ["The cat sat.", "A dog barks loudly.", "It rains [red]again[/red]."] * 4
    b = ["The cat sat.", "The dog barks.", "Rain."] * 4
    return {
        "a": a,
        "b": b,
        "r": ["The cat sat.", "The dog barks loudly.", "It rains again today."] * 4,
        "q": ["A cat sat down.", "A dog barks loudly.", "Again it rains."] * 4,
        "s": ["Die Katze saß.", "Der Hund bellt laut.", "Es regnet heute wieder."] * 4,
        "short": a[:5],
        "trees": ["(TOP (S (NP (DT a) (NN dog)) (VP (VBZ runs))))"] * 3,
        "parses": ["(TOP (S (NP (DT a) (NN dog)) (VP (VBZ runs))))", "(TOP (X (DT a) (NN dog) (VBZ runs)))", ""],
    }


@pytest.fixture(scope="module")
def paths(files, tmp_path_factory):
    """Their paths."""
    folder = tmp_path_factory.mktemp("files")
    return {name: write(folder / name, lines) for name, lines in files.items()}


@pytest.fixture
def score(command):
    """Runs the command, which must succeed, and returns what it prints."""

    def run(*flags):
        finished = command("score", *flags)
        assert (finished.returncode, finished.stderr) == (0, ""), finished.stderr
        return finished.stdout

    return run


def sacrebleu_lines(hypothesis, *references):
    """What the sacrebleu command prints of a file, without blanks."""
    flags = [*references, "-i", hypothesis, "-m", "bleu", "chrf", "ter", "-f", "text", "-w", "2"]
    done = subprocess.run([sys.executable, "-m", "sacrebleu", *flags], capture_output=True, text=True, check=True)
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.parametrize("pair", ["ende", "enfr", "deen"])
def test_figures_equal_those_of_the_sacrebleu_command(multibleu_dir, score, tmp_path, pair):
    texts = [read_lines(multibleu_dir / f"{pair}.{side}.{pair[2:]}.gz") for side in ("hyp", "ref")]
    texts = [list(lines)[:300] for lines in texts]
    if pair == "enfr":  # also with a second reference
        texts.append([line[:40] for line in texts[1]])
    paths = [write(tmp_path / name, lines) for name, lines in zip(("hyp.gz", "ref", "other.gz"), texts)]
    printed = score(f"--hypothesis={paths[0]}", f"--reference={','.join(paths[1:])}", "--metric=bleu,chrf,ter")
    assert [line.split() for line in printed.splitlines()] == sacrebleu_lines(*paths)
    assert printed.startswith(f"BLEU|nrefs:{len(paths) - 1}|")


def test_a_line_for_each_metric_in_the_order_given(score, tmp_path):
    texts = {"ours": ["The cat sat.", "a dog", "One two three"]}
    texts["theirs"] = ["The cat sat.", "A dog", "One two three four five"]
    ours, theirs = (write(tmp_path / name, lines) for name, lines in texts.items())
    flags = (f"--hypothesis={ours}", f"--reference={theirs}")
    ter, exact_match, bleu = score(*flags, "--metric=ter,exact_match,bleu", "--lowercase").splitlines()
    assert ter.startswith("TER|nrefs:1|case:lc|") and ter.endswith(f" = {100 * 2 / 10:.2f}")
    assert exact_match == f"exact_match = {100 * 2 / 3:.2f}"  # with --lowercase
    assert bleu.startswith("BLEU|nrefs:1|case:lc|")
    assert "exact_match = 33.33" in score(*flags, "--metric=exact_match")


def test_figures_of_awkward_text_equal_those_of_the_sacrebleu_command(score, tmp_path):
    ours, *theirs = (write(tmp_path / f"{name}.gz", lines) for name, lines in zip("hrq", zip(*AWKWARD)))
    printed = score(f"--hypothesis={ours}", f"--reference={','.join(theirs)}", "--metric=bleu,chrf,ter")
    assert [line.split() for line in printed.splitlines()] == sacrebleu_lines(ours, *theirs)


def test_text_without_blanks_is_scored_by_its_language_or_told_of(command, score, tmp_path):
    texts = {"ours": "我今天去看老师。", "theirs": "我今天去看朋友。"}
    ours, theirs = (write(tmp_path / name, [text] * 3) for name, text in texts.items())
    flags = (f"--hypothesis={ours}", f"--reference={theirs}", "--metric=bleu,ter,chrf")
    told = command("score", *flags)
    assert told.returncode == 0 and "|tok:13a|smooth:exp|" in told.stdout
    assert [line.split(",")[0] for line in told.stderr.splitlines()] == [
        f"{label} of {ours}: the references have hardly a blank" for label in ("BLEU", "TER")
    ]
    for flag, tokenizer in (("--language=zh", "zh"), ("--tokenize=char", "char")):
        bleu = score(*flags[:2], "--metric=bleu", flag)
        assert f"|tok:{tokenizer}|" in bleu and float(bleu.split(" = ")[1].split()[0]) > 50
    compared = json.loads(score(f"--hypothesis={ours},{theirs}", flags[1], "--metric=bleu", "--language=zh", "--json"))
    (metric,) = compared["metrics"]
    assert "|tok:zh|" in metric["signature"] and [each["score"] > 50 for each in metric["comparisons"]] == [True, True]


def test_roots_and_lines_of_trees_are_not_passed_over(command, paths, files, tmp_path):
    roots = write(tmp_path / "roots", [tree.replace("TOP", "ROOT") for tree in files["trees"]])
    flags = (f"--hypothesis={roots}", f"--reference={paths['trees']}", "--metric=parseval")
    told = command("score", *flags)
    assert told.returncode == 0 and "pass --roots_as_top" in told.stderr and "F1         85.71" in told.stdout
    compared = command("score", f"--hypothesis={paths['trees']},{paths['parses']}", flags[1], "--metric=f1").stdout
    assert "line 2: F1 100.00 -> 0.00" in compared and "line 3: F1 100.00 -> 0.00" in compared
    silent = command("score", *flags, "--roots_as_top", "--json")
    assert silent.stderr == "" and json.loads(silent.stdout)["metrics"][0]["score"] == 100
    several = [line for tree in files["trees"] for line in tree.replace(" (VP", "\n(VP").split("\n")]
    lines = write(tmp_path / "lines", several)
    refused = command("score", f"--hypothesis={lines}", f"--reference={paths['trees']}", "--metric=parseval")
    assert refused.returncode != 0 and f"the trees in {lines} take several lines each" in refused.stderr


def test_intervals_follow_each_metric(score, files, paths):
    lines = score(f"--hypothesis={paths['a']}", f"--reference={paths['r']}", "--intervals", "--lowercase").splitlines()
    assert lines[0].startswith("BLEU|nrefs:1|case:lc|") and lines[2].startswith("chrF2|")
    for line, name, label in ((lines[1], "bleu", "BLEU"), (lines[3], "chrf", "chrF2")):
        found = interval(name, files["a"], files["r"], lowercase=True)
        assert line == f"{label}: 95% interval {found.low:.2f} to {found.high:.2f} (bootstrap, 1,000 samples)"
    assert "F1: 95% interval " in score(
        f"--hypothesis={paths['parses']}", f"--reference={paths['trees']}", "--metric=parseval", "--intervals"
    )


def test_the_bleu_of_the_paper_is_printed_with_that_of_sacrebleu(score, files, paths):
    flags = (f"--hypothesis={paths['a']}", f"--reference={paths['r']}")
    theirs, ours = score(*flags, "--metric=paper_bleu", "--language=en").splitlines()
    assert theirs.startswith("BLEU (tokenised, compounds split; as in Vaswani et al. 2017)|nrefs:1|case:mixed|lang:en|")
    assert [ours] == report("bleu", files["a"], files["r"])
    assert "|lang:de|tok:sacremoses" in score(*flags, "--metric=bleu,paper_bleu", "--language=de").splitlines()[1]
    assert "|tok:given|" in score(*flags, "--metric=paper_bleu", "--tokenized").splitlines()[0]


@pytest.mark.slow
def test_files_are_compared_with_the_first(score, files, paths):
    flags = (f"--hypothesis={paths['a']},{paths['b']},{paths['a']}", f"--reference={paths['r']},{paths['q']}")
    printed = score(*flags, f"--source={paths['s']}", "--test=randomisation", "--changes=3")
    lines = printed.splitlines()
    for name in ("bleu", "chrf"):
        systems = {paths["a"]: files["a"], paths["b"]: files["b"], f"{paths['a']} (2)": files["a"]}
        for system in compare(name, systems, files["r"], files["q"], tests=("randomisation",)):
            cells = [f"{system.score:.2f}", f"{system.low:.2f}", "to", f"{system.high:.2f}"]
            p_value = "-" if system.p_randomisation is None else f"{system.p_randomisation:.4f}"
            row = [*system.name.split(), *cells, p_value]
            assert row in [line.split() for line in lines]
    assert "paired approximate randomisation (10,000 samples" in printed
    assert [line.split(":")[0] for line in lines if line.startswith("line ")] == ["line 2", "line 5", "line 8"]
    at = lines.index(next(line for line in lines if line.startswith("line 2:")))
    shown = ("source", files["s"][1]), ("reference", files["r"][1]), ("reference", files["q"][1])
    shown += (paths["a"], files["a"][1]), (paths["b"], files["b"][1])
    assert [line.split() for line in lines[at + 1 : at + 6]] == [[name, *text.split()] for name, text in shown]
    assert lines[-1] == f"no line differs between {paths['a']} and {paths['a']} (2)"
    assert "line 2" not in score(*flags, "--changes=0")


def test_json_has_everything(score, files, paths):
    flags = (f"--hypothesis={paths['a']}", f"--reference={paths['r']}", "--json")
    found = json.loads(score(*flags, "--metric=paper_bleu", "--language=en"))
    assert (found["hypotheses"], found["references"], found["lines"]) == ([paths["a"]], [paths["r"]], 12)
    assert [each["name"] for each in found["metrics"]] == ["paper_bleu", "bleu"]
    assert found["metrics"][0]["label"] == "BLEU (tokenised, compounds split; as in Vaswani et al. 2017)"
    (line,) = report("bleu", files["a"], files["r"])
    assert line.startswith(f"BLEU|{found['metrics'][1]['signature']} = {found['metrics'][1]['score']:.2f} ")
    assert [each["interval"] for each in found["metrics"]] == [None, None] and found["changes"] == {}

    flags = (f"--hypothesis={paths['a']},{paths['b']}", f"--reference={paths['r']}", "--json", "--changes=2")
    found = json.loads(score(*flags, "--metric=ter"))
    (ter,) = found["metrics"]
    systems = compare("ter", {paths["a"]: files["a"], paths["b"]: files["b"]}, files["r"])
    keys = ("hypothesis", "score", "low", "high", "p_value")
    assert ter["comparisons"] == [dict(zip(keys, system)) for system in systems]
    assert ter["interval"] == {"low": systems[0].low, "high": systems[0].high}
    assert found["test"] == {"name": "bootstrap", "num_samples": 1000}
    ((name, changes),) = found["changes"].items()
    assert name == paths["b"] and [change["line"] for change in changes] == [3, 6]
    assert (changes[0]["first"], changes[0]["source"]) == (files["a"][2], None)


@pytest.mark.parametrize(
    ("status", "flags", "message"),
    [
        (2, "--hypothesis={a} --changes=3", "--changes needs several files; pass --hypothesis=FILE,FILE"),
        (2, "--hypothesis={a} --source={s}", "--source needs several files"),
        (2, "--hypothesis={a},{b} --test=t", "takes bootstrap or randomisation, not 't'"),
        (2, "--hypothesis={a} --metric=chrf --language=de", "--language needs --metric=bleu or paper_bleu or ter"),
        (2, "--hypothesis={a} --metric=paper_bleu --language=?", "--language=? is not a language code"),
        (1, "--hypothesis={short},{a}", "{short} has 5 lines but {a} has 12: line n of one must correspond"),
        (1, "--hypothesis={a},{b} --source={short}", "{a} has 12 lines but {short} has 5"),
        (1, "--hypothesis={a},none", "no such file: none"),
        (2, "--hypothesis={a},,{b}", "takes paths separated by commas, but"),
        (2, "--hypothesis={a} --reference={r},{q} --metric=parseval", "'parseval' takes one set of references"),
        (2, "--hypothesis={trees} --metric=parseval --per_sentence --json", "cannot be combined with --json"),
        (2, "--hypothesis={a} --metric=chrff", "--metric=chrff is unknown; did you mean 'chrf'"),
        (2, "--hypothesis={a} --metric=bleu,", "--metric= is unknown"),
        (2, "--hypothesis={a} --metric=perplexity", "--metric=perplexity needs the model"),
        (2, "--hypothesis={a} --metric=ter --lowercase", "needs --metric=bleu or chrf or exact_match or paper_bleu"),
    ],
)
def test_mistakes_are_one_line_errors(command, paths, status, flags, message):
    flags = f"--reference={{r}} {flags}".format(**paths).split()
    result = command("score", *flags)
    assert (result.returncode, result.stdout) == (status, "")
    assert message.format(**paths) in result.stderr and len(result.stderr.splitlines()) == 1


@pytest.mark.slow
def test_help_explains_the_metrics_and_nothing_imports_tensorflow(process, paths, tmp_path):
    for module in ("tensorflow", "keras"):
        (tmp_path / f"{module}.py").write_text("raise RuntimeError('it was imported')\n")
    flags = (f"--hypothesis={paths['a']},{paths['b']}", f"--reference={paths['r']}", "--metric=paper_bleu")
    scored = process("score", *flags, "--language=de", PYTHONPATH=str(tmp_path))
    assert (scored.returncode, scored.stderr) == (0, "")
    shown = " ".join(process("score", "--help", PYTHONPATH=str(tmp_path)).stdout.split())
    for summary in ("parseval: Labelled bracketing F1", "ter: Edits as a percent", "paper_bleu: BLEU as in the paper"):
        assert summary in shown
    assert "perplexity" not in shown


OURS = '''
from t2t_lite.registry import METRICS
from t2t_lite.metric import Metric


@METRICS.register(higher_is_better=False, label="length error")
class LengthError(Metric):
    """The mean difference of the numbers of words, in percent of the reference."""

    def score(self, hypotheses, references):
        counts = [(len(ours.split()), len(theirs.split())) for ours, theirs in zip(hypotheses, references)]
        return 100 * sum(abs(ours - theirs) for ours, theirs in counts) / sum(theirs for _, theirs in counts)
'''


@pytest.fixture
def forgotten():
    """Forgets the metric of the plug-in at the end."""
    yield
    METRICS.unregister("length_error")
    for name in [name for name in sys.modules if name.startswith("t2t_usr_dir_") and "_mine" in name]:
        del sys.modules[name]


@pytest.mark.heavy
@pytest.mark.usefixtures("forgotten")
def test_a_metric_of_a_plug_in_scores_and_selects_checkpoints(command, paths, grammar_data, small_flags, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "length_error.py").write_text(OURS)
    mine, run = f"--t2t_usr_dir={tmp_path / 'mine'}", tmp_path / "run"
    scored = command("score", mine, f"--hypothesis={paths['b']}", f"--reference={paths['r']}", "--metric=length_error")
    assert scored.stdout == f"length error = {100 * 4 / 11:.2f}\n", scored.stderr  # 4 of 11 words are missing
    flags = (*small_flags, "--eval_decode", "--eval_metric=length_error", "--keep_best_n=1", "--keep_checkpoint_max=1")
    search = "--decode_hparams=beam_size=1,extra_length=5"
    result = command("trainer", mine, *flags, search, f"--data_dir={grammar_data}", f"--output_dir={run}")
    assert result.returncode == 0, result.stderr
    evaluations = json.loads((run / "evaluations.json").read_text())
    assert [list(figures) for figures in evaluations.values()] == [
        ["loss", "nll_loss", "perplexity", "accuracy", "bleu", "length_error"]
    ] * 3
    errors = {int(step): figures["length_error"] for step, figures in evaluations.items()}
    assert f"dev length error {errors[6]:.2f}" in result.stdout
    # The lowest is best; when step 6 was saved, the others had been evaluated.
    best = min((2, 4), key=errors.__getitem__)
    assert [step for step, _ in list_checkpoints(run)] == [best, 6]
    curve = command("benchmark", "--curve", f"--output_dir={run}")
    assert "length_error" in curve.stdout and f"{errors[6]:.3f}" in curve.stdout
