"""The runs for a table: trainings at a chosen scale, each in an ordinary run directory, and their commands."""

import contextlib
import dataclasses
import json
import os
import resource
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from t2t_lite.config import HParams
from t2t_lite.data.manifest import FILENAME, read_manifest
from t2t_lite.data.problem import SIDES, SPLITS, get_problem
from t2t_lite.errors import UserError, nearest
from t2t_lite.files import file_sha256, make_folder
from t2t_lite.options import SettingValue
from t2t_lite.registry import HPARAMS
from t2t_lite.reproduce.paper import PAPER_FIGURES
from t2t_lite.runs.checkpoint_files import list_checkpoints
from t2t_lite.runs.run_dir import data_digests, open_run_dir, with_order_of_run

PAPER_BASE = "transformer_base"
# Settings that are scaled to a smaller base model. All other settings are those of the paper's row.
_SIZES = (
    *("num_encoder_layers", "num_decoder_layers", "hidden_size", "filter_size", "num_heads", "attention_key_size"),
    *("attention_value_size", "parameter_heads", "parameter_head_size", "parameter_pairs", "train_steps"),
)
PREFIX = "transformer_"
BIG = "transformer_big"
# The rows of each table: hparam sets, each with its column in the table (in table 4, its row).
ROWS = {
    2: [(PAPER_BASE, "EN-DE"), (PAPER_BASE, "EN-FR"), (BIG, "EN-DE"), ("transformer_big_enfr", "EN-FR")],
    3: [(name, "EN-DE") for name, figures in PAPER_FIGURES.items() if figures.row.startswith("table 3") and name != BIG]
    + [(BIG, "EN-DE")],
    4: [("transformer_parsing", "WSJ only"), ("transformer_parsing_semi", "semi-supervised")],
}
POLL_SECONDS, RECORD_SECONDS = 1.0, 20.0
# The log of the commands' times, in the folder with the run directories.
TIMES = "times.jsonl"


@dataclasses.dataclass(frozen=True)
class Scale:
    name: str
    base: str  # the hparam set that replaces transformer_base
    # The problem for each column or row of the tables: "EN-DE", "EN-FR", "WSJ only", "semi-supervised".
    problems: Mapping[str, str]
    checkpoint_flags: Mapping[str, int]  # the trainer's flags for checkpoints
    mean_length: float  # target tokens per sentence, for estimates
    vocab_size: int  # number of tokens, for estimates
    seeds: int  # default number of training runs per row
    note: str  # a note below the table


SCALES = {
    scale.name: scale
    for scale in (
        Scale(
            "tiny",
            "transformer_base_tiny",
            {"EN-DE": "grammar_ende", "EN-FR": "grammar_ende_rev", "WSJ only": "treebank_parsing"},
            {"save_checkpoints_steps": 20},
            12,
            1000,
            3,
            "Sentences from a grammar; German to English stands in for English to French.",
        ),
        Scale(
            "small",
            "transformer_base_small",
            {"EN-DE": "multi30k_ende", "EN-FR": "multi30k_enfr", "WSJ only": "treebank_parsing"},
            {"save_checkpoints_steps": 50},
            14,
            6000,
            3,
            "Captions from Multi30k. Every row keeps its size ratios to the base model.",
        ),
        Scale(
            "paper",
            PAPER_BASE,
            {
                "EN-DE": "wmt_ende",
                "EN-FR": "wmt_enfr",
                "WSJ only": "wsj_parsing",
                "semi-supervised": "wsj_parsing_semi",
            },
            {"save_checkpoints_secs": 600},
            28,
            37_000,
            1,  # as in the paper: a run takes days
            "The paper's data and models.",
        ),
    )
}


@dataclasses.dataclass(frozen=True)
class Command:
    name: str
    flags: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join([f"t2t-lite-{self.name}", *self.flags])


