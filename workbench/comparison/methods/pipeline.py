"""Training in a pipeline: runs of layers on several nodes, and micro-batches in turn.

Samples are sent to the nodes of the first stage ahead of the batch that needs them. GPipe and 1F1B
flush the pipeline at the end of each step, so that their updates are SGD's. PipeDream does not:
every batch is one micro-batch, and a stage keeps the weights of each that is in flight.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import pairwise, permutations
from typing import TYPE_CHECKING

import numpy as np

from workbench import pipelines
from workbench.clusters import Link
from workbench.clusters.cluster import some
from workbench.comparison.cost import Phase
from workbench.comparison.memory import NodeMemory
from workbench.comparison.methods.alone import AHEAD, MOST_AHEAD
from workbench.comparison.methods.method import EQUAL, Candidate, Method, Plan, fastest
from workbench.comparison.parts import Part, part_bytes
from workbench.comparison.problem import Problem, UnusableError
from workbench.pipelines.costs import memory_bytes, reductions
from workbench.pipelines.planners import pipeline
from workbench.pipelines.programs import programs_of
from workbench.runtime import Message
from workbench.utils.checks import UserError
from workbench.utils.numbers import bytes_as_text

if TYPE_CHECKING:
    from workbench.runtime import Context, Program

STALE = "stale weights by stage"

MOST_NODES = 8
"""Nodes that a pipeline is planned for: the fastest."""

TRIES = 40
"""Plans that a planner times."""

PRICED = 3
"""PipeDream's plans that are simulated."""

ALL_ORDERS = 4
"""Most nodes of which PipeDream's plans are tried in all orders."""


