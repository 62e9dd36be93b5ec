"""Training on unequal platforms: true learning, virtual time.

>>> from workbench import datasets
>>> from workbench.edgegossip import Platform, Predictor, Setup, train
>>> digits = datasets.load("digits").limit(train=120, test=20).fitted((1, 28, 28))
>>> slows = Predictor("linear", 4, 1e7, 1e8, (1.0, 0.5, 0.5), baseline_s=0.02)
>>> fast = Predictor("linear", 4, 1e7, 1e8, (1.0, 0.5, 0.5), baseline_s=0.01)
>>> setup = Setup("lenet5", digits, [Platform("pi", slows), Platform("server", fast)])
>>> train(setup).epochs["samples"].to_list()
[30, 60]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from workbench import training
from workbench.clusters.cluster import check_cluster
from workbench.decentralised import MakeSelector, Trained, TrainingError
from workbench.decentralised.setup import EpochSetup
from workbench.decentralised.training import EpochPrograms, epoch_programs
from workbench.edgegossip.costs import platforms as kinds
from workbench.edgegossip.costs.platforms import Platform
from workbench.edgegossip.programs.trainer import EdgeGossip
from workbench.training import RunOptions
from workbench.utils.checks import ABOVE_ZERO, UserError, check_kind, listed

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.clusters import Cluster
    from workbench.runtime import Fault
    from workbench.runtime.progress import Progress

__all__ = ["Setup", "Trained", "TrainingError", "train"]


@dataclass(frozen=True, eq=False)
class Setup(EpochSetup):
    """A training on unequal platforms.

    Attributes
    ----------
    model, dataset, objective, outputs, epochs, sgd, seed, parallel
        As for `workbench.training.Setup`.
    platforms
        A `Platform` for each node: how fast it is, and what co-runs with it.
    shards, patience_s, exchange, batch_size, evaluate_every
        As for `workbench.decentralised.GossipSetup`. With EdgeGossip, nodes learn from unequal
        numbers of samples, which `Gossip`, `GoSgd` and `AdPsgd` allow.
    uplink_bps, overhead_s
        Bit/s that a platform sends, shared among its peers, and seconds of each transmission.
    cluster
        Nodes and links of one's own, in place of all platforms linked so; a platform that its load
        or `slower` slows needs a node of its `speed`.
    """

    platforms: Sequence[Platform]
    uplink_bps: float = field(default=1e9, metadata=ABOVE_ZERO)
    overhead_s: float = 0.001
    cluster: Cluster | None = None

    def __post_init__(self) -> None:
        instead = "give a list with an edgegossip.Platform for each node"
        platforms = listed("platforms", self.platforms, instead)
        if not platforms:
            raise UserError("there are no platforms; give at least one")
        for platform in platforms:
            if not isinstance(platform, Platform):
                raise UserError(f"a platform is {platform!r}; give an edgegossip.Platform")
        object.__setattr__(self, "platforms", platforms)
        super().__post_init__()

    @cached_property
    def network(self) -> Cluster:
        """The platforms and links."""
        if self.cluster is None:
            return kinds.cluster(self.platforms, self.uplink_bps, self.overhead_s)
        nodes = list(check_cluster(self.cluster).names)
        names = [platform.name for platform in self.platforms]
        if len(names) != len(nodes) or (nodes != names and sorted(nodes) == sorted(names)):
            raise UserError(
                f"the platforms are {', '.join(names)}, the cluster's nodes {', '.join(nodes)}; "
                "give as many, in the same order"
            )
        for platform, node in zip(self.platforms, self.cluster.nodes, strict=True):
            if set(platform.speed.values) != {1.0} and node.speed_over_time != platform.speed:
                raise UserError(
                    f"{platform.name} is slowed by its load or slower={platform.slower:g}, but its "
                    f"node in the cluster is not; give Node({node.name!r}, speed=platform.speed), "
                    "or leave cluster out"
                )
        return self.cluster

    @property
    def seconds_per_sample(self) -> tuple[float, ...]:
        """Seconds to learn from a sample at speed 1, by platform."""
        return tuple(platform.sample_s for platform in self.platforms)

    def programs(self, how: MakeSelector | None = None) -> EpochPrograms:
        """Programs of the platforms: plain gossip's, or those of `how`, an `EdgeGossip`."""
        return epoch_programs(self, how)


def train(
    setup: Setup,
    how: EdgeGossip | None = None,
    *,
    faults: Iterable[Fault] = (),
    trace: bool = False,
    progress: Progress | bool = False,
    threads: int | None = None,
) -> Trained[tuple[Tensor, ...]]:
    """Train on unequal platforms, each learning from what matters most in equal time.

    Parameters
    ----------
    setup
        Model, data and platforms. ``decentralised.train(setup)`` is plain gossip on them.
    how
        Options of EdgeGossip, which are its defaults unless given.
    faults, trace, progress, threads
        As for `workbench.decentralised.train`.

    Returns
    -------
    Trained
        As `workbench.decentralised.train` returns it; its ``samples`` show the balance.

    Raises
    ------
    TrainingError
        The loss is not finite any more, or too many platforms have failed, or all; the error's
        `trained` has the epochs that were done.
    """
    check_kind("setup", setup, Setup, "a Setup, such as Setup('lenet5', dataset, platforms)")
    how = EdgeGossip() if how is None else how
    check_kind("how", how, EdgeGossip, "options, such as EdgeGossip(ratio=5)")
    return training.train(setup, how, RunOptions(faults, trace, progress, threads))
