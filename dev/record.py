"""Records what a version does, as digests and figures, and compares it with the record of another version.

Run it with the Python of the checkout to be recorded, whose t2t-lite is installed there:

    .venv/bin/python dev/record.py make after.json [PART ...]     # all parts: about 20 minutes on two cores
    .venv/bin/python dev/record.py compare dev/record.json after.json
    .venv/bin/python dev/record.py accept dev/record.json after.json 'surfaces/help/*' 'why these entries change'

Entries of FLOATS hang on the processor and on the versions of packages. If these differ from those of a record, make
its entries again: with this script and the Python of a worktree of the commit that the record names. `accept` writes
intended changes into a record, with their reason.
"""

import argparse
import contextlib
import fnmatch
import gzip
import hashlib
import importlib.metadata
import inspect
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORPORA = ROOT.parent / "shared" / "data"
sys.path.insert(0, str(ROOT / "tests"))
ISA = {"ONEDNN_MAX_CPU_ISA": "AVX2", "CT2_FORCE_CPU_ISA": "AVX2", "XLA_FLAGS": "--xla_cpu_max_isa=AVX2"}
THREADS = {"TF_NUM_INTRAOP_THREADS": "2", "TF_NUM_INTEROP_THREADS": "2", "OMP_NUM_THREADS": "2"}
PACKAGES = ("tensorflow", "keras", "numpy", "ctranslate2", "jax", "sentencepiece", "sacrebleu", "matplotlib")
COMMANDS = (
    *("avg", "benchmark", "datagen", "decoder", "eval", "export", "import_model"),
    *("params", "report", "reproduce", "score", "serve", "trainer"),
)
# Parts whose entries hang on the processor: sums of floats in another order.
FLOATS = ("runs", "devices", "choices", "precisions", "frozen", "decoding", "evaluation", "importing", "jax")
Entries = Iterator[tuple[str, object]]
PARTS: dict[str, Callable[[], Entries]] = {}


def part(function: Callable[[], Entries]) -> Callable[[], Entries]:
    """Registers a part. It runs in a process and an empty folder of its own, and yields (name, value)."""
    PARTS[function.__name__] = function
    return function


# Values


def normal(text: str) -> str:
    """Text without the paths of this machine, and JSON in it without times."""
    for path, name in ((Path.cwd(), "WORK"), (CORPORA, "CORPORA"), (ROOT, "ROOT")):
        text = text.replace(str(path), name)
    names = r"date|time|seconds|\w+_seconds|loaded_at|since|modified|mtime\w*|uptime\w*|request_id|id|lines_per_second"
    times = rf'"({names})": '
    return re.sub(times + r'("[^"]*"|[\d.e+-]+)', r'"\1": 0', text)


def digest(content: bytes | str | Path) -> str:
    """The first 16 digits of the SHA-256 of bytes, a text or a file; of JSON files what `normal` leaves."""
    if isinstance(content, Path):
        content = normal(content.read_text()) if content.suffix in (".json", ".jsonl") else content.read_bytes()
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()[:16]


def of_arrays(arrays: dict) -> str:
    """The digest of arrays by name: types, shapes and bits."""
    total = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        total.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return total.hexdigest()[:16]


