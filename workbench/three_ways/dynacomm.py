"""DynaComm: each planner at three bandwidths, one server, two workers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from workbench.clusters import Link
from workbench.dynacomm import PLANNERS, Setup, iteration
from workbench.dynacomm.training import Planned
from workbench.profiles import LayerTimes
from workbench.three_ways.case import Case
from workbench.three_ways.samples import digits

MODEL, BATCH_SIZE, ITERATIONS = "alexnet_small", 32, 4
BANDWIDTHS_MBPS = (50.0, 20.0, 10.0)
FLOPS_PER_S = 1e9
OVERHEAD_S, LONG_OVERHEAD_S = 0.01, 0.05


def cases() -> Iterator[Case]:
    """Every planner, planning once, at each bandwidth, and some where messages take long."""
    for mbps in BANDWIDTHS_MBPS:
        for planner in PLANNERS:
            yield case(planner, mbps)
    for planner in ("layer_by_layer", "dynacomm"):
        yield case(planner, BANDWIDTHS_MBPS[0], LONG_OVERHEAD_S)


def case(
    planner: str,
    mbps: float,
    overhead_s: float = OVERHEAD_S,
    *,
    model: str = MODEL,
    batch_size: int = BATCH_SIZE,
    workers: int = 2,
    seed: int = 0,
    layer_times: LayerTimes | None = None,
) -> Case:
    """A planner at a bandwidth; with `layer_times` of this machine, unpadded."""
    setup = Setup(
        model,
        digits(workers * batch_size * ITERATIONS, model),
        Link(mbps * 1e6, overhead_s),
        workers=workers,
        epochs=1,
        batch_size=batch_size,
        flops_per_s=FLOPS_PER_S,
        seed=seed,
        by_layer=True,
        layer_times=layer_times,
    )
    where = f"{model}, {mbps:g} Mbit/s, {overhead_s * 1e3:g} ms"
    return Case(
        system="dynacomm",
        setting=where if layer_times is None else f"{where}, workers: {workers}",
        arm="padded" if layer_times is None else "unpadded",
        choice=planner,
        setup=setup,
        how=Planned(planner, None),
        iterations=ITERATIONS,
        predict=partial(predicted_s, setup, planner),
    )


def predicted_s(setup: Setup, planner: str) -> float:
    """Seconds of an iteration by the cost model."""
    return iteration(setup.costs, PLANNERS[planner](setup.costs)).total_s
