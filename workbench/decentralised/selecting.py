"""What a node learns from in an epoch: the seam for systems that choose their samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from workbench.training.repeatable import SHUFFLE

if TYPE_CHECKING:
    from workbench.datasets import Dataset
    from workbench.decentralised.setup import Gossip
    from workbench.training import FlatModel

State = TypeVar("State")

Batches = Sequence[NDArray[np.int64]]
"""Indices into the training samples, a batch each; none for an epoch without learning."""


class Learnt(NamedTuple):
    """An epoch's learning: samples, and the virtual seconds from the first batch to the last."""

    samples: int
    seconds: float


@dataclass(frozen=True, eq=False)
class View:
    """What a node knows when it chooses.

    Attributes
    ----------
    node, now_s
        Who, and when: virtual seconds since the run began.
    flat
        Its present model; to be read, not changed.
    setup, shard
        Of whose training samples `shard` has the indices.
    sample_s
        Seconds that learning from a sample takes at speed 1.
    last
        The epoch before; None in the first since the node (re)started.
    reports
        Newest report of each node that this one has heard of, itself included.
    """

    node: int
    now_s: float
    flat: FlatModel
    setup: Gossip
    shard: NDArray[np.int64]
    batch_size: int
    sample_s: float
    last: Learnt | None
    reports: Mapping[int, Any]

    @property
    def dataset(self) -> Dataset:
        """What `shard` indexes."""
        return self.setup.dataset


class Selecting(Protocol[State]):
    """Chooses what each node learns from, state in and state out.

    A node that restarts begins anew.
    """

    def fitted(self, setup: Gossip) -> Self:
        """What runs in a training: itself, or a copy with what it takes from the setup.

        Called before anything runs, so that it can refuse a setup.
        """
        ...

    def begin(self, node: int) -> State:
        """First state of a node."""
        ...

    def report(self, state: State, epoch: int, view: View) -> Any:
        """What others should know before the epoch that follows `epoch`; None for nothing.

        Asked before the first epoch, as of epoch 0, and after each. Reports travel with the models
        and are forwarded: with one exchange an epoch, those of peers are there when the next epoch
        begins, others one epoch later per hop. They are a few numbers, and cost no bytes.
        """
        ...

    def step(self, state: State, epoch: int, view: View) -> tuple[State, Batches, float]:
        """Next state, the batches of an epoch (from 1), and seconds at speed 1 that choosing took.

        The node is occupied for those seconds before it learns.
        """
        ...


@dataclass(frozen=True)
class EverySample:
    """All samples of the shard each epoch, shuffled by seed, node and epoch.

    The last batch holds what is left.
    """

    seed: int = 0

    def fitted(self, setup: Gossip) -> Self:
        """Fits any."""
        return self

    def begin(self, node: int) -> None:
        """No state."""

    def report(self, state: None, epoch: int, view: View) -> None:
        """No report."""

    def step(self, state: None, epoch: int, view: View) -> tuple[None, Batches, float]:
        """Shuffle, and deal into batches."""
        return None, shuffled(view.shard, self.seed, epoch, view), 0.0


def shuffled(points: NDArray[np.int64], seed: int, epoch: int, view: View) -> Batches:
    """Deal points into a node's batches of an epoch in random order; the last has what is left."""
    stream = np.random.SeedSequence(seed, spawn_key=(SHUFFLE, epoch, view.node))
    order = np.random.default_rng(stream).permutation(points)
    return np.split(order, range(view.batch_size, len(order), view.batch_size))
