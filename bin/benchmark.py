"""t2t-lite-benchmark: measures, counts and estimates (as the paper does) the cost of layers, training and decoding."""

import argparse
import dataclasses
import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_lite.bin import cli
from t2t_lite.config import PRECISIONS, HParams
from t2t_lite.cost import ASSUMED_UTILISATION, RATES, Rate, cost_of, estimated_flops, find_rate
from t2t_lite.data.manifest import check_data
from t2t_lite.data.problem import get_problem
from t2t_lite.data.text_files import read_lines
from t2t_lite.errors import UserError
from t2t_lite.files import check_outputs, write_text
from t2t_lite.options import option
from t2t_lite.registry import HPARAMS, METRICS, MODELS
from t2t_lite.reproduce.paper import DEVICE, NUM_DEVICES, PAPER_FIGURES
from t2t_lite.runs.evaluations import read_evaluations
from t2t_lite.system.machine import cpu_threads
from t2t_lite.system.tensorflow import import_tensorflow
from t2t_lite.training.options import TrainOptions
from t2t_lite.visualization.figures import check_plot_file

if TYPE_CHECKING:
    from t2t_lite.benchmark.process import TrainingData
    from t2t_lite.benchmark.training import TrainingCost
    from t2t_lite.report.reading import StoredRun

# Default data sizes. The paper does not report average sentence lengths, so these (in tokens, including the end symbol)
# are assumed. They matter little: less than 1% of the base model's operations depend on them.
SIZES = {"vocab_size": 37_000, "source_length": 28, "target_length": 28}


def _engines(text: str) -> list[str]:
    from t2t_lite.benchmark.engines import ENGINES

    names = text.split(",")
    for name in names:
        if name not in ENGINES:
            raise argparse.ArgumentTypeError(f"takes names from {', '.join(ENGINES)}, not '{name}'")
    return names


def _even(text: str) -> int:
    number = cli.whole_number(2)(text)
    if number % 2:
        raise argparse.ArgumentTypeError(f"takes an even number, not '{text}'")
    return number


def _device(text: str) -> str:
    if find_rate(text) is None:
        try:
            cli.positive_number(text)
        except argparse.ArgumentTypeError:
            known = ", ".join(RATES)
            raise argparse.ArgumentTypeError(f"takes {known} or a rate in TFLOPS above 0, not '{text}'") from None
    return text


