"""Measures the input pipeline of training alone, without a model."""

import os
import resource
import time
from pathlib import Path
from typing import NamedTuple


class Reading(NamedTuple):
    """The measurements of reading training batches."""

    first_batch_seconds: float
    seconds: float  # of the batches after the first
    cpu_seconds: float  # of these batches, on all cores
    tokens: int  # target tokens in these batches
    batches: int
    longest_gap: float  # the longest time that one of these batches took, in seconds
    padding: tuple[float, float]  # the share of padding in inputs and targets
    resident_bytes: list[int]  # memory of the process at the end of each epoch
    peak_bytes: int


class Wanted(NamedTuple):
    """What to read."""

    problem: str
    data_dir: Path
    batch_tokens: int
    max_length: int
    cores: int | None = None  # number of cores to use; None: all
    epochs: int = 1
    skip: int = 0  # batches of the first epoch to skip, as a resumed run does
    batches: int | None = None  # number of batches to read; None: all of `epochs`
    hosts: int = 1  # number of hosts; reads the share of the first one


def read_batches(wanted: Wanted) -> Reading:
    """Reads batches as fast as possible. Call it in a process of its own."""
    if wanted.cores is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: wanted.cores])
    from t2t_lite.data.batching import HostShare
    from t2t_lite.data.pipeline import epochs
    from t2t_lite.data.problem import get_problem
    from t2t_lite.plugins import load_all

    load_all()
    start = time.perf_counter()
    batches = iter(
        epochs(
            get_problem(wanted.problem),
            wanted.data_dir,
            batch_tokens=wanted.batch_tokens,
            batch_by="both",
            max_length=wanted.max_length,
            seed=1,
            skip=wanted.skip,
            host=HostShare(wanted.hosts, 0, 1) if wanted.hosts > 1 else None,
        )
    )
    batch = next(batches)
    first_batch, began = time.perf_counter() - start, time.perf_counter()
    cpu = time.process_time()
    tokens, places, number, longest, resident, epoch = [0, 0], [0, 0], 0, 0.0, [], 0
    while True:
        before = time.perf_counter()
        batch = next(batches)
        longest = max(longest, time.perf_counter() - before)
        if int(batch["epoch"]) > epoch:
            epoch += 1
            resident.append(_resident_bytes())
        if epoch == wanted.epochs or number == wanted.batches:
            break
        number += 1
        for side, name in enumerate(("inputs", "targets")):
            ids = batch[name].numpy()
            tokens[side] += int((ids != 0).sum())
            places[side] += ids.size
    seconds = time.perf_counter() - began
    padding = tuple(1 - real / max(1, all_places) for real, all_places in zip(tokens, places))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    cpu = time.process_time() - cpu
    return Reading(first_batch, seconds, cpu, tokens[1], number, longest, (padding[0], padding[1]), resident, peak)


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
