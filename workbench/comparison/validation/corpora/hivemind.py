"""Trainings with Hivemind in clouds on four continents; runs and links are in ``data/measured``.

A large batch is computed by all machines together. Then they form a group and average gradients by
`all_reduce`; each pair of machines has one TCP stream. The program is simulated like any other.
Constants are fitted on the runs in one zone (A), and predict those over the Atlantic (B) and over
four continents (C).
"""

from __future__ import annotations

import math
import tomllib
from functools import cache, lru_cache
from itertools import permutations

import numpy as np
import polars as pl

from workbench.clusters import Cluster, Link, Node
from workbench.comparison.validation.corpus import Constants, Corpus, Values
from workbench.runtime import Context, simulate
from workbench.sharding.collectives import all_reduce, assemble
from workbench.utils.checks import UserError, choose
from workbench.utils.files import DATA

SETS = {"A": "A: one zone (fitted)", "B": "B: Atlantic", "C": "C: continents"}
"""First letter of a run's name -> its set."""

FIRST_WINDOW_BYTES = 10 * 1_460
"""Bytes that TCP sends before the first acknowledgement (RFC 6928)."""


def tcp_link(measured_bps: float, round_trip_s: float, measured_for_s: float = math.inf) -> Link:
    """Return the link of one TCP stream, from a measurement that began cold.

    Over long distances a stream carries a window each round trip, whatever the capacity. It begins
    with a small window, which doubles each round trip until it is large enough (slow start). That
    loses log2(window / first window) - 1 round trips whenever an idle connection starts: in every
    transmission, and in a measurement of `measured_for_s`, whose mean is therefore below the rate
    of a long transmission.
    """
    window_bytes = measured_bps / 8 * round_trip_s
    slow_start_s = round_trip_s * max(0.0, math.log2(window_bytes / FIRST_WINDOW_BYTES) - 1)
    return Link(
        bandwidth_bps=measured_bps / (1 - slow_start_s / measured_for_s),
        overhead_s=slow_start_s,
        latency_s=round_trip_s / 2,
    )


@cache
def links() -> tuple[dict[frozenset[str], Link], float]:
    """Links between regions, of one region within it; bits a second of a machine's streams."""
    text = (DATA / "measured" / "hivemind.toml").read_text(encoding="utf-8")
    facts = tomllib.loads(text)
    zones = {place for one, others in facts["between"].items() for place in (one, *others)}
    known = {frozenset([zone]): facts["within"] for zone in zones} | {
        frozenset([one, other]): link
        for one, others in facts["between"].items()
        for other, link in others.items()
    }
    streams = {
        places: tcp_link(link["gbps"] * 1e9, link["round_trip_ms"] / 1e3, facts["measured_for_s"])
        for places, link in known.items()
    }
    return streams, facts["host_gbps"] * 1e9


def epoch_s(cluster: Cluster, size_bytes: float, compute_s: float, constants: Constants) -> float:
    """Seconds of an epoch on linked machines, simulated.

    Deviation: Hivemind cuts a share into parts of half a megabyte and averages one while the next
    arrive. With parts that small, transport would hide handling, but runs of a large model with
    several machines in a region are slower than that; with whole shares the two add up.
    """
    handled_bps = math.inf if "overlapped" in constants else 1e9 * constants["handled_gbps"]

    group = range(len(cluster))

    async def program(context: Context) -> float:
        await context.compute(lambda: None, cost_s=compute_s, label="samples")
        await assemble(context, group)
        await context.sleep(constants["round_s"])
        await all_reduce(context, group, None, size_bytes, byte_s=8 / handled_bps)
        return context.now_s()

    return float(max(simulate(cluster, [program] * len(cluster)).results.values()))


def cluster_of(regions: str, constants: Constants, between: Link | None = None) -> Cluster:
    """A machine in each of these regions, all linked; `between` replaces links between regions."""
    places, (known, host_bps) = regions.split(), links()
    if "overlapped" in constants:
        host_bps = 1e9 * constants["handled_gbps"]
    names = [f"{place}{number}" for number, place in enumerate(places)]
    machines = [Node(name, uplink_bps=host_bps, downlink_bps=host_bps) for name in names]
    pairs = permutations(range(len(places)), 2)
    return Cluster(
        machines,
        {
            (a, b): between
            if between is not None and places[a] != places[b]
            else known[frozenset([places[a], places[b]])]
            for a, b in pairs
        },
    )