def _precisions(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in PRECISIONS:
            raise argparse.ArgumentTypeError(f"takes values from {', '.join(PRECISIONS)}, not '{word}'")
    return words


class Flags(cli.RunFlags):
    layers: bool = option(
        False, "measure time, memory and path length of the layers of table 1", required=True, one_of=True
    )
    cost: bool = option(
        False,
        "compute training operations: the paper's estimate (time x devices x rate), and a count for the model",
        one_of=True,
    )
    training: bool = option(
        False, "measure the speed, memory and utilisation of training an hparam set on this machine", one_of=True
    )
    decoding: bool = option(False, "measure the speed of translating a file with a trained model", one_of=True)
    curve: bool = option(
        False,
        "show the evaluations of runs, and plot them with the training loss; uses --output_dir and --plot_file",
        one_of=True,
    )
    output_dir: PathLike | None = option(
        None, "the run directory of the model (with --curve also several: RUN,RUN)", group="with --decoding"
    )
    decode_from_file: PathLike | None = option(None, "the text to translate, plain or compressed")
    decode_hparams: str = option("", "overrides of the problem's defaults", metavar="NAME=VALUE,...")
    engine: Sequence[str] | None = option(
        None,
        "tensorflow, uncompiled (the same without XLA), ctranslate2, ctranslate2_int8",
        unset="all",
        metavar="NAME,...",
        parse=_engines,
    )
    whole_command: bool = option(True, "also time complete t2t-lite-decoder commands, cold and warm", parse=cli.truth)
    reference: PathLike | None = option(None, "reference translations, to score each engine's outputs with BLEU")
    one_by_one: int = option(200, "lines to translate one by one", at_least=0)
    repeats: int = option(3, "timed runs after a warm-up run", at_least=1)
    neighborhood_size: int = option(64, "neighbourhood size r of local attention", group="with --layers", parse=_even)
    max_length: int = option(8192, "the longest sequence", at_least=128)
    plot_file: PathLike | None = option(None, "a .png, .svg or .pdf file for a plot (also with --curve)")
    hparams_set: str | None = option(
        None,
        "name of the hparam set (default with --cost: transformer_base and transformer_big)",
        group="with --cost and --training",
    )
    hparams: str = option("", "overrides of the set's values", metavar="NAME=VALUE,...")
    vocab_size: int | None = option(
        None, "number of tokens in the vocabulary", unset=f"{SIZES['vocab_size']}", at_least=2
    )
    source_length: float | None = option(
        None, "average number of tokens in a source sentence", unset=f"{SIZES['source_length']}, an assumption", above=0
    )
    target_length: float | None = option(
        None, "average number of tokens in a target sentence", unset=f"{SIZES['target_length']}, an assumption", above=0
    )
    train_steps: int | None = option(None, "total number of steps", unset="the set's", group="with --cost", at_least=1)
    step_seconds: float | None = option(None, "seconds per step", unset="the paper's, if known", above=0)
    device: str = option("P100", f"{', '.join(RATES)}, or the rate of another device in TFLOPS", parse=_device)
    num_devices: int = option(8, "number of devices", at_least=1)
    precision: Sequence[str] | None = option(
        None, "precisions to measure", unset="the set's", group="with --training", metavar="WORD,...", parse=_precisions
    )
    problem: str | None = option(None, "train on this problem's data", unset="random ids, without padding")
    data_dir: PathLike | None = option(None, "folder with the problem's data")
    num_steps: int = option(10, "timed steps", at_least=1)
    warmup_steps: int = option(3, "untimed steps before them", at_least=0)
    strategy: str = TrainOptions.field("strategy")
    worker_timeout: int = TrainOptions.field("worker_timeout")
    num_gpus: int | None = TrainOptions.field("num_gpus")
    virtual_devices: int = TrainOptions.field("virtual_devices")
    max_tokens_per_replica: int | None = TrainOptions.field("max_tokens_per_replica")
    xla_compile: bool | None = TrainOptions.field("xla_compile")
    peak_tflops: float | None = TrainOptions.field("peak_tflops")
    json_file: PathLike | None = option(None, "write all results to this JSON file")


def make_parser() -> cli.CommandParser:
    instead = "measure a server with a load generator such as oha or wrk, see How fast in docs/serving.md"
    return cli.CommandParser(
        "benchmark",
        "Measure or calculate the cost of training and decoding. Choose one of the modes.",
        Flags,
        dict.fromkeys(("--serving", "--url", "--clients", "--lines", "--seconds", "--api_key"), instead),
    )


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("benchmark", _run, argv, exit_at_once=True)


def _run(flags: Sequence[str]) -> None:
    parser = make_parser()
    arguments = parser.parse_args(flags)
    if arguments.training:
        _check_training(parser, arguments)
    if arguments.decoding and not (arguments.output_dir and arguments.decode_from_file):
        parser.error("--decoding needs --output_dir and --decode_from_file")
    if arguments.reference and not arguments.whole_command:
        parser.error("--reference scores the outputs of whole commands; remove --whole_command=False")
    if arguments.curve and not arguments.output_dir:
        parser.error("--curve needs --output_dir")
    for name, default in SIZES.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, default)
    if arguments.layers and arguments.plot_file is not None:
        check_plot_file(Path(arguments.plot_file))  # before measuring, which takes minutes
    modes = {"layers": _show_layers, "cost": _show_cost, "training": _show_training, "decoding": _show_decoding}
    modes |= {"curve": _show_curve}
    next(show for mode, show in modes.items() if getattr(arguments, mode))(arguments)


def _check_training(parser: cli.CommandParser, arguments: argparse.Namespace) -> None:
    if not arguments.hparams_set:
        parser.error("--training needs --hparams_set")
    if bool(arguments.problem) != bool(arguments.data_dir):
        given, missing = ("problem", "data_dir") if arguments.problem else ("data_dir", "problem")
        parser.error(f"--{given} needs --{missing}")
    for name in SIZES:
        size = getattr(arguments, name)
        if size is not None and arguments.problem:
            parser.error(f"--{name} applies to random ids and cannot be combined with --problem={arguments.problem}")
        if size is not None and size != int(size):
            parser.error(f"--{name} takes a whole number with --training, not '{size:g}'")


COMPARED_LENGTH = 4096


