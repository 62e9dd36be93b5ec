"""Unlike devices on shared edges: how much it matters who trains with which edge.

An experiment of ours, on synthetic machines; HierTrain names the question as future work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import polars as pl

from workbench.experiments import grid, sweep
from workbench.hiertrain.fleet import (
    Assignment,
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
from workbench.hiertrain.paper.experiments import scales
from workbench.profiles import ModelProfile, profile_model

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
    "devices": pl.Int64,
    "edges": pl.Int64,
    "draw": pl.Int64,
    "method": pl.String,
    "slowest_s": pl.Float64,
    "mean_s": pl.Float64,
    "gap_percent": pl.Float64,
    "above_exact_percent": pl.Float64,
    "reason": pl.String,
}


def fleet(scale: str = "default", seed: int = 1) -> pl.DataFrame:
    """Fleets of several sizes, assigned by each method for the slowest device.

    Fleets of a draw are nested: the larger is the smaller and some more machines.

    A row per fleet (``devices, edges, draw``) and ``method``: ``alone``, ``assign``, ``lower
    bound``, ``exact``. ``slowest_s`` and ``mean_s`` of an iteration over the devices (of the bound:
    below which each cannot be); ``gap_percent``, what ``slowest_s`` is above the lower bound, and
    ``above_exact_percent``, above the best assignment. Where there are too many assignments to try,
    the row of ``exact`` has nulls and a ``reason``.
    """
    points = grid(
        devices=scales.DEVICES.at(scale),
        edges=scales.EDGES.at(scale),
        draw=scales.DRAWS.at(scale),
        method=METHODS,
    )
    shared = {"seed": seed}
    return sweep(
        "Fleets",
        _assigned,
        points,
        FLEETS,
        shared=shared,
        processes=scales.PROCESSES.at(scale),
        failures=TooManyError,
        then=_compared,
    )


def _assigned(
    *, devices: int, edges: int, draw: int, method: str, seed: int, **_: object
) -> dict[str, float]:
    slowest_s, mean_s = METHODS[method](_drawn(devices, edges, draw, seed))
    return {"slowest_s": slowest_s, "mean_s": mean_s}


def _compared(frame: pl.DataFrame) -> pl.DataFrame:
    slowest_s, method = pl.col("slowest_s"), pl.col("method")

    def above(other: str) -> pl.Expr:
        of_other = slowest_s.filter(method == other).first().over("devices", "edges", "draw")
        return 100 * (slowest_s / of_other - 1)

    return frame.with_columns(gap_percent=above("lower bound"), above_exact_percent=above("exact"))


def mean_gaps(frame: pl.DataFrame) -> pl.DataFrame:
    """Mean gaps to the lower bound: a row per number of edges and method, over its fleets.

    ``edges, method, fleets, gap_percent``; ``compared``, fleets with an exact answer, and over
    those ``above_exact_percent``, its maximum ``most_above_exact_percent``, and ``best``, how many
    of them have the best assignment.
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


def drawn_fleet(
    devices: int, edges: int, draw: int, *, profiles: Sequence[ModelProfile], seed: int = 0
) -> Fleet:
    """Draw unlike devices, all with a link to every edge.

    Each machine has numbers of its own, so a larger fleet of the same draw is the smaller one and
    some more.
    """
    servers = {}
    for number in range(edges):
        generator = np.random.default_rng([seed, draw, 0, number])
        servers[f"edge {number:02}"] = Server(
            _between(generator, *EDGE_FLOPS_PER_S), _between(generator, *UPLINK_BPS)
        )
    machines = {}
    for number in range(devices):
        generator = np.random.default_rng([seed, draw, 1, number])
        machines[f"device {number:02}"] = Machine(
            profile=profiles[int(generator.integers(len(profiles)))],
            flops_per_s=_between(generator, *DEVICE_FLOPS_PER_S),
            batch=int(generator.choice(BATCH_SIZES)),
            links_bps={edge: _between(generator, *LINK_BPS) for edge in servers},
        )
    return fleet_of(machines, servers, cloud_flops_per_s=CLOUD_FLOPS_PER_S)


def _between(generator: np.random.Generator, low: float, high: float) -> float:
    """Draw a number log-uniformly."""
    return math.exp(generator.uniform(math.log(low), math.log(high)))


@lru_cache(maxsize=1)
def _drawn(devices: int, edges: int, draw: int, seed: int) -> Fleet:
    profiles = [profile_model(model) for model in MODELS]
    return drawn_fleet(devices, edges, draw, profiles=profiles, seed=seed)


def _seconds(found: Assignment) -> tuple[float, float]:
    return found.slowest_s, found.mean_s


METHODS: dict[str, Callable[[Fleet], tuple[float, float]]] = {
    "alone": lambda drawn: _seconds(alone(drawn)),
    "assign": lambda drawn: _seconds(assign(drawn)),
    "lower bound": lambda drawn: (lower_bound(drawn), lower_bound(drawn, "mean")),
    "exact": lambda drawn: _seconds(exact(drawn)),
}
