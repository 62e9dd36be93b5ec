"""Plans of a pipeline, and the order in which each node carries one out.

A schedule is data: `orders` lists the forward and backward passes of each node, `operations` also
the messages between them. Programs and costs both follow these lists.

>>> plan = Plan(stages=(Stage(1, 2, ((0, 4),)), Stage(3, 3, ((1, 4),))), microbatches=3)
>>> " ".join(map(str, orders(plan)[0]))
'F0.0 F0.1 B0.0 F0.2 B0.1 B0.2'
>>> " ".join(map(str, orders(plan)[1]))
'F1.0 B1.0 F1.1 B1.1 F1.2 B1.2'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from workbench.utils.checks import (
    UserError,
    at_least,
    check_fields,
    check_kind,
    check_name,
    check_truth,
    check_whole,
    listed,
)

SCHEDULES = ("1f1b", "gpipe")

Recompute = bool | Literal["layers"]
"""Whether a stage repeats its forward pass, and whether it does so layer by layer."""

MESSAGE_ROUNDS = 3
"""Passes that a message is taken to last where the stages of a node are merged."""


class Stage(NamedTuple):
    """Consecutive layers, and the nodes that train them.

    Attributes
    ----------
    first, last
        Layers, from 1.
    samples
        Replicas of the stage, as pairs of a node and its samples of each micro-batch. The first
        replica has the first samples.
    """

    first: int
    last: int
    samples: tuple[tuple[int, int], ...]

    @property
    def nodes(self) -> tuple[int, ...]:
        """Nodes with a replica."""
        return tuple(node for node, _ in self.samples)

    def rows(self) -> Iterator[tuple[int, int, int]]:
        """Nodes with their samples of a micro-batch: from the second number to before the third."""
        start = 0
        for node, count in self.samples:
            yield node, start, start + count
            start += count


def _stages(name: str, stages: Any) -> tuple[Stage, ...]:
    checked = tuple(map(_stage, listed(name, stages, "give Stages, first to last")))
    starts = [1, *(stage.last + 1 for stage in checked[:-1])]
    if starts != [stage.first for stage in checked]:
        layers = ", ".join(f"{stage.first}-{stage.last}" for stage in checked)
        raise UserError(f"the {name} have layers {layers or 'none'}; they follow from layer 1 on")
    sums = [sum(count for _, count in stage.samples) for stage in checked]
    if len(set(sums)) > 1:
        raise UserError(f"the {name} have {sums} samples of a micro-batch; they must be equal")
    return checked


def _stage(stage: Any) -> Stage:
    if not (isinstance(stage, tuple) and len(stage) == 3):
        raise UserError(f"stages has {stage!r}; give Stage(first, last, samples)")
    first = check_whole("first layer of a stage", stage[0], 1)
    last = check_whole(f"last layer of the stage from layer {first} on", stage[1], first)
    replicas = []
    for pair in listed("samples", stage[2], "give pairs, such as ((0, 4),)"):
        if not (isinstance(pair, tuple | list) and len(pair) == 2):
            raise UserError(f"samples of a stage has {pair!r}; give pairs, such as ((0, 4),)")
        node, count = pair
        replicas.append(
            (check_whole("node", node, 0), check_whole("samples of a node in stages", count, 1))
        )
    nodes = [node for node, _ in replicas]
    if not nodes or len(set(nodes)) < len(nodes):
        raise UserError(f"a stage has nodes {nodes}; give one or more, each once")
    return Stage(first, last, tuple(replicas))


def _in_flight(name: str, depths: Any) -> tuple[int, ...]:
    counts = listed(name, depths, "give a number a stage, such as (2, 1)")
    counts = tuple(check_whole(name, count, 1) for count in counts)
    if any(depth < behind for depth, behind in pairwise(counts)):
        raise UserError(
            f"{name} is {counts}; a stage with fewer micro-batches in flight than the next would "
            "keep it waiting for ever"
        )
    return counts


def _recompute(name: str, ways: Any) -> tuple[Recompute, ...]:
    checked = list[Recompute]()
    for way in listed(name, ways, "give a value a stage, such as (True, False)"):
        if isinstance(way, str) and way == "layers":
            checked.append("layers")
        elif getattr(way, "ndim", 0):
            raise UserError(f"{name} has a list for a stage; give True, False or 'layers'")
        else:
            check_truth(name, way)
            checked.append(bool(way))
    return tuple(checked)


def _schedule(name: str, schedule: Any) -> str:
    return check_name(name, schedule, SCHEDULES)


def _truth(name: str, value: Any) -> bool:
    check_truth(name, value)
    return bool(value)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a pipeline carries out a step of `microbatches` micro-batches.

    Parameters
    ----------
    stages
        First to last; their layers follow each other from layer 1 on. A node may be in several.
    microbatches
        Micro-batches of a step, M; all have the same number of samples.
    schedule
        ``"gpipe"``: all forward passes, then all backward passes, the last micro-batch first
        (Huang et al. 2019, Fig. 2c). ``"1f1b"``: one forward and one backward pass in turn, with a
        flush at the end of a step (Narayanan et al. 2021, PipeDream-2BW, Fig. 3b).
    in_flight
        For 1F1B, by stage: micro-batches that a stage has begun and not finished, at most; by
        default S - s, with s from 0. Deeper ones hide transfers (Ye et al. 2024, Asteroid).
    recompute
        By stage: whether it keeps only its inputs and repeats the forward pass before the backward
        pass; by default none does. With ``"layers"`` it keeps the inputs of each layer, and repeats
        the forward pass of one layer at a time, as `torch.utils.checkpoint` does (Chen et al.
        2016).
    blocking
        Whether sender and receiver wait while a message travels, as in DeepSpeed's pipeline; by
        default messages are queued and travel during computation.
    """

    stages: tuple[Stage, ...] = field(metadata={"check": _stages})
    microbatches: int = field(metadata=at_least(1))
    schedule: str = field(default="1f1b", metadata={"check": _schedule})
    in_flight: tuple[int, ...] = field(default=(), metadata={"check": _in_flight})
    recompute: tuple[Recompute, ...] = field(default=(), metadata={"check": _recompute})
    blocking: bool = field(default=False, metadata={"check": _truth})

    def __post_init__(self) -> None:
        check_fields(self)
        count = len(self.stages)
        for name, values in (("in_flight", self.in_flight), ("recompute", self.recompute)):
            if len(values) not in (0, count):
                raise UserError(f"{name} has {len(values)} values for {count} stages")
        object.__setattr__(self, "in_flight", self.in_flight or tuple(range(count, 0, -1)))
        object.__setattr__(self, "recompute", self.recompute or (False,) * count)

    @property
    def samples(self) -> int:
        """Samples of a micro-batch."""
        return sum(count for _, count in self.stages[0].samples)

    @property
    def nodes(self) -> tuple[int, ...]:
        """Nodes with a stage, in order."""
        return tuple(sorted({node for stage in self.stages for node in stage.nodes}))

    def depth(self, stage: int) -> int:
        """Micro-batches that a stage, from 0, keeps at most."""
        if self.schedule == "gpipe":
            return self.microbatches
        return min(self.in_flight[stage], self.microbatches)


