"""The unpadded arm: work takes its own time, which a profile taken before predicts.

Models are profiled on this machine when the cases are first asked for, alone, at the batch that a
node learns from, on one thread, as nodes learn. Nodes are as fast as each other. Where more of them
compute at a time than the machine has cores, which the profile does not know, work does not fit the
machine (`recording.SCHEMA`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from workbench.profiles import LayerTimes, measure_layer_times
from workbench.three_ways import dlion, dynacomm, gossip, hiertrain
from workbench.three_ways.case import Case
from workbench.three_ways.samples import digits
from workbench.training.models import make_model
from workbench.training.repeatable import fixed_threads

SMALL, LARGE = (1, 28, 28), (3, 32, 32)
WARMUP, REPEATS = 3, 15
GOSSIP_BATCH = 160


def cases() -> Iterator[Case]:
    """One worker and a server, two workers, tiers, and nodes that exchange with each other."""
    for workers, batch_size, mbps in ((1, 352, 100.0), (2, 176, 50.0)):
        times = layer_times(dynacomm.MODEL, LARGE, batch_size)
        for planner in ("sequential", "dynacomm"):
            yield dynacomm.case(
                planner, mbps, batch_size=batch_size, workers=workers, layer_times=times
            )
    times = layer_times(hiertrain.MODEL, LARGE, 448)
    for planner in ("all_edge", "all_cloud"):  # HierTrain's own leaves all to the device
        yield hiertrain.case(planner, 50.0, 100.0, batch_size=448, iterations=3, layer_times=times)
    for nodes, samples_each in ((2, 640), (4, 320)):
        yield gossip.case(
            20.0,
            nodes,
            batch_size=GOSSIP_BATCH,
            samples_each=samples_each,
            sample_s=sample_s(gossip.MODEL, GOSSIP_BATCH),
        )
    for workers, batch_size in ((2, 192), (4, 96)):
        seconds = sample_s(dlion.MODEL, batch_size)
        yield dlion.case(
            "baseline", 20.0, local_batch=batch_size, workers=workers, sample_s=seconds
        )


@lru_cache
def layer_times(model: str, shape: tuple[int, ...], batch_size: int) -> LayerTimes:
    """Seconds of each layer on this machine."""
    module = make_model(model, digits(256, shape), 0)
    with fixed_threads():
        return measure_layer_times(
            module, batch_size, shape, warmup=WARMUP, repeats=REPEATS, name=model
        )


def sample_s(model: str, batch_size: int) -> float:
    """Seconds to learn from a sample in batches of this size on this machine, step included."""
    times = layer_times(model, SMALL, batch_size)
    assert times.iteration_s is not None
    return (times.iteration_s + times.update_s) / batch_size
