"""EdgeGossip in one call: a model, data and unequal platforms; true learning, virtual time.

>>> from workbench import datasets
>>> from workbench.edgegossip import Platform, Predictor, train
>>> digits = datasets.load("digits").limit(train=120, test=20).fitted((1, 28, 28))
>>> slows = Predictor("linear", 4, 1e7, 1e8, (1.0, 0.5, 0.5), baseline_s=0.02)
>>> fast = Predictor("linear", 4, 1e7, 1e8, (1.0, 0.5, 0.5), baseline_s=0.01)
>>> trained = train("lenet5", digits, [Platform("pi", slows), Platform("server", fast)])
>>> trained.epochs["samples"].to_list()
[30, 60]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench import decentralised
from workbench.clusters.checks import check_number
from workbench.datasets import partition
from workbench.datasets.checks import check_dataset
from workbench.decentralised import GossipSetup, Trained, TrainingError
from workbench.decentralised.mixing import Mixing, as_mixing
from workbench.edgegossip.costs.platforms import Platform, cluster
from workbench.edgegossip.programs.membership import Indices, check_platforms, check_shards
from workbench.edgegossip.programs.trainer import EdgeGossip
from workbench.names import UnknownNameError, check_name

if TYPE_CHECKING:
    from collections.abc import Callable

    import networkx as nx
    import torch
    from numpy.typing import ArrayLike

    from workbench.datasets import Dataset
    from workbench.runtime import Fault
    from workbench.runtime.progress import Progress

__all__ = ["Built", "Trained", "TrainingError", "build", "train"]

_OURS = [one.name for one in fields(EdgeGossip) if one.name not in ("platforms", "shards", "seed")]
_GIVEN = ("model", "dataset", "shards", "cluster", "mixing", "probability", "sample_s")
_GOSSIPS = [
    one.name
    for one in fields(GossipSetup)
    if one.name not in (*_GIVEN, "flops_per_s", "backward_over_forward")
]


class Built(NamedTuple):
    """A training before it starts: both parts of the same platforms.

    Attributes
    ----------
    setup
        By itself plain gossip training, in which each platform learns from all its samples.
    selecting
        EdgeGossip's part.
    """

    setup: GossipSetup
    selecting: EdgeGossip


def train(
    model: str | torch.nn.Module | Callable[[], torch.nn.Module],
    dataset: Dataset,
    platforms: Sequence[Platform],
    *,
    faults: Iterable[Fault] = (),
    trace: bool = False,
    progress: Progress | bool = False,
    threads: int | None = None,
    **options: Any,
) -> Trained:
    """Train on unequal platforms, each learning from what matters most in equal time.

    Parameters
    ----------
    model, dataset
        As for `workbench.decentralised.GossipSetup`.
    platforms
        Who learns: how fast each is, and what co-runs with it.
    faults, trace, progress, threads
        As for `workbench.decentralised.train`. With faults that lose something give `patience_s`.
    **options
        As for `build`.

    Returns
    -------
    Trained
        As `workbench.decentralised.train` returns it. Its ``samples`` show the balance. Ctrl-C ends
        a run without an error: ``run.interrupted`` tells, and the epochs that were done are there.

    Raises
    ------
    ValueError
        As `build` raises it; faults that lose something, without `patience_s`.
    TrainingError
        The loss is not finite any more, or too many platforms have failed, or all; the error's
        `trained` has the epochs that were done.
    """
    built = build(model, dataset, platforms, **options)
    return decentralised.train(
        built.setup,
        built.selecting,
        faults=faults,
        trace=trace,
        progress=progress,
        threads=threads,
    )


def build(
    model: str | torch.nn.Module | Callable[[], torch.nn.Module],
    dataset: Dataset,
    platforms: Sequence[Platform],
    *,
    shards: Sequence[Indices] | None = None,
    mixing: Mixing | ArrayLike | nx.Graph | None = None,
    uplink_bps: float = 1e9,
    overhead_s: float = 0.001,
    seed: int = 0,
    **options: Any,
) -> Built:
    """Make the gossip training and EdgeGossip's part in it.

    Parameters
    ----------
    model, dataset, platforms
        As for `train`.
    shards
        Training samples of each platform; by default as many each, dealt out at random.
    mixing
        Who exchanges models with whom: a graph, a doubly stochastic matrix or a
        `decentralised.Mixing`.
        By default all with all. The network links all in any case.
    uplink_bps, overhead_s
        What each platform sends with, shared among its peers, and seconds of each transmission.
    seed
        Of shards, weights and whatever is drawn.
    **options
        Of `EdgeGossip` (``strategy``, ``technique``, ``ratio``, ``on_failures``, ...) and of
        `GossipSetup` (``epochs``, ``batch_size``, ``sgd``, ``patience_s``, ...), by name.

    Raises
    ------
    workbench.names.UnknownNameError
        An option that neither has, or ``probability``: EdgeGossip needs a mixing.
    ValueError
        What `EdgeGossip` or `GossipSetup` refuses, or a bandwidth that cannot be.
    """
    if "probability" in options:
        raise UnknownNameError(
            "unknown option 'probability': EdgeGossip balances epoch by epoch, but in GoSGD no "
            "exchange is waited for, so reports may come late or never; leave it out, and give "
            "mixing=... for other peers than all"
        )
    for name in options:
        check_name("option", name, [*_OURS, *_GOSSIPS])
    check_dataset(dataset)
    members = check_platforms(platforms)
    if shards is None:
        shards = partition.by_size(dataset.y_train, [1] * len(members), seed=seed)
    if not check_number("uplink_bps", uplink_bps) > 0:
        raise ValueError(f"uplink_bps is {uplink_bps}; give bits per second above 0")
    ours = {name: given for name, given in options.items() if name in _OURS}
    gossips = {name: given for name, given in options.items() if name in _GOSSIPS}
    setup = GossipSetup(
        model,
        dataset,
        check_shards(members, shards),
        cluster(members, uplink_bps, overhead_s),
        mixing=as_mixing(decentralised.complete(len(members)) if mixing is None else mixing),
        sample_s=[one.sample_s for one in members],
        seed=seed,
        **gossips,
    )
    selecting = EdgeGossip(members, setup.shards, seed=seed, **ours)
    return Built(setup, selecting)
