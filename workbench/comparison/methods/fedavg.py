"""Federated averaging: clients learn from their own samples, a server averages their models.

McMahan et al. 2017, Alg. 1, with all clients in every round and one pass over their samples (C = 1,
E = 1). The server's next model is the mean of the clients', weighted by their samples.

Deviation: buffers, such as running means of batch normalisation, which the paper does not have,
are averaged with equal weights; they cost no bytes, as in all trainings here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench import training
from workbench.comparison.cost import Phase, periods
from workbench.comparison.methods.batches import equal
from workbench.comparison.methods.method import AVERAGES, Method, Plan
from workbench.comparison.methods.rounds import check_owners, epoch_s
from workbench.comparison.methods.star import Star, with_best_server
from workbench.comparison.problem import Problem
from workbench.decentralised.learner import PeerLearner
from workbench.runtime import Fault, Message, Run
from workbench.training import Programs, Standing, Trained
from workbench.training.passes import check_finite
from workbench.training.repeatable import SHUFFLE
from workbench.training.trained import metrics_of_each, schema

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.clusters import Cluster
    from workbench.runtime import Context, Program


def client(
    server: int,
    rounds: int,
    round_s: float,
    size_bytes: float,
    learn: Callable[[Any, int], object] = lambda model, number: None,
) -> Program:
    """A client, which receives a model in each round, trains it for `round_s` and sends it back."""

    async def program(context: Context) -> None:
        for number in range(rounds):
            model = (await context.receive("model")).payload
            learnt = await context.compute(
                lambda: learn(model, number),  # noqa: B023, called before the next round
                cost_s=round_s,
                lane="learn",
                label=str(number),
            )
            context.send(server, Message(context.node, "learnt", learnt, size_bytes))

    return program


def server(
    clients: Sequence[int],
    rounds: int,
    size_bytes: float,
    average: Callable[[dict[int, Any]], Any] = lambda models: None,
    first: object = None,
) -> Program:
    """The server, which sends its model to all clients in each round and averages theirs.

    It records what `average` returns; the first two values of that are the next model.
    """

    async def program(context: Context) -> None:
        model = first
        for _ in range(rounds):
            for node in clients:
                context.send(node, Message(context.node, "model", model, size_bytes))
            arrived = {}
            for _ in clients:
                message = await context.receive("learnt")
                arrived[message.sender] = message.payload
            averaged = average({node: arrived[node] for node in clients})
            if averaged is not None:
                context.record(averaged)
                model = averaged[:2]

    return program


def together(programs: Sequence[Program]) -> Program:
    """Several programs on one node, such as a server that is a client as well."""

    async def program(context: Context) -> None:
        for task in [context.spawn(part(context)) for part in programs]:
            await task

    return program


@dataclass(frozen=True, eq=False)
class Setup(training.Setup):
    """A training by federated averaging; an epoch is a round.

    Attributes
    ----------
    shards
        Indices of each client's training samples.
    cluster
        The clients first, in the order of `shards`.
    server
        Node that averages: the one after the clients, or one of them.
    round_s
        Seconds of each client's pass over its samples, at speed 1.
    batch_size
        Samples in a client's batch.
    """

    shards: Sequence[NDArray[np.int64]] = field(kw_only=True)
    cluster: Cluster = field(kw_only=True)
    server: int = field(kw_only=True)
    round_s: Sequence[float] = field(kw_only=True)
    batch_size: int = field(default=32, kw_only=True)

    def check_faults(self, faults: Sequence[Fault], how: object) -> None:
        """Refuse faults that lose anything: the server waits for all clients."""
        training.check_losing_nothing(faults)

    def programs(self, how: None = None) -> Rounds:
        """Programs of the clients and the server."""
        flat = self.flat()
        names = self.cluster.names[: len(self.shards)]
        learners = [
            PeerLearner(
                *(node, self.seed, flat.replica(), flat.parameters, self.dataset, self.sgd, name),
                objective=self.objective,
            )
            for node, name in enumerate(names)
        ]
        counts = [len(shard) for shard in self.shards]
        size_bytes = float(flat.parameters.nbytes)
        by_node: list[list[Program]] = [[] for _ in self.cluster.nodes]
        first = flat.parameters.clone(), training.get_buffers(flat.module)
        clients = range(len(learners))
        by_node[self.server].append(
            server(clients, self.epochs, size_bytes, partial(average, counts), first)
        )
        for learner, shard, seconds in zip(learners, self.shards, self.round_s, strict=True):
            learn = learning(learner, shard, self.batch_size, self.seed)
            by_node[learner.node].append(
                client(self.server, self.epochs, seconds, size_bytes, learn)
            )
        return Rounds(self, self.cluster, [together(own) for own in by_node], flat)


def learning(
    learner: PeerLearner, shard: NDArray[np.int64], batch_size: int, seed: int
) -> Callable[[Any, int], object]:
    """A client's pass over its shuffled samples, beginning with the model it receives."""

    def learn(model: Any, number: int) -> object:
        learner.adopt(*model)
        stream = np.random.SeedSequence(seed, spawn_key=(SHUFFLE, number + 1, learner.node))
        order = np.random.default_rng(stream).permutation(shard)
        for batch in np.split(order, range(batch_size, len(order), batch_size)):
            learner.learn(batch)
        return *learner.snapshot(), learner.take_loss()

    return learn


