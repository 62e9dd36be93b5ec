"""Speed-up of a backward pass by scan over one node, by both countings.

As the paper counts, every move costs a group's product with a gradient, or nothing beside its
dispatch. By arithmetic it costs a product of two Jacobians; only what the loss's gradient is part
of is a product with a gradient. In a recurrent network a step's transposed Jacobian is a dense
matrix of H x H for each sample, so a product of two costs H times one with a gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import altair as alt
import polars as pl

from workbench import figures
from workbench.figures import parts
from workbench.olpb.algorithms.schedules import Schedule
from workbench.olpb.costs.arithmetic import GRADIENT_BYTES, as_arithmetic_costs, network_elements
from workbench.olpb.costs.backward import plan
from workbench.olpb.costs.library import MIB
from workbench.olpb.costs.timing import Work, scan_timing
from workbench.olpb.paper.testbed import (
    BATCH_SIZE,
    CURVES,
    DELAY_FACTOR,
    SWEPT_NODES,
    variant,
)
from workbench.olpb.paper.titles import MODEL_TITLES, TENS
from workbench.reproduction.figure import Figure
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import grid, sweep

PAID: dict[str, Any] = {
    "network": pl.String,
    **dict.fromkeys(("length", "hidden"), pl.Int64),
    "method": pl.String,
    **dict.fromkeys(("batch_size", "nodes"), pl.Int64),
    "counting": pl.String,
    "elements": pl.Int64,
    **dict.fromkeys(("work_ratio", "sent_mib", "bare_speedup", "speedup"), pl.Float64),
}
COUNTINGS = {"paper": "as the paper counts", "arithmetic": "by arithmetic"}
CHAIN_NODES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
HIDDEN = 20
"""Units of the recurrent networks, as in BPPSA's own experiment (Wang et al. 2020)."""


def pays(
    *,
    networks: Sequence[str],
    lengths: Sequence[int],
    batch_size: int = BATCH_SIZE,
    hidden: int = HIDDEN,
    delay_factor: float = DELAY_FACTOR,
    nodes: Sequence[int] = SWEPT_NODES,
) -> pl.DataFrame:
    """Speed-up of a backward pass by scan over one node, by both countings.

    For networks, with groups of two levels of operators (``olpb_l2``) and with layers (``bppsa``),
    and for chains of a vanilla recurrent network, each with scans by Hillis and Steele. One node
    goes back operator by operator; its messages and those of equal nodes take constant delays.

    A row per network (``length`` and ``hidden`` are a chain's), method, number of nodes and
    counting: ``work_ratio``, FLOPs of the scan over those of one node; ``sent_mib`` between nodes
    (by arithmetic; the paper counts none); ``bare_speedup``, where arithmetic alone takes time;
    ``speedup`` with the testbed's delay and dispatch, messages of any size being as fast.
    """
    points = [
        *grid(network=networks, method=("olpb_l2", "bppsa"), nodes=nodes),
        *grid(network=["rnn"], length=lengths, nodes=CHAIN_NODES),
    ]
    shared = {"batch_size": batch_size, "hidden": hidden, "delay_factor": delay_factor}
    return sweep(_paying, points, PAID, title="What the scan pays", shared=shared)


def first_paying(frame: pl.DataFrame) -> pl.DataFrame:
    """Fewest nodes that a frame of `pays` finds faster than one, null where none is.

    A row per network, length, method and counting: ``bare_nodes`` where arithmetic alone takes
    time, and ``bare_most``, the largest speed-up; ``nodes`` and ``most`` with the testbed's delay
    and dispatch.
    """
    columns = dict[str, pl.Expr]()
    for prefix in ("bare_", ""):
        speedup = pl.col(f"{prefix}speedup")
        columns[f"{prefix}nodes"] = pl.col("nodes").filter(speedup > 1).min()
        columns[f"{prefix}most"] = speedup.max()
    by = ("network", "length", "method", "counting")
    return frame.group_by(*by, maintain_order=True).agg(**columns)


def _paying(
    *,
    network: str,
    nodes: int,
    batch_size: int,
    hidden: int,
    delay_factor: float,
    method: str = "bppsa",
    length: int = 0,
) -> Iterator[dict[str, object]]:
    real = variant(nodes=nodes, delay_factor=delay_factor).pool()
    bare = replace(real, dispatch_s=0.0, delay_s=0.0)
    for counting in COUNTINGS:
        if network == "rnn":
            planned = plan(length + 1, nodes, "hillis_steele")
            work = chain_work(planned, hidden, batch_size, by_arithmetic=counting == "arithmetic")
            alone_flops = length * step_flops(hidden, batch_size)
        else:
            planned, work, alone_flops = _network_work(network, method, batch_size, nodes, counting)
        bare_timing, timing = (scan_timing(planned, work, pool) for pool in (bare, real))
        alone_s = alone_flops / real.nodes[0].flops_per_s
        yield {
            "hidden": hidden if network == "rnn" else None,
            "method": method,
            "counting": counting,
            "elements": planned.elements,
            "work_ratio": timing.flops / alone_flops,
            "sent_mib": timing.bytes_sent / MIB,
            "bare_speedup": alone_s / bare_timing.seconds,
            "speedup": (alone_s + planned.elements * real.dispatch_s) / timing.seconds,
        }


