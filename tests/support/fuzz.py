"""Command lines drawn from the commands' own parsers, with good, odd and bad values and files.

python tests/support/fuzz.py 500        # tries 500 of them, those with the seeds 0 to 499
python tests/support/fuzz.py 1 --first=137 --show
"""

import argparse
import collections
import contextlib
import gzip
import hashlib
import importlib
import random
import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.commands import run_in_this_process
from t2t_lite.config import DecodeHParams, HParams
from t2t_lite.registry import PROBLEMS

FROZEN = Path(__file__).resolve().parents[1] / "frozen" / "0.1"
TINY = "hidden_size=16,filter_size=16,num_heads=2,num_encoder_layers=1,num_decoder_layers=1,batch_tokens=200"
TRAINING = f"--hparams_set=transformer_tiny --hparams={TINY} --peak_tflops=1"
TO_FILE = "--decode_from_file=text.en --decode_to_file=out.txt --xla_compile=False"
# Flags with which a command does something; a command line is one of these with changes.
STARTS = collections.defaultdict(list)
for start in f"""
avg --output_dir=run --n=2
avg --output_dir=words/run --n=1
benchmark --cost
benchmark --curve --output_dir=run
benchmark --decoding --output_dir=run --decode_from_file=text.en --one_by_one=1 --repeats=1
datagen --problem=text_pairs --data_dir=new --train_source=text.en --train_target=text.de
datagen --problem=text_pairs --data_dir=new --train_tsv=text.tsv --dev_tsv=dev.tsv --vocab_size=300
datagen --problem=treebank_parsing --data_dir=new --treebank=trees.mrg
datagen --problem=text_pairs --data_dir=data --inspect
datagen --problem=multi30k_ende --data_dir=new
decoder --output_dir=run {TO_FILE}
decoder --output_dir=words/run --xla_compile=False
decoder --output_dir=parsing/run {TO_FILE}
decoder --output_dir=run --score_file=text.tsv --xla_compile=False
eval --output_dir=run --data_dir=data --split=dev --decode_hparams=beam_size=1 --xla_compile=False
eval --output_dir=run,words/run --data_dir=data --checkpoint_path=last --xla_compile=False
eval --output_dir=run --data_dir=data --tune=alpha=0/1,beam_size=2 --xla_compile=False
params
params --hparams_set=transformer_big
score --hypothesis=text.en --reference=text.de
score --hypothesis=trees.mrg --reference=trees.mrg --metric=parseval
score --hypothesis=text.en --reference=text.de --metric=ter,exact_match,chrf
score --hypothesis=text.en,text.de --reference=text.de,text.en --metric=paper_bleu --language=de --source=text.en
trainer --problem=text_pairs --data_dir=data --output_dir=new {TRAINING}
trainer --schedule=eval --data_dir=data --output_dir=run
""".split("\n")[1:-1]:
    STARTS[start.partition(" ")[0]].append(start.partition(" ")[2])