def _show_layers(arguments: argparse.Namespace) -> None:
    """Measures the layers of table 1."""
    import_tensorflow()
    from t2t_lite.benchmark import layers
    from t2t_lite.training import devices

    r = arguments.neighborhood_size
    threads = cpu_threads()
    speed = devices.matmul_gflops()
    print(f"float32 on the CPU, {threads} thread{'s' if threads > 1 else ''}; {speed:.0f} GFLOP/s in a")
    print(f"2048x2048 product; r = {r}, k = {layers.KERNEL_SIZE}; attention without projections, as in table 1\n")
    sweeps = []
    for name in layers.CASES:
        sweep = layers.measure(name, r, [n for n in layers.LENGTHS if n <= arguments.max_length])
        sweeps.append(sweep)
        lengths = cli.table(sweep.case.name, *(str(point.length) for point in sweep.by_length))
        milliseconds = [f"{point.seconds * 1e3:.2f}" for point in sweep.by_length]
        lengths.add_row(f"ms, d = {sweep.case.hidden_size}", *milliseconds)
        lengths.add_row("MiB (peak)", *(f"{point.memory / 2**20:.0f}" for point in sweep.by_length))
        cli.print_table(lengths)
        widths = cli.table("d", *(str(point.hidden_size) for point in sweep.by_width))
        milliseconds = [f"{point.seconds * 1e3:.2f}" for point in sweep.by_width]
        widths.add_row(f"ms, n = {sweep.by_width[0].length}", *milliseconds)
        cli.print_table(widths)
        print()

    table = cli.table("fitted exponents", "work", "time, n", "table 1", "memory, n", "time, d", "table 1")
    for sweep in sweeps:
        time, of_table, over_width, of_table_over_width = sweep.exponents(r).values()
        numbers = (time, of_table, layers.exponent(sweep.fitted, "memory", "length"), over_width, of_table_over_width)
        table.add_row(sweep.case.name, sweep.case.work, *(f"{number:.2f}" for number in numbers))
    cli.print_table(table)
    print(f"fitted to the measured lengths among n = {', '.join(map(str, layers.FITTED_LENGTHS))}, and to all d\n")

    near = layers.PATH_NEIGHBORHOOD_SIZE
    table = cli.table(
        "path length, layers", *(f"n = {n}" for n in layers.PATH_LENGTHS), "without factors", "exponent in n"
    )
    paths = {}
    for name in layers.LAYERS:
        paths[name] = [(n, layers.path_length(name, n, near)) for n in layers.PATH_LENGTHS]
        exponent = f"{layers.slope(*zip(*paths[name])):.2f}"
        of_table = [f"{layers.table_path_length(name, n, near):.3g}" for n in layers.PATH_LENGTHS]
        table.add_row(name, *(str(number) for _, number in paths[name]), " ".join(of_table), exponent)
    cli.print_table(table)
    print(
        f"traced until all outputs depend on all inputs; local with r = {near}; each step of a recurrent layer counts\n"
    )

    if arguments.max_length >= COMPARED_LENGTH:
        local, full = (layers.measure_whole_layer(name, r, COMPARED_LENGTH) for name in ("local", "full"))
        print(
            f"whole layers with projections at n = {COMPARED_LENGTH}, r = {r}: local attention needs "
            f"{local.seconds / full.seconds:.1%} of full attention's time ({local.seconds * 1e3:.0f} of "
            f"{full.seconds * 1e3:.0f} ms) and {local.memory / full.memory:.1%} of its memory "
            f"({local.memory / 2**20:.0f} of {full.memory / 2**20:.0f} MiB)"
        )
    if arguments.plot_file is not None:
        layers.plot(sweeps, paths, Path(arguments.plot_file))
        print(f"\nplot: {arguments.plot_file}")


SETS_OF_TABLE_2 = ("transformer_base", "transformer_big")


def _show_cost(arguments: argparse.Namespace) -> None:
    """Estimates and counts the training cost of hyperparameter sets, as in table 2."""
    import rich.table

    cli.load_plugins(arguments)
    names = [arguments.hparams_set] if arguments.hparams_set else SETS_OF_TABLE_2
    steps = {"train_steps": arguments.train_steps} if arguments.train_steps else {}
    sets = {name: HPARAMS[name]().override(arguments.hparams).replace(**steps) for name in names}
    for name, hparams in sets.items():
        print(f"{name}{' with ' + arguments.hparams if arguments.hparams else ''}, {hparams.train_steps:,} steps")
        parts = cost_of(hparams, arguments.vocab_size).training_flops(arguments.source_length, arguments.target_length)
        step = sum(parts.values())
        estimate = _print_time(name, hparams, arguments, step)
        total = step * hparams.train_steps
        tokens = f"{hparams.batch_tokens:,} target tokens"
        print(f"  counted         {_flops(total)} FLOPs, {_flops(step)} per step of {tokens}")
        print(
            f"                  (sentences of {arguments.source_length:g} and {arguments.target_length:g} tokens, "
            f"vocabulary {arguments.vocab_size:,})"
        )
        table = rich.table.Table.grid(padding=(0, 2))
        for part, flops in parts.items():
            table.add_row(" " * 18 + part, f"{flops / step:6.1%}")
        cli.print_table(table)
        if estimate:
            print(f"  utilisation     {total / estimate:.0%} (counted / estimate)")
        print()
    print("The count includes matrix products and convolutions, with two operations per multiply-add.")