def parameters(checkpoint: Path, prefix: str = "") -> dict:
    """The arrays of a checkpoint by name."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(checkpoint))
    names = [name for name in reader.get_variable_to_shape_map() if name.startswith(prefix) and "OBJECT" not in name]
    arrays = {name: reader.get_tensor(name) for name in names}
    return {name: array for name, array in arrays.items() if hasattr(array, "tobytes")}


def masked(text: str) -> str:
    """Text without what differs from run to run: paths of this machine, numbers, spaces of columns."""
    text = normal(text).replace("up to ", "")
    text = re.sub(r"\d+(?:[.,:]\d+)*(?:e-?\d+)?", "#", text)
    return re.sub(r"[ ─━-]{2,}", "  ", text)


def keys(value: object, prefix: str = "") -> set[str]:
    """The paths of all keys in a JSON value; numbers and checkpoints in them are masked."""
    if isinstance(value, list):
        return set().union(*(keys(each, f"{prefix}[]") for each in value)) if value else {prefix}
    if not isinstance(value, dict):
        return {prefix}
    return set().union(*(keys(each, f"{prefix}.{masked(name)}") for name, each in value.items())) if value else {prefix}


def files(folder: Path) -> dict[str, str]:
    """The digests of the files in a folder by name."""
    return {str(path.relative_to(folder)): digest(path) for path in sorted(folder.rglob("*")) if path.is_file()}


# Commands and data


def run(name: str, *flags: object, stdin: bytes = b"", status: int = 0) -> str:
    """Runs a command in this process and returns its standard output."""
    from support.commands import run_in_this_process

    done = run_in_this_process(name, *flags, stdin=stdin)
    if done.returncode != status:
        sys.exit(f"{name} {' '.join(map(str, flags))}\n{done.stdout}{done.stderr}")
    return done.stdout


def corpus(name: str, number: int) -> list[str]:
    """The first lines of a file of Multi30k."""
    with gzip.open(CORPORA / "multi30k" / f"{name}.gz", "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for _, line in zip(range(number), file)]


def write_text() -> None:
    """Writes the corpora that the parts use into the folder text."""
    Path("text").mkdir()
    for split, source, number in (("train", "train", 1500), ("dev", "val", 60), ("test", "test_2016_flickr", 60)):
        sides = [corpus(f"{source}.{language}", number) for language in ("en", "de")]
        for language, lines in zip(("en", "de"), sides):
            Path(f"text/{split}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    blanks = [re.sub(" ", "  ", line, count=1) for line in sides[0]]
    Path("text/blanks.en").write_text("\n".join(blanks) + "\n", encoding="utf-8")
    trees = "".join(path.read_text() for path in sorted((CORPORA / "wsj_sample").glob("*.mrg")))
    Path("text/trees.mrg").write_text(trees)


def text_flags(*splits: str) -> list[str]:
    """The flags of the pairs of files."""
    sides = {"source": "en", "target": "de"}
    return [f"--{split}_{side}=text/{split}.{end}" for split in splits for side, end in sides.items()]


PAIRS = ["--problem=text_pairs", "--num_workers=0", *text_flags("train", "dev", "test")]
SMALL = (
    "hidden_size=32,filter_size=64,num_heads=4,num_encoder_layers=2,num_decoder_layers=2,batch_tokens=512,"
    "learning_rate_warmup_steps=20,max_length=80"
)


def make_data() -> None:
    """Writes the data directory of most parts."""
    write_text()
    run("datagen", *PAIRS, "--data_dir=data", "--vocab_size=600", "--num_shards=2")


def training(name: str, hparams: str = "", *flags: str, steps: int = 20, problem: str = "text_pairs") -> list[str]:
    """The command line of a training."""
    settings = dict(pair.split("=") for pair in filter(None, f"{SMALL},{hparams}".split(",")))
    changes = ",".join(f"{setting}={value}" for setting, value in settings.items())
    task = [f"--problem={problem}", "--hparams_set=transformer_tiny", f"--hparams={changes}"]
    given = {flag.partition("=")[0] for flag in flags}
    task += ["--data_dir=data", f"--output_dir={name}", f"--train_steps={steps}", "--peak_tflops=1"]
    task += ["--schedule=train", "--log_step_count_steps=1000", "--save_checkpoints_steps=10"]
    return [*(flag for flag in task if flag.partition("=")[0] not in given), *flags]


def trained(name: str, hparams: str = "", *flags: str, steps: int = 20, **more: str) -> str:
    """Trains, and returns the digest of all that the last checkpoint holds."""
    run("trainer", *training(name, hparams, *flags, steps=steps, **more))
    return of_arrays(parameters(Path(name, f"ckpt-{steps}")))


# Parts


DATA = {
    "bpe": ["--vocab_size=600", "--num_shards=3"],
    "bpe_blanks_kept": ["--vocab_size=600", "--normalize_whitespace=False"],
    "bpe_one_worker": ["--vocab_size=600", "--num_workers=1"],
    "bpe_beam": ["--vocab_size=600", "--num_shards=2", "--runner=direct"],
    "wordpiece": ["--vocab_kind=wordpiece", "--vocab_size=600"],
    "characters": ["--vocab_kind=characters", "--vocab_size=300"],
    "bytes": ["--vocab_kind=bytes"],
    "words": ["--vocab_kind=words", "--vocab_size=500"],
    "given_vocabulary": ["--vocab_file=bpe/vocab.text_pairs.600.subwords", "--max_cases=700"],
    "languages": ["--vocab_size=600", "--languages=en-de", "--max_cases=400"],
}
PROBLEMS = {
    "multi30k_ende": ["--max_cases=600", "--vocab_size=700", f"--tmp_dir={CORPORA / 'multi30k'}"],
    "multi30k_ende_separate": ["--max_cases=600", "--vocab_size=500", f"--tmp_dir={CORPORA / 'multi30k'}"],
    "multi30k_ende_tokenised": ["--max_cases=600", "--vocab_size=700", f"--tmp_dir={CORPORA / 'multi30k'}"],
    "multi30k_endefr": ["--max_cases=600", "--vocab_size=700", f"--tmp_dir={CORPORA / 'multi30k'}"],
    "algorithmic_sort": ["--max_cases=500"],
    "grammar_ende": ["--max_cases=500", "--vocab_size=400"],
    "treebank_parsing": ["--treebank=text/trees.mrg"],
    "tagged_treebank_parsing": [f"--treebank={CORPORA}/gum/dev.ptb.gz"],
    "text_mixture": ["--mixture=mixture.toml", "--vocab_size=500"],
}
MIXTURE = """
[[parts]]
name = "a"
tag = "<a>"
weight = 2
train_source = "text/train.en"
train_target = "text/train.de"
dev_source = "text/dev.en"
dev_target = "text/dev.de"