LONG = "x" * 300
FILES = ["text.en", "text.de", "text.tsv", "trees.mrg", "text.en.gz"]
FILES += ["none.txt", "empty.txt", "latin1.txt", "cut.gz", "utf16.txt"]
PLACES = ["run", "words/run", "parsing/run", "broken", "data", "lost", "bent", "folder", "text.en", "none", "new"]
PLACES += ["a/b/c", "", LONG]
# Flags that write, the places that they may write to, and flags that read files.
OUTPUTS = ["decode_to_file", "alignments", "draw_trees", "json_file", "plot_file"]
TO_WRITE = ["out.txt", "out.txt.gz", "new.svg", "text.en", "folder", "none/out", "/dev/null", "", LONG]
READ = ["decode_from_file", "score_file", "prefix_file", "constraint_file", "hypothesis", "source", "reference"]
READ += ["vocab_file", "warm_start_from", "treebank", "train_trees", "dev_trees", "test_trees"]
READ += [f"{split}_{kind}" for split in ("train", "dev", "test") for kind in ("source", "target", "tsv")]
NUMBERS = ["1", "2", "3", "0", "-1", "1.5", "", "x", "1e3", "2147483648", "٣", "nan"]
# Flags whose large values are allowed, and do not mean so much work.
LARGE = ["batch_lines", "keep_checkpoint_max", "random_seed", "max_tokens_per_replica", "keep_best_n", "num_workers"]
WORDS = ["", "x", "True", "none", "transformer", "a,b", "é", "../data", "%s", "a b", "'"]
SETTINGS = ["1", "2", "0", "-1", "16", "0.5", "1e300", "nan", "inf", "x", "", "True", "2147483647", "99999"]
SETTINGS += ["-0.0", "1e-9"]
NAMES = {
    "problem": ["text_pairs", "text_pairs_rev", "treebank_parsing", "multi30k_ende", "translate_ende_wmt32k", "x", ""],
    "hparams_set": ["transformer_tiny", "transformer_base", "t2t_transformer_big", "transformer_base_v2", "x", ""],
    "model": ["transformer", "lstm", ""],
    "registry_help": ["", "text_pairs", "transformer_tiny", "transformer", "x"],
    "t2t_usr_dir": ["plugin", "folder", "none", "text.en"],
    "train_steps": ["1", "0", "-1", "x", ""],
    "eval_wait_secs": ["0", "x"],
    "num_steps": ["1", "0", "x"],
    "repeats": ["1", "0", "x"],
    "checkpoint_path": [
        *("run/ckpt-300", "run/ckpt-200.index", "run/ckpt-1", "words/run/ckpt-300", "broken/ckpt-300"),
        *("best", "best:chrf", "average", ""),
    ],
    "best": ["1", "2:loss", "x", ""],
    "steps": ["100-300", "9-", "x"],
    "split": ["dev", "test", "train"],
    "tune": ["alpha=0/1", "beam_size=1/2,alpha", "average_checkpoints=1", "forget", "alfa", ""],
    "inspect": ["train", "dev", "x", "data/text_pairs-dev-00000-of-00001", "text.en"],
    "make_tf_config": ["a:1,b:2", "a", "", "a:x"],
    "runner": ["", "x"],
    "max_length": ["128", "1", "x"],
    "device": ["P100", "1.5", "x", "-1"],
    "precision": ["float32", "mixed_bfloat16", "x", ""],
    "virtual_devices": ["0", "2", "-1"],
    "strategy": ["auto", "one_device", "mirrored", "multi_worker", "tpu", "x"],
} | dict.fromkeys(OUTPUTS, TO_WRITE)
# Their own tests try them; here they would take minutes. With --debug a traceback is what is asked for.
LEFT_OUT = ("help", "layers", "training", "debug")


class Line(NamedTuple):
    command: str
    flags: list[str]
    stdin: bytes


class Outcome(NamedTuple):
    kind: str  # "ended well", "refused", or what is wrong
    seconds: float
    message: str  # the last line


