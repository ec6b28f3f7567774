"""Times two checkouts in turn, and prints the ratio of their medians.

    python dev/pair.py BEFORE AFTER [--pairs=7] [NAME ...]

BEFORE and AFTER are checkouts with a .venv each (`bin/install dev`). Of each pair, one starts first in turn, so that
other work on the machine meets both. A ratio below 1 is a faster AFTER; its interval holds 95% of 2,000 bootstrap
medians of the pairs' ratios. The cases: cold commands on data and a run that are made first, `t2t-lite-benchmark
--training` and `--decoding`, and the tokens per second of the input of one of 8 hosts.
"""

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TINY = ["--hparams_set=transformer_tiny", "--peak_tflops=1", "--schedule=train"]
HOST = """
import sys, time
from pathlib import Path
import t2t_lite as t2t
from t2t_lite.data.batching import HostShare
from t2t_lite.data.pipeline import epochs
share = HostShare(devices=8, first=3, number=1)
settings = dict(batch_tokens=4096, batch_by="both", max_length=64, seed=1, host=share)
batches = iter(epochs(t2t.get_problem("grammar_ende"), Path("data"), **settings))
next(batches)
begin = time.perf_counter()
tokens = sum(float(next(batches)["tokens"]) for _ in range(300))
print(f"figure {(time.perf_counter() - begin) / tokens:.4e}")
"""
# Name: (arguments of a command; how its figure is read: "seconds" of the whole command, or a pattern for a rate).
CASES = {
    "import": (["-c", "import t2t_lite"], "seconds"),
    "help": (["trainer", "--help"], "seconds"),
    "registry_help": (["trainer", "--registry_help"], "seconds"),
    "trainer": (
        ["trainer", "--problem=grammar_ende", *TINY, "--data_dir=data", "--output_dir=NEW", "--train_steps=20"],
        "seconds",
    ),
    "decoder": (["decoder", "--output_dir=run", "--decode_from_file=in.txt", "--decode_to_file=NEW"], "seconds"),
    "ctranslate2": (["decoder", "--export_dir=ct2", "--decode_from_file=in.txt", "--decode_to_file=NEW"], "seconds"),
    "eval": (["eval", "--output_dir=run", "--again"], "seconds"),
    "score": (["score", "--hypothesis=in.txt", "--reference=in.txt"], "seconds"),
    "training": (
        ["benchmark", "--training", "--problem=grammar_ende", *TINY[:2], "--data_dir=data", "--num_steps=60"],
        r"([\d,.]+) steps/s",
    ),
    "decoding": (
        ["benchmark", "--decoding", "--output_dir=run", "--decode_from_file=in.txt", "--one_by_one=5", "--repeats=2"],
        r"([\d,.]+) (?:lines|sentences)/s",
    ),
    "input": (["-c", HOST], r"figure (\S+)"),
}


def command(checkout: Path, arguments: list[str]) -> list[str]:
    """The program and its arguments in a checkout's environment."""
    bin_dir = (checkout / ".venv" / "bin").absolute()
    first = [bin_dir / "python"] if arguments[0] == "-c" else [bin_dir / f"t2t-lite-{arguments[0]}"]
    return [*map(str, first), *(arguments if arguments[0] == "-c" else arguments[1:])]


def measure(checkout: Path, name: str, folder: Path) -> float:
    """Runs a case once: seconds, or seconds per unit of work."""
    arguments, kind = CASES[name]
    new = folder / f"new-{time.monotonic_ns()}"
    given = command(checkout, [argument.replace("NEW", str(new)) for argument in arguments])
    begin = time.perf_counter()
    done = subprocess.run(given, cwd=folder, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode:
        sys.exit(f"{' '.join(given)}\n{done.stdout}{done.stderr}")
    if kind == "seconds":
        return seconds
    found = re.search(kind, done.stdout)
    if found is None:
        sys.exit(f"{name} prints no figure:\n{done.stdout}")
    value = float(found[1].replace(",", ""))
    return value if kind.startswith("figure") else 1 / value


def prepare(checkout: Path, folder: Path) -> None:
    """Makes data, a run and an export with the older checkout."""
    train = ["trainer", "--generate_data", "--problem=grammar_ende", *TINY, "--data_dir=data", "--output_dir=run"]
    export = ["export", "--output_dir=run", "--export_dir=ct2", "--format=ctranslate2"]
    for arguments in ([*train, "--train_steps=300"], export):
        subprocess.run(command(checkout, arguments), cwd=folder, check=True, capture_output=True)
    lines = next(folder.glob("data/*test*inputs.txt")).read_text(encoding="utf-8").splitlines()
    (folder / "in.txt").write_text("\n".join(lines[:300]) + "\n", encoding="utf-8")


def machine() -> str:
    """The processor, and the speed of a product of two 2048 x 2048 matrices in float32."""
    program = (
        "import numpy as np, time\na = np.ones((2048, 2048), 'float32'); a @ a\n"
        "b = time.perf_counter(); [a @ a for _ in range(5)]\nprint(5 * 2 * 2048**3 / (time.perf_counter() - b) / 1e9)"
    )
    speed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    text = Path("/proc/cpuinfo").read_text()
    kind = "AVX512" if " avx512f " in text else "AVX2"
    model = re.search(r"model name\s*:\s*(.+)", text)
    threads = len(os.sched_getaffinity(0))
    return f"{model[1] if model else ''}, {kind}, {threads} threads, {float(speed):.0f} GFLOP/s"


def main() -> None:
    """Times the cases and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("names", nargs="*", default=[*CASES], metavar="NAME")
    parser.add_argument("--pairs", type=int, default=7)
    given = parser.parse_args()
    print(machine())
    lots = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(given.before, folder)
        for case in given.names:
            pairs = []
            for number in range(given.pairs):
                order = [given.before, given.after]
                found = {each: measure(each, case, folder) for each in (order if number % 2 else order[::-1])}
                pairs.append([found[each] for each in order])
            ratios = [after / before for before, after in pairs]
            draws = sorted(statistics.median(lots.choices(ratios, k=len(ratios))) for _ in range(2000))
            medians = [statistics.median(each) for each in zip(*pairs)]
            text = f"{case}: {medians[0]:.4g} -> {medians[1]:.4g}, ratio {statistics.median(ratios):.3f}"
            print(f"{text} [{draws[50]:.3f}, {draws[1949]:.3f}]", json.dumps(pairs), flush=True)


if __name__ == "__main__":
    main()