@dataclasses.dataclass(frozen=True)
class Run:
    """A training of one row with one seed, and the evaluation of its model."""

    row: str  # the hparam set of the paper's row
    column: str  # its column in table 2 or its row in table 4
    seed: int
    problem: str  # the name of the problem
    hparams_set: str  # the hparam set for its training
    changes: Mapping[str, SettingValue]  # settings that differ from the set
    directory: Path  # the run directory
    averages: bool  # whether to average checkpoints before the evaluation, as for tables 2 and 4 of the paper
    split: str  # the split to evaluate
    # data_flags, trainer_flags: further flags of the trainer, for data, and for checkpoints and devices.
    data_flags: Mapping[str, str]
    trainer_flags: Mapping[str, int | str]

    @property
    def name(self) -> str:
        return self.directory.name

    @property
    def hparams(self) -> HParams:
        return HPARAMS[self.hparams_set]().replace(**self.changes)

    @property
    def checkpoint(self) -> str:
        return "average" if self.averages else "last"

    @property
    def search(self) -> str:
        """The paper's search settings for the problem, without settings tuned for the run."""
        settings = get_problem(self.problem).decode_hparams
        return f"beam_size={settings.beam_size},alpha={settings.alpha},min_length=0"

    def training(self) -> Command:
        flags = {
            "problem": self.problem,
            "hparams_set": self.hparams_set,
            "hparams": ",".join(f"{name}={value}" for name, value in self.changes.items()),
            "random_seed": self.seed,
            **self.data_flags,
            "output_dir": self.directory,
            "schedule": "train",
            "keep_checkpoint_max": self.hparams.average_checkpoints,
            **self.trainer_flags,
        }
        return Command("trainer", (*_as_flags(flags), "--generate_data"))

    def evaluation(self) -> list[Command]:
        averaging = [Command("avg", tuple(_as_flags({"output_dir": self.directory})))] if self.averages else []
        flags = {"output_dir": self.directory, "data_dir": self.data_flags["data_dir"], "split": self.split}
        flags |= {"checkpoint_path": self.checkpoint, "decode_hparams": self.search}
        if self.averages and self.column.startswith("EN-"):  # table 2 has the paper's BLEU, whatever the problem
            flags["metric"] = "paper_bleu"
        return [*averaging, Command("eval", tuple(_as_flags(flags)))]

    def is_trained(self) -> bool:
        if (self.directory / "run.json").exists():
            self._check()
        return self._last_step() >= self.hparams.train_steps

    def _last_step(self) -> int:
        checkpoints = list_checkpoints(self.directory)
        return checkpoints[-1][0] if checkpoints else 0

    def _check(self) -> None:
        run_dir, ours = open_run_dir(self.directory), with_order_of_run(self.directory, self.hparams)
        theirs = run_dir.hparams
        if not self.averages:  # then the number of averaged checkpoints does not matter
            theirs = theirs.replace(average_checkpoints=ours.average_checkpoints)
        steps = max(theirs.train_steps, self._last_step())  # later checkpoints remain from a longer training
        others = theirs.replace(train_steps=steps).difference(ours)
        about = json.loads((self.directory / "run.json").read_text(encoding="utf-8"))
        for name, its, wanted in (
            ("problem", run_dir.problem.name, self.problem),
            ("random_seed", about.get("random_seed", 1), self.seed),
        ):
            others += [f"{name}: {its}, not {wanted}"] if its != wanted else []
        if others:
            raise UserError(
                f"{self.directory} was not trained with the settings of this row ({'; '.join(others)}); remove it, "
                f"or pass another `output_dir`"
            )
        data_dir = Path(self.data_flags["data_dir"])
        manifest = read_manifest(data_dir, run_dir.problem)
        if manifest is None or manifest.splits.keys() != {*SPLITS}:
            return
        of_run, of_data = data_digests(self.directory), [manifest.digest()]
        if not of_run:  # the run is older than version 0.9
            paths = run_dir.problem.in_direction((run_dir.inputs_vocabulary, run_dir.vocabulary))
            of_run, of_data = [file_sha256(path) for path in paths], [each["sha256"] for each in manifest.vocabularies]
        if of_run != of_data:
            its, wanted = ("+".join(digest[:12] for digest in digests) for digests in (of_run, of_data))
            raise UserError(
                f"{self.directory} was not trained on the data in {data_dir} (checksum: {its}, not {wanted}); pass the "
                f"data of the run with `data_dir`, remove the run, or pass another `output_dir`"
            )

    def is_of_data(self, inputs: str, targets: str) -> bool:
        """Returns whether SHA-256 digests match the texts of the evaluated split. A missing text matches.

        Inputs and targets follow the direction of the problem.
        """
        problem = get_problem(self.problem)
        names = [problem.text_filename(self.split, side) for side in problem.in_direction(SIDES)]
        paths = [Path(self.data_flags["data_dir"]) / name for name in names]
        return all(not path.exists() or file_sha256(path) == digest for path, digest in zip(paths, (inputs, targets)))


