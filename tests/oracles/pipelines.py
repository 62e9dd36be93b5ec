"""A step of a pipeline as a graph of events, and the fastest plan by trying all of them."""

from collections.abc import Iterator
from itertools import combinations, pairwise, permutations, product
from typing import Any

import networkx as nx

from workbench.pipelines import Plan, Problem, Stage


def stage_order(plan: Plan, stage: int, first_trained: int) -> list[tuple[str, int]]:
    """Passes of a stage, by the rule of each schedule: F forward and B backward, with their m."""
    count, order, begun, done = plan.microbatches, [], 0, 0
    if plan.stages[stage].last < first_trained:
        return [("F", m) for m in range(count)]
    if plan.schedule == "gpipe":
        return [("F", m) for m in range(count)] + [("B", m) for m in reversed(range(count))]
    while done < count:
        if begun < count and begun - done < plan.in_flight[stage]:
            order.append(("F", begun))
            begun += 1
        else:
            order.append(("B", done))
            done += 1
    return order


class Events:
    """Passes and messages with their seconds; edges are what has to end before each.

    A resource, a node or a link, does one after another. A latency is a vertex on no resource.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.graph: Any = nx.DiGraph()
        self.last_on: dict[object, object] = {}

    def vertex(self, name: object, seconds: float, resource: object, after: list[Any]) -> object:
        self.graph.add_node(name, seconds=seconds)
        if resource is not None:
            after = [*after, *([self.last_on[resource]] if resource in self.last_on else [])]
            self.last_on[resource] = name
        self.graph.add_edges_from((before, name) for before in after)
        return name

    def message(self, name: object, ends: tuple[int, int], size: float, after: object) -> object:
        link = self.problem.links[ends]
        rate: Any = link.bandwidth_bps
        carried = self.vertex((name, ends), link.overhead_s + 8 * size / rate, ends, [after])
        return self.vertex((name, ends, "late"), link.latency_s, None, [carried])

    def reduce(self, name: object, nodes: list[int], size: float) -> None:
        """Each node sends the others their shares, sums its own and sends it back to all."""
        for part in ("part", "sum"):
            before = {node: self.last_on[node] for node in nodes}
            arrived = {
                (a, b): self.message((name, part), (a, b), size / len(nodes), before[a])
                for a, b in permutations(nodes, 2)
            }
            for node in nodes:
                after = [arrived[ends] for ends in arrived if ends[1] == node]
                self.vertex((name, part, node), 0.0, node, after)

    def longest_s(self) -> float:
        ends: dict[object, float] = {}
        for name in nx.topological_sort(self.graph):
            before = max((ends[each] for each in self.graph.predecessors(name)), default=0.0)
            ends[name] = before + self.graph.nodes[name]["seconds"]
        return max(ends[self.last_on[n]] for n in self.last_on if isinstance(n, int))


def step_s(problem: Problem, plan: Plan, *, flush: bool = True) -> float:
    """Longest path of a step with queued messages, where each node has one stage.

    Without a flush, a node updates its weights after each backward pass.
    """
    events, stages = Events(problem), plan.stages
    samples_s = send_samples(events, plan)
    rows = [rows_of(stage) for stage in stages]
    waiting = [stage_order(plan, s, problem.first_trained) for s in range(len(stages))]
    inputs: dict[Pass, list[object]] = {}  # arrivals
    while any(waiting):
        for s, stage in enumerate(stages):
            if not waiting[s]:
                continue
            kind, m = waiting[s][0]
            first = (kind == "F" and s == 0) or (kind == "B" and s == len(stages) - 1)
            if not first and not all((kind, s, m, node) in inputs for node in rows[s]):
                continue
            del waiting[s][0]
            for node, own in rows[s].items():
                seconds = pass_s(problem, plan, s, (node, len(own)), kind)
                arrived = inputs.get((kind, s, m, node), [])
                done = events.vertex((kind, s, m, node), seconds, node, arrived)
                send(events, plan, (kind, s, m, node), done, inputs)
            if kind == "B" and not flush:
                for reduction, nodes, size in reductions(problem, plan):
                    if reduction == ("stage", s):
                        events.reduce((reduction, m), nodes, size)
                update(events, problem, stage, m)
    if flush:
        for reduction in reductions(problem, plan):
            events.reduce(*reduction)
        for stage in stages:
            update(events, problem, stage, 0)
    return max(samples_s, events.longest_s())


def send_samples(events: Events, plan: Plan) -> float:
    """Send samples as a step begins, before all else; return the longest time on a link."""
    problem, longest_s = events.problem, 0.0
    for node, count in plan.stages[0].samples:
        for owner, share in (problem.owners or {}).items():
            if owner != node:
                size = share * count * plan.microbatches * problem.sample_bytes
                asked_s = problem.links[node, owner].latency_s
                asked = events.vertex(("asked", owner, node), asked_s, None, [])
                arrived: Any = events.message("samples", (owner, node), size, asked)
                longest_s = max(longest_s, events.graph.nodes[arrived[:2]]["seconds"])
    return longest_s


Pass = tuple[str, int, int, int]
"""Kind, stage, micro-batch and node."""


def send(
    events: Events, plan: Plan, name: Pass, done: object, inputs: dict[Pass, list[object]]
) -> None:
    """Send each replica of the next stage, or of the previous one, the rows that it shares."""
    kind, s, m, node = name
    stages, trained = plan.stages, events.problem.first_trained
    to = s + 1 if kind == "F" else s - 1
    if not 0 <= to < len(stages) or (kind == "B" and stages[to].last < trained):
        return
    value = events.problem.output_bytes[min(stages[s].last, stages[to].last) - 1]
    own = rows_of(stages[s])[node]
    for other, theirs in rows_of(stages[to]).items():
        if both := set(own) & set(theirs):
            ends = (node, other)
            arrived = events.message((kind, s, m), ends, len(both) * value, done)
            inputs.setdefault((kind, to, m, other), []).append(arrived)


def update(events: Events, problem: Problem, stage: Stage, m: int) -> None:
    """Let all nodes of a stage update their weights."""
    for node, _ in stage.samples:
        seconds = sum(problem.update_s[node, stage.first - 1 : stage.last])
        events.vertex(("update", m, node), seconds, node, [])


def rows_of(stage: Stage) -> dict[int, range]:
    """Samples of a micro-batch on each node."""
    rows, start = {}, 0
    for node, count in stage.samples:
        rows[node] = range(start, start + count)
        start += count
    return rows


def pass_s(problem: Problem, plan: Plan, stage: int, replica: tuple[int, int], kind: str) -> float:
    """Seconds of a pass of a replica, which is a node and its samples."""
    node, samples = replica
    none = 0 * problem.forward_s
    forward_fixed_s = none if problem.forward_fixed_s is None else problem.forward_fixed_s
    backward_fixed_s = none if problem.backward_fixed_s is None else problem.backward_fixed_s
    seconds = 0.0
    for layer in range(plan.stages[stage].first - 1, plan.stages[stage].last):
        if kind == "F" or plan.recompute[stage]:
            seconds += samples * problem.forward_s[node, layer] + forward_fixed_s[node, layer]
        if kind == "B" and layer >= problem.first_trained - 1:
            seconds += samples * problem.backward_s[node, layer] + backward_fixed_s[node, layer]
    return seconds


def reductions(problem: Problem, plan: Plan) -> Iterator[tuple[object, list[int], float]]:
    """All-reduces at the end: of stages with replicas, then of weights that stages share."""
    own = [float(sum(problem.param_bytes[s.first - 1 : s.last])) for s in plan.stages]
    several: list[tuple[object, list[int], float]] = []
    for number, weight in enumerate(problem.tied):
        holders = [
            n
            for n, stage in enumerate(plan.stages)
            if any(stage.first <= layer <= stage.last for layer in weight.layers)
        ]
        if len(holders) > 1:
            own[holders[0]] -= weight.size_bytes
            nodes = sorted({node for n in holders for node in dict(plan.stages[n].samples)})
            several.append((("tied", number), nodes, float(weight.size_bytes)))
    of_stages = [(("stage", n), list(dict(s.samples)), own[n]) for n, s in enumerate(plan.stages)]
    for name, nodes, size in (*of_stages, *several):
        if len(nodes) > 1 and size:
            yield name, nodes, size


def plans(problem: Problem) -> Iterator[Plan]:
    """All plans with each node in one stage: cuts, nodes, micro-batches, schedules, recomputing."""
    layers, batch = problem.layers, problem.batch
    for cuts in (c for n in range(layers) for c in combinations(range(1, layers), n)):
        ends = [0, *cuts, layers]
        bounds = [(low + 1, high) for low, high in pairwise(ends)]
        count = len(bounds)
        for owner in product(range(-1, count), repeat=problem.nodes):  # stage of each node, or none
            groups = [[n for n in range(problem.nodes) if owner[n] == s] for s in range(count)]
            if not all(groups):
                continue
            for microbatches in (m for m in range(1, batch + 1) if batch % m == 0):
                stages = []
                for (first, last), nodes in zip(bounds, groups, strict=True):
                    samples = shared(problem, first, last, nodes, batch // microbatches)
                    stages.append(Stage(first, last, tuple(zip(nodes, samples, strict=True))))
                if any(samples == 0 for stage in stages for _, samples in stage.samples):
                    continue
                shallow = tuple(range(count, 0, -1))
                deep = tuple(2 * left - 1 for left in shallow)
                deeper = tuple(4 * left - 3 for left in shallow)
                depths = [("1f1b", depth) for depth in (shallow, deep, deeper)]
                for schedule, depth in (*depths, ("gpipe", shallow)):
                    options = (False,) if problem.needed is None else (False, True)
                    for recompute in product(options, repeat=count):
                        yield Plan(
                            stages=tuple(stages),
                            microbatches=microbatches,
                            schedule=schedule,
                            in_flight=depth,
                            recompute=recompute,
                        )


def shared(problem: Problem, first: int, last: int, nodes: list[int], samples: int) -> list[int]:
    """One sample after another to the node that ends it first."""
    before = [Stage(1, first - 1, ((0, 1),))] if first > 1 else []
    plan = Plan(stages=(*before, Stage(first, last, ((0, 1),))), microbatches=1)
    counts = [0] * len(nodes)
    for _ in range(samples):
        ends_s = [
            sum(pass_s(problem, plan, len(before), (n, count + 1), kind) for kind in "FB")
            for n, count in zip(nodes, counts, strict=True)
        ]
        counts[ends_s.index(min(ends_s))] += 1
    return counts


def fits(problem: Problem, plan: Plan) -> bool:
    """Whether every stage fits into the memory of its nodes."""
    if problem.needed is None or problem.memory_bytes is None:
        return True
    for number, stage in enumerate(plan.stages):
        depth = plan.microbatches
        if plan.schedule == "1f1b":
            depth = min(depth, plan.in_flight[number])
        if stage.last < problem.first_trained:
            depth = 1
        for node, samples in stage.samples:
            need = problem.needed(stage.first, stage.last, samples, depth, plan.recompute[number])
            if need > problem.memory_bytes[node]:
                return False
    return True


def least_s(problem: Problem, seconds: Any) -> float:
    """Least seconds of all plans that fit, by a function of problem and plan; inf if none does."""
    least = float("inf")
    for plan in plans(problem):
        if fits(problem, plan) and linked(problem, plan):
            least = min(least, seconds(problem, plan))
    return least


def linked(problem: Problem, plan: Plan) -> bool:
    """Whether all nodes that send to each other have a link."""
    groups = [list(dict(stage.samples)) for stage in plan.stages]
    pairs = [(a, b) for g in groups for a, b in permutations(g, 2)]
    for one, two in pairwise(groups):
        pairs += [pair for a, b in product(one, two) for pair in ((a, b), (b, a))]
    return all(pair in problem.links for pair in pairs)
