"""The rehearsal: each step of training on WMT, as a user runs it, measured on synthetic text of the same size."""

import dataclasses
import json
import os
import shutil
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from t2t_lite.benchmark.process import in_a_process
from t2t_lite.benchmark.rehearsal.commands import Commands
from t2t_lite.benchmark.rehearsal.corpus import write_text_files, write_tfds
from t2t_lite.benchmark.rehearsal.pipeline import Wanted, read_batches
from t2t_lite.checkpoints.versions import list_checkpoints
from t2t_lite.config import HParams
from t2t_lite.data.generation.shuffle import CHUNK_PAIRS
from t2t_lite.data.manifest import read_manifest
from t2t_lite.data.problem import get_problem
from t2t_lite.errors import UserError
from t2t_lite.files import write_text
from t2t_lite.system.cores import num_cores
from t2t_lite.training.monitoring.history import read_log

Figures: TypeAlias = dict[str, Any]

# Bytes per pair: the source files, the data, and temporary files while the data is generated.
_BYTES_PER_PAIR = 1200
_BYTES_PER_WEIGHT = 12  # float32, with Adam's two moments
_AVERAGED = 20  # checkpoints, as for the paper's big models (section 6.1)
_HOSTS = 8
_DECODED = 64  # lines
# The virtual devices share the memory of the machine, so each of them gets few tokens at a time.
_SMALL_BATCHES = "--max_tokens_per_replica=1024"


