"""Unlike devices on shared edges: how much it matters who trains with which edge.

An experiment of ours, on synthetic machines; HierTrain names the question as future work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import altair as alt
import numpy as np
import polars as pl

from workbench import figures
from workbench.figures import parts
from workbench.hiertrain.fleet import (
    Assignment,
    Bound,
    Fleet,
    Machine,
    Server,
    TooManyError,
    alone,
    assign,
    exact,
    fleet_of,
    lower_bound,
)
from workbench.profiles import profile_model
from workbench.reproduction.figure import Figure
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import grid, sweep

# What the machines are drawn from, log-uniformly: the orders of magnitude of the paper's testbed
# (a Raspberry Pi, a small PC, links of some Mbit/s), one to the other edge some times as fast.
DEVICE_FLOPS_PER_S = (1e9, 8e9)
EDGE_FLOPS_PER_S = (2e10, 8e10)
CLOUD_FLOPS_PER_S = 5e11
LINK_BPS = (2e6, 2e7)
UPLINK_BPS = (1.5e6, 5e6)
MODELS = ("lenet5_cifar", "alexnet_tiny")
BATCH_SIZES = (32, 64, 128)

FLEETS = {
    **dict.fromkeys(("devices", "edges", "draw"), pl.Int64),
    "method": pl.String,
    **dict.fromkeys(("slowest_s", "mean_s", "gap_percent", "above_exact_percent"), pl.Float64),
    "reason": pl.String,
}


def fleets(
    devices: Sequence[int],
    edges: Sequence[int],
    draws: Sequence[int],
    processes: int | None,
    seed: int = 1,
    *,
    folder: Path | None = None,
) -> pl.DataFrame:
    """Fleets of several sizes, assigned by each method for the slowest device.

    ``slowest_s`` and ``mean_s`` of an iteration are over the devices (of the lower bound: below
    which each cannot be); ``gap_percent`` is what ``slowest_s`` is above the lower bound, and
    ``above_exact_percent``, above the best assignment. Where there are too many assignments to try,
    the row of ``exact`` has nulls and a ``reason``.
    """
    return sweep(
        _assigned,
        grid(devices=devices, edges=edges, draw=draws, method=METHODS),
        FLEETS,
        title="Fleets",
        shared={"seed": seed},
        processes=processes,
        folder=folder,
        failures=TooManyError,
        then=_compared,
    )


def _assigned(*, devices: int, edges: int, draw: int, method: str, seed: int) -> dict[str, float]:
    assigned = METHODS[method](drawn_fleet(devices, edges, draw, seed))
    return {"slowest_s": assigned.slowest_s, "mean_s": assigned.mean_s}


def _compared(frame: pl.DataFrame) -> pl.DataFrame:
    slowest_s, method = pl.col("slowest_s"), pl.col("method")

    def above(other: str) -> pl.Expr:
        of_other = slowest_s.filter(method == other).first().over("devices", "edges", "draw")
        return 100 * (slowest_s / of_other - 1)

    return frame.with_columns(gap_percent=above("lower bound"), above_exact_percent=above("exact"))


def mean_gaps(frame: pl.DataFrame) -> pl.DataFrame:
    """Mean gaps to the lower bound: a row per number of edges and method, over its fleets.

    ``compared`` are fleets with an exact answer; ``best`` of them have the best assignment.
    """
    above = pl.col("above_exact_percent")
    return (
        frame.filter(pl.col("slowest_s").is_not_null(), pl.col("method") != "lower bound")
        .group_by("edges", "method", maintain_order=True)
        .agg(
            pl.len().alias("fleets"),
            pl.col("gap_percent").mean(),
            above.count().alias("compared"),
            above.mean(),
            above.max().alias("most_above_exact_percent"),
            (above.abs() < 1e-9).sum().alias("best"),
        )
    )


@lru_cache(maxsize=1)
def drawn_fleet(devices: int, edges: int, draw: int, seed: int) -> Fleet:
    """Draw unlike devices, all with a link to every edge.

    Each machine has numbers of its own, so a larger fleet of the same draw is the smaller one and
    some more.
    """
    servers, machines = {}, {}
    for number in range(edges):
        generator = np.random.default_rng([seed, draw, 0, number])
        servers[f"edge {number:02}"] = Server(
            _between(generator, *EDGE_FLOPS_PER_S), _between(generator, *UPLINK_BPS)
        )
    for number in range(devices):
        generator = np.random.default_rng([seed, draw, 1, number])
        machines[f"device {number:02}"] = Machine(
            profile=profile_model(MODELS[int(generator.integers(len(MODELS)))]),
            flops_per_s=_between(generator, *DEVICE_FLOPS_PER_S),
            batch=int(generator.choice(BATCH_SIZES)),
            links_bps={edge: _between(generator, *LINK_BPS) for edge in servers},
        )
    return fleet_of(machines, servers, cloud_flops_per_s=CLOUD_FLOPS_PER_S)


def _between(generator: np.random.Generator, low: float, high: float) -> float:
    """Draw a number log-uniformly."""
    return math.exp(generator.uniform(math.log(low), math.log(high)))


METHODS: dict[str, Callable[[Fleet], Assignment | Bound]] = {
    "alone": alone,
    "assign": assign,
    "lower bound": lower_bound,
    "exact": exact,
}
METHOD_TITLES = {
    "alone": "each device by itself (the paper)",
    "assign": "assigned together",
    "exact": "best assignment",
    "lower bound": "lower bound",
}


def draw_fleets(frame: pl.DataFrame) -> alt.FacetChart:
    """Slowest device's iteration against the number of devices, a column per number of edges.

    Means over the fleets drawn; the best assignment only where all fleets of a size have one.
    """
    drawn = (
        frame.with_columns(
            pl.col("method").replace_strict(METHOD_TITLES),
            edges=pl.col("edges").map_elements(_edges, return_dtype=pl.String),
        )
        .group_by("edges", "devices", "method", maintain_order=True)
        .agg(pl.col("slowest_s").mean(), pl.col("slowest_s").null_count().alias("missing"))
        .filter(pl.col("missing") == 0)
    )
    sizes = sorted(drawn["devices"].unique().to_list())
    present = [title for title in METHOD_TITLES.values() if title in set(drawn["method"])]
    lines = (
        alt.Chart(drawn)
        .mark_line(point=True)
        .encode(
            x=alt.X("devices:Q", title="devices", axis=alt.Axis(values=sizes, format="d")),
            y=alt.Y("slowest_s:Q", title="slowest device, s an iteration"),
            **figures.series("method", present),
        )
        .properties(height=170)
    )
    order = [_edges(edges) for edges in sorted(frame["edges"].unique().to_list())]
    draws = frame["draw"].n_unique()
    over = f"mean over {draws} random fleets a size" if draws > 1 else "one random fleet a size"
    title = ["Several devices on shared edges", f"{over} (cost model, synthetic machines)"]
    return parts.facets(lines, "edges", order, title, len(order))


def _edges(count: int) -> str:
    return "1 edge" if count == 1 else f"{count} edges"


FLEET = Figure(
    id="fleet",
    compute=fleets,
    chart=draw_fleets,
    sizes={
        "devices": Scaled(smoke=(2, 3, 4), default=(2, 4, 6, 8, 12), paper=tuple(range(2, 13))),
        "edges": Scaled(smoke=(1, 2), default=(1, 2, 3), paper=(1, 2, 3)),
        # At smoke one in which it matters who is assigned where.
        "draws": Scaled(smoke=(2,), default=(0, 1), paper=tuple(range(10))),
        "processes": Scaled(smoke=1, default=None, paper=None),
    },
    recorded=True,
)