def write_world(folder: Path) -> None:
    """Makes the files that the command lines name."""
    for copy in ("run", "broken"):
        shutil.copytree(FROZEN / "tied" / "run", folder / copy)
    for copy in ("data", "lost", "bent"):
        shutil.copytree(FROZEN / "tied" / "data", folder / copy)
    for name in ("words", "parsing"):
        shutil.copytree(FROZEN / name / "run", folder / name / "run")
    (folder / "broken" / "ckpt-300.index").write_bytes(b"damaged")
    (folder / "broken" / "average-300.index").write_bytes(b"")
    (folder / "lost" / "text_pairs-train-00000-of-00001").unlink()
    shard = folder / "bent" / "text_pairs-train-00000-of-00001"
    shard.write_bytes(shard.read_bytes()[:400] + b"bent bytes" + shard.read_bytes()[410:])
    # Registered under a name of its own, for it stays registered in this process.
    imports = "from t2t_lite.data.problem import Example, Problem\nfrom t2t_lite.registry import PROBLEMS\n"
    plugin = f"{imports}@PROBLEMS.register('plugin_{secrets.token_hex(8)}')\nclass OfFuzz(Problem):\n    'Fuzz.'\n"
    for name in ("plugin", "folder"):
        (folder / name).mkdir()
    lots = random.Random(5)
    words = {"the": "der", "dog": "Hund", "cat": "Katze", "sees": "sieht", "runs": "rennt"}
    english = [[list(words)[lots.randrange(5)] for _ in range(lots.randint(2, 6))] for _ in range(60)]
    pairs = [(" ".join(line), " ".join(words[word] for word in line)) for line in english]
    left, right = ("".join(f"{line}\n" for line in lines).encode() for lines in zip(*pairs))
    tsv = [f"{left}\t{right}\n".encode() for left, right in pairs]
    contents = {"text.en": left, "text.de": right, "text.tsv": b"".join(tsv), "dev.tsv": b"".join(tsv[:9])}
    contents |= {"text.en.gz": gzip.compress(left), "cut.gz": gzip.compress(left)[:-9], "empty.txt": b""}
    contents |= {"latin1.txt": "café\n".encode("latin-1") * 60, "utf16.txt": "the dog runs\n".encode("utf-16") * 60}
    contents |= {"trees.mrg": b"( (S (NP (DT the) (NN dog)) (VP (VBZ runs))) )\n" * 40, "folder/mine.txt": b"mine\n"}
    contents |= {"plugin/mine.py": plugin.encode()}
    for name, content in contents.items():
        (folder / name).write_bytes(content)


def draw(seed: int) -> Line:
    """Returns the command line of a seed."""
    lots = random.Random(seed)
    command = lots.choices(list(STARTS), weights=[1, 2, 3, 4, 2, 1, 1, 4])[0]
    flags = lots.choice(STARTS[command]).split()
    parser = importlib.import_module(f"t2t_lite.bin.{command}").make_parser()
    actions = [each for each in parser._actions if each.option_strings and each.dest not in LEFT_OUT]
    given = next((flag.removeprefix("--problem=") for flag in flags if flag.startswith("--problem=")), "")
    own = list(PROBLEMS[given].flags) if given in PROBLEMS and command in ("datagen", "trainer") else []
    for _ in range(lots.choices([0, 1, 2, 3], weights=[1, 4, 3, 1])[0]):
        what = lots.random()
        if what < 0.08 and flags:
            flags.remove(lots.choice(flags))
        elif what < 0.12:
            flags.append(lots.choice(["--no_such_flag", "--worker_gpu=8", "stray", "-x", "--", "--hparam=1", "--=1"]))
        elif what < 0.35 and own:
            name = lots.choice(own)
            flags.append(f"--{name}={lots.choice(_files(name) if name in READ else NUMBERS)}")
        else:
            flags.append(_flag(lots.choice(actions), lots))
    # What would train or wait for long.
    if command == "trainer" and not any(flag.startswith("--train_steps") for flag in flags):
        flags.append("--train_steps=1")
    if "--schedule=eval" in flags and not any(flag.startswith("--eval_wait_secs") for flag in flags):
        flags.append("--eval_wait_secs=0")
    stdin = lots.choice([b"", b"the dog runs\n", b"caf\xe9 \x00\n\n", b"x " * 3000])
    return Line(command, flags, stdin)


def _flag(action: argparse.Action, lots: random.Random) -> str:
    flag, name = action.option_strings[-1], action.dest
    if action.nargs == 0:
        return flag
    if name in ("hparams", "decode_hparams"):
        settings = HParams if name == "hparams" else DecodeHParams
        pair = f"{lots.choice([*settings.names(), 'batch_size', 'x'])}={lots.choice(SETTINGS)}"
        before = f"{TINY}," if name == "hparams" and lots.random() < 0.7 else ""
        return f"{flag}={before}{lots.choice([pair, pair, pair, pair + ',', '=', 'x', pair + ',' + pair])}"
    if name in NAMES:
        values = NAMES[name]
    elif name in READ:
        values = _files(name)
    elif name.endswith("_dir"):
        values = PLACES
    elif action.choices:
        values = [*action.choices, "x"]
    elif action.type:
        values = [*NUMBERS, "2147483647"] if name in LARGE else NUMBERS
    else:
        values = WORDS
    return f"{flag}={lots.choice(values)}"