[[parts]]
name = "b"
tag = "<b>"
weight = 1
train_source = "text/test.en"
train_target = "text/test.de"
train_only = true
"""


@part
def data() -> Entries:
    """Shards, vocabularies and manifests of every kind of problem and vocabulary, and the first batches."""
    write_text()
    for name, flags in DATA.items():
        given = {flag.partition("=")[0] for flag in flags}
        task = [flag for flag in PAIRS if flag.partition("=")[0] not in given]
        run("datagen", *task, *flags, f"--data_dir={name}")
        yield from ((f"{name}/{file}", found) for file, found in files(Path(name)).items())
    Path("mixture.toml").write_text(MIXTURE)
    for name, flags in PROBLEMS.items():
        run("datagen", f"--problem={name}", "--num_workers=0", *flags, f"--data_dir={name}")
        yield from ((f"{name}/{file}", found) for file, found in files(Path(name)).items())
    shutil.copytree(CORPORA / "t2t" / "data", "t2t_data")  # it has no shards of train; those of dev will do
    shutil.copy("t2t_data/translate30k_small-dev-00000-of-00001", "t2t_data/translate30k_small-train-00000-of-00001")
    t2t = ["--from=t2t", "--problem=text_pairs", "--tmp_dir=t2t_data"]
    run("datagen", *t2t, "--data_dir=t2t")
    yield from ((f"t2t/{file}", found) for file, found in files(Path("t2t")).items())
    for name in ("bpe", "multi30k_ende_separate", "treebank_parsing"):
        for split in ("train", "dev"):
            problem = {"bpe": "text_pairs"}.get(name, name)
            text = run("datagen", f"--problem={problem}", f"--data_dir={name}", f"--inspect={split}")
            yield f"{name}/inspect/{split}", digest(text)


@part
def batches() -> Entries:
    """The first 200 batches of several seeds, hosts and starts."""
    make_data()
    import t2t_lite as t2t
    from t2t_lite.data.batching import HostShare
    from t2t_lite.data.pipeline import epochs

    cases = {
        "seed_1": {"seed": 1},
        "seed_2": {"seed": 2},
        "reversed": {"seed": 1, "problem": "text_pairs_rev"},
        "by_targets": {"seed": 1, "batch_by": "targets"},
        "by_shapes": {"seed": 1, "batch_by": "shapes"},
        "mid_epoch_2": {"seed": 1, "first_epoch": 1, "skip": 17},
        "bpe_dropout": {"seed": 1, "bpe_dropout": 0.1},
        "concatenated": {"seed": 1, "pair_concatenation": 0.2},
        "both_changes_mid_epoch": {
            "seed": 2,
            "first_epoch": 1,
            "skip": 5,
            "bpe_dropout": 0.1,
            "pair_concatenation": 0.2,
        },
    }
    for host in range(2):
        share = {"host": HostShare(devices=8, first=4 * host, number=4), "seed": 1}
        cases[f"host_{host}"] = share
        cases[f"host_{host}_shapes_mid_epoch"] = {**share, "batch_by": "shapes", "first_epoch": 1, "skip": 9}
    for name, case in cases.items():
        problem = t2t.get_problem(case.pop("problem", "text_pairs"))
        settings = {"batch_tokens": 512, "batch_by": "both", "max_length": 64, **case}
        total, shapes = hashlib.sha256(), []
        for batch in epochs(problem, Path("data"), **settings).take(200).as_numpy_iterator():
            total.update(of_arrays(batch).encode())
            shapes.append(list(batch["inputs"].shape) + list(batch["targets"].shape))
        yield name, [total.hexdigest()[:16], digest(json.dumps(shapes))]


@part
def runs() -> Entries:
    """Parameters after 20 steps, in several ways, and what a run leaves."""
    make_data()
    run("trainer", *training("base", "", "--schedule=train_and_evaluate", "--eval_decode", "--eval_lines=20"))
    arrays = parameters(Path("base/ckpt-20"))
    yield "parameters/base", of_arrays(arrays)
    yield "files/checkpoint_variables", sorted(f"{name} {list(array.shape)}" for name, array in arrays.items())
    yield "parameters/micro_batches", trained("micro", "", "--max_tokens_per_replica=250")
    yield "parameters/compiled", trained("compiled", "", "--xla_compile=True")
    yield "parameters/adamw", trained("adamw", "optimizer=adamw,weight_decay=0.1,clip_norm=0.5")
    yield "parameters/ema", trained("ema", "ema_decay=0.9")
    yield "parameters/seed", trained("seed", "", "--random_seed=7")
    yield "parameters/bpe_dropout", trained("bpe_dropout", "bpe_dropout=0.1,pair_concatenation=0.1,token_dropout=0.1")
    # 45 steps are more than an epoch; it is resumed in the middle of the second one.
    yield "parameters/whole", trained("whole", "batch_tokens=900", steps=45)
    trained("resumed", "batch_tokens=900", steps=35)
    yield "parameters/resumed", trained("resumed", "batch_tokens=900", steps=45)
    yield "parameters/warm", trained("warm", "", "--warm_start_from=base", steps=5)
    run("avg", "--output_dir=base", "--n=2")
    yield "parameters/average", of_arrays(parameters(Path("base/average-20")))
    yield "files/run", sorted(masked(str(path.relative_to("base"))) for path in Path("base").rglob("*"))
    for name in ("run.json", "hparams.json", "evaluations.json"):
        yield f"files/{name}", sorted(keys(json.loads(Path("base", name).read_text())))
    lines = [json.loads(line) for line in Path("base/log.jsonl").read_text().splitlines()]
    yield "files/log.jsonl", sorted({f"{line['part']}: {', '.join(sorted(line))}" for line in lines})
    yield "files/tensorboard", sorted(tags(Path("base")))
    yield "files/evaluations", digest(Path("base/evaluations.json"))
    manifest = next(Path("data").glob("*.json"))
    yield "files/manifest", sorted(keys(json.loads(manifest.read_text())))


def tags(run_dir: Path) -> set[str]:
    """The names of what a run has written for TensorBoard."""
    import tensorflow as tf

    found = set()
    for path in run_dir.rglob("*tfevents*"):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            found |= {f"{path.parent.name}/{masked(value.tag)}" for value in event.summary.value}
    return found


@part
def devices() -> Entries:
    """Parameters after 20 steps on 8 virtual devices, and on two workers in processes of their own."""
    make_data()
    for name, flags in (("8_devices", ["--virtual_devices=8"]), ("2_workers", ["--processes_per_host=2"])):
        program = Path(sys.executable).with_name("t2t-lite-trainer")
        done = subprocess.run([program, *training(name, "", *flags)], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        yield f"{name}", of_arrays(parameters(Path(name, "ckpt-20")))


@part
def choices() -> Entries:
    """Three steps for every value of every setting that is a choice, for each precision, and for a plug-in."""
    make_data()
    from t2t_lite.config import choices as choices_of_settings

    for setting, words in choices_of_settings().items():
        for word in words:
            if setting not in ("model", "precision"):
                yield f"{setting}={word}", trained(f"{setting}-{word}", f"{setting}={word}", steps=3)
    others = {
        "rdrop_alpha": ("rdrop_alpha=1", []),
        "steps_per_call": ("", ["--steps_per_call=3"]),
        "steps_per_call_compiled": ("batch_by=shapes", ["--steps_per_call=3", "--xla_compile=True"]),
        "zero_padding_embedding": ("zero_padding_embedding=True,scaled_embeddings=False", []),
        "dropouts": ("attention_dropout=0.1,relu_dropout=0.1,token_dropout=0.1,label_smoothing=0.2", []),
        "allreduce_precision": ("", ["--allreduce_precision=bfloat16"]),
        "key_size": ("attention_key_size=4,attention_value_size=12", []),
    }
    for name, (hparams, flags) in others.items():
        yield name, trained(name, hparams, *flags, steps=3)
    sys.path.insert(0, str(ROOT / "tests" / "example_plugin"))
    import t2t_lite_example  # noqa: F401  registers its objects

    run("datagen", "--problem=numbers_in_words", "--data_dir=data", "--num_workers=0")
    plugin = ["--hparams_set=length_tiny", "--hparams=length_buckets=3,bucket_width=2"]
    yield "example_plugin", trained("plugin", "", *plugin, steps=3, problem="numbers_in_words")


@part
def precisions() -> Entries:
    """Three steps and outputs in each precision, with all instructions: oneDNN needs them to compute in 16 bits."""
    make_data()
    for precision in ("float32", "mixed_bfloat16", "mixed_float16"):
        yield f"{precision}/trained", trained(precision, f"precision={precision}", steps=3)
        decode = [f"--output_dir={precision}", "--decode_from_file=text/dev.en", "--xla_compile=False"]
        yield f"{precision}/decoded", digest(run("decoder", *decode))
        decode[0] = "--output_dir=float32"
        yield f"{precision}/search", digest(run("decoder", *decode, f"--decode_hparams=precision={precision}"))
    yield from frozen_runs(is_float32=False)


@part
def frozen() -> Entries:
    """Every frozen run: decoded, evaluated, resumed. Those in 16 bits are in `precisions`."""
    return frozen_runs(is_float32=True)


def frozen_runs(is_float32: bool) -> Entries:
    """The entries of the frozen runs with a precision."""
    for path in sorted((ROOT / "tests" / "frozen").glob("*/*/expected.json")):
        here = path.parent
        hparams = json.loads((here / "run" / "hparams.json").read_text())
        if (hparams["precision"] == "float32") != is_float32:
            continue
        name = f"{here.parent.name}/{here.name}"
        run_dir = Path(name.replace("/", "-"))
        shutil.copytree(here / "run", run_dir)
        plugin = [f"--t2t_usr_dir={here.parent / 'plugin'}"] if here.name == "with_plugin" else []
        settings = json.loads(path.read_text())["decode_hparams"]
        settings = ",".join(filter(None, (settings, "return_beams=True")))
        decode = [f"--output_dir={run_dir}", *plugin, "--xla_compile=False", f"--decode_hparams={settings}"]
        yield f"{name}/decoded", digest(run("decoder", *decode, f"--decode_from_file={here / 'inputs.txt'}"))
        changes = ",".join(f"{key}={value}" for key, value in hparams.items() if key != "train_steps")
        problem = json.loads((run_dir / "run.json").read_text())["problem"]
        task = [*plugin, f"--problem={problem}", "--hparams_set=transformer_base", f"--hparams={changes}"]
        task += ["--peak_tflops=1", f"--data_dir={here / 'data'}", f"--output_dir={run_dir}"]
        (run_dir / "evaluations.json").unlink()
        run("trainer", *task, "--schedule=eval", "--eval_wait_secs=0")
        yield f"{name}/evaluated", json.loads((run_dir / "evaluations.json").read_text())
        run("trainer", *task, "--train_steps=305", "--schedule=train")
        yield f"{name}/resumed", of_arrays(parameters(run_dir / "ckpt-305"))
        run("report", f"--output_dir={run_dir}", f"--report_file={run_dir}.html")


@part
def cost() -> Entries:
    """The micro-batch sizes, parameters, FLOPs and bytes of every set at three lengths."""
    from t2t_lite.cost import choose_max_tokens, cost_of
    from t2t_lite.plugins import load_all
    from t2t_lite.registry import HPARAMS

    load_all()
    for name in HPARAMS.names():
        hparams = HPARAMS[name]()
        model = cost_of(hparams, 37_000)
        yield f"{name}/parameters", model.parameter_parts()
        for length in (32, 100, 256):
            flops = {which: float(count) for which, count in model.step_flops(length, length).items()}
            tokens = [choose_max_tokens(hparams, 37_000, None, 2**35, length)]
            if length == 100:
                tokens.append(choose_max_tokens(hparams, 37_000, 30_000, 2**34, length, 2))
            yield f"{name}/{length}", {"flops": flops, "max_tokens": tokens}


def small_runs() -> None:
    """Trains two small models of translation, for the parts about decoding and evaluation."""
    make_data()
    for name, seed in (("run", 1), ("other", 2)):
        flags = ["--save_checkpoints_steps=100", f"--random_seed={seed}"]
        run("trainer", *training(name, "", *flags, steps=200))
    shutil.copytree(ROOT / "tests/frozen/0.2/hard_alignment/run", "parser")
    shutil.copy(ROOT / "tests/frozen/0.2/hard_alignment/inputs.txt", "words.txt")


SEARCHES = {
    "beam_1": "beam_size=1",
    "beam_4": "",
    "beam_21": "beam_size=21,return_beams=True",
    "sampling": "sampling_method=random,sampling_temp=0.7,sampling_keep_top_k=20,beam_size=3,return_beams=True",
    "top_p": "sampling_method=random,sampling_keep_top_p=0.8,random_seed=5",
    "coverage": "coverage_penalty=0.3",
    "groups": "beam_size=4,diverse_beam_groups=2,return_beams=True",
    "no_repeat": "no_repeat_ngram_size=2,alpha=1.0",
    "lengths": "min_length=5,min_length_ratio=0.8,extra_length=20",
    "small_batches": "batch_tokens=300",
}


@part
def decoding() -> Entries:
    """Texts and scores of all ways to decode."""
    small_runs()
    source = Path("text/test.en")
    lines = source.read_text(encoding="utf-8").splitlines()
    plain = ["--output_dir=run", "--xla_compile=False", f"--decode_from_file={source}"]
    for name, settings in SEARCHES.items():
        yield name, digest(run("decoder", *plain, f"--decode_hparams={settings}"))
    yield "compiled", digest(run("decoder", *plain[:1], "--xla_compile=True", plain[2]))
    yield "blanks", digest(run("decoder", *plain[:2], "--decode_from_file=text/blanks.en"))
    yield "standard_input", digest(run("decoder", *plain[:2], stdin="\n".join(lines[:9]).encode()))
    interactive = run("decoder", *plain[:2], "--decode_interactive", stdin="\n".join(lines[:4]).encode() + b"\n\n")
    yield "interactive", masked(interactive.replace(";", "\n"))
    Path("prefixes.txt").write_text("Ein Mann\n" * len(lines))
    yield "prefixes", digest(run("decoder", *plain, "--prefix_file=prefixes.txt"))
    Path("phrases.txt").write_text("Hund\n" * len(lines))
    yield "phrases", digest(run("decoder", *plain, "--constraint_file=phrases.txt"))
    yield "ensemble", digest(run("decoder", "--output_dir=run,other", *plain[1:]))
    run("decoder", *plain, "--alignments=links.txt", "--decode_to_file=out.txt")
    yield "alignments", [digest(Path("links.txt")), digest(Path("out.txt"))]
    Path("pairs.tsv").write_text(
        "".join(f"{a}\t{b}\n" for a, b in zip(lines, Path("out.txt").read_text().splitlines()))
    )
    yield "score_file", digest(run("decoder", *plain[:2], "--score_file=pairs.tsv"))
    run("decoder", *plain[:2], f"--decode_from_file={source}", "--decode_to_file=whole.txt", "--batch_lines=7")
    yield "resumable_output", digest(Path("whole.txt"))
    trees = ["--output_dir=parser", "--xla_compile=False", "--decode_from_file=words.txt"]
    for settings in (
        "only_trees=True",
        "only_trees=True,beam_size=21,return_beams=True",
        "only_trees=False,beam_size=3",
    ):
        yield f"trees/{settings}", digest(run("decoder", *trees, f"--decode_hparams={settings}"))
    yield "trees/all_words", digest(run("decoder", *trees, "--decode_hparams=only_trees=True,constraints=all_words"))
    yield "trees/drawn", drawn(["decoder", *trees, "--draw_trees=trees.svg", "--decode_to_file=trees.txt"], "trees.svg")
    picture = ["decoder", *plain[:2], "--draw_attention=map.svg"]
    yield "attention", drawn(picture, "map.svg", stdin=lines[0].encode())
    for form in ("ctranslate2", "keras", "saved_model"):
        run("export", "--output_dir=run", f"--export_dir={form}", f"--format={form}")
        names = sorted(masked(str(path.relative_to(form))) for path in Path(form).rglob("*"))
        yield f"export/{form}/files", names
        yield (
            f"export/{form}/keys",
            {p.name: sorted(keys(json.loads(p.read_text()))) for p in Path(form).glob("*.json")},
        )
    yield "export/ctranslate2/decoded", digest(run("decoder", "--export_dir=ctranslate2", plain[2]))
    run("export", "--output_dir=run", "--export_dir=int8", "--format=ctranslate2", "--quantization=int8")
    yield "export/int8/decoded", digest(run("decoder", "--export_dir=int8", plain[2]))
    yield "engine/ctranslate2", digest(run("decoder", "--output_dir=run", "--engine=ctranslate2", plain[2]))
    beams = "--decode_hparams=beam_size=3,return_beams=True"
    yield "engine/ctranslate2/beams", digest(run("decoder", "--export_dir=ctranslate2", plain[2], beams))
    yield from exported(lines[:10])


def drawn(command: list[str], file: str, stdin: bytes = b"") -> str:
    """Runs a command and returns the digest of the picture that it writes."""
    run(*command, stdin=stdin)
    return digest(normal(Path(file).read_text(encoding="utf-8")))


def exported(lines: list[str]) -> Entries:
    """What exports answer in Python."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  its operations are in the graph

    import t2t_lite as t2t

    model = tf.saved_model.load("saved_model")
    answer = model.signatures["serving_default"](tf.constant(lines))
    yield (
        "export/saved_model/answers",
        {name: digest(repr(value.numpy().tolist())) for name, value in sorted(answer.items())},
    )
    translator = t2t.Translator.from_export("ctranslate2")
    yield "python/translate", digest(json.dumps(translator.translate(lines)))
    translator = t2t.Translator.from_run_dir("run")
    yield "python/n_best", digest(repr(translator.n_best(lines[:3])))
    translated = translator.translate(lines)
    yield "python/align", translator.align(lines, translated)
    yield "python/score", digest(repr(translator.score(lines, translated)))
    parser = t2t.Parser.from_run_dir("parser")
    yield "python/parse", digest(repr(parser.translate(Path("words.txt").read_text().splitlines()[:4])))


