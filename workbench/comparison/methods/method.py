"""Methods of training, and the plans that they make for a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from workbench.comparison.cost import Cost, Phase, Runner, carried, mean, within_links
from workbench.comparison.memory import NodeMemory
from workbench.comparison.problem import Problem, UnusableError
from workbench.runtime import Program, simulate

EQUAL = "equal to SGD"
AVERAGES = "averages models"
BY_SPEED = "SGD that learns more from fast nodes' samples"
"""Update with batches by speed, where gradients are weighted by batch size."""

QUANTISED = "equal to SGD except for 8-bit features"

STEPS = (EQUAL, BY_SPEED, QUANTISED)
"""Updates by which all nodes take every step of SGD together."""

Training = Callable[[int], Sequence[Program]]
"""Makes the programs of a training of some iterations."""

ROUNDING = 1e-9
"""Relative difference below which two plans are equally fast."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a method trains on one cluster, and what that costs.

    Attributes
    ----------
    cost
        Cost of an iteration, simulated; the mean over all phases.
    phases
        Programs without learning; most trainings have one phase, some have no such programs.
    costs
        Cost of an iteration of each phase.
    training
        Makes the programs of a whole training, where that has several phases.
    predicted_s
        Seconds of an iteration by the cost model of the method's paper, if that has one.
    learns_from
        Nodes whose samples are learnt from.
    batches
        Node -> samples whose results it holds at the same time; 0 for a server.
    server
        Node that keeps the model for the others; it may be a worker as well.
    memory
        Memory by node, where it is not that of a step of the whole model on `batches`.
    where
        Roles of the nodes: ``"server on edge"``; "" where all have the same role.
    assumes
        Assumptions and omissions, a phrase each.
    accumulates
        Batches of each worker in a step; `batches` are the samples of one of them.
    """

    cost: Cost
    phases: Sequence[Phase] = ()
    costs: Sequence[Cost] = ()
    training: Training | None = None
    predicted_s: float | None = None
    learns_from: Collection[int]
    batches: Mapping[int, int]
    server: int | None = None
    memory: Mapping[int, NodeMemory] | None = None
    where: str = ""
    assumes: tuple[str, ...] = ()
    accumulates: int = 1

    @classmethod
    def of(cls, problem: Problem, phases: Sequence[Phase], **about: Any) -> Plan:
        """The plan of these phases, simulated; `about` are its other attributes."""
        costs = [within_links(problem, phase.cost()) for phase in phases]
        cost = mean(costs, [phase.share for phase in phases])
        return cls(cost=cost, phases=phases, costs=costs, **about)

    def run(self, run: Runner = simulate, count: int | None = None) -> Cost:
        """Run the programs, simulated or measured; return the cost of an iteration."""
        costs = [phase.cost(run, count) for phase in self.phases]
        return mean(costs, [phase.share for phase in self.phases])


class Candidate(NamedTuple):
    """A plan that has not been simulated yet.

    Attributes
    ----------
    lacking
        Number of nodes that take part without having the memory.
    least_s
        Lower bound on the seconds a sample.
    plan
        Simulates the plan and returns it.
    """

    lacking: int
    least_s: float
    plan: Callable[[], Plan]


def fastest(problem: Problem, candidates: Iterable[Candidate]) -> Plan:
    """The plan with the most samples a second among those for which the fewest nodes lack memory.

    Ties go to the plan that learns from more samples, then to the one that sends fewer bytes.
    Candidates that cannot be the fastest by their lower bound are not simulated.
    """
    best: Plan | None = None
    fewest, best_key = 0, (0.0, 0.0, 0.0)
    for lacking, least_s, plan in sorted(candidates, key=lambda candidate: candidate[:2]):
        if best is not None and (lacking > fewest or least_s * best_key[0] > 1 + ROUNDING):
            break
        tried = plan()
        sent = sum(size for size, _ in carried(problem, tried.cost).values()) / tried.cost.samples
        rate = float(f"{tried.cost.samples_per_s:.9g}")
        key = rate, problem.share(tried.learns_from), -sent
        if best is None or key > best_key:
            best, fewest, best_key = tried, lacking, key
    assert best is not None
    return best


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method of training.

    Attributes
    ----------
    system
        System that it belongs to: ``"DynaComm"``.
    update
        How a step differs from SGD on one machine.
    title
        What the method does, where its name says that in one paper alone.
    splits_model
        Whether nodes compute parts of one model.
    moves_samples
        Whether raw samples leave the node that holds them.
    stores_samples
        Whether a node to which samples are sent stores them for all later epochs.
    survives
        Whether the other nodes go on if one dies.
    planner
        Finds the fastest plan for a problem, or raises `UnusableError`.
    """

    name: str
    system: str
    update: str
    title: str = ""
    splits_model: bool = False
    moves_samples: bool = False
    stores_samples: bool = False
    survives: bool = False
    planner: Callable[[Problem], Plan]

    @property
    def label(self) -> str:
        """The method in a sentence: its system, and its name where that says more."""
        if self.name.split(", ")[-1] == self.system.lower():
            return self.system
        if self.name.startswith(self.system):
            return self.name
        return f"{self.system} ({self.name}{self.title and f': {self.title}'})"

    @property
    def keeps_samples(self) -> bool:
        """Whether its nodes learn from the same samples in every epoch."""
        return self.stores_samples or not self.moves_samples

    def plan(self, problem: Problem) -> Plan:
        """The fastest plan for a problem.

        Raises UnusableError: the method cannot be used there.
        """
        if self.moves_samples and not problem.cluster.raw_samples_may_leave:
            raise UnusableError("raw samples may not leave the node that holds them")
        if not problem.cache_frozen:
            plan = self.planner(problem)
        elif not self.keeps_samples:
            phrase = "frozen layers are computed in every epoch, since samples are sent in each"
            plan = _assuming(self.planner(problem.without_cache), phrase)
        else:
            plan = self.planner(problem)
            held = [problem.samples[node] for node in plan.learns_from]
            plan = _assuming(plan, problem.kept(sum(held) if self.moves_samples else max(held)))
        if plan.accumulates != problem.accumulate and self.update in STEPS:
            raise UnusableError("its steps cannot accumulate the gradients of several batches")
        return plan


def _assuming(plan: Plan, phrase: str) -> Plan:
    return replace(plan, assumes=(*plan.assumes, phrase))


def plans(problem: Problem, methods: Iterable[Method]) -> Iterator[tuple[Method, Plan | str]]:
    """Each method with its fastest plan, or with the reason why it cannot be used."""
    for method in methods:
        try:
            yield method, method.plan(problem)
        except UnusableError as error:
            yield method, str(error)


def usable(problem: Problem, methods: Iterable[Method]) -> dict[str, Plan]:
    """The fastest plan of each method that can be used, by the method's name."""
    planned = plans(problem, methods)
    return {method.name: plan for method, plan in planned if isinstance(plan, Plan)}
