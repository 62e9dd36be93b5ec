"""Makes the programs of a training run and what they learn with."""

from __future__ import annotations

from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from workbench import training
from workbench.clusters.checks import whole
from workbench.dynacomm.algorithms import PLANNERS
from workbench.dynacomm.programs.worker_and_server import Fixed, Planning, server, worker
from workbench.dynacomm.replanning.planning import PLANNING_S, Replanned, check_planning
from workbench.dynacomm.replanning.profiling import Profile
from workbench.dynacomm.replanning.rates import Rate
from workbench.dynacomm.training.learning import ServerStore, WorkerReplica
from workbench.dynacomm.training.setup import Setup, check_setup
from workbench.names import choose
from workbench.runtime import Program, Synchronized
from workbench.training.draws import must_stay_in_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.dynacomm.algorithms import Planner
    from workbench.dynacomm.programs.job import Job

Every = int | Literal["auto", "epoch"] | None
"""Iterations under one plan; None: all; ``"auto"``: an epoch's for the planners of `REPLANS`."""

REPLANS = ("dynacomm",)
"""Whose plans are made anew in each epoch unless told; the paper makes the others' but once."""


class Built(NamedTuple):
    """A run before it starts.

    Attributes
    ----------
    programs
        One per node of the cluster.
    states
        What the workers learn with: a `WorkerReplica` each, whose steps may run beside each other.
    stores
        What the servers learn with.
    ends
        Iterations until the end of each epoch.
    flat
        The model with its first weights.
    """

    programs: list[Program]
    states: list[Synchronized[WorkerReplica]]
    stores: list[ServerStore]
    ends: tuple[int, ...]
    flat: training.FlatModel

    @property
    def replicas(self) -> list[WorkerReplica]:
        """What the workers learn with, once the steps that were asked for are done."""
        return [state.value for state in self.states]


def build(
    setup: Setup,
    planner: str = "dynacomm",
    *,
    replan_every: Every = "auto",
    planning_s: float = PLANNING_S,
) -> Built:
    """Make the programs of a run and what they learn with; arguments and errors as for `train`."""
    check_setup(setup)
    chosen = choose("planner", planner, PLANNERS)
    check_planning(planning_s)
    every = _interval(replan_every, planner)
    flat = training.flatten(setup.made(), setup.dataset.input_shape)
    most = max(high - low for low, high in pairwise(flat.layout.starts))
    if setup.servers > most:
        raise ValueError(
            f"servers is {setup.servers}; the largest layer has {most} parameters to share out, so "
            "give at most as many servers"
        )
    batches = [_batches(setup, one) for one in range(setup.workers)]
    ends = tuple(accumulate(len(epoch) for epoch in batches[0]))
    epoch_ends = [end - 1 for end in ends]
    job = setup.job(ends[-1], flat.layout.starts)
    in_order = must_stay_in_order(flat, setup.dataset)
    states = [
        Synchronized(
            WorkerReplica(
                flat.replica(),
                setup.dataset,
                list(chain.from_iterable(batches[one])),
                (setup.seed, one),
                epoch_ends,
                node.name,
                in_order,
            ),
            in_order=in_order,
        )
        for one, node in enumerate(setup.nodes)
    ]
    stores = list(_stores(setup, job, flat, epoch_ends))
    planning = _planning(setup, job, chosen, ends[0] if every == "epoch" else every, planning_s)
    programs = [
        *(worker(job, planning, state) for state in states),
        *(server(job, position, store) for position, store in enumerate(stores)),
    ]
    return Built(programs, states, stores, ends, flat)


def _stores(
    setup: Setup, job: Job, flat: training.FlatModel, epoch_ends: list[int]
) -> Iterator[ServerStore]:
    """What each server learns with: all in the same vectors, of which each has its own parts."""
    first: ServerStore | None = None
    for position in range(setup.servers):
        own = job.shards.slices(position, 1, job.layers)
        vector = flat.parameters.clone() if first is None else first.vector
        store = ServerStore(vector, own, setup.sgd, epoch_ends)
        first = first or store
        store.velocity, store.total = first.velocity, first.total
        yield store


def _interval(replan_every: Every, planner: str) -> int | Literal["epoch"] | None:
    if replan_every == "auto":
        return "epoch" if planner in REPLANS else None
    if replan_every is None or replan_every == "epoch":
        return replan_every
    count = whole(replan_every)
    if count is None or count < 1:
        raise ValueError(
            f"replan_every is {replan_every!r}; give a whole number of iterations of at least 1, "
            "'epoch', None to keep the first plan, or 'auto'"
        )
    return count


def _planning(
    setup: Setup, job: Job, planner: Planner, every: int | None, planning_s: float
) -> Planning[Any]:
    if every is None:
        return Fixed(planner(setup.costs))
    rate = Rate(setup.link.overhead_s, setup.first_bps, setup.link.tensor_s)
    believed = Profile.before(job, rate, window=every)
    return Replanned(job, believed, every, planner, planning_s)


def _batches(setup: Setup, one: int) -> list[list[np.ndarray]]:
    return [
        training.batches(
            setup.dataset,
            setup.batch_size,
            setup.seed,
            epoch,
            worker=one,
            workers=setup.workers,
        )
        for epoch in range(setup.epochs)
    ]