@part
def evaluation() -> Entries:
    """Every figure of scores, comparisons, tuning and reports."""
    small_runs()
    shutil.copytree(ROOT / "tests/frozen/0.2/hard_alignment/data", "trees")
    shutil.copytree(ROOT / "tests/frozen/0.2/tied/run", "evaluated")
    frozen_run = ["--output_dir=parser", "--data_dir=trees"]
    for name, flags in {
        "dev": ["--output_dir=run", "--split=dev"],
        "test": ["--output_dir=run", "--split=test", "--metric=ter,chrf,exact_match"],
        "comparison": ["--output_dir=run,other", "--split=test"],
        "parsing": frozen_run,
    }.items():
        yield name, json.loads(normal(run("eval", *flags, "--json", "--xla_compile=False")))
    tuning = ["--tune=alpha=0.2/1,beam_size=1/3", "--xla_compile=False"]
    yield "tuning", masked(run("eval", "--output_dir=run", *tuning))  # its choice; the scores are those of "dev"
    yield "tuning/files", [path.read_text() for path in Path("run").glob("decode_hparams.json")]
    yield "run_files", sorted(masked(str(path.relative_to("run"))) for path in Path("run").rglob("*"))
    run("decoder", "--output_dir=run", "--decode_from_file=text/test.en", "--decode_to_file=out.txt")
    run("decoder", "--output_dir=other", "--decode_from_file=text/test.en", "--decode_to_file=out2.txt")
    metrics = "--metric=bleu,chrf,ter,exact_match,paper_bleu"
    score = ["--reference=text/test.de", "--language=de", "--json", metrics]
    yield "score", json.loads(run("score", "--hypothesis=out.txt,out2.txt", *score, "--intervals"))
    yield "score/changes", masked(run("score", "--hypothesis=out.txt,out2.txt", score[0], "--changes=3"))
    evalb = ["--metric=parseval", f"--hypothesis={CORPORA}/evalb/candidate.txt"]
    evalb += [f"--reference={CORPORA}/evalb/gold.txt"]
    yield "score/parseval", json.loads(normal(run("score", *evalb, "--json")))
    run("params", "--hparams_set=transformer_base,transformer_big", "--plot_file=sets.svg")
    yield "params", digest(run("params"))
    yield "benchmark/cost", run("benchmark", "--cost")
    yield "benchmark/curve", masked(run("benchmark", "--curve", "--output_dir=evaluated"))
    for number in (3, 4, 5):
        figure = ["reproduce", f"--figure={number}", "--run_dir=run", "--output_dir=figures", "--layer=1"]
        figure += ["--sentence=The man in the red shirt is making his own food.", "--word=making"]
        run(*figure)
    yield (
        "figures",
        {path.name: digest(path) for path in Path("figures").rglob("*.svg")},
    )


