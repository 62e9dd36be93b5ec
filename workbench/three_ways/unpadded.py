"""The unpadded arm: work takes its own time, which a profile taken before predicts.

The profile is in ``data/calibration/three_ways.toml``: seconds of each layer, alone on one thread,
as a node learns. `workbench.three_ways.calibration` takes it again, for any machine. It knows
nothing of links, of what nodes do beside learning, nor of nodes that compute at the same time:
where these are more than cores, work does not fit the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import polars as pl

from workbench.clusters import load_calibration
from workbench.profiles import LayerTimes
from workbench.three_ways import dlion, dynacomm, gossip, hiertrain
from workbench.three_ways.case import Case

MODEL = "resnet20_cifar"
BATCH_SIZE, HALF_BATCH = 64, 32
MBPS = 100.0


def cases() -> Iterator[Case]:
    """One worker and a server, two workers, tiers, and nodes that exchange with each other."""
    whole, half_s = layer_times(BATCH_SIZE), sample_s(HALF_BATCH)
    for workers, planners in (
        (1, ("sequential", "layer_by_layer", "dynacomm")),
        (2, ("sequential", "dynacomm")),
    ):
        for planner in planners:
            yield dynacomm.case(
                planner,
                MBPS,
                model=MODEL,
                batch_size=BATCH_SIZE,
                workers=workers,
                layer_times=whole,
            )
    for planner in ("all_edge", "all_cloud"):  # HierTrain's own leaves all to the device
        yield hiertrain.case(
            planner,
            MBPS,
            model=MODEL,
            device_edge_mbps=MBPS,
            batch_size=BATCH_SIZE,
            layer_times=whole,
        )
    for nodes in (2, 4):
        yield gossip.case(
            MBPS,
            nodes,
            model=MODEL,
            batch_size=HALF_BATCH,
            samples_each=BATCH_SIZE,
            sample_s=half_s,
        )
    for system, workers in (("baseline", 2), ("max10", 2), ("baseline", 4)):
        yield dlion.case(
            system, MBPS, model=MODEL, local_batch=HALF_BATCH, workers=workers, sample_s=half_s
        )


@cache
def layer_times(batch_size: int) -> LayerTimes:
    """Stored seconds of each layer for a batch of a stored size."""
    stored = load_calibration("three_ways")[f"batch_{batch_size}"]
    table = pl.DataFrame({name: stored[name] for name in LayerTimes.SCHEMA})
    return LayerTimes(MODEL, batch_size, "cpu", table, stored["iteration_s"])


def sample_s(batch_size: int) -> float:
    """Stored seconds to learn from a sample in batches of a stored size, step included."""
    times = layer_times(batch_size)
    assert times.iteration_s is not None
    return (times.iteration_s + times.update_s) / batch_size