@dataclass(frozen=True, eq=False)
class Pipeline:
    """A plan on nodes of the cluster.

    Attributes
    ----------
    nodes
        Nodes of the cluster, by their number in `pipe` and `plan`.
    flushes
        Whether a step ends before the next begins.
    """

    problem: Problem
    pipe: pipelines.Problem
    nodes: Sequence[int]
    plan: pipelines.Plan
    flushes: bool

    @cached_property
    def predicted_s(self) -> float:
        """Seconds of a step by the cost model; of a steady state, where nothing is flushed."""
        if not self.flushes:
            return max(_busy_s(self.pipe, self.plan))
        return pipelines.iteration(self.pipe, self.plan).total_s

    @property
    def memory(self) -> dict[int, NodeMemory]:
        """Memory by node; empty if the model's memory is not known."""
        needed = memory_bytes(self.pipe, self.plan)
        if needed and not self.flushes:
            sizes = np.pad(self.pipe.param_bytes.cumsum(), (1, 0))
            for number, stage in enumerate(self.plan.stages):
                stashed = self.plan.in_flight[number] * (sizes[stage.last] - sizes[stage.first - 1])
                for node in stage.nodes:
                    needed[node] += float(stashed)
        limits = [self.problem.cluster.nodes[node].memory_bytes for node in self.nodes]
        return {
            self.nodes[node]: NodeMemory(
                size, None if (limit := limits[node]) is None else size <= limit
            )
            for node, size in needed.items()
        }

    @property
    def lacking(self) -> int:
        """Nodes without the memory."""
        return sum(need.fits is False for need in self.memory.values())

    @cached_property
    def sent(self) -> dict[tuple[int, int], float]:
        """(owner, node of the first stage) -> bytes of samples that it is sent for a step."""
        problem, plan = self.problem, self.plan
        batch_bytes = problem.step_samples * problem.sample_bytes / plan.samples
        return {
            (owner, self.nodes[node]): batch_bytes * count * problem.share([owner])
            for node, count in plan.stages[0].samples
            for owner in problem.owners
            if owner != self.nodes[node]
        }

    def phase(self) -> Phase:
        """Steps on the cluster, where messages share links and interfaces."""
        stages = len(self.plan.stages)
        used = [self.nodes[node] for node in self.plan.nodes]
        senders = {owner for owner, _ in self.sent}
        nodes = sorted({*used, *senders}, key=self.problem.by_name.index)
        pairs = set(self.sent) | {(b, a) for a, b in self.sent}
        pairs |= {
            (self.nodes[a], self.nodes[b])
            for ends in pairwise(self.plan.stages)
            for one, other in (ends, ends[::-1])
            for a in one.nodes
            for b in other.nodes
            if a != b
        }
        for group in reductions(self.pipe, self.plan):
            pairs |= {(self.nodes[a], self.nodes[b]) for a, b in permutations(group.nodes, 2)}
        cluster = self.problem.routes.part(nodes, [1.0] * len(nodes), sorted(pairs))
        first = self.ahead + (2 if self.flushes else stages + 1)
        last = first + (2 if self.flushes else 4)
        programs = partial(self.programs, nodes)
        return Phase(cluster, nodes, programs, self.problem.step_samples, first=first, last=last)

    @property
    def ahead(self) -> int:
        """Batches sent in advance, so that latencies do not delay a step."""
        links = [self.problem.routes.link(*pair) for a, b in self.sent for pair in ((a, b), (b, a))]
        latency_s = max((link.latency_s for link in links), default=0.0)
        return min(MOST_AHEAD, AHEAD + math.ceil(2 * latency_s / max(self.predicted_s, 1e-12)))

    def programs(self, nodes: Sequence[int], iterations: int) -> list[Program]:
        """Programs of these nodes of the cluster, without learning."""
        place = {node: at for at, node in enumerate(nodes)}
        pipe, plan = self.placed(nodes)
        arrivals = [
            Arrival([place[a] for a, b in self.sent if b == node], self.ahead, iterations)
            for node in nodes
        ]
        workers = programs_of(
            pipe, plan, iterations, flushes=self.flushes, arrivals=[each.wait for each in arrivals]
        )
        sizes: defaultdict[int, dict[int, float]] = defaultdict(dict)
        for (owner, node), size in self.sent.items():
            sizes[place[owner]][place[node]] = size
        return [_with_samples(worker, sizes[at], iterations) for at, worker in enumerate(workers)]

    def placed(self, nodes: Sequence[int]) -> tuple[pipelines.Problem, pipelines.Plan]:
        """Problem and plan for these nodes of the cluster, numbered in this order."""
        pipe, place = self.pipe, {node: at for at, node in enumerate(nodes)}
        own = {number: place[node] for number, node in enumerate(self.nodes) if node in place}
        rows = [self.nodes.index(node) if node in self.nodes else 0 for node in nodes]
        assert pipe.memory_bytes is not None
        moved = replace(
            pipe,
            forward_s=pipe.forward_s[rows],
            backward_s=pipe.backward_s[rows],
            update_s=pipe.update_s[rows],
            memory_bytes=pipe.memory_bytes[rows],
            links={
                (own[a], own[b]): link
                for (a, b), link in pipe.links.items()
                if {a, b} <= own.keys()
            },
        )
        stages = [
            stage._replace(samples=tuple((own[node], count) for node, count in stage.samples))
            for stage in self.plan.stages
        ]
        return moved, replace(self.plan, stages=tuple(stages))

    @property
    def where(self) -> str:
        """Layers of each node, and the micro-batches."""
        names, plan = self.problem.cluster.names, self.plan
        stages = [
            f"layers {stage.first}-{stage.last} on "
            f"{some([names[self.nodes[node]] for node in stage.nodes])}"
            for stage in plan.stages
        ]
        if not self.flushes:
            return ", ".join(stages)
        several = "micro-batches" if plan.microbatches > 1 else "micro-batch"
        return f"{', '.join(stages)}, in {plan.microbatches} {several} of {plan.samples}"

    @property
    def assumes(self) -> tuple[str, ...]:
        """Assumptions, a phrase each."""
        plan, names = self.plan, self.problem.cluster.names
        phrases = ["samples are sent in every epoch, ahead of the batch that needs them"]
        unequal = [stage for stage in plan.stages if len({count for _, count in stage.samples}) > 1]
        for stage in unequal:
            shares = ", ".join(f"{names[self.nodes[n]]} {count}" for n, count in stage.samples)
            phrases.append(f"of a micro-batch have, of layers {stage.first}-{stage.last}: {shares}")
        for number, recomputes in enumerate(plan.recompute, start=1):
            if recomputes:
                phrases.append(f"stage {number} computes its activations again, to save memory")
        phrases += [self._tied(weight) for weight in self.pipe.tied]
        if not self.flushes:
            phrases.append("a stage keeps the weights of every batch that it has in flight")
        if self.problem.memory is not None:
            phrases.append(
                "a stage's memory is estimated as its layers' share of the whole model's"
            )
        return tuple(phrases)

    def _tied(self, weight: pipelines.Tied) -> str:
        layers = " and ".join(map(str, weight.layers))
        holders = [
            stage.nodes
            for stage in self.plan.stages
            if any(stage.first <= layer <= stage.last for layer in weight.layers)
        ]
        nodes = sorted({node for each in holders for node in each})
        names = some([self.problem.cluster.names[self.nodes[node]] for node in nodes])
        size = bytes_as_text(weight.size_bytes)
        if len(nodes) == 1:
            return f"{names} has all layers that share a weight of {size} ({layers})"
        return f"{names} sum the gradient of a weight of {size} that layers {layers} share"