@part
def importing() -> Entries:
    """Models of tensor2tensor and Keras: weights, settings and outputs."""
    lines = (CORPORA / "t2t" / "in.txt").read_text(encoding="utf-8").splitlines()[:40]
    for name in ("v1", "v3"):
        model = ["--from=t2t", CORPORA / "t2t" / name, f"--data_dir={CORPORA}/t2t/data", f"--output_dir={name}"]
        yield f"{name}/said", masked(run("import_model", *model))
        yield f"{name}/files", sorted(masked(str(path.relative_to(name))) for path in Path(name).rglob("*"))
        yield f"{name}/hparams", json.loads(Path(name, "hparams.json").read_text())
        yield f"{name}/weights", of_arrays(parameters(Path(name, "ckpt-600")))
        yield f"{name}/decoded", digest(run("decoder", f"--output_dir={name}", stdin="\n".join(lines).encode()))
    run("export", "--output_dir=v3", "--export_dir=keras", "--format=keras")
    run("import_model", "--from=keras", "keras", "--output_dir=back")
    yield "keras/weights", of_arrays(parameters(next(Path("back").glob("ckpt-*.index")).with_suffix(""), "model"))


@part
def jax() -> Entries:
    """The logits of every value of every setting under Keras on JAX."""
    environment = os.environ | {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    program = ROOT / "tests" / "models" / "test_backends.py"
    done = subprocess.run([sys.executable, program, "logits.npy"], capture_output=True, env=environment, check=False)
    if done.returncode:
        sys.exit(done.stderr.decode())
    import numpy as np

    yield "backend and TensorFlow", done.stdout.decode()
    yield from ((f"logits/{number}", of_arrays({"": each})) for number, each in enumerate(np.load("logits.npy")))


# Surfaces


def forked(name: str, flags: list[str], stdin: bytes = b"") -> dict[str, object]:
    """Runs a command in a fork of this process, which has not loaded TensorFlow: status, outputs, whether it did."""
    child = os.fork()
    if not child:
        os.close(0)
        Path("stdin").write_bytes(stdin)
        os.open("stdin", os.O_RDONLY)
        for number, file in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        for stream in ("stdin", "stdout", "stderr"):
            mode = "r" if stream == "stdin" else "w"
            setattr(sys, stream, open(("stdin", "stdout", "stderr").index(stream), mode))  # noqa: SIM115
        status = 99
        with contextlib.suppress(BaseException):
            try:
                status = importlib.import_module(f"t2t_lite.bin.{name}").main(flags)
            except SystemExit as end:
                status = end.code
        sys.stdout.flush()
        sys.stderr.flush()
        Path("loaded").write_text(json.dumps([status, "tensorflow" in sys.modules]))
        os._exit(0)
    os.waitpid(child, 0)
    status, loaded = json.loads(Path("loaded").read_text())
    out, errors = (Path(file).read_text(errors="replace") for file in ("stdout", "stderr"))
    return {"status": status, "stdout": out, "stderr": errors, "tensorflow": loaded}


@part
def surfaces() -> Entries:
    """Help texts, signatures, bad command lines, and whether each of them loads TensorFlow."""
    from support.fuzz import write_world

    for name in COMMANDS:
        importlib.import_module(f"t2t_lite.bin.{name}")
    for name in COMMANDS:
        found = forked(name, ["--help"])
        yield f"help/{name}", found["stdout"]
        yield f"help/{name}/tensorflow", found["tensorflow"]
    for kind in ("text_pairs", "transformer_base", "transformer"):
        yield f"registry_help/{kind}", forked("trainer", [f"--registry_help={kind}"])["stdout"]
    yield "registry_help", forked("trainer", ["--registry_help"])["stdout"]
    yield "options", (ROOT_OF_CODE / "docs" / "options.md").read_text()
    yield "wheel", wheel_files()
    home = Path.cwd()
    for number, (name, flags, stdin) in enumerate(json.loads((Path(__file__).parent / "bad_lines.json").read_text())):
        with tempfile.TemporaryDirectory() as folder:
            write_world(Path(folder))
            os.chdir(folder)
            found = forked(name, flags, stdin.encode("latin-1"))
            os.chdir(home)
        last = (found["stderr"].strip().splitlines() or [""])[-1].replace(folder, "WORK")
        last = re.sub(r"plugin_[0-9a-f]{16}", "plugin_X", last)
        shown = " ".join(flag if len(flag) < 100 else flag[:100] + "..." for flag in flags)
        yield f"bad/{number:03} {name} {shown}", [found["status"], last, found["tensorflow"]]
    yield from signatures()


def wheel_files() -> dict[str, object]:
    """The files of the wheel that are not Python modules, and whether all modules of the checkout are in it."""
    target = Path("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", f"--wheel-dir={target}"]
    copy = Path("source")
    copy.mkdir()
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "t2t_lite", "problems", "hparams", "bin"):
        take = shutil.copytree if (ROOT_OF_CODE / name).is_dir() else shutil.copy
        take(ROOT_OF_CODE / name, copy / name)
    subprocess.run([*command, copy.absolute()], check=True, capture_output=True)
    names = zipfile.ZipFile(next(target.glob("*.whl"))).namelist()
    modules = [name for name in names if name.endswith(".py")]
    sources = [path for folder in ("t2t_lite", "problems", "hparams", "bin") for path in (copy / folder).rglob("*.py")]
    return {"other": sorted(set(names) - set(modules)), "complete": len(modules) == len(sources)}


