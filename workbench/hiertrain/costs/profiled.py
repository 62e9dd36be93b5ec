"""Problems from profiles: a model's layers, three machines and two links."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from workbench.errors import UserError
from workbench.hiertrain.costs.problem import TIERS, Problem, checked_bandwidth
from workbench.names import choose

if TYPE_CHECKING:
    from workbench.profiles import InputShape, LayerTimes, ModelProfile

T = TypeVar("T")

ROUTES: dict[str, Callable[[float, float], float]] = {
    "bottleneck": min,
    "store_and_forward": lambda a_bps, b_bps: 1 / (1 / a_bps + 1 / b_bps),
}


def through_edge(device_edge_bps: float, edge_cloud_bps: float, route: str = "bottleneck") -> float:
    """Bandwidth between device and cloud, which the paper leaves open, in bits per second.

    It names the links device-edge and edge-cloud only, so messages pass the edge.

    Parameters
    ----------
    device_edge_bps, edge_cloud_bps
        Bandwidths of the two links.
    route
        ``"bottleneck"``, the default: the edge forwards packets, as any router does, so the slower
        link decides. ``"store_and_forward"``: it forwards whole messages, so the times of both
        links add up.

    Raises
    ------
    ValueError
        A bandwidth that is not positive, or an unknown route.
    """
    near_bps, far_bps = (
        checked_bandwidth(f"the {name} bandwidth", bandwidth_bps, "bits per second")
        for name, bandwidth_bps in (
            ("device-edge", device_edge_bps),
            ("edge-cloud", edge_cloud_bps),
        )
    )
    return float(choose("route", route, ROUTES)(near_bps, far_bps))


def problem_of(
    profile: ModelProfile,
    *,
    flops_per_s: Mapping[str, float],
    device_edge_bps: float,
    edge_cloud_bps: float,
    batch: int,
    route: str = "bottleneck",
    sample_bytes: float | None = None,
    backward_over_forward: float | None = None,
    update_bytes_per_s: Mapping[str, float] | None = None,
    overhead_s: float = 0.0,
) -> Problem:
    """Problem of machines that are not at hand: seconds proportional to FLOPs.

    Parameters
    ----------
    profile
        The model; from `workbench.profiles.profile_model`.
    flops_per_s
        What each tier sustains.
    device_edge_bps, edge_cloud_bps, route
        The two links, and how device and cloud reach each other: `through_edge`.
    batch
        Samples per iteration.
    sample_bytes
        Bytes of a sample on a link; None for four per value of the model's input.
    backward_over_forward
        As in `LayerTimes.from_flops`; None takes the backward FLOPs as they are counted.
    update_bytes_per_s
        Bytes of parameters that each tier updates per second, since that is bound by memory;
        None for two FLOPs a parameter of four bytes.
    overhead_s
        Seconds that each message costs beside its bytes.

    Raises
    ------
    ValueError
        A tier missing or unknown, or a number that is not positive where it must be.
    """
    from workbench.profiles import LayerTimes

    _check_profile(profile)
    times = {
        tier: LayerTimes.from_flops(
            profile,
            flops_per_s=speed,
            batch_size=1,
            backward_over_forward=backward_over_forward,
        )
        for tier, speed in _each_tier("flops_per_s", flops_per_s).items()
    }
    param_bytes = profile.table["param_bytes"].to_numpy()
    update_s = None
    if update_bytes_per_s is not None:
        speeds = _each_tier("update_bytes_per_s", update_bytes_per_s)
        update_s = {tier: param_bytes / speed for tier, speed in speeds.items()}
    return problem_of_times(
        profile,
        times,
        device_edge_bps=device_edge_bps,
        edge_cloud_bps=edge_cloud_bps,
        batch=batch,
        route=route,
        sample_bytes=sample_bytes,
        update_s=update_s,
        overhead_s=overhead_s,
    )


def problem_of_times(
    profile: ModelProfile,
    times: Mapping[str, LayerTimes],
    *,
    device_edge_bps: float,
    edge_cloud_bps: float,
    batch: int,
    route: str = "bottleneck",
    sample_bytes: float | None = None,
    update_s: Mapping[str, np.ndarray] | None = None,
    overhead_s: float = 0.0,
) -> Problem:
    """Problem of machines on which the layers were timed, as in the paper's profiling stage.

    Parameters
    ----------
    times
        For each tier the seconds of every layer, at any batch size; seconds per sample are taken
        as a batch's seconds over its samples (Eqs. 1-2).
    update_s
        Seconds to update each layer in place of those in `times`.
    profile, device_edge_bps, edge_cloud_bps, batch, route, sample_bytes, overhead_s
        As in `problem_of`.

    Raises
    ------
    ValueError
        As in `problem_of`; times of another model than the profile's.
    """
    from workbench.profiles import LayerTimes

    _check_profile(profile)
    for tier, found in _each_tier("times", times, positive=False).items():
        if not isinstance(found, LayerTimes):
            raise UserError(f"times of {tier} is {found!r}; give LayerTimes")
        if found.layers != profile.layers:
            raise UserError(
                f"times of {tier} are of {found.name} ({len(found)} layers), the profile is of "
                f"{profile.name} ({len(profile)} layers); make both from one model"
            )
    if update_s is None:
        update_s = {tier: times[tier].table["update_s"].to_numpy() for tier in TIERS}
    return Problem(
        layer_s={
            tier: times[tier].table.select("forward_s", "backward_s").to_numpy()
            / times[tier].batch_size
            for tier in TIERS
        },
        update_s=update_s,
        param_bytes=profile.table["param_bytes"].to_numpy(),
        output_bytes=profile.table["output_bytes"].to_numpy(),
        sample_bytes=4 * _values(profile.input_shape) if sample_bytes is None else sample_bytes,
        bandwidth_bps={
            ("device", "edge"): device_edge_bps,
            ("edge", "cloud"): edge_cloud_bps,
            ("device", "cloud"): through_edge(device_edge_bps, edge_cloud_bps, route),
        },
        batch=batch,
        overhead_s=overhead_s,
    )


def _check_profile(profile: object) -> None:
    from workbench.profiles import ModelProfile

    if not isinstance(profile, ModelProfile):
        model = repr(profile) if isinstance(profile, str) else "model"
        raise UserError(f"the profile is {profile!r}; give one, as by profile_model({model})")


def _each_tier(name: str, values: Mapping[str, T], positive: bool = True) -> Mapping[str, T]:
    if not isinstance(values, Mapping) or set(values) != set(TIERS):
        found = ", ".join(map(str, values)) if isinstance(values, Mapping) else repr(values)
        raise UserError(f"{name} takes one entry for each of {', '.join(TIERS)}; got {found}")
    for tier, number in values.items() if positive else ():
        if isinstance(number, bool) or not isinstance(number, Real):
            raise UserError(f"{name} of {tier} is {number!r}; give it as a number")
        if not 0 < float(number) < math.inf:
            raise UserError(f"{name} of {tier} is {number}; it must be positive and finite")
    return values


def _values(shape: InputShape) -> int:
    """Numbers in one sample; of a model of several inputs, in all of them."""
    parts = [part if isinstance(part, tuple) else (part,) for part in shape]
    several = any(isinstance(part, tuple) for part in shape)
    return sum(map(math.prod, parts)) if several else math.prod(map(math.prod, parts))