def step_flops(hidden: int, batch_size: int) -> float:
    """FLOPs of a recurrent step's Jacobian times a gradient."""
    return 2.0 * batch_size * hidden**2


def chain_work(
    planned: Schedule, hidden: int, batch_size: int = 1, *, by_arithmetic: bool = True
) -> Work:
    """Costs of a scan of a recurrent network's steps, after the loss's gradient.

    Gradients of weights are left out on both sides: they are sums over all steps, which any order
    of nodes makes.
    """
    spans, vector_flops = planned.spans, step_flops(hidden, batch_size)
    gradient_bytes, after = float(GRADIENT_BYTES * batch_size * hidden), [0.0] * planned.elements
    if not by_arithmetic:
        return Work([vector_flops] * planned.work, [0.0] * len(planned.homes), after)
    flops = [vector_flops * (hidden if spans[move.left].start else 1) for move in planned.moves]
    sent = [gradient_bytes * hidden] * len(planned.homes)
    for value, span in spans.items():
        if not span.start:  # the loss's gradient is part of it
            sent[value] = gradient_bytes
    return Work(flops, sent, after)


def _network_work(
    network: str, method: str, batch_size: int, nodes: int, counting: str
) -> tuple[Schedule, Work, float]:
    """Schedule and its costs, and FLOPs of one node alone."""
    if counting == "paper":
        testbed = variant(nodes=nodes, batch_size=batch_size)
        bare = replace(testbed, constants=replace(testbed.constants, operator_ms=0.0))
        alone = sum(group.backward_flops for group in bare.subtasks(network, method))
        return *bare.scan_work(network, method), alone
    unit = "matrix_layer" if method == "bppsa" else "operator"
    elements = network_elements(network, batch_size, unit, CURVES[method].levels)
    planned = plan(len(elements), nodes, "hillis_steele")
    alone = network_elements(network, batch_size).sequential_flops
    return planned, as_arithmetic_costs(planned, elements), alone


def draw_pays(frame: pl.DataFrame) -> alt.VConcatChart:
    """Speed-up of a scan over one node against the number of nodes, by both countings.

    Networks, with OLPB's groups of two levels, above recurrent chains. Above the grey line the scan
    pays.
    """
    is_chain = pl.col("length").is_not_null()
    network = pl.col("network").replace(MODEL_TITLES)
    drawn = frame.filter((pl.col("method") == "olpb_l2") | is_chain).select(
        "nodes",
        "bare_speedup",
        chain=is_chain,
        name=pl.coalesce(pl.format("RNN, {} steps", "length"), network),
        panel=pl.col("counting").replace_strict(COUNTINGS),
    )
    held = f"batch {frame['batch_size'][0]}, arithmetic alone takes time"
    title = ["What back-propagation by scan pays", held]
    rows = [_speedups(drawn.filter(chain=chain)) for chain in (False, True)]
    chart = alt.VConcatChart(vconcat=rows, title=title)
    return chart.resolve_scale(color="independent", shape="independent")


def _speedups(drawn: pl.DataFrame) -> alt.FacetChart:
    counts = sorted(drawn["nodes"].unique().to_list())
    axis = alt.Axis(values=counts, format="d")
    lines = (
        alt.Chart()
        .mark_line(point=True)
        .encode(
            x=alt.X("nodes:Q", title="nodes", scale=alt.Scale(type="log", base=2), axis=axis),
            y=alt.Y(**parts.log_axis("bare_speedup", "times as fast as one node", values=TENS)),
            **figures.series("name", drawn["name"].unique(maintain_order=True).to_list()),
        )
    )
    even = alt.Chart().mark_rule(color=parts.GREY).encode(y=alt.datum(1))
    layered = alt.layer(even, lines, data=drawn).properties(height=150)
    panels = parts.facets(layered, "panel", list(COUNTINGS.values()), "")
    return panels.resolve_scale(y="independent")  # one axis for both would be a thousandfold


_NETWORKS = ("lenet5", "cifarnet", "squeezenet", "vgg16", "inception_v3")
_STEPS = (1000, 3000, 10_000, 30_000)  # of recurrent networks
PAYS = Figure(
    id="pays",
    compute=pays,
    chart=draw_pays,
    sizes={
        "networks": Scaled(smoke=("lenet5",), default=_NETWORKS, paper=_NETWORKS),
        "lengths": Scaled(smoke=(1000,), default=_STEPS, paper=_STEPS),
    },
)
