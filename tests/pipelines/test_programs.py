"""Programs on the simulated network take what the cost model says, whatever the plan."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from tests.pipelines import problems
from tests.pipelines.problems import chain, drawn, owned, uniform
from workbench.clusters import Link, Schedule
from workbench.pipelines import Plan, Problem, Stage, Tied, iteration
from workbench.pipelines.programs import ahead, cluster_of, programs_of
from workbench.runtime import simulate
from workbench.utils.checks import UserError


def some_problem(random: Random, *, latency: bool) -> Problem:
    """Up to 5 unlike nodes and 9 layers; links of all kinds."""
    nodes, layers = random.randint(1, 5), random.randint(1, 9)

    def table() -> np.ndarray:
        return np.array([[random.choice([0.0, random.random()])] * layers for _ in range(nodes)])

    def link() -> Link:
        rates: list[float | Schedule] = [1e2, 1e3, float("inf"), Schedule((0, 1, 3), (1e3, 0, 1e2))]
        bps = random.choice(rates)
        late = random.choice([0.0, 0.2]) if latency else 0.0
        return Link(bps, overhead_s=random.choice([0.0, 0.1]), latency_s=late)

    tied = [Tied(8, tuple(sorted(random.sample(range(1, layers + 1), 2))))] if layers > 1 else []
    return Problem(
        forward_s=table() + 0.01,
        backward_s=table(),
        update_s=table(),
        param_bytes=np.array([8.0 + random.randint(0, 40) for _ in range(layers)]),
        output_bytes=np.array([random.randint(0, 30) for _ in range(layers)]),
        links={(a, b): link() for a in range(nodes) for b in range(nodes) if a != b},
        batch=random.choice([1, 2, 4, 8, 12]),
        tied=tuple(tied[: random.randint(0, 1)]),
        first_trained=random.choice([1, 1, random.randint(1, layers)]),
    )


def some_plan(random: Random, problem: Problem) -> Plan:
    """Any number of stages with replicas of unequal shares; sometimes the ends on one node."""
    count = random.choice([m for m in range(1, problem.batch + 1) if problem.batch % m == 0])
    samples = problem.batch // count
    nodes = random.sample(range(problem.nodes), problem.nodes)
    stages, first = list[Stage](), 1
    number = random.randint(1, min(len(nodes), problem.layers))
    lasts = [*sorted(random.sample(range(1, problem.layers), number - 1)), problem.layers]
    for last in lasts:
        most = min(len(nodes) - (number - len(stages) - 1), samples)
        replicas = [nodes.pop() for _ in range(random.randint(1, most))]
        cuts = sorted(random.sample(range(1, samples), len(replicas) - 1))
        shares = np.diff([0, *cuts, samples]).tolist()
        stages.append(Stage(first, last, tuple(zip(replicas, shares, strict=True))))
        first = last + 1
    if number > 2 and random.random() < 0.3:
        stages[0] = stages[0]._replace(samples=stages[-1].samples)
    return Plan(
        stages=tuple(stages),
        microbatches=count,
        schedule=random.choice(["gpipe", "1f1b"]),
        in_flight=tuple(sorted((random.randint(1, 6) for _ in stages), reverse=True)),
        recompute=tuple(random.random() < 0.3 for _ in stages),
    )


def simulated_s(problem: Problem, plan: Plan, iterations: int = 1) -> float:
    return simulate(cluster_of(problem), programs_of(problem, plan, iterations)).end_s


@pytest.mark.parametrize("seeds", [range(at, at + 60) for at in range(0, 300, 60)])
def test_queued_messages_take_what_is_predicted(seeds: range) -> None:
    for seed in seeds:
        random = Random(seed)
        problem = some_problem(random, latency=True)
        plan = some_plan(random, problem)
        expected_s = iteration(problem, plan).total_s
        assert simulated_s(problem, plan) == pytest.approx(expected_s, rel=1e-9), seed


@pytest.mark.parametrize("seeds", [range(at, at + 60) for at in range(0, 300, 60)])
def test_blocking_messages_take_what_is_predicted(seeds: range) -> None:
    """A chain of plain stages never waits for ever; other plans may, and are refused."""
    carried = 0
    for seed in seeds:
        random = Random(seed)
        problem = some_problem(random, latency=False)
        plan = some_plan(random, problem)
        blocking = Plan(**{**vars(plan), "blocking": True})
        try:
            expected_s = iteration(problem, blocking).total_s
        except UserError:
            continue
        carried += 1
        assert simulated_s(problem, blocking) == pytest.approx(expected_s, rel=1e-9), seed
    assert carried > 30


@pytest.mark.parametrize("seed", range(40))
def test_steps_with_samples_of_others_take_what_is_predicted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes, layers = int(rng.integers(2, 6)), int(rng.integers(2, 7))
    problem = owned(rng, drawn(rng, layers=layers, nodes=nodes, batch=24, equal=True))
    problem = replace(problem, first_trained=1)
    plan = problems.some_plan(rng, problem)
    expected_s = iteration(problem, plan).total_s
    first = ahead(problem, plan, expected_s)
    ends_s = [
        simulate(cluster_of(problem), programs_of(problem, plan, count, in_advance=first)).end_s
        for count in (first + 2, first + 4)
    ]
    assert ends_s[1] - ends_s[0] == pytest.approx(2 * expected_s, rel=1e-9)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_steps_follow_each_other(schedule: str, frozen: int) -> None:
    problem = uniform(3, 4, link=Link(16.0), first_trained=frozen + 1)
    plan = chain((1, 2, 3), microbatches=4, schedule=schedule)
    one_s = iteration(problem, plan).total_s
    assert simulated_s(problem, plan, 5) == pytest.approx(5 * one_s)


@pytest.mark.parametrize(
    ("plan", "tied", "message"),
    [
        (chain((1, 2), microbatches=1, schedule="gpipe"), (), "schedule is 'gpipe'"),
        (chain((1, 2), microbatches=1), (Tied(1, (1, 2)),), "layers 1, 2 share a weight"),
        (
            Plan(stages=(Stage(1, 1, ((0, 1),)), Stage(2, 2, ((0, 1),))), microbatches=1),
            (),
            "several stages",
        ),
    ],
)
def test_plans_that_need_a_flush_are_refused_without(
    plan: Plan, tied: tuple[Tied, ...], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        programs_of(uniform(2, 1, tied=tied), plan, 1, flushes=False)