@dataclass
class Arrival:
    """How a node of the first stage asks for samples and waits for them."""

    senders: Sequence[int]
    ahead: int
    iterations: int

    async def wait(self, context: Context, iteration: int) -> None:
        """Wait for the samples of an iteration; ask for those of a later one."""
        for later in range(iteration + self.ahead if iteration else 0, iteration + self.ahead + 1):
            if later < self.iterations:
                for sender in self.senders:
                    context.send(sender, Message(context.node, "more", control=True))
        for sender in self.senders:
            await context.receive("samples", sender=sender)


def _with_samples(worker: Program, sizes: Mapping[int, float], iterations: int) -> Program:
    """A node that also sends samples, by their bytes, whenever it is asked for more."""

    async def send(context: Context) -> None:
        for _ in range(iterations * len(sizes)):
            to = (await context.receive("more")).sender
            size = sizes[to]
            context.send(to, Message(context.node, "samples", None, size, control=not size))

    async def program(context: Context) -> None:
        sending = context.spawn(send(context))
        await worker(context)
        await sending

    return program if sizes else worker


@lru_cache(maxsize=64)
def pipe_problem(problem: Problem) -> tuple[pipelines.Problem, tuple[int, ...]]:
    """The problem as pipelines have it, and the cluster's nodes in its order: the fastest ones."""
    profile, table = problem.profile, problem.profile.table

    def key(node: int) -> tuple[float, int]:
        return problem.sample_s[node], problem.by_name.index(node)

    nodes = tuple(sorted(problem.by_name, key=key)[:MOST_NODES])
    forward_s, backward_s, update_s = (
        np.array(
            [
                problem.layer_times(node, 1).table[column].to_numpy() / problem.speeds[node]
                for node in nodes
            ]
        )
        for column in ("forward_s", "backward_s", "update_s")
    )
    limits = [problem.cluster.nodes[node].memory_bytes for node in nodes]
    trained = np.flatnonzero(table["param_bytes"].to_numpy())
    pipe = pipelines.Problem(
        forward_s=forward_s,
        backward_s=backward_s,
        update_s=update_s,
        param_bytes=table["param_bytes"].to_numpy(),
        output_bytes=table["output_bytes"].to_numpy(),
        links={
            (a, b): _link(problem, nodes[a], nodes[b])
            for a, b in permutations(range(len(nodes)), 2)
        },
        batch=problem.step_samples,
        sample_bytes=problem.sample_bytes,
        tied=profile.tied,
        first_trained=int(trained[0]) + 1 if len(trained) else 1,
        frozen_bytes=np.array(profile.frozen_bytes) if profile.frozen_bytes else None,
        memory_bytes=np.array([math.inf if limit is None else limit for limit in limits]),
        needed=None if problem.memory is None else partial(_needed_bytes, problem),
    )
    return pipe, nodes