def _print_time(name: str, hparams: HParams, arguments: argparse.Namespace, step_flops: float) -> float | None:
    """Prints the training time. Returns the operations estimated as in the paper; None if the time is assumed."""
    # The paper's times hold only for its models on its devices.
    as_in_paper = not arguments.hparams and (arguments.device, arguments.num_devices) == (DEVICE, NUM_DEVICES)
    figures = PAPER_FIGURES.get(name) if as_in_paper else None
    rate = find_rate(arguments.device) or Rate(float(arguments.device), "as given", "")
    seconds, source = arguments.step_seconds, "--step_seconds"
    if seconds is None and figures and figures.training_hours and figures.train_steps:
        seconds = figures.training_hours * 3600 / figures.train_steps
        source = f"the paper's {figures.training_hours:g} h for {figures.train_steps:,} steps"
    if seconds is None:
        least, most = ASSUMED_UTILISATION
        fastest = step_flops * hparams.train_steps / (arguments.num_devices * rate.tflops * 1e12) / 3600
        steps = " to ".join(f"{fastest / share * 3600 / hparams.train_steps:.2g}" for share in (most, least))
        print(
            f"  training time   {fastest / most:,.3g} to {fastest / least:,.3g} h ({steps} s per step) if {least:.0%} "
            f"to {most:.0%} of the devices' rate is used, which is assumed, not measured"
        )
        source = f", {rate.what} ({rate.source})" if rate.source else f", {rate.what}"
        print(f"                  rate: {arguments.num_devices} x {rate.tflops:g} TFLOPS{source}")
        print("                  for a measured time, pass --step_seconds=S")
        return None

    def estimate(seconds_of_a_step: float) -> float:
        return estimated_flops(hparams.train_steps * seconds_of_a_step, arguments.num_devices, rate.tflops)

    device = f" ({arguments.device}, {rate.what})" if rate.source else ""
    print(f"  training time   {hparams.train_steps * seconds / 3600:.1f} h ({seconds:.3g} s per step: {source})")
    print(
        f"  estimate        {_flops(estimate(seconds))} FLOPs: time x {arguments.num_devices} x {rate.tflops:g} "
        f"TFLOPS{device}"
    )
    if figures and figures.training_flops and figures.train_steps == hparams.train_steps:
        print(f"  table 2         {_flops(figures.training_flops)} FLOPs")
        if rounded := figures.step_seconds:
            print(f"                  ({_flops(estimate(rounded))} at the rounded {rounded} s per step of section 5.2)")
    return estimate(seconds)


def _flops(number: float) -> str:
    """Formats a number like table 2: "3.3e18"."""
    return f"{number:.1e}".replace("e+", "e")


# The title and format of each column, by metric.
COLUMNS = {
    "precision": ("precision", "{}"),
    "target_tokens_per_second": ("target\ntokens/s", "{:,.0f}"),
    "padded_target_tokens_per_second": ("\npadded", "{:,.0f}"),
    "step_seconds": ("seconds\nper step", "{:.3g}"),
    "input_tokens_per_second": ("input\ntokens/s", "{:,.0f}"),
    "utilisation_by_6_parameters": ("utilisation\n6 x param.", "{:.1%}"),
    "utilisation_by_counted_flops": ("\ncounted", "{:.1%}"),
    "peak_flops_per_second": ("peak\nTFLOP/s", "{:.3g}"),
    "peak_memory_bytes": ("peak\nMiB", "{:,.0f}"),
}
UNITS = {"peak_flops_per_second": 1e12, "peak_memory_bytes": 2**20}