class Pass(NamedTuple):
    """A forward or backward pass of a micro-batch through a stage; both count from 0."""

    stage: int
    microbatch: int
    backward: bool

    @property
    def before(self) -> Pass:
        """Pass that puts out what this one takes; its stage may not exist."""
        return self._replace(stage=self.stage + (1 if self.backward else -1))

    @property
    def after(self) -> Pass:
        """Pass that takes what this one puts out; its stage may not exist."""
        return self._replace(stage=self.stage + (-1 if self.backward else 1))

    def __str__(self) -> str:
        return f"{'FB'[self.backward]}{self.stage}.{self.microbatch}"


class Transfer(NamedTuple):
    """Message with rows `start` to `stop` - 1 of a micro-batch, which a pass has put out.

    Activations go to the next stage, gradients to the previous one.
    """

    made_by: Pass
    sender: int
    receiver: int
    start: int
    stop: int

    @property
    def rows(self) -> int:
        """Number of samples."""
        return self.stop - self.start

    @property
    def cut(self) -> int:
        """Stage, from 0, behind which the message crosses the model."""
        return self.made_by.stage - self.made_by.backward


def source(plan: Plan, pass_: Pass) -> Pass | None:
    """Pass of a neighbouring stage whose output a pass takes; None if it takes none."""
    return pass_.before if 0 <= pass_.before.stage < len(plan.stages) else None


def target(plan: Plan, pass_: Pass, first_trained: int) -> Pass | None:
    """Pass of a neighbouring stage that takes the output of a pass; None if none does.

    Stages whose layers are all below `first_trained` take no gradients.
    """
    after = pass_.after
    if not 0 <= after.stage < len(plan.stages):
        return None
    takes_none = pass_.backward and plan.stages[after.stage].last < first_trained
    return None if takes_none else after


def transfers(plan: Plan, pass_: Pass, after: Pass) -> list[Transfer]:
    """Messages from the replicas of a pass to those of the pass after it: rows that both have."""
    rows = _common_rows(plan.stages[pass_.stage], plan.stages[after.stage])
    return [Transfer(pass_, *each) for each in rows]


@lru_cache(maxsize=1024)
def _common_rows(before: Stage, after: Stage) -> list[tuple[int, int, int, int]]:
    """Pairs of replicas with samples in common: the nodes, the first and behind the last sample."""
    return [
        (sender, receiver, max(start, low), min(stop, high))
        for sender, start, stop in before.rows()
        for receiver, low, high in after.rows()
        if max(start, low) < min(stop, high)
    ]


