"""Measured runs against what the simulation, and simpler formulas, predict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl

from workbench.comparison.data_parallel import Averaging, predict_epoch_s
from workbench.comparison.regions import Regions
from workbench.utils.checks import UserError, choose, is_number, whole

TEXTS = ("run", "model", "regions")
NUMBERS = ("nodes", "parameters_bytes", "measured_epoch_s")


def validate(
    runs: pl.DataFrame | Path | str,
    cluster: Regions,
    averaging: Averaging,
    *,
    machine_s: Mapping[str, float] | None = None,
) -> pl.DataFrame:
    """Compare measured epochs with predicted ones, a row for each run.

    Your own runs: a CSV file with the columns below, and a TOML file of links that `Regions.read`
    reads, both as in ``data/measured``::

        validate("runs.csv", Regions.read("links.toml"), Averaging(round_s=4, handled_bps=1e9))

    Parameters
    ----------
    runs
        A frame or CSV file: ``run, model, nodes, regions`` (the region of each machine, with spaces
        between), ``parameters_bytes`` (of what is averaged, as it travels), ``measured_epoch_s``
        and, unless `machine_s` is given, ``compute_s``, an epoch's seconds of computing alone.
    cluster
        The regions and their links.
    averaging
        What a round takes besides the network, fitted on runs other than those to be predicted.
    machine_s
        Seconds for which one machine would compute an epoch, by model; n machines take 1/n.

    Returns
    -------
    polars.DataFrame
        ``run, model, nodes, regions, measured_s``, three predictions, ``computing_s`` (computing
        alone), ``bandwidth_s`` (computing, and the bytes over the slowest bandwidth of the run) and
        ``predicted_s`` (simulated), and how far each is off: ``computing_percent,
        bandwidth_percent, predicted_percent``, above 0 where the prediction is too long.

    Raises
    ------
    ValueError
        Missing columns, no runs, or a row that makes no sense: the error has its number and run.
    """
    frame = pl.read_csv(runs) if isinstance(runs, str | Path) else runs
    if not isinstance(frame, pl.DataFrame):
        raise UserError(f"runs is {runs!r}; give a polars frame or a CSV file")
    needed = [*TEXTS, *NUMBERS, *(() if machine_s is not None else ("compute_s",))]
    missing = [name for name in needed if name not in frame.columns]
    if missing:
        raise UserError(
            f"runs lack the columns {', '.join(missing)}; they have {', '.join(frame.columns)}"
        )
    if frame.is_empty():
        raise UserError("there are no runs; give a row for each")
    rows = []
    for number, run in enumerate(frame.iter_rows(named=True), start=1):
        try:
            rows.append(_validated(run, cluster, averaging, machine_s))
        except ValueError as error:
            raise UserError(f"row {number}, run {run['run']}: {error}") from None
    return pl.DataFrame(rows).with_columns(
        ((pl.col(f"{kind}_s") / pl.col("measured_s") - 1) * 100).alias(f"{kind}_percent")
        for kind in ("computing", "bandwidth", "predicted")
    )


def _validated(
    run: Mapping[str, Any],
    regions: Regions,
    averaging: Averaging,
    machine_s: Mapping[str, float] | None,
) -> dict[str, object]:
    places = str(run["regions"]).split()
    nodes, size_bytes = whole(run["nodes"]), run["parameters_bytes"]
    if nodes is None or nodes < 2:
        raise UserError(f"nodes is {run['nodes']!r}; averaging takes at least 2")
    if len(places) != nodes:
        raise UserError(f"{nodes} nodes in {len(places)} regions ({' '.join(places)}); name each's")
    for name in (*NUMBERS, *(("compute_s",) if machine_s is None else ())):
        if not (is_number(run[name]) and 0 < run[name] < math.inf):
            raise UserError(f"{name} is {run[name]!r}; it must be a finite number above 0")
    if machine_s is None:
        compute_s = float(run["compute_s"])
    else:
        compute_s = choose("model", run["model"], machine_s) / nodes
    machines = regions.cluster(places)
    slowest = max(
        (regions.link(*ends) for ends in combinations(places, 2)),
        key=lambda link: link.transfer_s([size_bytes]),
    )
    return {
        "run": run["run"],
        "model": run["model"],
        "nodes": nodes,
        "regions": run["regions"],
        "measured_s": float(run["measured_epoch_s"]),
        "computing_s": compute_s,
        "bandwidth_s": compute_s + slowest.transfer_s([size_bytes]),
        "predicted_s": predict_epoch_s(machines, size_bytes, compute_s, averaging),
    }
