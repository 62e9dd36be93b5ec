"""HierTrain: a small AlexNet on device, edge and cloud, over the links of the paper's Fig. 6.

Deviation: its machines and its AlexNet do not fit this machine, so tiers compute at rates of which
three fit, and the network is `alexnet_small`. Policies of the paper's baselines at two bandwidths.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from workbench.hiertrain import (
    PLANNERS,
    TIERS,
    Policy,
    Problem,
    Setup,
    iteration,
    problem_of,
    problem_of_times,
)
from workbench.profiles import LayerTimes, profile_model
from workbench.three_ways.case import Case
from workbench.three_ways.samples import digits

MODEL, BATCH_SIZE, ITERATIONS = "alexnet_small", 16, 4
DEVICE_EDGE_MBPS, OVERHEAD_S = 5.0, 0.005
FIG6_MBPS, COMPARED_MBPS = (1.5, 2.5, 3.5, 5.0), (1.5, 3.5)
FLOPS_PER_S = {"device": 1e8, "edge": 5e8, "cloud": 2.5e9}


def cases() -> Iterator[Case]:
    """HierTrain's policy at four bandwidths, every policy at two of them."""
    for mbps in FIG6_MBPS:
        for planner in PLANNERS if mbps in COMPARED_MBPS else ("hiertrain",):
            yield case(planner, mbps)


def case(
    planner: str,
    mbps: float,
    *,
    model: str = MODEL,
    device_edge_mbps: float = DEVICE_EDGE_MBPS,
    batch_size: int = BATCH_SIZE,
    iterations: int = ITERATIONS,
    seed: int = 0,
    layer_times: LayerTimes | None = None,
) -> Case:
    """A planner's policy at a bandwidth between edge and cloud.

    With `layer_times` of this machine, unpadded: all tiers are as fast.
    """
    profile = profile_model(model)
    rest: dict[str, Any] = {
        "device_edge_bps": device_edge_mbps * 1e6,
        "edge_cloud_bps": mbps * 1e6,
        "batch": batch_size,
        "overhead_s": OVERHEAD_S,
    }
    if layer_times is None:
        problem = problem_of(profile, flops_per_s=FLOPS_PER_S, **rest)
    else:
        problem = problem_of_times(profile, dict.fromkeys(TIERS, layer_times), **rest)
    policy = PLANNERS[planner](problem)
    return Case(
        system="hiertrain",
        setting=f"{model}, {mbps:g} Mbit/s",
        choice=planner,
        arm="padded" if layer_times is None else "unpadded",
        setup=Setup(model, digits(batch_size * iterations, model), problem, epochs=1, seed=seed),
        how=policy,
        iterations=iterations,
        predict=partial(predicted_s, problem, policy),
    )


def predicted_s(problem: Problem, policy: Policy) -> float:
    """Seconds of an iteration by the cost model."""
    return iteration(problem, policy).total_s