def _show_training(arguments: argparse.Namespace) -> None:
    """Measures the speed, memory and utilisation of training, by precision."""
    cli.load_plugins(arguments)
    hparams = HPARAMS[arguments.hparams_set]().override(arguments.hparams)
    MODELS.check(hparams.model)
    problem = get_problem(arguments.problem) if arguments.problem else None
    data_dir = Path(arguments.data_dir) if arguments.data_dir else None
    manifest = check_data(data_dir, problem) if data_dir and problem else None
    from t2t_lite.benchmark import process

    if manifest is not None:
        data = process.TrainingData(manifest, problem, data_dir)
    else:
        data = process.random_data(arguments.vocab_size, int(arguments.source_length), int(arguments.target_length))
    data.check(hparams)
    if arguments.json_file is not None:
        files = data_dir.iterdir() if data_dir else ()
        # Check before measuring, which takes minutes.
        check_outputs({"--json_file": Path(arguments.json_file)}, {str(file): file for file in files})
    changes = f" with {arguments.hparams}" if arguments.hparams else ""
    steps = f"{arguments.warmup_steps} + {arguments.num_steps} steps of {hparams.batch_tokens:,} target tokens"
    source, target = data.mean_lengths()
    what = data.problem.name if data.problem else data.manifest.problem
    lengths = f"sentences of {source:.3g} and {target:.3g} tokens, vocabulary {data.vocab_sizes()[1]:,}"
    print(f"{arguments.hparams_set}{changes}: {steps}\n{what}: {lengths}\n", flush=True)
    costs = [
        process.in_a_process(_measure, hparams.replace(precision=precision), data, arguments)
        for precision in arguments.precision or [hparams.precision]
    ]
    shown = {name: form for name, (_, form) in COLUMNS.items() if costs[0].figures[name] is not None}
    table = cli.table(*(COLUMNS[name][0] for name in shown))
    for cost in costs:
        values = {name: value / UNITS[name] if name in UNITS else value for name, value in cost.figures.items()}
        table.add_row(*(form.format(values[name]) for name, form in shown.items()))
    cli.print_table(table)
    print("Tokens exclude padding, except in the padded column. Times and rates are medians over the steps.")
    if skipped := sum(cost.figures["skipped_steps"] for cost in costs):
        print(f"In {skipped} steps, gradients were not finite.")
    machine, parameters = costs[0].machine, costs[0].figures["parameters"]
    speeds = ", ".join(f"{cost.machine.matmul_gflops:,.0f}" for cost in costs)
    threads = f"{machine.threads} thread{'s' if machine.threads > 1 else ''}"
    print(f"\n{parameters:,} parameters on {', '.join(machine.devices)}; {threads};")
    print(f"{speeds} GFLOP/s in a 2048x2048 float32 product; TensorFlow {machine.tensorflow}, Keras {machine.keras}")
    if arguments.json_file is not None:
        flags = ("hparams_set", "strategy", "max_tokens_per_replica", "warmup_steps")
        content = {flag: getattr(arguments, flag) for flag in flags}
        content["hparams"] = {
            name: value for name, value in dataclasses.asdict(hparams).items() if name not in ("precision", "batch_by")
        }
        content |= {"problem": data.problem.name if data.problem else None}
        content |= {"source_length": source, "target_length": target, "vocab_size": data.vocab_sizes()[1]}
        content["rows"] = [
            cost.figures
            | {"timed_steps": [step._asdict() for step in cost.steps], "machine": dataclasses.asdict(cost.machine)}
            for cost in costs
        ]
        write_text(Path(arguments.json_file), json.dumps(content, indent=2) + "\n")


def _measure(hparams: HParams, data: "TrainingData", arguments: argparse.Namespace) -> "TrainingCost":
    """Returns the `TrainingCost` of one precision. Called in a separate process."""
    cli.load_plugins(arguments)
    import_tensorflow()
    from t2t_lite.benchmark import training

    devices = cli.given(arguments, TrainOptions)
    devices.pop("decode_hparams")  # a flag of --decoding
    return training.measure(hparams, data, TrainOptions(**devices), arguments.num_steps, arguments.warmup_steps)