def _link(problem: Problem, source: int, target: int) -> Link:
    link = problem.routes.link(source, target)
    rate = problem.routes.path_bps(source, target)
    return Link(rate, overhead_s=link.overhead_s, latency_s=link.latency_s)


def _needed_bytes(problem: Problem, first: int, last: int, *of_samples: int) -> float:
    """Memory of a stage: its share of the model's, and copies of weights used elsewhere first."""
    samples, in_flight, recompute = of_samples
    outputs = problem.profile.table["output_bytes"].to_numpy()
    held = np.zeros(len(outputs), bool)
    held[first - 1 : last] = True
    alive = samples if recompute else samples * in_flight
    input_bytes = float(outputs[first - 2]) if first > 1 else problem.sample_bytes
    received = samples * input_bytes * (in_flight if recompute or first > 1 else 0)
    size = part_bytes(problem, Part(held, np.where(held, alive, 0), received))
    assert size is not None
    copies = sum(
        weight.size_bytes
        for weight in problem.profile.tied
        if min(weight.layers) < first and any(first <= layer <= last for layer in weight.layers)
    )
    return size + 2.0 * copies


def plan(problem: Problem, schedule: str) -> Plan:
    """The fastest pipeline of a schedule with two stages or more."""
    return _fastest(problem, _flushed(problem, schedule))


@lru_cache(maxsize=64)
def _flushed(problem: Problem, schedule: str) -> tuple[Pipeline, ...]:
    """Plans for all nodes, and for the fastest few, by the planner's cost model."""
    pipe, nodes = _checked(problem)
    tried = list[Pipeline]()
    for count in sorted({2, len(nodes)}):
        own = Pipeline(problem, pipe, nodes, _any_plan(pipe), flushes=True)
        few, _ = own.placed(nodes[:count]) if count < len(nodes) else (pipe, own.plan)
        for part in (few, replace(few, needed=None)):
            try:
                found = pipeline(part, tries=TRIES, schedules=(schedule,), least_stages=2)
            except UserError:  # nothing fits
                continue
            tried.append(Pipeline(problem, few, nodes[:count], found, flushes=True))
            break
    return tuple(tried)


def plan_without_flush(problem: Problem) -> Plan:
    """The fastest of PipeDream's pipelines, with a node a stage."""
    return _fastest(problem, unflushed(problem))


@lru_cache(maxsize=64)
def unflushed(problem: Problem) -> tuple[Pipeline, ...]:
    """PipeDream's plans with the shortest busiest stage or link, by orders of the nodes."""
    problem = replace(problem, accumulate=1)  # every batch is a step
    pipe, nodes = _checked(problem)
    if pipe.tied:
        layers = " and ".join(map(str, pipe.tied[0].layers))
        raise UnusableError(f"layers {layers} share a weight, which stages update at other times")
    orders: list[tuple[int, ...]] = []
    for count in range(2, min(len(nodes), pipe.layers) + 1):
        chosen = range(len(nodes)) if len(nodes) <= ALL_ORDERS else range(count)
        every = permutations(chosen, count)
        orders += every if len(nodes) <= ALL_ORDERS else [tuple(chosen), tuple(chosen)[::-1]]
    found = [
        Pipeline(problem, pipe, nodes, _balanced(pipe, order), flushes=False) for order in orders
    ]
    found.sort(key=lambda each: (each.lacking, float(f"{each.predicted_s:.9g}")))
    return tuple(found[:PRICED])