def signatures() -> Entries:
    """The signatures of the public API: of `t2t_lite.__all__`, and of what docs/plugins.md imports."""
    import t2t_lite as t2t

    named = {f"t2t_lite.{name}": getattr(t2t, name) for name in t2t.__all__}
    for text in re.findall(r"^from (t2t_lite[\w.]*) import (.+)$", (ROOT / "docs/plugins.md").read_text(), re.M):
        module = importlib.import_module(text[0])
        named |= {f"{text[0]}.{name}": getattr(module, name) for name in re.findall(r"\w+", text[1])}
    for name, thing in named.items():
        if inspect.ismodule(thing):
            listed = getattr(thing, "__all__", [each for each in dir(thing) if not each.startswith("_")])
            yield f"names/{name}", sorted(listed)
        elif callable(thing):
            yield f"signature/{name}", re.sub(" at 0x[0-9a-f]+", "", str(inspect.signature(thing)))
            if inspect.isclass(thing):
                methods = {each: value for each, value in inspect.getmembers(thing) if not each.startswith("_")}
                for each, value in methods.items():
                    if (getattr(value, "__module__", "") or "").startswith("t2t_lite"):  # not what Keras adds
                        shown = (
                            re.sub(" at 0x[0-9a-f]+", "", str(inspect.signature(value))) if callable(value) else "value"
                        )
                        yield f"signature/{name}.{each}", shown


