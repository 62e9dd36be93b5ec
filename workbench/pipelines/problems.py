"""Problems of pipelines: a model and a cluster, by hand or from a profile and layer times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from workbench.clusters import Link
from workbench.pipelines.schedules import Recompute
from workbench.profiles import LayerTimes, ModelProfile
from workbench.sharding.problem import FloatArray, LayersOnNodes, shaped
from workbench.utils.checks import (
    NOT_NEGATIVE,
    UserError,
    at_least,
    check_kind,
    check_number,
    check_whole,
    listed,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

ROUNDING = 1e-9
"""Difference from 1 of shares that sum to 1."""

Needed = Callable[[int, int, int, int, Recompute], float]
"""Bytes that a stage needs at its peak.

Its arguments are the first and the last layer, samples of a micro-batch on the node, micro-batches
in flight, and whether and how the stage recomputes.
"""


class Shared(NamedTuple):
    """Capacity that messages between several pairs of nodes share, such as a network interface."""

    bandwidth_bps: float
    pairs: frozenset[tuple[int, int]]


class Sums(NamedTuple):
    """Seconds (N, L + 1) and trained bytes (L + 1,), summed: entry l is of the layers 1 to l.

    Layers below the first trained one have no backward pass.
    """

    forward_s: FloatArray
    backward_s: FloatArray
    forward_fixed_s: FloatArray
    backward_fixed_s: FloatArray
    update_s: FloatArray
    param_bytes: FloatArray


def _owners(name: str, owners: Any) -> dict[int, float]:
    if not isinstance(owners, Mapping | None):
        raise TypeError(f"{name} is {owners!r}; give shares by node, such as {{0: 1.0}}")
    shares = {
        check_whole("owner", owner, 0): check_number("share of an owner", share)
        for owner, share in (owners or {}).items()
    }
    if shares and not (min(shares.values()) >= 0 and abs(sum(shares.values()) - 1) < ROUNDING):
        raise UserError(f"shares of owners are {shares}; give shares that sum to 1")
    return shares


def _shared(name: str, capacities: Any) -> tuple[Shared, ...]:
    several = listed(name, capacities, "give (Shared(bandwidth_bps, pairs),)")
    for capacity in several:
        check_kind(name, capacity, Shared, "a Shared")
        if not capacity.bandwidth_bps > 0:
            raise UserError(f"{name} has {capacity}; give a bandwidth above 0")
    return several


def _function(name: str, function: Any) -> Needed | None:
    if not (function is None or callable(function)):
        raise TypeError(f"{name} is {function!r}; give a function, or None")
    return function  # type: ignore[no-any-return]


# N = node, L = layer
@dataclass(frozen=True, eq=False, kw_only=True)
class Problem(LayersOnNodes):
    """A model and a cluster, as a pipeline sees them.

    Parameters
    ----------
    forward_s, backward_s
        Seconds of one sample in each layer on each node, shape (N, L).
    update_s
        Seconds of an update of each layer's weights on each node, shape (N, L).
    param_bytes, memory_bytes
        As for `LayersOnNodes`.
    output_bytes
        Bytes of a sample that cross the cut behind each layer, shape (L,); gradients are as large.
    links
        Links by source and target, each direction its own; nodes without a link send nothing to
        each other.
    batch
        Samples of a step.
    forward_fixed_s, backward_fixed_s
        Seconds of each pass through each layer beside those of its samples, however many these are,
        shape (N, L); by default none.
    owners
        Share of the samples that each owner has; by default all nodes have all. Owners that train
        nothing have numbers from N on. They send samples to the nodes of the first stage.
    sample_bytes
        Bytes of a sample's inputs, as owners send them.
    shared
        Capacities that links share; by default none.
    tied
        Weights that several layers use. Where these are in several stages, all nodes that hold the
        weight sum its gradients (Narayanan et al. 2021).
    first_trained
        First layer, from 1, with a trained weight: layers below it have no backward pass.
    needed
        Bytes that a stage needs; by default not known, and any plan fits.
    """

    output_bytes: FloatArray = field(metadata=shaped("layers"))
    batch: int = field(metadata=at_least(1))
    forward_fixed_s: FloatArray | None = field(
        default=None, metadata=shaped("nodes", "layers", optional=True)
    )
    backward_fixed_s: FloatArray | None = field(
        default=None, metadata=shaped("nodes", "layers", optional=True)
    )
    owners: Mapping[int, float] | None = field(default=None, metadata={"check": _owners})
    shared: tuple[Shared, ...] = field(default=(), metadata={"check": _shared})
    sample_bytes: float = field(default=0.0, metadata=NOT_NEGATIVE)
    first_trained: int = field(default=1, metadata=at_least(1))
    needed: Needed | None = field(default=None, metadata={"check": _function})

    def __post_init__(self) -> None:
        super().__post_init__()
        outside = sorted(owner for owner in self.owners or {} if owner >= self.nodes)
        if outside != list(range(self.nodes, self.places)):
            raise UserError(
                f"owners has {outside}; those that train nothing have numbers from {self.nodes} on"
            )
        pairs = set(permutations(range(self.places), 2))
        for capacity in self.shared:
            if not capacity.pairs <= pairs:
                raise UserError(
                    f"shared has {capacity}; give pairs of nodes, from 0 to {self.places - 1}"
                )
        if self.first_trained > self.layers:
            raise UserError(f"first_trained is {self.first_trained}; layers are 1 to {self.layers}")

    @property
    def places(self) -> int:
        """Number of nodes and of owners that train nothing."""
        return max([self.nodes, *(owner + 1 for owner in self.owners or {})])

    @cached_property
    def sums(self) -> Sums:
        """Sums over layers."""
        frozen, none = self.first_trained - 1, np.zeros_like(self.forward_s)

        def summed(seconds: FloatArray | None, first: int = 0) -> FloatArray:
            table = (none if seconds is None else seconds).copy()
            table[:, :first] = 0
            return np.pad(table.cumsum(axis=1), ((0, 0), (1, 0)))

        return Sums(
            summed(self.forward_s),
            summed(self.backward_s, frozen),
            summed(self.forward_fixed_s),
            summed(self.backward_fixed_s, frozen),
            summed(self.update_s),
            np.pad(self.param_bytes.cumsum(), (1, 0)),
        )


def first_trained_layer(profile: ModelProfile) -> int:
    """First layer of a model with a trained weight, from 1; 1 if there is none."""
    trained = np.flatnonzero(profile.table["param_bytes"].to_numpy())
    return int(trained[0]) + 1 if len(trained) else 1


def problem_of(
    profile: ModelProfile,
    times: Sequence[LayerTimes],
    links: Mapping[tuple[int, int], Link],
    batch: int,
    *,
    memory_bytes: ArrayLike | None = None,
    needed: Needed | None = None,
) -> Problem:
    """Return the problem of a model on some nodes.

    Parameters
    ----------
    profile
        The model; from `workbench.profiles.profile_model`.
    times
        Layer times of each node, measured or by `LayerTimes.from_flops`, at any batch size. Each
        sample takes its share of them.
    links
        Links by source and target; nodes are numbered in the order of `times`.
    batch
        Samples of a step.
    memory_bytes
        Memory of each node, shape (N,); by default without limit.
    needed
        Bytes that a stage needs, as `stage_memory` counts them; by default not known.

    Raises
    ------
    UserError
        Layer times of another model, or none.
    """
    check_kind("profile", profile, ModelProfile, "profile_model(name or module)")
    nodes = listed("times", times, "give LayerTimes for each node")
    if not nodes:
        raise UserError("times is empty; give LayerTimes for each node")
    for number, timed in enumerate(nodes):
        check_kind(f"times of node {number}", timed, LayerTimes, "LayerTimes.from_flops(...)")
        if timed.layers != profile.layers:
            raise UserError(
                f"times of node {number} are of {timed.name} ({len(timed)} layers), the profile is "
                f"of {profile.name} ({len(profile)} layers); make both from one model"
            )
    forward_s, backward_s = (
        np.array([timed.table[column].to_numpy() / timed.batch_size for timed in nodes])
        for column in ("forward_s", "backward_s")
    )
    return Problem(
        forward_s=forward_s,
        backward_s=backward_s,
        update_s=np.array([timed.table["update_s"].to_numpy() for timed in nodes]),
        param_bytes=profile.table["param_bytes"].to_numpy(),
        output_bytes=profile.table["output_bytes"].to_numpy(),
        links=links,
        batch=batch,
        sample_bytes=profile.sample_bytes,
        tied=profile.tied,
        first_trained=first_trained_layer(profile),
        memory_bytes=memory_bytes,  # type: ignore[arg-type]  # any numbers become an array
        needed=needed,
    )