@dataclasses.dataclass(frozen=True)
class Rehearsal:
    """What is rehearsed, and where.

    Args:
      problem: wmt_ende, whose source is written as tensorflow-datasets does, or another WMT problem, as text files.
      pairs: number of training pairs.
      folder: where everything is written. Finished steps in it are not repeated.
      base, big: settings of two models: the first is trained on eight virtual devices, the second on two.
      sets: the names of their hparam sets.
      overrides: changes of the settings, as for --hparams.
      train_steps: number of steps of the first model; the second makes a tenth of them.
      commands: runs this package's commands.
    """

    problem: str
    pairs: int
    folder: Path
    base: HParams
    big: HParams
    sets: tuple[str, str]
    overrides: str
    train_steps: int
    commands: Commands

    def run(self, say: Callable[[str], None]) -> Figures:
        """Runs the missing steps, and returns the figures of all steps by name. Raises UserError if a step fails."""
        path = self.folder / "rehearsal.json"
        found = json.loads(path.read_text()) if path.exists() else {}
        setup = {"problem": self.problem, "pairs": self.pairs, "sets": list(self.sets), "hparams": self.overrides}
        if found and found["setup"] != setup:
            raise UserError(f"{path} is of another rehearsal ({found['setup']}); pass another folder, or remove it")
        if not found and self.folder.exists() and any(self.folder.iterdir()):
            raise UserError(f"{self.folder} is not empty; pass a new folder for the rehearsal")
        figures: Figures = found or {"setup": setup}
        self._check_disk(figures)
        write_text(path, json.dumps(figures, indent=1) + "\n")
        for name, step in self._steps():
            if name not in figures:
                say(name)
                figures[name] = step()
                write_text(path, json.dumps(figures, indent=1) + "\n")
        return figures

    def _steps(self) -> Iterator[tuple[str, Callable[[], Figures]]]:
        yield "data", self._generate
        yield "pipeline", self._read
        yield "base", self._train_base
        yield "big", self._train_big
        yield "average", self._average
        yield "evaluation", self._evaluate
        yield "workers", self._lose_a_worker

    @property
    def _data_dir(self) -> Path:
        return self.folder / "data"

    def _check_disk(self, figures: Figures) -> None:
        """Raises UserError if the disk has too little free space for the missing steps."""
        weights = [in_a_process(_count_weights, hparams, self._vocab_size) for hparams in (self.base, self.big)]
        needed = 0 if "data" in figures else self.pairs * _BYTES_PER_PAIR
        needed += _BYTES_PER_WEIGHT * sum(number * copies for number, copies in zip(weights, (4, 3)))
        self.folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.folder).free
        if free < needed:
            raise UserError(
                f"{self.folder} has {free / 2**30:,.1f} GiB of free space, but the rehearsal needs about "
                f"{needed / 2**30:,.1f} GiB; pass a folder on a larger disk, or a smaller `scale`"
            )

    @property
    def _vocab_size(self) -> int:
        return get_problem(self.problem).vocab_size

    def _generate(self) -> Figures:
        """Writes the source, and generates the data; the first command is killed while it encodes training pairs."""
        problem, sources = get_problem(self.problem), self.folder / "sources"
        (write_tfds if self.problem == "wmt_ende" else write_text_files)(problem, self.pairs, sources)
        flags = (f"--problem={self.problem}", f"--tmp_dir={sources}", f"--data_dir={self._data_dir}")
        self._new("data")  # what an unfinished rehearsal has left would change the figures
        killed = self.commands.run_until(self._is_encoding, "datagen", *flags)
        resumed = self.commands.run("datagen", *flags)
        manifest = read_manifest(self._data_dir, problem)
        if manifest is None:
            raise UserError(f"t2t-lite-datagen has written no manifest in {self._data_dir}")
        return {
            "source bytes": _bytes_in(sources),
            "seconds until killed": killed,
            "seconds after": resumed.seconds,
            "peak bytes": resumed.peak_bytes,
            "shards": len(manifest.splits["train"]["shards"]),
            "pairs": manifest.splits["train"]["examples"],
            "data bytes": _bytes_in(self._data_dir),
        }

    def _is_encoding(self) -> bool:
        """Returns whether a third of the training pairs is encoded."""
        chunks = sum(1 for _ in self._data_dir.glob(f"{self.problem}-train.*.work/chunk-*.arrow"))
        return chunks > self.pairs // CHUNK_PAIRS // 3

    def _read(self) -> Figures:
        """Reads epochs of batches: on one core, on all, from the middle, and the share of one host of eight."""
        wanted = Wanted(self.problem, self._data_dir, self.base.batch_tokens, self.base.max_length)
        one = in_a_process(read_batches, wanted._replace(cores=1))
        every = in_a_process(read_batches, wanted._replace(epochs=3))
        middle = in_a_process(read_batches, wanted._replace(skip=one.batches // 2, batches=20))
        host = in_a_process(read_batches, wanted._replace(hosts=_HOSTS))
        return {
            "cores": num_cores(),
            "batches": one.batches,
            "target tokens": one.tokens,
            "padding of inputs and targets": one.padding,
            "tokens/s, one core": one.tokens / one.seconds,
            "tokens/s, all cores": every.tokens / every.seconds,
            "first batch, seconds": every.first_batch_seconds,
            "longest gap, seconds": every.longest_gap,
            "resident bytes after each epoch": every.resident_bytes,
            "peak bytes": every.peak_bytes,
            "first batch in the middle of an epoch, seconds": middle.first_batch_seconds,
            "CPU seconds per epoch, all rows": one.cpu_seconds,
            "CPU seconds per epoch, a host of eight": host.cpu_seconds,
            "peak bytes, a host of eight": host.peak_bytes,
        }

    def _train(self, name: str, number: int, train_steps: int, save_every: int, *flags: str) -> tuple[str, ...]:
        """Returns the flags of a training run."""
        return (
            f"--problem={self.problem}",
            f"--hparams_set={self.sets[number]}",
            f"--hparams={self.overrides}",
            f"--data_dir={self._data_dir}",
            f"--output_dir={self.folder / name}",
            f"--train_steps={train_steps}",
            f"--save_checkpoints_steps={save_every}",
            "--log_step_count_steps=1",
            *flags,
        )

    def _train_base(self) -> Figures:
        """Trains on eight virtual devices; killed after the first checkpoint, and resumed."""
        self._new("base")
        half = max(1, self.train_steps // 2)
        flags = self._train(
            "base", 0, self.train_steps, half, "--virtual_devices=8", _SMALL_BATCHES, "--schedule=train"
        )
        killed = self.commands.run_until(self._saves("base", half), "trainer", *flags)
        resumed = self.commands.run("trainer", *flags)
        return {"killed after step": half, "seconds until killed": killed, **self._training("base", resumed)}

    def _train_big(self) -> Figures:
        self._new("big")
        steps = max(1, self.train_steps // 10)
        flags = self._train("big", 1, steps, steps, "--virtual_devices=2", _SMALL_BATCHES, "--schedule=train")
        return self._training("big", self.commands.run("trainer", *flags))

    def _training(self, name: str, command: Any) -> Figures:  # noqa: ANN401
        """Returns the figures of a run's last command, a `WholeCommand`."""
        lines = [line for line in read_log(self.folder / name).lines if line.get("part") == "train"]
        _, checkpoint = list_checkpoints(self.folder / name)[-1]
        return {
            "seconds": command.seconds,
            "seconds per step": statistics.median(1 / line["steps_per_second"] for line in (lines[1:] or lines)[-5:]),
            "loss, first and last": (lines[0]["loss"], lines[-1]["loss"]),
            "peak bytes": command.peak_bytes,
            "checkpoint bytes": sum(file.stat().st_size for file in checkpoint.parent.glob(f"{checkpoint.name}.*")),
        }

    def _new(self, name: str) -> Path:
        """Removes a folder of an unfinished step, and returns its path."""
        shutil.rmtree(self.folder / name, ignore_errors=True)
        return self.folder / name

    def _linked(self, name: str, new: str, copies: int) -> Path:
        """Returns a copy of a run directory. Its checkpoints are links to the last one, under the next steps' names."""
        step, checkpoint = list_checkpoints(self.folder / name)[-1]
        left_out = shutil.ignore_patterns("ckpt-*", "average-*", "*.lock")
        linked = shutil.copytree(self.folder / name, self._new(new), ignore=left_out)
        for copy in range(copies):
            for file in checkpoint.parent.glob(f"{checkpoint.name}.*"):
                os.link(file, linked / file.name.replace(f"ckpt-{step}.", f"ckpt-{step + copy}."))
        return linked

    def _saves(self, name: str, step: int) -> Callable[[], bool]:
        """Returns a function that returns whether a run has saved the checkpoint of a step or a later one."""
        return lambda: any(saved >= step for saved, _ in list_checkpoints(self.folder / name))

    def _average(self) -> Figures:
        """Averages 20 checkpoints of the second model, which are links to its last one."""
        linked = self._linked("big", "average", _AVERAGED)
        averaged = self.commands.run("avg", f"--output_dir={linked}", f"--n={_AVERAGED}")
        return {"checkpoints": _AVERAGED, "seconds": averaged.seconds, "peak bytes": averaged.peak_bytes}

    def _evaluate(self) -> Figures:
        """Computes the dev loss of the first model, and decodes with it."""
        flags = self._train("base", 0, self.train_steps, self.train_steps)
        evaluated = self.commands.run("trainer", *flags, "--schedule=eval", "--eval_wait_secs=0")
        lines = self.folder / "lines.txt"
        with (self._data_dir / f"{self.problem}-dev.inputs.txt").open(encoding="utf-8") as dev:
            write_text(lines, "".join(line for _, line in zip(range(_DECODED), dev)))
        output = self.folder / "outputs.txt"
        decoded = self.commands.run(
            *("decoder", f"--output_dir={self.folder / 'base'}"),
            *(f"--decode_from_file={lines}", f"--decode_to_file={output}"),
        )
        if output.read_text(encoding="utf-8").count("\n") != _DECODED:
            raise UserError(f"{output} does not have {_DECODED} lines")
        return {
            "dev evaluation, seconds": evaluated.seconds,
            "dev evaluation, peak bytes": evaluated.peak_bytes,
            "lines decoded": _DECODED,
            "decoding, seconds": decoded.seconds,
            "decoding, peak bytes": decoded.peak_bytes,
        }

    def _lose_a_worker(self) -> Figures:
        """Goes on with two processes, one of which is killed; the trainer starts both again."""
        self._linked("base", "workers", 1)
        last = self.train_steps + 4
        flags = ("--processes_per_host=2", "--max_restarts=1", "--schedule=train")
        ended, seconds, lines = self.commands.kill_worker(
            self._saves("workers", self.train_steps + 2), "trainer", *self._train("workers", 0, last, 2, *flags)
        )
        if (saved := list_checkpoints(self.folder / "workers")[-1][0]) != last:
            raise UserError(f"the restarted workers ended at step {saved} instead of {last}")
        messages = [line for line in lines if "worker" in line and "restart" in line]
        return {"the other worker ended after, seconds": ended, "seconds": seconds, "message": (messages or [""])[0]}


def _count_weights(hparams: HParams, vocab_size: int) -> int:
    from t2t_lite.models.parameters import count_parameters
    from t2t_lite.plugins import load_all

    load_all()
    return sum(count_parameters(hparams, vocab_size).values())


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
