"""Problems for HierTrain's planners: three tiers, the links between them, a model, a batch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workbench.clusters import Link, Schedule
from workbench.utils.checks import (
    NOT_NEGATIVE,
    UserError,
    at_least,
    check_kind,
    check_layers,
    check_number,
    check_range,
    listed,
)

if TYPE_CHECKING:
    from workbench.profiles import LayerTimes, ModelProfile

FloatArray = NDArray[np.float64]
Pair = tuple[str, str]

TIERS = ("device", "edge", "cloud")
SERVERS = TIERS[1:]
PAIRS: tuple[Pair, ...] = (("device", "edge"), ("edge", "cloud"), ("device", "cloud"))
EXAMPLE = "{('device', 'edge'): Link(5e6), ...}"
MOST_SAMPLES = 100_000
"""Samples of a batch at most: planners try every way to share them out."""


class Averaging(NamedTuple):
    """How several devices average the gradients of what they train.

    Attributes
    ----------
    hub
        Tier that averages if the devices are worker o.
    links
        From a device to edge and cloud, by tier; a problem's own are for a share of the samples.
    """

    hub: str
    links: Mapping[str, Link]


@dataclass(frozen=True, eq=False, init=False)
class Problem:
    """One iteration to be shared out among device, edge and cloud (Liu et al. 2020, Table I).

    The samples lie on the device. The paper's symbols: L^f, L^b are `layer_s`, L^u is `update_s`,
    MP is `param_bytes`, MO is `output_bytes`, Q is `sample_bytes` and B is `batch`.

    Parameters
    ----------
    layer_s
        For each tier its seconds per sample, shape (N, 2): forward and backward of each layer,
        layer 1 first. Kept, as all arrays here, as read-only float64.
    update_s
        For each tier its seconds to update each layer's weights, shape (N,).
    param_bytes
        Bytes of each layer's parameters that are trained, shape (N,). Up to the first layer with
        any, no gradient is passed back.
    output_bytes
        Bytes per sample of what each layer hands to the next, shape (N,).
    sample_bytes
        Bytes of one sample.
    links
        Link between each pair of tiers, the same both ways; a pair may be written in either order.
        Bandwidth, overhead and latency count, and are constant. A message of no bytes is not sent.
        Deviation: Eq. (4) has neither overhead nor latency; 0 is the paper's model.
    batch
        Samples per iteration, up to `MOST_SAMPLES`.
    averaging
        How several devices average, where the device stands for several; see `as_one`.
    accumulate
        Batches of an iteration, one after the other, whose gradients are added up: weights are
        averaged and updated once for all. 1 is the paper's; policies share out one batch.
    """

    layer_s: Mapping[str, FloatArray]
    update_s: Mapping[str, FloatArray]
    param_bytes: FloatArray
    output_bytes: FloatArray
    sample_bytes: float = field(metadata=NOT_NEGATIVE)
    links: Mapping[Pair, Link]
    batch: int
    averaging: Averaging | None
    accumulate: int

    def __init__(
        self,
        layer_s: Mapping[str, ArrayLike],
        update_s: Mapping[str, ArrayLike],
        param_bytes: ArrayLike,
        output_bytes: ArrayLike,
        *,
        sample_bytes: float,
        links: Mapping[Pair, Link],
        batch: int,
        averaging: Averaging | None = None,
        accumulate: int = 1,
    ) -> None:
        if averaging is not None:
            check_kind("averaging", averaging, Averaging, "that of several devices, or None")
        values = {
            "layer_s": _by_tier("layer_s", layer_s, columns=2),
            "update_s": _by_tier("update_s", update_s),
            "param_bytes": check_layers("param_bytes", param_bytes),
            "output_bytes": check_layers("output_bytes", output_bytes),
            "sample_bytes": NOT_NEGATIVE["check"]("sample_bytes", sample_bytes),
            "links": _by_pair(links),
            "batch": at_least(1, MOST_SAMPLES)["check"]("batch", batch),
            "averaging": averaging,
            "accumulate": at_least(1)["check"]("accumulate", accumulate),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        lengths = {f"layer_s of {tier}": len(self.layer_s[tier]) for tier in TIERS}
        lengths |= {f"update_s of {tier}": len(self.update_s[tier]) for tier in TIERS}
        lengths |= {name: len(getattr(self, name)) for name in ("param_bytes", "output_bytes")}
        if len(set(lengths.values())) > 1:
            raise UserError(f"all describe the same layers, but the lengths differ: {lengths}")
        with np.errstate(over="ignore"):
            layers = [*self.layer_s.values(), *self.update_s.values()]
            layers += [self.param_bytes, self.output_bytes]
            total = self.batch * (self.sample_bytes + sum(float(costs.sum()) for costs in layers))
            byte_s = max(link.transfer_s((1.0,)) for link in self.links.values())
        if not math.isfinite(total * max(1.0, byte_s)):
            raise UserError(
                "seconds and bytes are finite but their sum is not; give seconds and bytes"
            )

    @property
    def layers(self) -> int:
        """Number of layers, N."""
        return len(self.param_bytes)

    def link(self, a: str, b: str) -> Link:
        """Link between two tiers."""
        return self.links[_pair(a, b)]

    def seconds(self, size_bytes: float, a: str, b: str) -> float:
        """Seconds that a message takes between two tiers (Eq. 4); within a tier it takes none."""
        return 0.0 if a == b and a in TIERS else _sent_s(size_bytes, self.link(a, b))

    def hub(self, tier: str) -> str:
        """Tier that averages what a tier trains: itself, unless it has several devices."""
        return self.averaging.hub if self.averaging and tier == "device" else tier

    def averaging_s(self, size_bytes: float, a: str, b: str) -> float:
        """Seconds in which gradients go to a tier that averages them, and their mean comes back."""
        return 0.0 if a == b else 2 * _sent_s(size_bytes, self.averaging_link(a, b))

    def averaging_link(self, a: str, b: str) -> Link:
        """Link of gradients to be averaged, each device's whole one."""
        if self.averaging and "device" in (a, b):
            (server,) = {a, b} - {"device"}
            return self.averaging.links[server]
        return self.link(a, b)

    @cached_property
    def span_s(self) -> FloatArray:
        """[d, t, i, j]: seconds per sample of layers i+1..j. Shape (2, 3, N+1, N+1).

        d is 0 forward and 1 backward; t is the tier's place in `TIERS`.
        """
        # Summed from each start: differences of running sums would lose small layers behind large.
        layers_s = np.stack([self.layer_s[tier].T for tier in TIERS], axis=1)
        rows = np.broadcast_to(layers_s[:, :, None, :], (2, len(TIERS), *(self.layers,) * 2))
        spans_s = np.zeros((2, len(TIERS), *(self.layers + 1,) * 2))
        np.cumsum(np.triu(rows), axis=-1, out=spans_s[:, :, :-1, 1:])
        return _read_only(spans_s)

    @cached_property
    def update_sum_s(self) -> FloatArray:
        """[t, m]: seconds to update layers 1..m, by the tier's place in `TIERS`. Shape (3, N+1)."""
        return _sums(np.stack([self.update_s[tier] for tier in TIERS]))

    @cached_property
    def param_sum_bytes(self) -> FloatArray:
        """[m]: bytes of the parameters of layers 1..m. Shape (N+1,)."""
        return _sums(self.param_bytes)

    @cached_property
    def gradient_bytes(self) -> FloatArray:
        """Bytes per sample of the gradient that is handed back to each layer. Shape (N,).

        As many as it handed on, where it or a layer below it has parameters; else none.
        """
        return _read_only(np.where(self.param_sum_bytes[1:] > 0, self.output_bytes, 0.0))