def _balanced(pipe: pipelines.Problem, order: Sequence[int]) -> pipelines.Plan:
    """Stages on these nodes in turn, with the shortest busiest stage or link."""
    forward_s, backward_s, update_s, _ = pipe.sums
    work_s = pipe.batch * (forward_s + backward_s) + update_s
    layers = pipe.layers
    best, choices = work_s[order[0]].copy(), []
    best[0] = math.inf
    for before, node in pairwise(order):
        link = pipe.links[before, node]
        assert isinstance(link.bandwidth, float | int)
        cut_s = link.overhead_s + 8 * pipe.batch * pipe.output_bytes / link.bandwidth
        until = np.maximum(best, np.concatenate([[math.inf], cut_s]))  # by the layer before the cut
        own_s = work_s[node][None, :] - work_s[node][:, None]
        longest = np.where(
            np.triu(np.ones_like(own_s), 1) > 0, np.maximum(until[:, None], own_s), math.inf
        )
        choices.append(longest.argmin(axis=0))
        best = longest.min(axis=0)
    lasts = [layers]
    for choice in reversed(choices):
        lasts.insert(0, int(choice[lasts[0]]))
    firsts = [1, *(last + 1 for last in lasts[:-1])]
    stages = [
        pipelines.Stage(first, last, ((node, pipe.batch),))
        for first, last, node in zip(firsts, lasts, order, strict=True)
    ]
    return pipelines.Plan(stages=tuple(stages), microbatches=1)


def _busy_s(pipe: pipelines.Problem, plan: pipelines.Plan) -> list[float]:
    """Seconds of each stage and link in a step, with one node a stage."""
    forward_s, backward_s, update_s, _ = pipe.sums
    work_s = pipe.batch * (forward_s + backward_s) + update_s
    found = []
    for stage in plan.stages:
        ((node, _),) = stage.samples
        found.append(float(work_s[node, stage.last] - work_s[node, stage.first - 1]))
    for one, other in pairwise(plan.stages):
        for a, b in permutations((one.nodes[0], other.nodes[0])):
            link, size = pipe.links[a, b], pipe.batch * pipe.output_bytes[one.last - 1]
            assert isinstance(link.bandwidth, float | int)
            found.append(link.overhead_s + 8 * float(size) / link.bandwidth)
    return found


def _checked(problem: Problem) -> tuple[pipelines.Problem, tuple[int, ...]]:
    """The problem, if it allows two stages."""
    if len(problem.cluster) < 2:
        raise UnusableError("a pipeline needs a second node")
    if len(problem.profile) < 2:
        raise UnusableError(f"{problem.profile.name} has one layer, which no pipeline can part")
    return pipe_problem(problem)


def _any_plan(pipe: pipelines.Problem) -> pipelines.Plan:
    stage = pipelines.Stage(1, pipe.layers, ((0, pipe.batch),))
    return pipelines.Plan(stages=(stage,), microbatches=1)


def _fastest(problem: Problem, tried: Sequence[Pipeline]) -> Plan:
    if not tried:
        raise UnusableError("no pipeline of two stages is possible")
    candidates = []
    for each in tried:
        phase = each.phase()
        held = {each.nodes[node]: 0 for node in each.plan.nodes}
        for number, stage in enumerate(each.plan.stages):
            for node, samples in stage.samples:
                held[each.nodes[node]] += samples * each.plan.depth(number)
        made = partial(
            Plan.of,
            problem,
            [phase],
            predicted_s=each.predicted_s,
            learns_from=problem.owners,
            batches=held,
            memory=each.memory or None,
            where=each.where,
            assumes=each.assumes,
            accumulates=each.problem.accumulate,
        )
        candidates.append(Candidate(each.lacking, 0.0, made))
    return fastest(problem, candidates)


METHODS = (
    *(
        Method(
            name=f"pipeline, {schedule}",
            system="pipeline",
            update=EQUAL,
            moves_samples=True,
            planner=partial(plan, schedule=schedule),
        )
        for schedule in ("gpipe", "1f1b")
    ),
    Method(
        name="pipeline, pipedream",
        system="pipeline",
        update=STALE,
        moves_samples=True,
        planner=plan_without_flush,
    ),
)
