"""Samples that a node learns from in an epoch: the seam for systems that choose them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from workbench.training.repeatable import SHUFFLE

if TYPE_CHECKING:
    from workbench.datasets import Dataset
    from workbench.decentralised.learner import PeerLearner
    from workbench.decentralised.setup import EpochSetup
    from workbench.training import FlatModel

State = TypeVar("State")

Batches = Sequence[NDArray[np.int64]]
"""Indices into the training samples, a batch each; none for an epoch without learning."""


class LastEpoch(NamedTuple):
    """A node's learning in an epoch: samples, and when it began and ended in virtual seconds."""

    samples: int
    began_s: float
    ended_s: float

    @property
    def seconds(self) -> float:
        """Seconds from the first batch to the last."""
        return self.ended_s - self.began_s


@dataclass(frozen=True, eq=False)
class View:
    """Knowledge of a node when it chooses."""

    node: int
    now_s: float  # virtual seconds since the run began
    flat: FlatModel  # its present model; to be read, not changed
    setup: EpochSetup
    shard: NDArray[np.int64]  # indices of its training samples
    batch_size: int
    sample_s: float  # seconds that learning from a sample takes at speed 1
    last: LastEpoch | None = None  # the epoch before; None in the first since the node (re)started
    decision: Any = None  # the coordinator's newest; None without one

    @property
    def dataset(self) -> Dataset:
        """The data set that `shard` indexes."""
        return self.setup.dataset


def view_of(setup: EpochSetup, learner: PeerLearner, now_s: float = 0.0, **known: Any) -> View:
    """Return the view of a node; `known` are other fields of `View`."""
    node = learner.node
    sizes = setup.batch_size, setup.seconds_per_sample[node]
    return View(node, now_s, learner.flat, setup, setup.held[node], *sizes, **known)


class MakeSelector(Protocol):
    """Options of a selection, which make the `Selector` of a training."""

    def fitted(self, setup: Any) -> Selector[Any]:
        """Return the selector for a training of this setup, or refuse the setup."""


class Selector(Protocol[State]):
    """Chooses the samples that each node learns from, state in and state out.

    A node that restarts begins again with `begin`. If the selector is `Coordinated`, too, each view
    has the decision of a coordinator.
    """

    def begin(self, node: int) -> State:
        """First state of a node."""

    def step(self, state: State, epoch: int, view: View) -> tuple[State, Batches, float]:
        """Next state, the batches of an epoch (from 1), and seconds at speed 1 that choosing took.

        The node is occupied for those seconds before it learns.
        """


@dataclass(frozen=True)
class EverySample:
    """All samples of the shard each epoch, shuffled by seed, node and epoch.

    The last batch holds what is left.
    """

    seed: int = 0

    def fitted(self, setup: Any) -> EverySample:
        """Return itself."""
        return self

    def begin(self, node: int) -> None:
        """No state."""

    def step(self, state: None, epoch: int, view: View) -> tuple[None, Batches, float]:
        """Shuffle, and deal into batches."""
        return None, shuffled(view.shard, self.seed, epoch, view), 0.0


def shuffled(points: NDArray[np.int64], seed: int, epoch: int, view: View) -> Batches:
    """Deal points into a node's batches of an epoch in random order; the last has what is left."""
    stream = np.random.SeedSequence(seed, spawn_key=(SHUFFLE, epoch, view.node))
    order = np.random.default_rng(stream).permutation(points)
    return np.split(order, range(view.batch_size, len(order), view.batch_size))