class Round(NamedTuple):
    """The server's model at the end of a round; the loss is over the clients' samples."""

    parameters: Tensor
    buffers: dict[str, Tensor]
    loss: float  # before each step
    samples: int


def average(counts: Sequence[int], models: Mapping[int, Any]) -> Round:
    """The mean of the clients' models, weighted by their samples."""
    import torch

    total = sum(counts)
    mean = torch.zeros_like(next(iter(models.values()))[0])
    for count, (parameters, *_) in zip(counts, models.values(), strict=True):
        mean.add_(parameters, alpha=count / total)
    buffers = training.average_buffers([buffers for _, buffers, _ in models.values()])
    losses = [loss for *_, loss in models.values()]
    loss = sum(samples * (mean_loss or 0.0) for samples, mean_loss in losses) / total
    return Round(mean, buffers, loss, total)


@dataclass(frozen=True, eq=False)
class Rounds(Programs["Trained[Tensor]"]):
    """Programs of the clients and the server, and the finished rounds; `flat` is the model."""

    flat: training.FlatModel
    rows: list[tuple[Any, ...]] = field(default_factory=list)

    def observe(self, at_s: float, node: int, value: Round) -> None:
        """Evaluate the server's model at the end of a round."""
        flat, data, objective = self.flat, self.setup.dataset, self.setup.objective
        flat.parameters.copy_(value.parameters)
        training.set_buffers(flat.module, value.buffers)
        test = training.evaluate(flat.module, data.x_test, data.y_test, objective=objective)
        number = len(self.rows) + 1
        check_finite(test.loss, f"on the test samples after round {number}")
        metrics = [test.metrics[name] for name in metrics_of_each(objective)]
        self.rows.append((number, at_s, value.loss, test.loss, *metrics, value.samples))

    def standing(self) -> Standing:
        """Progress in rounds."""
        rows = self.rows
        done, planned = len(rows), self.setup.epochs
        losses = (f"loss {rows[-1][2]:.3f}",) if done else ()
        return Standing(done, planned, 100 * done // planned, losses, "rounds")

    def trained(self, run: Run) -> Trained[Tensor]:
        """The finished rounds, and the server's model.

        ``loss`` is the mean over the clients' samples, before each step.
        """
        columns = schema(("test_loss", "samples"), metrics_of_each(self.setup.objective))
        frame = pl.DataFrame(self.rows, schema=columns, orient="row")
        return Trained(frame, self.flat.parameters.clone(), run)


def plan(problem: Problem) -> Plan:
    """A server averages its clients' models, each trained for an epoch on its own samples."""
    check_owners(problem)
    samples = problem.samples
    own_s = _epochs_s(problem)

    def least_s(star: Star) -> float:
        size = problem.model_bytes
        seconds = (
            star.down.least_s(node, size) + own_s[node] + star.up.least_s(node, size)
            for node in star.remote
        )
        return max(star.interface_s, own_s.get(star.node, 0.0), *seconds)

    learnt = sum(samples.values())
    return with_best_server(problem, equal(problem), learnt, _federated, least_s)


def _epochs_s(problem: Problem) -> dict[int, float]:
    """Client -> seconds of a pass over its samples."""
    return {node: epoch_s(problem, node, count) for node, count in problem.samples.items()}


def _federated(star: Star) -> Plan:
    problem, size = star.problem, float(star.problem.model_bytes)

    def member(own_s: Mapping[int, float], node: int, rounds: int) -> Program:
        parts = []
        if node == star.node:
            parts.append(server(range(len(star.workers)), rounds, size))
        if node in own_s:
            cost_s = own_s[node] * problem.speeds[node]
            parts.append(client(star.place, rounds, cost_s, size))
        return together(parts)

    def phase(part: Problem) -> Phase:
        own_s = _epochs_s(part)

        def programs(rounds: int) -> list[Program]:
            return [member(own_s, node, rounds) for node in star.nodes]

        return Phase(star.cluster, star.nodes, programs, sum(problem.samples.values()))

    return Plan.of(
        problem,
        periods(problem, phase),
        learns_from=star.workers,
        batches=star.all_batches,
        server=star.node,
        where=star.where,
        assumes=("a round is an epoch of each client's own samples",),
    )


METHODS = (Method(name="fedavg", system="FedAvg", update=AVERAGES, planner=plan),)