def orders(plan: Plan, first_trained: int = 1) -> dict[int, tuple[Pass, ...]]:
    """Forward and backward passes of each node, in order.

    A stage whose layers are all below `first_trained` has no backward passes. A node with several
    stages merges their orders by list scheduling: time runs in rounds, a pass takes one and a
    message `MESSAGE_ROUNDS`, and in each round a node does one pass whose input is there, that of
    its latest stage first. So the first stage sends ahead where the node would wait, and its
    backward passes, for which nobody waits, hold up no other. Where messages block, sending ahead
    would make others wait: a message takes no round then, and the earliest stage is first.
    """
    check_kind("plan", plan, Plan, "a pipelines.Plan")
    first_trained = check_whole("first_trained", first_trained, 1)
    waiting = {stage: _stage_order(plan, stage, first_trained) for stage in range(len(plan.stages))}
    stages_of = {
        node: [number for number, stage in enumerate(plan.stages) if node in stage.nodes]
        for node in plan.nodes
    }
    order: dict[int, list[Pass]] = {node: [] for node in plan.nodes}
    done: dict[tuple[Pass, int], int] = {}  # round in which a node did a pass
    place = dict.fromkeys(((node, s) for node, stages in stages_of.items() for s in stages), 0)
    rounds = 0 if plan.blocking else MESSAGE_ROUNDS
    number = 0
    while any(place[node, stage] < len(waiting[stage]) for node, stage in place):
        number += 1
        chosen: list[tuple[int, Pass]] = []
        for node, stages in stages_of.items():
            for stage in stages if plan.blocking else reversed(stages):
                if place[node, stage] == len(waiting[stage]):
                    continue
                pass_ = waiting[stage][place[node, stage]]
                before = source(plan, pass_)
                if before is None or all(
                    (before, other) in done
                    and number - done[before, other] > rounds * (other != node)
                    for other in plan.stages[before.stage].nodes
                ):
                    chosen.append((node, pass_))
                    break
        for node, pass_ in chosen:
            order[node].append(pass_)
            place[node, pass_.stage] += 1
            done[pass_, node] = number
    return {node: tuple(passes) for node, passes in order.items()}


def _stage_order(plan: Plan, stage: int, first_trained: int) -> list[Pass]:
    forward = [Pass(stage, m, False) for m in range(plan.microbatches)]
    if plan.stages[stage].last < first_trained:
        return forward
    backward = [Pass(stage, m, True) for m in range(plan.microbatches)]
    if plan.schedule == "gpipe":
        return forward + backward[::-1]
    warm_up = plan.depth(stage)
    order = forward[:warm_up]
    for m in range(plan.microbatches):  # one of each in turn, until all forward passes are done
        order.append(backward[m])
        order += forward[warm_up + m : warm_up + m + 1]
    return order


Operations = Mapping[int, tuple[Pass | Transfer, ...]]
"""By node: its passes and messages, in order."""


def operations(plan: Plan, first_trained: int = 1) -> Operations:
    """Passes of each node in order, with the messages that it receives before and sends after each.

    A node is the `sender` or the `receiver` of the transfers in its list. Between stages on one
    node nothing is sent. Where messages block, a stage that is about to receive a gradient
    from the next one sends its activations after that, if the next one also sends first, as
    DeepSpeed's TrainSchedule does; otherwise both would send, and wait for ever.
    """
    # Plans that differ only in their cuts have the same operations: give each stage a layer.
    stages = (Stage(at, at, stage.samples) for at, stage in enumerate(plan.stages, start=1))
    frozen = sum(stage.last < first_trained for stage in plan.stages)
    return _operations(replace(plan, stages=tuple(stages), recompute=()), frozen + 1)


@lru_cache(maxsize=256)
def _operations(plan: Plan, first_trained: int) -> Operations:
    order = orders(plan, first_trained)
    lists: dict[int, tuple[Pass | Transfer, ...]] = {}
    for node, passes in order.items():
        sequence: list[Pass | Transfer] = []
        held: list[Transfer] = []
        for pass_, following in zip(passes, (*passes[1:], None), strict=True):
            before, after = source(plan, pass_), target(plan, pass_, first_trained)
            if before is not None:
                arriving = transfers(plan, before, pass_)
                sequence += [transfer for transfer in arriving if transfer.receiver == node]
            sequence += held
            sequence.append(pass_)
            held = []
            if after is not None:
                leaving = transfers(plan, pass_, after)
                leaving = [transfer for transfer in leaving if transfer.sender == node]
                if plan.blocking and _returns_first(plan, order, after, following):
                    held = leaving
                else:
                    sequence += leaving
        lists[node] = tuple(
            each for each in sequence if isinstance(each, Pass) or each.sender != each.receiver
        )
    return lists


def _returns_first(
    plan: Plan, order: Mapping[int, tuple[Pass, ...]], after: Pass, following: Pass | None
) -> bool:
    """Whether the stage of `after` sends the input of `following` before it does `after`."""
    before = None if following is None or after.backward else source(plan, following)
    if before is None or before.stage != after.stage:
        return False
    passes = order[plan.stages[after.stage].nodes[0]]
    return passes.index(before) < passes.index(after)