def prepare(runs: pl.DataFrame) -> pl.DataFrame:
    """Runs with their ``set``; raises UserError for machines and regions that do not match."""
    zones = {zone for places in links()[0] for zone in places}
    for run, nodes, regions in runs.select("run", "nodes", "regions").iter_rows():
        for region in regions.split():
            choose(f"region of run {run}", region, dict.fromkeys(zones))
        if nodes < 2 or len(regions.split()) != nodes:
            raise UserError(f"run {run} has {nodes} nodes in the regions {regions}: name each's")
    return runs.with_columns(set=pl.col("run").str.slice(0, 1).replace_strict(SETS))


def predict(runs: pl.DataFrame, constants: Constants) -> Values:
    """Simulated seconds of an epoch of each run."""
    frozen = tuple(sorted(constants.items()))
    columns = runs.select("model", "nodes", "regions", "parameters_bytes")
    return np.array([_predicted(*row, frozen) for row in columns.iter_rows()])


@lru_cache(maxsize=1024)
def _predicted(
    model: str, nodes: int, regions: str, size_bytes: float, frozen: tuple[tuple[str, float], ...]
) -> float:
    constants = dict(frozen)
    compute_s = constants[f"{model} machine_s"] / nodes
    return epoch_s(cluster_of(regions, constants), size_bytes, compute_s, constants)


def fit(zone: pl.DataFrame) -> dict[str, float]:
    """Both constants of averaging, and each model's seconds of computing by one machine.

    Averaging takes ``round_s + sent bits / rate`` beside transport, which is simulated. The rest of
    ``others_s`` is linear in the unknowns, which are fitted by least squares.
    """
    transport = {"round_s": 0.0, "handled_gbps": math.inf}
    bits, left_s = [], []
    for run in zone.iter_rows(named=True):
        size_bytes, nodes = run["parameters_bytes"], run["nodes"]
        transport_s = epoch_s(cluster_of(run["regions"], transport), size_bytes, 0.0, transport)
        bits.append(2 * (nodes - 1) / nodes * size_bytes * 8)
        left_s.append(run["others_s"] - transport_s)
    columns = np.stack([np.ones(len(bits)), np.array(bits)], axis=1)
    round_s, bit_s = np.linalg.lstsq(columns, np.array(left_s))[0]
    computing = zone.group_by("model").agg((pl.col("compute_s") * pl.col("nodes")).mean())
    values = {"round_s": round_s, "handled_gbps": 1e-9 / bit_s} | {
        f"{model} machine_s": seconds for model, seconds in sorted(computing.iter_rows())
    }
    return {name: float(f"{value:.4g}") for name, value in values.items()}


def naive(runs: pl.DataFrame) -> Values:
    """Computing alone: that of one machine in the runs fitted on, shared among the machines."""
    machine_s = pl.when(role="fit").then(pl.col("compute_s") * pl.col("nodes")).mean().over("model")
    return runs.select(machine_s / pl.col("nodes")).to_series().to_numpy()


CORPUS = Corpus(
    title="Epochs on four continents (Hivemind)",
    source="The table is in data/measured of the workbench, from cirquit/hivemind-multi-cloud, MIT",
    file="hivemind.csv",
    columns={
        **dict.fromkeys(("run", "model", "regions"), pl.String),
        "nodes": pl.Int64,
        **dict.fromkeys(
            ("parameters_bytes", "measured_epoch_s", "compute_s", "others_s"), pl.Float64
        ),
    },
    key=("run", "model"),
    measured="measured_epoch_s",
    most_s=100_000,
    groups="set",
    role=pl.when(pl.col("run").str.starts_with("A"))
    .then(pl.lit("fit"))
    .otherwise(pl.lit("predict")),
    prepare=prepare,
    by=lambda runs: runs["model"].unique().sort().to_list(),
    constants={
        "round_s": (4, 0, 100),
        "handled_gbps": (1, 0.01, 100),
        "{} machine_s": (500, 1, 10_000),
    },
    fit=fit,
    predict=predict,
    naive=naive,
    alike=("model",),
    near=("nodes",),
    without={"handling and transport one after the other": {"overlapped": 1}},
    goal=0.04,
    kind="averaging",
)
