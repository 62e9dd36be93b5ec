"""A method of training as one value, and its best use of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from workbench.comparison.cost import Cost, Phase, Runner, carried, mean, within_links
from workbench.comparison.memory import NodeMemory
from workbench.comparison.problem import Problem, UnusableError
from workbench.runtime import Program, simulate

EQUAL = "equal to SGD"
AVERAGES = "averages models"

Training = Callable[[int], Sequence[Program]]
"""Programs of a training, by its iterations."""

ROUNDING = 1e-9
"""Plans that are faster by less are as fast."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A method of training on one cluster.

    Attributes
    ----------
    use
        What an iteration takes, simulated.
    phases
        Its programs, without learning; most trainings have one phase, some have no such programs.
    uses
        What an iteration of each phase takes.
    training
        Its programs over a whole training, where that has several phases.
    predicted_s
        Seconds of an iteration by the cost model of the method's paper, if that has one.
    learns_from
        Nodes whose samples are learnt from.
    batches
        Node -> samples of which it holds the results at once, 0 for a server.
    server
        Node that keeps the model for others, which may learn as well.
    memory
        What nodes hold, where that is not a step of the whole model with these samples.
    where
        Which nodes have which role: ``"server on edge"``; "" where all have the same.
    assumes
        What was assumed or left out, a phrase each.
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

    @classmethod
    def of(cls, problem: Problem, phases: Sequence[Phase], **about: Any) -> Plan:
        """Simulate the programs; `about` are the other attributes."""
        costs = [within_links(problem, phase.cost()) for phase in phases]
        cost = mean(costs, [phase.share for phase in phases])
        return cls(cost=cost, phases=phases, costs=costs, **about)

    def run(self, run: Runner = simulate, count: int | None = None) -> Cost:
        """What an iteration takes as its programs have it, simulated or measured."""
        costs = [phase.cost(run, count) for phase in self.phases]
        return mean(costs, [phase.share for phase in self.phases])


class Candidate(NamedTuple):
    """A plan that has not been simulated yet.

    Attributes
    ----------
    lacking
        Number of nodes that take part and lack the memory.
    least_s
        Lower bound on the seconds per sample.
    plan
        Simulates the plan and returns it.
    """

    lacking: int
    least_s: float
    plan: Callable[[], Plan]


def fastest(problem: Problem, candidates: Iterable[Candidate]) -> Plan:
    """The plan with the most samples a second of those under which most nodes have the memory.

    Of plans as fast, the one that learns from most samples, then that sends least. Who cannot be
    the fastest by its bound is not simulated.
    """
    best: Plan | None = None
    fewest, best_key = 0, (0.0, 0.0, 0.0)
    for lacking, least_s, plan in sorted(candidates, key=lambda one: one[:2]):
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
        The system it belongs to: ``"DynaComm"``.
    update
        How a step differs from SGD on one machine.
    moves_samples
        Whether raw samples leave the node that holds them.
    survives
        Whether the others go on if a node dies.
    planner
        Finds the fastest plan for a cluster; raises `UnusableError`.
    """

    name: str
    system: str
    update: str
    moves_samples: bool = False
    survives: bool = False
    planner: Callable[[Problem], Plan]

    def plan(self, problem: Problem) -> Plan:
        """The fastest use of a cluster, within what its links carry.

        Raises UnusableError: there is none.
        """
        if self.moves_samples and not problem.cluster.raw_samples_may_leave:
            raise UnusableError("raw samples may not leave the node that holds them")
        return self.planner(problem)


def plans(problem: Problem, methods: Iterable[Method]) -> Iterator[tuple[Method, Plan | str]]:
    """Each method with its fastest use of a cluster, or with the reason why there is none."""
    for method in methods:
        try:
            yield method, method.plan(problem)
        except UnusableError as error:
            yield method, str(error)


def usable(problem: Problem, methods: Iterable[Method]) -> dict[str, Plan]:
    """Methods that can be used, by name, each with its fastest use of the cluster."""
    found = plans(problem, methods)
    return {method.name: plan for method, plan in found if isinstance(plan, Plan)}
