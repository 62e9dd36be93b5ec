"""Every planner's iteration on the testbed, by bandwidth and by cores: the cost model as frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import polars as pl

from workbench.hiertrain.algorithms import PLANNERS
from workbench.hiertrain.costs.iteration import iteration
from workbench.hiertrain.paper.testbed import BATCH_SIZE, CORES, EDGE_CLOUD_MBPS, Testbed
from workbench.names import choose

SCHEMA = {
    "model": pl.String,
    "batch_size": pl.Int64,
    "device_edge_mbps": pl.Float64,
    "edge_cloud_mbps": pl.Float64,
    "edge_cores": pl.Int64,
    "devices": pl.Int64,
    "planner": pl.String,
    "forward_s": pl.Float64,
    "backward_s": pl.Float64,
    "update_s": pl.Float64,
    "total_s": pl.Float64,
    "policy": pl.String,
}


def sweep(
    testbed: Testbed,
    model: str,
    batch_size: int = BATCH_SIZE,
    bandwidths_mbps: Iterable[float] = EDGE_CLOUD_MBPS,
    planners: Sequence[str] | None = None,
) -> pl.DataFrame:
    """One iteration by edge-cloud bandwidth and planner.

    Returns
    -------
    polars.DataFrame
        A row per bandwidth and planner: the setting, ``forward_s, backward_s, update_s, total_s``
        and the ``policy`` in words.
    """
    rows = []
    for mbps in bandwidths_mbps:
        here = replace(testbed, edge_cloud_mbps=float(mbps))
        problem = here.problem(model, batch_size)
        setting = (
            model,
            batch_size,
            here.device_edge_mbps,
            here.edge_cloud_mbps,
            here.edge_cores,
            here.devices,
        )
        for planner in PLANNERS if planners is None else planners:
            policy = choose("planner", planner, PLANNERS)(problem)
            done = iteration(problem, policy)
            times_s = (done.forward_s, done.backward_s, done.update_s, done.total_s)
            rows.append((*setting, planner, *times_s, str(policy)))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def by_cores(
    testbed: Testbed,
    model: str,
    batch_size: int = BATCH_SIZE,
    bandwidths_mbps: Sequence[float] = EDGE_CLOUD_MBPS,
) -> pl.DataFrame:
    """HierTrain's iteration by cores of the edge server and bandwidth.

    Returns
    -------
    polars.DataFrame
        As `sweep`, for `hiertrain` alone and 1 to 4 cores, with ``gain_percent``: time saved over
        one core fewer, null for one core.
    """
    frame = pl.concat(
        sweep(replace(testbed, edge_cores=cores), model, batch_size, bandwidths_mbps, ["hiertrain"])
        for cores in range(1, CORES + 1)
    )
    fewer_s = pl.col("total_s").shift(1).over("edge_cloud_mbps")
    return frame.with_columns(gain_percent=100 * (1 - pl.col("total_s") / fewer_s))
