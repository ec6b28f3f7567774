"""Divides the time of a step among kinds of work, given a JAX profile and the compiled program."""

import collections
import glob
import gzip
import json
import re
from collections.abc import Callable
from typing import NamedTuple

# An operation's kind is the first one whose pattern matches the operation's name in the model.
KINDS = {
    "optimizer": r"(^|/)(optimizer|Adam)",
    "loss and logits": r"(^|[/(])loss",
    "dropout": r"dropout",
    "norms": r"/norm|_norm",
    "self-attention": r"self_attention",
    "cross-attention": r"cross_attention",
    "feed-forward": r"feed_forward",
    "embeddings and positions": r"embedding|positions",
    "all-reduce": r"psum|all-reduce",
}
OTHER = "other"
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.-]+) .*\{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.-]+) = ")
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_CALLS = re.compile(r"(?:calls|to_apply)=%?([\w.-]+)")
_IS_PRODUCT = re.compile(r"gemm|cublas|nvjet|cutlass|matmul|xmma|dot", re.IGNORECASE)


# On a CPU, the time of a loop is listed besides that of the instructions in it.
_CONTAINER = re.compile(r"(while|conditional)([._]\d+)*$")


class Kernel(NamedTuple):
    """A kernel in the profile."""

    name: str
    instruction: str  # the instruction that it runs in the compiled program; "" if unknown
    microseconds: float


def is_kernel(instruction: str) -> bool:
    """Returns whether an instruction of the compiled program does work itself, unlike a loop."""
    return not _CONTAINER.match(instruction)


def kernel_kind(op_name: str) -> str:
    """Returns the kind of an operation, given its name in the model: a key of `KINDS`, or OTHER."""
    return next((kind for kind, pattern in KINDS.items() if re.search(pattern, op_name)), OTHER)


def op_names(program: str) -> dict[str, str]:
    """Returns the name in the model of each instruction in a compiled program, which is given as text.

    Names without a kind in `KINDS` do not count. An instruction without a name that calls a computation gets the most
    frequent name in that computation.
    """
    named: dict[str, str] = {}
    inside: dict[str, collections.Counter[str]] = {}
    calls: dict[str, str] = {}
    computation = ""
    for line in program.splitlines():
        if opened := _COMPUTATION.match(line):
            computation = opened[1]
        elif instruction := _INSTRUCTION.match(line):
            name, op_name = instruction[1], _OP_NAME.search(line)
            if op_name and kernel_kind(op_name[1]) != OTHER:
                named[name] = op_name[1]
                inside.setdefault(computation, collections.Counter())[op_name[1]] += 1
            elif called := _CALLS.search(line):
                calls[name] = called[1]
    for name, called in calls.items():
        if called in inside:
            named[name] = inside[called].most_common(1)[0][0]
    return named


def kernels_of_trace(folder: str, on_cpu: bool) -> list[Kernel]:
    """Returns the device kernels in a profile that `jax.profiler.trace` wrote."""
    (path,) = glob.glob(f"{folder}/**/*.trace.json.gz", recursive=True)
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    # Events of host threads name the instructions that they launch; these events are not kernels.
    hosts = {
        event["pid"]
        for event in events
        if event.get("name") == "process_name" and "CPU" in event["args"]["name"] and not on_cpu
    }
    kernels = []
    for event in events:
        arguments = event.get("args", {})
        if event.get("ph") != "X" or "hlo_op" not in arguments or event["pid"] in hosts:
            continue
        if is_kernel(arguments["hlo_op"]):
            kernels.append(Kernel(event["name"], arguments["hlo_op"], event["dur"]))
    return kernels


def time_by_kind(kernels: list[Kernel], names: dict[str, str], steps: int) -> dict[str, dict[str, float]]:
    """Returns milliseconds per step by kind of work, in descending order, split into matrix products and others."""
    table: dict[str, dict[str, float]] = {}
    for kernel in kernels:
        kind = kernel_kind(names.get(kernel.instruction, kernel.instruction))
        row = table.setdefault(kind, {"products": 0.0, "other": 0.0})
        what = "products" if _IS_PRODUCT.search(f"{kernel.name} {kernel.instruction}") else "other"
        row[what] += kernel.microseconds / 1000 / steps
    return dict(sorted(table.items(), key=lambda item: -sum(item[1].values())))


def largest(kernels: list[Kernel], names: dict[str, str], steps: int, number: int = 60) -> list[list[object]]:
    """Returns the kernels that take the most time: [milliseconds per step, calls per step, name, name in the model]."""
    sums: dict[tuple[str, str], list[float]] = {}
    for kernel in kernels:
        short = re.sub(r"\d+", "N", names.get(kernel.instruction, kernel.instruction))
        entry = sums.setdefault((re.sub(r"[._]\d+$", "", kernel.name)[:80], short), [0.0, 0])
        entry[0] += kernel.microseconds / 1000 / steps
        entry[1] += 1 / steps
    ordered = sorted(sums.items(), key=lambda item: -item[1][0])[:number]
    return [[round(time, 3), round(calls, 1), *key] for key, (time, calls) in ordered]


def profile(run: Callable[[], object], folder: str) -> list[Kernel]:
    """Profiles a function, which must wait for its results, and returns its kernels."""
    import jax

    with jax.profiler.trace(folder):
        run()
    return kernels_of_trace(folder, jax.default_backend() == "cpu")