@part
def good_runs() -> Entries:
    """Standard output and standard error of each command's good run, with numbers masked."""
    write_text()
    shutil.copytree(ROOT / "tests/frozen/0.2/tied/run", "frozen")
    shutil.copytree(ROOT / "tests/frozen/0.2/tied/data", "frozen_data")
    lines = {
        "datagen": [*PAIRS, "--data_dir=data", "--vocab_size=600"],
        "trainer": training("run", "", "--schedule=train_and_evaluate", "--log_step_count_steps=10"),
        "avg": ["--output_dir=run", "--n=2"],
        "decoder": ["--output_dir=run", "--decode_from_file=text/dev.en", "--decode_to_file=out.txt"],
        "eval": ["--output_dir=run"],
        "export": ["--output_dir=run", "--export_dir=export", "--format=ctranslate2"],
        "import_model": [
            "--from=t2t",
            f"{CORPORA}/t2t/v1",
            f"--data_dir={CORPORA}/t2t/data",
            "--output_dir=imported",
        ],
        "params": ["--hparams_set=transformer_base"],
        "benchmark": [
            "--decoding",
            "--output_dir=run",
            "--decode_from_file=text/dev.en",
            "--one_by_one=1",
            "--repeats=1",
        ],
        "reproduce": ["--table=3", "--scale=tiny", "--dry_run", "--output_dir=reproduced"],
        "report": ["--output_dir=run", "--report_file=report.html"],
        "score": ["--hypothesis=text/dev.de", "--reference=text/dev.de"],
    }
    from support.commands import run_in_this_process

    for name, flags in lines.items():
        done = run_in_this_process(name, *flags)
        yield name, [done.returncode, masked(done.stdout), masked(done.stderr)]
    html = re.sub(r"<svg.*?</svg>", "<svg/>", Path("report.html").read_text(encoding="utf-8"), flags=re.S)
    html = re.sub(r"<(style|script).*?</\1>", "", html, flags=re.S)
    yield "report.html", masked(re.sub(r"<[^>]*>|\s+", " ", html))


REQUESTS = [
    *[("/translate", {"q": q, "source": "en", "target": "de"}) for q in (
        "The dog sees the man.", "", "  ", "12 %", "😀", "1. The dog sees the man. The tree hears the dog.",
        ["The dog.", "The man hears the garden."], "The dog sees\nthe man.", "x" * 3000, 5, None, [],
        "\ufeffThe dog sees the man.", "The  dog   sees the man.", "<b>The dog</b> sees the man.",
    )],
    ("/translate", {"q": "<p>The dog <b>sees</b> the man.</p>", "source": "en", "target": "de", "format": "html"}),
    ("/translate", {"q": "The dog.", "source": "en", "target": "de", "format": "x"}),
    ("/translate", {"q": "The dog.", "source": "en", "target": "de", "alternatives": 2}),
    ("/translate", {"q": "The dog.", "source": "auto", "target": "de"}),
    *[("/translate", {"q": "The dog.", "source": s, "target": t}) for s, t in (
        ("en", "fr"), ("fr", "de"), ("en-US", "de"), ("EN", "DE"), ("en", ""), ("", "de"), ("zh", "zt"), ("de", "en"),
    )],
    *[("/translate", body) for body in (b"", b"{", b"[]", b'"x"', b"\xff", b'{"q": 1e999}', {"source": "en"}, {})],
    *[("/v1/translate", body) for body in (
        {"texts": ["The dog sees the man."]}, {"texts": "The dog."}, {"texts": []}, {"texts": ["a\nb"]}, {},
        {"texts": ["The dog."], "n_best": 3}, {"texts": ["The dog."], "settings": {"beam_size": 2}},
        {"texts": ["The dog."], "settings": {"beam_size": 99}}, {"texts": ["The dog."], "settings": {"x": 1}},
        {"texts": ["The dog."], "model": "x"}, {"texts": ["The dog."], "prefixes": ["Der"]},
        {"texts": ["The dog."], "scores": True}, {"texts": ["The dog."], "alignments": True}, {"text": "The dog."},
    )],
    ("/v1/score", {"pairs": [["The dog.", "Der Hund."]]}),
    ("/v1/score", {"sources": ["The dog."], "targets": ["Der Hund."]}),
    ("/v1/parse", {"texts": ["The dog."]}),
    ("/detect", {"q": "The dog."}),
    ("/nothing", {}),
]  # fmt: skip
PAGES = (
    "/",
    "/languages",
    "/health",
    "/ready",
    "/v1/models",
    "/openapi.json",
    "/docs",
    "/nothing",
    "/frontend/settings",
)


@part
def server() -> Entries:
    """What the server answers, and commands in an environment for serving machines only."""
    from support.server import Server

    shutil.copytree(ROOT / "tests/frozen/0.2/tied/run", "run")
    run("export", "--output_dir=run", "--export_dir=en-de", "--format=ctranslate2")
    with Server("--export_dir=en-de", "--languages=en-de") as serving:
        for path in PAGES:
            answer = serving.get(path)
            yield f"GET {path}", [answer.status, plain(answer.content)]
        for number, (path, body) in enumerate(REQUESTS):
            answer = serving.post(path, body)
            shown = body.decode("latin-1") if isinstance(body, bytes) else json.dumps(body)
            yield f"POST {number:02} {path} {shown[:90]}", [answer.status, plain(answer.content)]
        yield (
            "GET /metrics",
            sorted(
                {
                    line.partition("{")[0].split()[0]
                    for line in serving.get("/metrics").content.split("\n")
                    if line and line[0] != "#"
                }
            ),
        )
    yield "log", [masked(line) for line in serving.lines if not line.startswith("{")]
    yield from serving_environment()


def plain(content: object) -> object:
    """An answer's content without what differs from run to run; a page's digest."""
    text = json.dumps(content, ensure_ascii=False, sort_keys=True) if not isinstance(content, str) else content
    text = normal(text)
    return text if len(text) < 1500 else digest(text)


