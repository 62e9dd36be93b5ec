"""Training in a pipeline: runs of layers on several nodes, and micro-batches in turn.

Samples are sent to the nodes of the first stage ahead of the batch that needs them. GPipe and 1F1B
flush the pipeline at the end of each step, so that their updates are SGD's; `pipedream` does not.
Since samples are sent in every epoch, frozen layers are computed in every epoch, with
`cache_frozen` too; the plan says so.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import pairwise, permutations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from workbench import pipelines
from workbench.clusters import Link, Schedule, SharedCapacity
from workbench.clusters.cluster import some
from workbench.comparison.cost import Phase
from workbench.comparison.memory import NodeMemory
from workbench.comparison.methods.method import EQUAL, Candidate, Method, Plan, fastest
from workbench.comparison.parts import Part, part_bytes
from workbench.comparison.problem import Problem, UnusableError
from workbench.comparison.routes import Pair, at_beginning
from workbench.pipelines.asynchronous import busiest_stage_or_link_s
from workbench.pipelines.costs import (
    holders,
    needed_bytes,
    of_layers,
    reductions,
    samples_sent,
)
from workbench.pipelines.memory import StageMemory
from workbench.pipelines.planners import pipeline
from workbench.pipelines.problems import Needed, Shared, first_trained_layer
from workbench.pipelines.programs import ahead, programs_of
from workbench.pipelines.schedules import Recompute
from workbench.utils.checks import UserError
from workbench.utils.numbers import bytes_as_text

if TYPE_CHECKING:
    from workbench.runtime import Program

MOST_NODES = 8
"""Nodes that a pipeline is planned for: the fastest."""

TRIES = 40
"""Plans that a planner times."""


@dataclass(frozen=True, eq=False)
class Pipeline:
    """A plan on nodes of the cluster.

    Attributes
    ----------
    nodes
        Nodes of the cluster, by their number in `pipe` and `plan`; last, other owners of samples.
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
            return busiest_stage_or_link_s(self.pipe, self.plan)
        return pipelines.iteration(self.pipe, self.plan).total_s

    @property
    def memory(self) -> dict[int, NodeMemory]:
        """Memory by node; empty if the model's memory is not known."""
        needed = needed_bytes(self.pipe, self.plan)
        if needed and not self.flushes:
            sums = self.pipe.sums.param_bytes
            for number, stage in enumerate(self.plan.stages):
                stashed = self.plan.in_flight[number] * of_layers(sums, stage.first, stage.last)
                for node in stage.nodes:
                    needed[node] += float(stashed)
        by_node = {self.nodes[node]: size for node, size in needed.items()}
        return {node: self.problem.memory_on(node, size) for node, size in by_node.items()}

    @property
    def lacking(self) -> int:
        """Nodes without the memory."""
        return sum(need.fits is False for need in self.memory.values())

    @cached_property
    def sent(self) -> dict[Pair, float]:
        """(owner, node of the first stage) -> bytes of samples that it is sent for a step."""
        sent = samples_sent(self.pipe, self.plan)
        return {(self.nodes[a], self.nodes[b]): size for (a, b), size in sent.items()}

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
        return ahead(self.pipe, self.plan, self.predicted_s)

    def programs(self, nodes: Sequence[int], iterations: int) -> list[Program]:
        """Programs of these nodes of the cluster, without learning."""
        pipe, plan = self.placed(nodes)
        return programs_of(pipe, plan, iterations, flushes=self.flushes, in_advance=self.ahead)

    def placed(self, nodes: Sequence[int]) -> tuple[pipelines.Problem, pipelines.Plan]:
        """Problem and plan for these nodes of the cluster, numbered in this order."""
        pipe, place = self.pipe, {node: at for at, node in enumerate(nodes)}
        own = {number: place[node] for number, node in enumerate(self.nodes) if node in place}
        planned = self.nodes[: pipe.nodes]
        rows = [planned.index(node) if node in planned else 0 for node in nodes]
        tables = ("forward_s", "backward_s", "forward_fixed_s", "backward_fixed_s", "update_s")
        moved = replace(
            pipe,
            **{name: getattr(pipe, name)[rows] for name in (*tables, "memory_bytes")},
            links={
                (own[a], own[b]): link
                for (a, b), link in pipe.links.items()
                if {a, b} <= own.keys()
            },
            owners={own[owner]: share for owner, share in (pipe.owners or {}).items()},
            shared=(),
            needed=None,
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
        if self.pipe.shared:
            phrases.append(
                "the prediction has each message alone on its way, and all of them no faster than "
                "the links and interfaces that they share"
            )
        unequal = [stage for stage in plan.stages if len({count for _, count in stage.samples}) > 1]
        for stage in unequal:
            shares = " and ".join(f"{count} ({names[self.nodes[n]]})" for n, count in stage.samples)
            phrases.append(
                f"replicas of layers {stage.first}-{stage.last} take {shares} samples of each "
                "micro-batch"
            )
        for number, recomputes in enumerate(plan.recompute, start=1):
            if recomputes:
                layer = " layer by layer," if recomputes == "layers" else ","
                phrases.append(
                    f"stage {number} computes its activations again{layer} to save memory"
                )
        phrases += [self._tied(weight) for weight in self.pipe.tied]
        if not self.flushes:
            phrases.append("a stage keeps the weights of every batch that it has in flight")
        if self.problem.memory is not None and _stages(self.problem) is None:
            phrases.append(
                "a stage's memory is estimated as its layers' share of the whole model's"
            )
        return tuple(phrases)

    def _tied(self, weight: pipelines.Tied) -> str:
        layers = " and ".join(map(str, weight.layers))
        stages = [self.plan.stages[number] for number in holders(self.plan, weight)]
        nodes = sorted({node for stage in stages for node in stage.nodes})
        names = some([self.problem.cluster.names[self.nodes[node]] for node in nodes])
        size = bytes_as_text(weight.size_bytes)
        if len(nodes) == 1:
            return f"{names} has all layers that share a weight of {size} ({layers})"
        return f"{names} sum the gradient of a weight of {size} that layers {layers} share"


def fastest_nodes(problem: Problem) -> tuple[int, ...]:
    """Nodes that a pipeline is planned for, the fastest first."""

    def key(node: int) -> tuple[float, int]:
        return problem.sample_s[node], problem.by_name.index(node)

    return tuple(sorted(problem.by_name, key=key)[:MOST_NODES])


@lru_cache(maxsize=64)
def pipe_problem(
    problem: Problem, nodes: tuple[int, ...]
) -> tuple[pipelines.Problem, tuple[int, ...]]:
    """The problem of these nodes, as pipelines have it; and the nodes with other owners behind."""
    profile, table = problem.profile, problem.profile.table
    places = (*nodes, *(owner for owner in problem.owners if owner not in nodes))
    place = {node: at for at, node in enumerate(places)}
    seconds = {
        f"{lane}_{part}s": np.array([_seconds(problem, node, f"{lane}_s")[at] for node in nodes])
        for lane in ("forward", "backward")
        for at, part in enumerate(("", "fixed_"))
    }
    update_s = [
        problem.layer_times(node).table["update_s"].to_numpy() / problem.speeds[node]
        for node in nodes
    ]
    pairs = [(a, b) for a in places for b in nodes if a != b]
    pairs += [(b, a) for a in places[len(nodes) :] for b in nodes]
    limits = [problem.cluster.nodes[node].memory_bytes for node in nodes]
    needed: Needed | None = _stages(problem)
    if problem.memory is not None and needed is None:
        needed = _estimated(problem)
    pipe = pipelines.Problem(
        **seconds,
        update_s=np.array(update_s),
        param_bytes=table["param_bytes"].to_numpy(),
        output_bytes=table["output_bytes"].to_numpy(),
        links={(place[a], place[b]): _link(problem, a, b) for a, b in pairs},
        batch=problem.step_samples,
        owners={place[owner]: problem.share([owner]) for owner in problem.owners},
        shared=_shared(problem, places, pairs),
        sample_bytes=problem.sample_bytes,
        tied=profile.tied,
        first_trained=first_trained_layer(profile),
        memory_bytes=np.array([math.inf if limit is None else limit for limit in limits]),
        needed=needed,
    )
    return pipe, places


def _seconds(problem: Problem, node: int, column: str) -> tuple[NDArray[np.float64], ...]:
    """Seconds of a sample in each layer, and those of a pass beside them."""
    one, two = (
        problem.layer_times(node, size).table[column].to_numpy() / problem.speeds[node]
        for size in (1, 2)
    )
    machine = problem.cluster.nodes[node]
    if machine.name in (problem.times or {}) or not (machine.bytes_per_s or machine.overhead_s):
        return one, np.zeros_like(one)
    return two - one, np.maximum(2 * one - two, 0.0)


def _link(problem: Problem, source: int, target: int) -> Link:
    link = problem.routes.link(source, target)
    rate = problem.routes.path_bps(source, target)
    return Link(rate, overhead_s=link.overhead_s, latency_s=link.latency_s)


def _shared(problem: Problem, nodes: Sequence[int], pairs: Iterable[Pair]) -> tuple[Shared, ...]:
    """Interfaces and links that several of these pairs share, by places of the nodes."""
    cluster = problem.routes.part(nodes, pairs=pairs)
    users = defaultdict[SharedCapacity | tuple[str, int], set[Pair]](set)
    for (a, b), link in cluster.links.items():
        users["from", a].add((a, b))
        users["to", b].add((a, b))
        for capacity in link.shared:
            users[capacity].add((a, b))
    shared = []
    for key, crossing in users.items():
        if isinstance(key, SharedCapacity):
            limit: Schedule | None = key.bandwidth
        else:
            machine = cluster.nodes[key[1]]
            limit = machine.uplink if key[0] == "from" else machine.downlink
        if limit is not None and len(crossing) > 1 and at_beginning(limit) < math.inf:
            shared.append(Shared(at_beginning(limit), frozenset(crossing)))
    return tuple(shared)


def _stages(problem: Problem) -> StageMemory | None:
    """Memory of stages, if it is known of the profile's layers."""
    stages = None if problem.memory is None else problem.memory.stages
    return stages if stages is not None and len(stages) == len(problem.profile) else None


def _estimated(problem: Problem) -> Needed:
    """Estimate of a stage's memory: its share of the model's, and of weights used before it."""
    outputs = problem.profile.table["output_bytes"].to_numpy()

    def needed(first: int, last: int, samples: int, in_flight: int, recompute: Recompute) -> float:
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

    return needed


def plan(problem: Problem, schedule: str) -> Plan:
    """The fastest pipeline of a schedule with two stages or more."""
    return fastest_of(problem, _flushed(problem, schedule))


@lru_cache(maxsize=64)
def _flushed(problem: Problem, schedule: str) -> tuple[Pipeline, ...]:
    """Plans for all nodes, and for the fastest few, by the planner's cost model."""
    nodes = checked(problem)
    tried = list[Pipeline]()
    for count in sorted({2, len(nodes)}):
        pipe, places = pipe_problem(problem, nodes[:count])
        for part in (pipe, replace(pipe, needed=None)):
            try:
                found = pipeline(part, tries=TRIES, schedules=(schedule,), least_stages=2)
            except UserError:  # nothing fits
                continue
            tried.append(Pipeline(problem, pipe, places, found, flushes=True))
            break
    return tuple(tried)


def checked(problem: Problem) -> tuple[int, ...]:
    """Nodes to plan for, if the problem allows two stages."""
    if len(problem.cluster) < 2:
        raise UnusableError("a pipeline needs a second node")
    if len(problem.profile) < 2:
        raise UnusableError(f"{problem.profile.name} has one layer, which no pipeline can part")
    return fastest_nodes(problem)


def fastest_of(problem: Problem, tried: Sequence[Pipeline]) -> Plan:
    """The fastest of several pipelines, simulated."""
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


METHODS = tuple(
    Method(
        name=f"pipeline, {schedule}",
        system="pipeline",
        update=EQUAL,
        splits_model=True,
        moves_samples=True,
        planner=partial(plan, schedule=schedule),
    )
    for schedule in ("gpipe", "1f1b")
)