def _files(name: str) -> list[str]:
    more = ["run", "run/ckpt-200", "broken"] if name == "warm_start_from" else ["folder", "text.en,text.en", "text.*"]
    return [*FILES, *more, LONG]


def contents_of(folder: Path) -> dict[str, str]:
    """Returns the checksum of each file in a folder by its path in it; "" for a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in folder.rglob("*")
    }


def may_change(line: Line) -> list[str]:
    """Returns what a command line says may be written: files, and folders with all that is in them."""
    values = dict(flag.removeprefix("--").split("=", 1) for flag in line.flags if flag.startswith("--") and "=" in flag)
    named = [values[name] for name in OUTPUTS if values.get(name)]
    named += [f"{name}{ending}" for name in named for ending in (".incomplete", ".progress")]
    if line.command in ("trainer", "avg", "eval") and values.get("output_dir"):
        named += values["output_dir"].split(",")
    if line.command == "datagen" or "--generate_data" in line.flags:
        named += [values[name] for name in ("data_dir", "tmp_dir") if values.get(name)]
    return [str(Path(name)) for name in named]


def try_line(line: Line, folder: Path, environment: dict[str, str]) -> Outcome:
    """Runs a command line in a folder with the world in it, and says what came of it."""
    before = contents_of(folder)
    begin = time.monotonic()
    with contextlib.chdir(folder):
        result = run_in_this_process(line.command, *line.flags, stdin=line.stdin, **environment)
    seconds = time.monotonic() - begin
    after = contents_of(folder)
    lines = result.stderr.strip().splitlines()
    message = lines[-1] if lines else ""
    allowed = may_change(line)
    changed = [name for name in before | after if before.get(name) != after.get(name)]
    wrong = [name for name in changed if not any(name == each or name.startswith(f"{each}/") for each in allowed)]
    errors = [each for each in lines if each.startswith(f"t2t-lite-{line.command}: error: ")]
    if "Traceback" in result.stderr:
        kind = "a traceback"
    elif wrong:
        kind = f"changed {', '.join(sorted(wrong)[:3])}"
    elif result.returncode == 0 and not errors:
        kind = "ended well"
    elif result.returncode in (1, 2) and errors == [message]:
        kind = "refused" if result.returncode == 1 or not changed else f"status 2, and changed {changed[0]}"
    else:
        kind = f"status {result.returncode} with {len(errors)} lines of errors"
    return Outcome(kind, seconds, message)


def main() -> None:
    """Tries command lines and prints what came of them, by kind; those that went wrong one by one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--show", action="store_true", help="print every line and what came of it")
    arguments = parser.parse_args()
    outcomes = []
    for seed in range(arguments.first, arguments.first + arguments.count):
        line = draw(seed)
        with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
            write_world(Path(folder))
            outcome = try_line(line, Path(folder), dict.fromkeys(("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HOME"), home))
        outcomes.append(outcome)
        if arguments.show or outcome.kind not in ("ended well", "refused"):
            shown = " ".join(flag if len(flag) < 150 else flag[:150] + "..." for flag in line.flags)
            print(f"{seed}: {outcome.kind}, {outcome.seconds:.1f} s: {line.command} {shown}\n    {outcome.message}")
            sys.stdout.flush()
    seconds = [outcome.seconds for outcome in outcomes]
    print(dict(collections.Counter(outcome.kind for outcome in outcomes)))
    print(f"{sum(seconds):.0f} s in all, {max(seconds):.1f} s the longest")


if __name__ == "__main__":
    main()