def serving_environment() -> Entries:
    """Makes an environment from requirements-serve.txt, and tries decoder, score and serve there."""
    from support.server import Server

    copy = Path("checkout")
    copy.mkdir()
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "t2t_lite", "problems", "hparams", "bin"):
        take = shutil.copytree if (ROOT_OF_CODE / name).is_dir() else shutil.copy
        take(ROOT_OF_CODE / name, copy / name)
    subprocess.run([sys.executable, copy / "bin" / "build"], check=True, capture_output=True)
    yield "requirements", (copy / "dist" / "requirements-serve.txt").read_text()
    subprocess.run([sys.executable, "-m", "venv", "light"], check=True)
    pip = ["light/bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", copy / "dist" / "requirements-serve.txt"], check=True)
    subprocess.run([*pip, "--no-deps", *copy.glob("dist/*.whl")], check=True)
    tried = {
        "decoder": ["--export_dir=en-de"],
        "score": ["--hypothesis=a.txt", "--reference=a.txt"],
    }
    Path("a.txt").write_text("Der Hund sieht den Mann.\n" * 3)
    for name, flags in tried.items():
        command = [Path("light/bin").absolute() / f"t2t-lite-{name}", *flags]
        done = subprocess.run(command, input="The dog sees the man.\n", capture_output=True, text=True, check=False)
        yield f"light/{name}", [done.returncode, done.stdout, masked(done.stderr)]
    with Server("--export_dir=en-de", program=Path("light/bin/t2t-lite-serve").absolute()) as serving:
        yield "light/serve", serving.post("/translate", {"q": "The dog.", "source": "en", "target": "de"}).content


# Records


def code_root() -> Path:
    """The checkout whose t2t-lite this Python runs."""
    import t2t_lite

    return Path(t2t_lite.__file__).resolve().parent.parent


ROOT_OF_CODE = code_root()


def about() -> dict[str, object]:
    """The commit, the processor and the versions."""
    git = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT_OF_CODE, capture_output=True, text=True)
    text = Path("/proc/cpuinfo").read_text()
    names = re.search(r"model name\s*:\s*(.+)", text), re.search(r"flags\s*:\s*(.+)", text)
    kinds = [
        flag for flag in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16") if flag in names[1][1].split()
    ]
    versions = {}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    machine = {"processor": names[0][1], "flags": kinds, "python": sys.version.split()[0], "versions": versions}
    return {"commit": git.stdout.strip(), **machine}


def make(file: Path, names: list[str]) -> None:
    """Runs parts, each in a process and folder of its own, and adds their entries to a record."""
    record = json.loads(file.read_text()) if file.exists() else {"entries": {}, "changes": []}
    record["about"] = about()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    environment = os.environ | THREADS | {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONHASHSEED": "0"}
    for name in names or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            # The environment of a user: no cache and no settings of this machine.
            limits = {} if name == "precisions" else ISA
            own = environment | limits | dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"), f"{folder}/home")
            (Path(folder) / "work").mkdir()
            begin = os.times().elapsed
            command = [sys.executable, Path(__file__).resolve(), "part", name, Path(folder) / "entries.json"]
            done = subprocess.run(command, cwd=Path(folder) / "work", env=own, check=False)
            if done.returncode:
                sys.exit(f"part {name} failed")
            entries = json.loads((Path(folder) / "entries.json").read_text())
        print(f"{name}: {len(entries)} entries, {os.times().elapsed - begin:.0f} s", flush=True)
        record["entries"] = {k: v for k, v in record["entries"].items() if not k.startswith(f"{name}/")}
        record["entries"] |= {f"{name}/{key}": value for key, value in entries.items()}
        file.write_text(json.dumps(record, indent=0, ensure_ascii=False, sort_keys=True) + "\n")


def differences(before: dict, after: dict) -> dict[str, str]:
    """The names of the entries that differ, and how."""
    found = {}
    old, new = before["entries"], after["entries"]
    parts = {name.split("/")[0] for name in new}
    for name in sorted(old.keys() | new.keys()):
        if name.split("/")[0] not in parts:  # this part was not recorded again
            continue
        if old.get(name) != new.get(name):
            short = [json.dumps(each.get(name), ensure_ascii=False) for each in (old, new)]
            at = next((i for i, (a, b) in enumerate(zip(*short)) if a != b), min(map(len, short)))
            found[name] = "  ->  ".join(text[max(0, at - 40) : at + 100] for text in short)
    return found


def compare(before: dict, after: dict) -> int:
    """Prints what differs; the exit status is 1 if anything does."""
    machines = [{key: value for key, value in each["about"].items() if key != "commit"} for each in (before, after)]
    found = differences(before, after)
    if machines[0] != machines[1]:
        print(f"Another machine: make the entries of {', '.join(FLOATS)} of {before['about']['commit']} here first.")
    for name, how in found.items():
        print(f"{name}\n    {how}")
    print(f"{len(found)} of {len(before['entries'])} entries differ")
    return 1 if found else 0


def accept(file: Path, after: dict, pattern: str, reason: str) -> None:
    """Takes over the entries that differ and match a pattern, with the reason."""
    record = json.loads(file.read_text())
    names = fnmatch.filter(differences(record, after), pattern)
    for name in names:
        record["entries"].pop(name, None)
        if name in after["entries"]:
            record["entries"][name] = after["entries"][name]
    record["changes"].append({"entries": pattern, "number": len(names), "reason": reason})
    record["about"] = after["about"]
    file.write_text(json.dumps(record, indent=0, ensure_ascii=False, sort_keys=True) + "\n")
    print(f"{len(names)} entries")


def main() -> int:
    """Runs a subcommand."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=("make", "compare", "accept", "part"))
    parser.add_argument("arguments", nargs="+")
    given = parser.parse_args()
    first, *others = given.arguments
    if given.do == "part":
        with contextlib.redirect_stdout(io.StringIO()):
            entries = {}
            for name, value in PARTS[first]():
                entries[name] = value
                print(name, file=sys.stderr, flush=True) if "verbose" in others else None
        Path(others[0]).write_text(json.dumps(entries, ensure_ascii=False, default=float))
    elif given.do == "make":
        make(Path(first).resolve(), others)
    elif given.do == "compare":
        return compare(*(json.loads(Path(file).read_text()) for file in given.arguments))
    else:
        accept(Path(first), json.loads(Path(others[0]).read_text()), *others[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