def check_problem(problem: Problem) -> None:
    """Refuse anything but a problem."""
    check_kind("problem", problem, Problem, "a Problem, such as problem_of(...) makes")


def _sent_s(size_bytes: float, link: Link) -> float:
    if size_bytes <= 0:
        return 0.0
    return link.overhead_s + link.latency_s + link.transfer_s((size_bytes,))


def _by_tier(
    name: str, values: Mapping[str, ArrayLike], columns: int | None = None
) -> Mapping[str, FloatArray]:
    _check_tiers(name, values, "its seconds")
    return {tier: check_layers(f"{name} of {tier}", values[tier], columns) for tier in TIERS}


def _check_tiers(name: str, values: Mapping[str, object], what: str) -> None:
    """Refuse values that do not map every tier to `what` it has."""
    if not isinstance(values, Mapping) or set(values) != set(TIERS):
        names = ", ".join(map(str, values)) if isinstance(values, Mapping) else repr(values)
        raise UserError(f"{name} is for {names}; map each of {', '.join(TIERS)} to {what}")


def _by_pair(links: Mapping[Pair, Link]) -> Mapping[Pair, Link]:
    if not isinstance(links, Mapping) or not all(
        isinstance(pair, tuple) and len(pair) == 2 and isinstance(link, Link)
        for pair, link in links.items()
    ):
        raise UserError(f"links is {links!r}; map pairs of tiers to links, such as {EXAMPLE}")
    by_pair = {}
    for (a, b), link in links.items():
        if (pair := _pair(a, b)) in by_pair:
            raise UserError(f"links names {a} and {b} twice; it is the same both ways")
        plain = Link(link.bandwidth_bps, link.overhead_s, latency_s=link.latency_s)
        if link != plain or isinstance(link.bandwidth, Schedule):
            raise UserError(
                f"the link between {a} and {b} has more than a constant bandwidth, an overhead and "
                "a latency; plans count these alone"
            )
        by_pair[pair] = link
    missing = [f"{a} and {b}" for a, b in PAIRS if (a, b) not in by_pair]
    if missing:
        raise UserError(f"links lacks the link between {'; '.join(missing)}")
    return {pair: by_pair[pair] for pair in PAIRS}


def _pair(a: str, b: str) -> Pair:
    pair = (a, b) if (a, b) in PAIRS else (b, a)
    if pair not in PAIRS:
        raise UserError(f"no link between {a!r} and {b!r}; the tiers are {', '.join(TIERS)}")
    return pair


