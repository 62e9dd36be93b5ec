"""Predictions of 26 trainings with Hivemind in clouds on four continents.

Runs and links: ``data/measured``. Constants are fitted on the ten runs in one zone (A) alone,
written to ``data/calibration/hivemind.toml`` by ``python -m workbench.comparison.hivemind``, and
frozen; the runs over the Atlantic (B) and over four continents (C) are predicted with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from workbench.clusters import load_calibration, load_constants
from workbench.clusters.testbeds import calibration_toml, write_calibration
from workbench.comparison.data_parallel import Averaging, predict_epoch_s
from workbench.comparison.regions import Regions
from workbench.comparison.validation import validate
from workbench.utils.files import DATA

FOLDER = DATA / "measured"
EXPLANATION = "one_process"
SETS = {"A": "A: one zone (fitted)", "B": "B: Atlantic", "C": "C: continents"}
"""First letter of a run's name -> its set."""


def runs() -> pl.DataFrame:
    """The measured runs; columns as ``data/measured/README.md`` says."""
    return pl.read_csv(FOLDER / "hivemind.csv")


def regions() -> Regions:
    """The regions of the runs."""
    return Regions.read(FOLDER / "hivemind.toml")


def averaging() -> Averaging:
    """The frozen constants of averaging, the same for both models."""
    constants = load_constants("hivemind", EXPLANATION)
    return Averaging(constants["round_s"], constants["handled_gbps"] * 1e9)


def machine_s() -> dict[str, float]:
    """Model -> frozen seconds in which one machine would compute an epoch."""
    seconds: dict[str, float] = load_calibration("hivemind")["machine_s"]
    return seconds


def predicted(*, overlapped: bool = False) -> pl.DataFrame:
    """Predictions of all runs with the frozen constants, as from `validate`, and their ``set``.

    With `overlapped`, the rate of a machine's averaging process limits its streams as an interface
    does, so that transport hides handling. This explanation fits the runs worse.
    """
    places, constants = regions(), averaging()
    if overlapped:
        places = replace(places, host_bps=constants.handled_bps)
        constants = Averaging(constants.round_s)
    frame = validate(runs(), places, constants, machine_s=machine_s())
    return frame.with_columns(set=pl.col("run").str.slice(0, 1).replace_strict(SETS))


def errors(frame: pl.DataFrame) -> pl.DataFrame:
    """Mean and worst absolute error of each kind of prediction, percent, by set of `predicted`."""
    kinds = ("predicted", "computing", "bandwidth")
    absolute = {kind: pl.col(f"{kind}_percent").abs() for kind in kinds}
    return (
        frame.group_by("set", maintain_order=True)
        .agg(
            pl.len().alias("runs"),
            *(error.mean().alias(f"{kind}_mean") for kind, error in absolute.items()),
            *(error.max().alias(f"{kind}_worst") for kind, error in absolute.items()),
        )
        .sort("set")
    )


def fitted() -> tuple[Averaging, dict[str, float]]:
    """Fit both constants, and each model's seconds of computing, on the runs of A.

    Averaging takes ``round_s + sent bits / handled_bps`` beside transport, which is simulated. The
    rest of ``others_s`` is linear in the unknowns, which are fitted by least squares.
    """
    zone = runs().filter(pl.col("run").str.starts_with("A"))
    bits, left_s = [], []
    for run in zone.iter_rows(named=True):
        size_bytes, nodes = run["parameters_bytes"], run["nodes"]
        cluster = regions().cluster(run["regions"].split())
        bits.append(2 * (nodes - 1) / nodes * size_bytes * 8)
        left_s.append(run["others_s"] - predict_epoch_s(cluster, size_bytes, 0.0, Averaging()))
    columns = np.stack([np.ones(len(bits)), np.array(bits)], axis=1)
    round_s, bit_s = np.linalg.lstsq(columns, np.array(left_s))[0]
    computing = zone.group_by("model").agg((pl.col("compute_s") * pl.col("nodes")).mean())
    return (
        Averaging(_rounded(round_s), _rounded(1 / bit_s)),
        {model: _rounded(seconds) for model, seconds in sorted(computing.iter_rows())},
    )


def to_toml(constants: Averaging, computing: Mapping[str, float]) -> str:
    """Text of the calibration file."""
    names = runs().select(pl.concat_str("run", "model", separator=" ").alias("name"))["name"]
    frame = validate(runs(), regions(), constants, machine_s=computing).with_columns(name=names)
    zone = frame.filter(pl.col("run").str.starts_with("A"))
    residuals = dict(zip(zone["name"], zone["predicted_s"] - zone["measured_s"], strict=True))
    return calibration_toml(
        "hivemind",
        _ABOUT,
        explanation=EXPLANATION,
        method="least squares of others_s, linear in both constants; computing: means",
        fitted_on=zone["name"],
        module="workbench.comparison.hivemind",
        tables={
            f"constants.{EXPLANATION}": {
                "round_s": constants.round_s,
                "handled_gbps": constants.handled_bps / 1e9,
            },
            "machine_s  # computing of an epoch by one machine": computing,
            "residuals  # seconds an epoch, predicted minus measured": {
                f'"{name}"': f"{value:.2f}" for name, value in residuals.items()
            },
        },
    )


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


_ABOUT = """\
What a round of averaging takes beside the network, and computing: fitted on the ten runs
in one zone alone, the same for both models. The authors saw machines there send 1.1 Gbit/s
at most, through links of 6.9; that was not used."""


def main() -> None:
    """Fit, write the file and print it."""
    text = to_toml(*fitted())
    write_calibration("hivemind", text)
    print(text)


if __name__ == "__main__":
    main()
