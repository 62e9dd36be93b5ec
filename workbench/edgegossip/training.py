"""Trains a model on unequal platforms: true learning, virtual time.

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
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from workbench import decentralised, training
from workbench.checks import check_kind
from workbench.datasets import partition
from workbench.datasets.checks import check_dataset
from workbench.decentralised import GossipSetup, Trained, TrainingError
from workbench.decentralised.mixing import Mixing, as_mixing
from workbench.edgegossip.costs.platforms import Platform, cluster
from workbench.edgegossip.programs.membership import Indices, check_platforms, check_shards
from workbench.edgegossip.programs.trainer import EdgeGossip
from workbench.names import check_name
from workbench.training import Sgd

if TYPE_CHECKING:
    import networkx as nx
    from numpy.typing import ArrayLike
    from torch import Tensor

    from workbench.clusters import Cluster
    from workbench.runtime import Fault
    from workbench.runtime.progress import Progress

__all__ = ["Setup", "Trained", "TrainingError", "select", "train"]

FROM_SETUP = ("platforms", "shards", "strategy", "mixing", "seed")
OPTIONS = [one.name for one in fields(EdgeGossip) if one.name not in FROM_SETUP]


@dataclass(frozen=True, eq=False)
class Setup(training.Setup):
    """A training on unequal platforms.

    Attributes
    ----------
    model, dataset, epochs, sgd, seed, parallel
        As for `workbench.training.Setup`.
    platforms
        Who learns: how fast each is, and what co-runs with it.
    shards
        Training samples of each platform; None deals out as many each at random.
    mixing
        Who exchanges models with whom: a graph, a doubly stochastic matrix or a
        `decentralised.Mixing`; None for all with all.
    uplink_bps, overhead_s
        What each platform sends with, shared among its peers, and seconds of each transmission.
    network
        A cluster of one's own, in place of all platforms linked so.
    batch_size, patience_s, evaluate_every
        As for `workbench.decentralised.GossipSetup`.

    Raises
    ------
    ValueError
        What a `GossipSetup` refuses; platforms that are none; an uplink that cannot be.
    """

    platforms: Sequence[Platform]
    shards: Sequence[Indices] | None = None
    mixing: Mixing | ArrayLike | nx.Graph | None = None
    uplink_bps: float = 1e9
    overhead_s: float = 0.001
    network: Cluster | None = None
    batch_size: int = 64
    sgd: Sgd = field(default_factory=lambda: Sgd(0.01, momentum=0.9), kw_only=True)
    patience_s: float | None = None
    evaluate_every: int = 1

    def __post_init__(self) -> None:
        check_dataset(self.dataset)
        object.__setattr__(self, "platforms", check_platforms(self.platforms))
        self._check_positive("uplink_bps")
        for name in ("epochs", "seed", "sgd"):  # checked there
            object.__setattr__(self, name, getattr(self.gossip, name))

    @cached_property
    def gossip(self) -> GossipSetup:
        """The same training by gossip alone: each platform learns from all its samples."""
        count = len(self.platforms)
        self._check_counts(seed=0)
        shards = self.shards
        if shards is None:
            shards = partition.by_size(self.dataset.y_train, [1] * count, seed=self.seed)
        mixing = decentralised.complete(count) if self.mixing is None else self.mixing
        network = self.network
        if network is None:
            network = cluster(self.platforms, self.uplink_bps, self.overhead_s)
        return GossipSetup(
            self.model,
            self.dataset,
            check_shards(self.platforms, shards),
            network,
            mixing=as_mixing(mixing),
            batch_size=self.batch_size,
            epochs=self.epochs,
            sgd=self.sgd,
            sample_s=[one.sample_s for one in self.platforms],
            patience_s=self.patience_s,
            evaluate_every=self.evaluate_every,
            seed=self.seed,
            parallel=self.parallel,
        )


def select(setup: Setup, strategy: str = "accuracy_aware", **options: Any) -> EdgeGossip:
    """Return EdgeGossip's part in a training; arguments as for `train`."""
    check_kind("setup", setup, Setup, "a Setup, such as Setup('lenet5', dataset, platforms)")
    for name in options:
        check_name("option", name, OPTIONS)
    shards = setup.gossip.shards
    return EdgeGossip(setup.platforms, shards, strategy=strategy, seed=setup.seed, **options)


def train(
    setup: Setup,
    strategy: str = "accuracy_aware",
    *,
    faults: Iterable[Fault] = (),
    trace: bool = False,
    progress: Progress | bool = False,
    threads: int | None = None,
    **options: Any,
) -> Trained[tuple[Tensor, ...]]:
    """Train on unequal platforms, each learning from what matters most in equal time.

    Parameters
    ----------
    setup
        What to train, on what. ``decentralised.train(setup.gossip)`` is plain gossip beside it.
    strategy
        Name in `STRATEGIES`.
    faults, trace, progress, threads
        As for `workbench.decentralised.train`. Faults that lose something need `patience_s`.
    **options
        Of `EdgeGossip`: ``technique``, ``ratio``, ``on_failures`` and others.

    Returns
    -------
    Trained
        As `workbench.decentralised.train` returns it; its ``samples`` show the balance.

    Raises
    ------
    workbench.names.UnknownNameError
        No such strategy, technique or option.
    ValueError
        What `EdgeGossip` refuses; faults that lose something, without `patience_s`.
    TrainingError
        The loss is not finite any more, or too many platforms have failed, or all; the error's
        `trained` has the epochs that were done.
    """
    selecting = select(setup, strategy, **options)
    return decentralised.train(
        setup.gossip, selecting, faults=faults, trace=trace, progress=progress, threads=threads
    )
