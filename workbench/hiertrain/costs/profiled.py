"""Problems from profiles: a model's layers, three machines and two links."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from workbench.hiertrain.costs.problem import (
    Pair,
    Problem,
    check_positive,
    check_tiers,
)
from workbench.utils.checks import UserError, check_kind, choose

if TYPE_CHECKING:
    from workbench.profiles import LayerTimes, ModelProfile

ROUTES: dict[str, Callable[[float, float], float]] = {
    "bottleneck": min,
    "store_and_forward": lambda a_bps, b_bps: 1 / (1 / a_bps + 1 / b_bps),
}


def through_edge(device_edge_bps: float, edge_cloud_bps: float, route: str = "bottleneck") -> float:
    """Bandwidth between device and cloud, which the paper leaves open, in bits per second.

    It names the links device-edge and edge-cloud only, so messages pass the edge. With `route`
    ``"bottleneck"``, the edge forwards packets, as any router does, so the slower link decides;
    with ``"store_and_forward"`` it forwards whole messages, so the times of both links add up.
    """
    links_bps = {"device-edge": device_edge_bps, "edge-cloud": edge_cloud_bps}
    near_bps, far_bps = (
        check_positive(f"the {name} bandwidth", bandwidth_bps)
        for name, bandwidth_bps in links_bps.items()
    )
    return float(choose("route", route, ROUTES)(near_bps, far_bps))


def links_bps(
    device_edge_bps: float, edge_cloud_bps: float, route: str = "bottleneck"
) -> dict[Pair, float]:
    """Bandwidths between all tiers, of which device and cloud reach each other by a route."""
    return {
        ("device", "edge"): device_edge_bps,
        ("edge", "cloud"): edge_cloud_bps,
        ("device", "cloud"): through_edge(device_edge_bps, edge_cloud_bps, route),
    }


def problem_of(
    profile: ModelProfile,
    *,
    flops_per_s: Mapping[str, float],
    device_edge_bps: float,
    edge_cloud_bps: float,
    batch: int,
    backward_over_forward: float | None = None,
    overhead_s: float = 0.0,
) -> Problem:
    """Problem of machines that are not at hand: seconds proportional to FLOPs.

    Parameters
    ----------
    profile
        The model; from `workbench.profiles.profile_model`.
    flops_per_s
        What each tier sustains.
    device_edge_bps, edge_cloud_bps
        The two links; device and cloud reach what the slower one does (`through_edge`).
    batch
        Samples per iteration.
    backward_over_forward
        As in `LayerTimes.from_flops`; None takes the backward FLOPs as they are counted.
    overhead_s
        Seconds that each message costs beside its bytes.
    """
    from workbench.profiles import LayerTimes

    _check_profile(profile)
    check_tiers("flops_per_s", flops_per_s, "one entry")
    times = {
        tier: LayerTimes.from_flops(
            profile, flops_per_s=speed, batch_size=1, backward_over_forward=backward_over_forward
        )
        for tier, speed in flops_per_s.items()
    }
    return problem_of_times(
        profile,
        times,
        device_edge_bps=device_edge_bps,
        edge_cloud_bps=edge_cloud_bps,
        batch=batch,
        overhead_s=overhead_s,
    )


def problem_of_times(
    profile: ModelProfile,
    times: Mapping[str, LayerTimes],
    *,
    device_edge_bps: float,
    edge_cloud_bps: float,
    batch: int,
    overhead_s: float = 0.0,
) -> Problem:
    """Problem of machines on which the layers were timed, as in the paper's profiling stage.

    Parameters
    ----------
    times
        For each tier the seconds of every layer, at any batch size; seconds per sample are taken
        as a batch's seconds over its samples (Eqs. 1-2).
    profile, device_edge_bps, edge_cloud_bps, batch, overhead_s
        As in `problem_of`.
    """
    from workbench.profiles import LayerTimes

    _check_profile(profile)
    check_tiers("times", times, "one entry")
    for tier, timed in times.items():
        check_kind(f"times of {tier}", timed, LayerTimes, "LayerTimes")
        if timed.layers != profile.layers:
            raise UserError(
                f"times of {tier} are of {timed.name} ({len(timed)} layers), the profile is of "
                f"{profile.name} ({len(profile)} layers); make both from one model"
            )
    return Problem(
        layer_s={
            tier: timed.table.select("forward_s", "backward_s").to_numpy() / timed.batch_size
            for tier, timed in times.items()
        },
        update_s={tier: timed.table["update_s"].to_numpy() for tier, timed in times.items()},
        param_bytes=profile.table["param_bytes"].to_numpy(),
        output_bytes=profile.table["output_bytes"].to_numpy(),
        sample_bytes=profile.sample_bytes,
        bandwidth_bps=links_bps(device_edge_bps, edge_cloud_bps),
        batch=batch,
        overhead_s=overhead_s,
    )


def _check_profile(profile: object) -> None:
    from workbench.profiles import ModelProfile

    model = repr(profile) if isinstance(profile, str) else "model"
    check_kind("the profile", profile, ModelProfile, f"one, as by profile_model({model})")
