"""t2t-lite-benchmark --cost: estimates and counts the training cost of hyperparameter sets, as in table 2."""

import argparse

import rich.table

from t2t_lite.bin import cli
from t2t_lite.config import HParams
from t2t_lite.cost import (
    ASSUMED_UTILISATION,
    Rate,
    cost_of,
    estimated_flops,
    find_rate,
)
from t2t_lite.registry import HPARAMS
from t2t_lite.reproduce.paper import DEVICE, NUM_DEVICES, PAPER_FIGURES

SETS_OF_TABLE_2 = ("transformer_base", "transformer_big")


def show(arguments: argparse.Namespace) -> None:
    cli.load_plugins(arguments)
    names = [arguments.hparams_set] if arguments.hparams_set else SETS_OF_TABLE_2
    steps = {"train_steps": arguments.train_steps} if arguments.train_steps else {}
    sets = {name: HPARAMS[name]().override(arguments.hparams).replace(**steps) for name in names}
    for name, hparams in sets.items():
        print(f"{name}{' with ' + arguments.hparams if arguments.hparams else ''}, {hparams.train_steps:,} steps")
        cost = cost_of(hparams, arguments.vocab_size)
        parts = cost.training_flops(arguments.source_length, arguments.target_length)
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
    hours = hparams.train_steps * seconds / 3600
    print(f"  training time   {hours:.1f} h ({seconds:.3g} s per step: {source})")
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