def _as_flags(values: Mapping[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in values.items() if value != ""]


def planned_runs(
    table: int,
    scale: Scale,
    rows: Sequence[str],
    seeds: int,
    output_dir: Path,
    data_flags: Mapping[str, str],
    device_flags: Mapping[str, int | str],
) -> list[Run]:
    """Returns the runs of table 2, 3 or 4: first all rows with the first seed, then with the second, and so on.

    Rows are the names of their sets with or without "transformer_"; empty: all rows for which the scale has a problem.
    Tables share runs: tables 2 and 3 use the same base model.
    """
    known = {short(name): name for name, _ in ROWS[table]}
    rows = [short(row.strip()) for row in rows]
    for row in rows:
        if row not in known:
            raise UserError(f"`rows={row}` is not a row of table {table}{nearest(row, known)}", status=2)
    wanted = [known[row] for row in rows] or list(known.values())
    chosen = [(name, column) for name, column in ROWS[table] if name in wanted and column in scale.problems]
    if missing := [short(name) for name in wanted if rows and name not in {row for row, _ in chosen}]:
        raise UserError(
            f"`rows={','.join(missing)}`: `scale={scale.name}` has no data for it; pass another `scale`", status=2
        )
    is_paper = scale.base == PAPER_BASE
    return [
        Run(
            row=row,
            column=column,
            seed=seed,
            problem=scale.problems[column],
            hparams_set=row if is_paper else scale.base,
            changes={} if is_paper else paper_changes(row, scale),
            directory=output_dir / f"{scale.name}.{scale.problems[column]}.{short(row)}.seed{seed}",
            averages=table != 3,
            split="dev" if table == 3 else "test",
            data_flags={"data_dir": str(output_dir / "data"), **data_flags},
            trainer_flags={**scale.checkpoint_flags, **device_flags},
        )
        for seed in range(1, seeds + 1)
        for row, column in chosen
    ]


def check_trees(runs: Sequence[Run], given: Mapping[str, str]) -> None:
    """Checks the flags that say where treebanks are, before anything runs."""
    for run in runs:
        data = Path(run.data_flags["data_dir"]) / FILENAME.format(get_problem(run.problem).data_name)
        problem = get_problem(run.problem, **given)
        if not data.exists():
            if not given:
                raise UserError(
                    "table 4 needs trees; pass `treebank=FOLDER`, or `train_trees`, `dev_trees` and `test_trees`",
                    status=2,
                )
            problem.check_options()
            _ = problem.sources  # finds the files


def short(row: str) -> str:
    """Returns a row's name: its hparam set without "transformer_"."""
    return row.removeprefix(PREFIX)


def paper_changes(row: str, scale: Scale) -> dict[str, SettingValue]:
    """Returns the settings in which a row differs from the paper's base model, scaled to the base model of `scale`."""
    explicit = []  # settings with explicit key and value sizes, so that ratios can be computed
    for hparams in (HPARAMS[name]() for name in (PAPER_BASE, row, scale.base)):
        size = hparams.hidden_size // hparams.num_heads
        own_sizes = {name: getattr(hparams, name) or size for name in ("attention_key_size", "attention_value_size")}
        explicit.append(dataclasses.asdict(hparams) | own_sizes)
    paper, wanted, ours = explicit
    named = dataclasses.asdict(HPARAMS[row]())
    changes = {}
    for name, value in wanted.items():
        if value == paper[name]:
            continue
        if name in _SIZES:
            value = max(1, round(ours[name] * value / paper[name]))
        # hidden_size and num_heads determine the head size unless a row sets it.
        if value != ours[name] and not (name.startswith("attention_") and not named[name]):
            changes[name] = value
    return changes


class Spent(NamedTuple):
    """The time that the commands of a run have taken so far, including killed ones."""

    seconds: float
    cpu_seconds: float


class Runner:
    """Executes the commands of runs whose run directories are in one folder.

    After `budget_minutes`, the running command gets SIGTERM, and no other starts; None: no limit. `program` takes the
    name of one of the package's commands and returns the program with its first arguments.
    """

    def __init__(
        self,
        output_dir: Path,
        budget_minutes: float | None,
        program: Callable[[str], list[str]],
        say: Callable[[str], None],
    ) -> None:
        self._folder = output_dir
        self._program = program
        self._end = None if budget_minutes is None else time.monotonic() + 60 * budget_minutes
        self._say = say

    @property
    def is_over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    def execute(self, run: Run, command: Command) -> bool:
        """Executes a command of a run. Appends its output to a log beside the run directory.

        Returns False if it was stopped because the time was up.
        """
        make_folder(self._folder, "`output_dir`")
        log = run.directory.with_name(f"{run.name}.log")
        self._say(f"{run.name}: {command.name}")
        start = time.time()
        with open(log, "ab") as output, _interrupts_passed_on(self._say) as running:
            output.write(f"\n$ {command}\n".encode())
            output.flush()
            words = [*self._program(command.name), *command.flags]
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
            running.append(process)
            # Its time is recorded regularly, so that times of killed commands are also known.
            stopped, recorded, before = False, time.monotonic(), _cpu_seconds_of_children()
            while process.poll() is None:
                if self.is_over and not stopped:
                    process.send_signal(signal.SIGTERM)  # the trainer saves a checkpoint and exits
                    stopped = True
                if time.monotonic() - recorded > RECORD_SECONDS:
                    self._record(run, command, start, _cpu_seconds(process.pid))
                    recorded = time.monotonic()
                time.sleep(POLL_SECONDS)
            self._record(run, command, start, _cpu_seconds_of_children() - before)
        if process.returncode and not stopped:
            lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
            raise UserError(f"{run.name}: {command.name} failed: {lines[-1]} (full output: {log})")
        return not stopped

    def _record(self, run: Run, command: Command, start: float, cpu: float) -> None:
        entry = {"run": run.name, "command": command.name, "start": start, "seconds": time.time() - start}
        with open(self._folder / TIMES, "a", encoding="utf-8") as file:
            # Start a new line, because a killed process may have left an incomplete one.
            file.write(f"\n{json.dumps(entry | {'cpu_seconds': cpu})}\n")


def spent(output_dir: Path, command: str = "") -> dict[str, Spent]:
    """Returns the time of each run, by name; with `command`, only the time of that command."""
    path, latest = output_dir / TIMES, {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError, KeyError, TypeError):  # an incomplete line from a killed process
            entry = json.loads(line)
            if not command or entry["command"] == command:
                latest[entry["run"], entry["start"]] = Spent(float(entry["seconds"]), float(entry["cpu_seconds"]))
    total: dict[str, Spent] = {}
    for (run, _), one in latest.items():
        before = total.get(run, Spent(0.0, 0.0))
        total[run] = Spent(before.seconds + one.seconds, before.cpu_seconds + one.cpu_seconds)
    return total


@contextlib.contextmanager
def _interrupts_passed_on(say: Callable[[str], None]) -> Iterator[list[subprocess.Popen]]:
    """Sends SIGTERM to the processes in the yielded list when this process gets SIGTERM or SIGINT."""
    running: list[subprocess.Popen] = []

    def stop(number: int, frame: object) -> None:
        say(f"stopping after {signal.Signals(number).name}; run the same command again to continue")
        for process in running:
            process.send_signal(signal.SIGTERM)
            process.wait()
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield running
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _cpu_seconds(pid: int) -> float:
    """Returns the CPU time of a running process and its finished children; 0 if unknown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


def _cpu_seconds_of_children() -> float:
    """Returns the CPU time of all finished child processes that this process has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