def _show_decoding(arguments: argparse.Namespace) -> None:
    """Compares engines by complete commands, and by their speed after a warm-up run."""
    import rich.table

    cli.load_plugins(arguments, [arguments.output_dir])
    source = Path(arguments.decode_from_file)
    if not (lines := [line for line in read_lines(source) if line.strip()]):
        raise UserError(f"{source} contains no text; pass a file with text to translate")
    references = list(read_lines(Path(arguments.reference))) if arguments.reference else None
    if references is not None and len(references) != (number := sum(1 for _ in read_lines(source))):
        raise UserError(
            f"{arguments.reference} has {len(references):,} lines, but {source} has {number:,}; pass one per line"
        )
    import_tensorflow()
    from t2t_lite.benchmark import engines
    from t2t_lite.training import devices

    before = devices.matmul_gflops()
    options = {name: getattr(arguments, name) for name in ("decode_hparams", "repeats", "one_by_one", "t2t_usr_dir")}
    decoding = engines.Decoding(Path(arguments.output_dir), source, lines, **options)
    program = cli.program if arguments.whole_command else None
    speeds = list(engines.measure_engines(decoding, arguments.engine or engines.ENGINES, program))
    titles = ("cold, s", "warm, s", "lines/s", "tokens/s", "one by one, lines/s", "peak, MiB", "BLEU")
    table = rich.table.Table("engine", *titles)
    for column in table.columns[1:]:
        column.justify = "right"
    for speed in speeds:
        whole = [f"{each.seconds:.1f}" if each else "-" for each in (speed.cold, speed.warm)]
        rates = ["-", "-"]
        if speed.batches:
            rates = [f"{speed.batches.lines_per_second():.1f}", f"{speed.batches.tokens_per_second():,.0f}"]
        single = f"{speed.one_by_one.lines_per_second():.1f}" if speed.one_by_one else "-"
        peak = f"{speed.warm.peak_bytes / 2**20:,.0f}" if speed.warm else "-"
        bleu = "-"
        if references is not None and speed.warm is not None:
            bleu = f"{METRICS['bleu']().score(speed.warm.outputs, references):.2f}"
        table.add_row(speed.name, *whole, *rates, single, peak, bleu)
    cli.print_table(table)
    for speed in speeds:
        if speed.reason:
            cli.say(f"{speed.name}: {speed.reason}")
    print(f"\nmodel: {arguments.output_dir}; {len(lines):,} lines, medians of {arguments.repeats} runs after warm-up")
    print(f"2048x2048 float32 product: {before:.0f} GFLOP/s before, {devices.matmul_gflops():.0f} after")
    print(f"threads: {cpu_threads()}")


def _show_curve(arguments: argparse.Namespace) -> None:
    """Shows the evaluations of runs in tables, and plots them with the training loss."""
    try:
        runs = {name: Path(path) for name, path in _names(cli.paths(arguments.output_dir)).items()}
    except argparse.ArgumentTypeError as error:
        raise UserError(f"`output_dir`: {error}", status=2) from error
    if arguments.plot_file:
        check_plot_file(Path(arguments.plot_file))
        for run in runs.values():
            inputs = {"the evaluations": run / "evaluations.json", "the log": run / "log.jsonl"}
            check_outputs({"--plot_file": Path(arguments.plot_file)}, inputs)
    evaluations = {name: read_evaluations(run) for name, run in runs.items()}
    stored = {name: _read(run, name) for name, run in runs.items()} if arguments.plot_file else {}
    for name, run in runs.items():
        if not evaluations[name] and not (stored and stored[name].reports):
            raise UserError(f"{run} has no evaluations.json; evaluate it with t2t-lite-trainer --schedule=eval")
    for name in runs:
        if len(runs) > 1:
            print(f"{name}:")
        if evaluations[name]:
            _print_evaluations(evaluations[name])
        else:
            print("none of its checkpoints was evaluated")
    if arguments.plot_file:
        drawn = [dataclasses.replace(run, evaluations=evaluations[name]) for name, run in stored.items()]
        from t2t_lite.report.charts import plot_curves

        plot_curves(drawn, Path(arguments.plot_file))


def _read(run: Path, name: str) -> "StoredRun":
    from t2t_lite.report.reading import read_run

    stored = read_run(run, name)
    for remark in stored.remarks:
        if remark.text.startswith("log.jsonl is damaged"):
            cli.warn(f"{run}: {remark.text}")
    return stored


def _print_evaluations(evaluations: dict[int, dict[str, float]]) -> None:
    names = list(dict.fromkeys(name for figures in evaluations.values() for name in figures))
    table = cli.table("step", *names, left=1 + len(names), pad_edge=True)
    for step, figures in evaluations.items():
        table.add_row(str(step), *(f"{figures[name]:.3f}" if name in figures else "" for name in names))
    cli.print_table(table)


def _names(paths: Sequence[str]) -> dict[str, str]:
    """Returns run directories by name: the folder's name, or the whole path if several folders share that name."""
    paths = list({Path(path).resolve(): path for path in paths}.values())
    folders = [Path(path).resolve().name for path in paths]
    return {folder if folders.count(folder) == 1 else path: path for folder, path in zip(folders, paths)}