def _sums(values: FloatArray) -> FloatArray:
    """[..., m]: sum of the first m values of the last axis."""
    sums = np.zeros((*values.shape[:-1], values.shape[-1] + 1))
    np.cumsum(values, axis=-1, out=sums[..., 1:])
    return _read_only(sums)


def _read_only(array: FloatArray) -> FloatArray:
    array.setflags(write=False)
    return array


def links_through_edge(
    device_edge_bps: float, edge_cloud_bps: float, overhead_s: float = 0.0
) -> dict[Pair, Link]:
    """Links between all tiers, of which device and cloud reach each other through the edge.

    The paper names the links device-edge and edge-cloud only. The edge forwards packets, as any
    router does, so the slower of the two decides.
    """
    device_edge_bps = check_number("device_edge_bps", device_edge_bps)
    edge_cloud_bps = check_number("edge_cloud_bps", edge_cloud_bps)
    bandwidths_bps = {
        ("device", "edge"): device_edge_bps,
        ("edge", "cloud"): edge_cloud_bps,
        ("device", "cloud"): min(device_edge_bps, edge_cloud_bps),
    }
    return {pair: Link(bps, overhead_s) for pair, bps in bandwidths_bps.items()}


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
        The two links; device and cloud reach what the slower one does.
    batch
        Samples per iteration.
    backward_over_forward
        As in `LayerTimes.from_flops`; None takes the backward FLOPs as they are counted.
    overhead_s
        Seconds that each message costs beside its bytes.
    """
    from workbench.profiles import LayerTimes, ModelProfile

    check_kind("profile", profile, ModelProfile, "profile_model(name or module)")
    _check_tiers("flops_per_s", flops_per_s, "its FLOP/s")
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
    from workbench.profiles import LayerTimes, ModelProfile

    check_kind("profile", profile, ModelProfile, "profile_model(name or module)")
    _check_tiers("times", times, "its LayerTimes")
    for tier, timed in times.items():
        check_kind(f"times of {tier}", timed, LayerTimes, "LayerTimes, as by measure_layer_times")
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
        links=links_through_edge(device_edge_bps, edge_cloud_bps, overhead_s),
        batch=batch,
    )


Devices = Sequence[tuple[Problem, float]]
"""Devices as pairs of a problem and a share of the samples.

Each problem describes a device that holds all samples. Problems have the same model, batch, edge
and cloud; shares sum to 1.
"""


def as_one(devices: Devices) -> Problem:
    """Return the problem of several devices, each with its own samples and over its own links.

    What HierTrain names as future work (Liu et al. 2020, VIII). All devices have the same layers.
    One that holds a share q of all samples computes q b of any b samples of its tier, sends q b of
    any b that another tier takes, and, if devices are worker o, takes further the features of its
    own. So to a planner they are one device, which takes as long as the slowest of them in every
    term of Eqs. (5)-(11), and whose gradients are averaged, whole whatever the share: by worker o
    or, if that is the devices, by the edge or the cloud.

    Raises UserError: their shares do not sum to 1, or they have other layers or batches.
    """
    pairs = "give pairs of a Problem and its share of the samples"
    for device in listed("devices", devices, pairs):
        if not isinstance(device, tuple | list) or len(device) != 2:
            raise UserError(f"devices has a {type(device).__name__}; {pairs}")
        check_problem(device[0])
    problems = [problem for problem, _ in devices]
    shares = [check_range("share", share, 0, 1, " of all samples") for _, share in devices]
    if abs(sum(shares) - 1) > 1e-9:
        raise UserError(f"devices hold {sum(shares):g} of the samples; their shares sum to 1")
    first, *others = problems
    if not others:
        return first
    if len({(problem.layers, problem.batch) for problem in problems}) > 1:
        raise UserError("devices are of other layers or batches; make them from one model")

    def slowest(pair: Pair, shares: Sequence[float]) -> Link:
        links = [problem.links[pair] for problem in problems]
        byte_s = max(
            share * link.transfer_s((1.0,)) for link, share in zip(links, shares, strict=True)
        )
        return Link(
            8 / byte_s if byte_s else math.inf,
            max(link.overhead_s for link in links),
            latency_s=max(link.latency_s for link in links),
        )

    whole_share = [1.0] * len(devices)
    own = {tier: slowest(("device", tier), whole_share) for tier in SERVERS}
    return replace(
        first,
        layer_s={
            **first.layer_s,
            "device": np.max([share * problem.layer_s["device"] for problem, share in devices], 0),
        },
        update_s={
            **first.update_s,
            "device": np.max([problem.update_s["device"] for problem in problems], axis=0),
        },
        links={
            **{("device", tier): slowest(("device", tier), shares) for tier in SERVERS},
            ("edge", "cloud"): slowest(("edge", "cloud"), whole_share),
        },
        averaging=Averaging(min(SERVERS, key=lambda tier: own[tier].transfer_s((1.0,))), own),
    )
