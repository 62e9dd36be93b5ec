"""Every planner through the same suite; HierTrain against brute force and the paper's loop."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hiertrain.strategies import choice_of, exact_problems, given_of, problems
from tests.long import usually
from tests.oracles import hiertrain as oracle
from workbench.clusters import Link
from workbench.hiertrain import PLANNERS, TIERS, Chain, Hybrid, Policy, Problem, iteration
from workbench.hiertrain.algorithms import FAST
from workbench.hiertrain.algorithms.baselines import jalad, shortest_path
from workbench.hiertrain.algorithms.hiertrain import (
    ORDERS,
    all_tasks,
    bound_by_l_s,
    duration_s,
    hiertrain,
    phase_bound_s,
    try_splits,
)
from workbench.hiertrain.algorithms.linear_programme import linear_programme, relaxed, rounded
from workbench.hiertrain.costs import PAIRS
from workbench.hiertrain.paper.testbed import EDGE_CLOUD_MBPS, MODELS, variant

every_planner = pytest.mark.parametrize("name", usually(["hiertrain", "jalad"], FAST))

# Sums of n doubles in different orders differ by at most about n units in the last place.
RELATIVE = 1e-12


def total_s(problem: Problem, policy: Policy) -> float:
    return iteration(problem, policy).total_s


def no_policy_is_faster_s(problem: Problem) -> float:
    """All tiers compute each layer at once without a message; a third of the least updates."""
    with np.errstate(divide="ignore"):
        speeds = np.sum([1 / problem.layer_s[tier] for tier in TIERS], axis=0)
    least_update_s = np.min([problem.update_s[tier] for tier in TIERS], axis=0)
    return float((problem.batch / speeds).sum() + least_update_s.sum() / len(TIERS))


@every_planner
@given(problem=problems(max_layers=9, max_batch=20))
def test_policy_is_legal_repeatable_and_not_below_the_lower_bound(
    name: str, problem: Problem
) -> None:
    planner = PLANNERS[name]
    policy = planner(problem)
    policy.check(problem)
    assert planner(problem) == policy
    table = policy.table(problem.layers)
    assert set(table["tier"]) <= set(TIERS)
    covered = {
        layer
        for first, last in table.select("first_layer", "last_layer").iter_rows()
        for layer in range(first, last + 1)
    }
    assert covered == set(range(1, problem.layers + 1))
    assert total_s(problem, policy) >= no_policy_is_faster_s(problem) * (1 - RELATIVE)


@settings(deadline=None)
@given(problem=problems(max_layers=5, max_batch=8))
def test_hiertrain_is_as_fast_as_brute_force(problem: Problem) -> None:
    plain = given_of(problem)
    best_s = min(
        oracle.hybrid_s(plain, choice)
        for choice in oracle.all_hybrids(problem.layers, problem.batch)
    )
    assert total_s(problem, hiertrain(problem)) == pytest.approx(best_s, rel=RELATIVE)


@pytest.mark.parametrize("output_bytes", [0.0, 1.0])
def test_hiertrain_counts_overheads_of_infinitely_fast_links(output_bytes: float) -> None:
    """The device is slowest, but nothing that saves its computation is worth a message."""
    problem = Problem(
        layer_s={"device": [(1, 1)] * 2, "edge": [(0, 0)] * 2, "cloud": [(0, 0)] * 2},
        update_s={tier: [0, 0] for tier in TIERS},
        param_bytes=[1, 1],
        output_bytes=[output_bytes] * 2,
        sample_bytes=1,
        links={pair: Link(math.inf, 100.0) for pair in PAIRS},
        batch=4,
    )
    assert hiertrain(problem) == Hybrid(("device", "edge", "cloud"), 0, 0, 4, 0, 0)


def preference(choice: oracle.Choice) -> tuple[int, ...]:
    """The documented order of policies that are equally fast."""
    order, m_s, m_l, _, b_s, b_l = choice
    tiers = 1 + (m_s > 0) + (m_l > 0)
    return tiers, m_l, m_s, b_l, b_s, ORDERS.index(order)


@settings(deadline=None)
@given(problem=exact_problems(max_layers=4, max_batch=6))
def test_hiertrain_takes_the_documented_one_of_equals(problem: Problem) -> None:
    plain = given_of(problem)
    best = min(
        oracle.all_hybrids(problem.layers, problem.batch),
        key=lambda choice: (oracle.hybrid_s(plain, choice), preference(choice)),
    )
    assert choice_of(hiertrain(problem)) == best


@settings(deadline=None)
@given(problem=problems(max_layers=3, max_batch=200), data=st.data())
def test_no_neighbour_of_hiertrains_split_is_faster(problem: Problem, data: st.DataObject) -> None:
    ours = hiertrain(problem)
    ours_s = total_s(problem, ours)
    m_s, m_l = sorted(data.draw(st.integers(0, problem.layers)) for _ in range(2))
    order = data.draw(st.sampled_from(ORDERS))
    for b_s in {0, ours.b_s} | {data.draw(st.integers(0, problem.batch)) for _ in range(3)}:
        for b_l in range(problem.batch - b_s + 1):
            split = (b_s if m_s else 0, b_l if m_l else 0)
            other = Hybrid(order, m_s, m_l, problem.batch - sum(split), *split)  # type: ignore[arg-type]
            assert ours_s <= total_s(problem, other) * (1 + RELATIVE)


def usual_problem(seed: int, layers: int, batch: int, overhead_s: float = 0.0) -> Problem:
    """Costs within some orders of magnitude, such that samples are shared out in many ways."""
    generator = np.random.default_rng(seed)
    seconds = generator.lognormal(size=(layers, 2))
    speed = dict(zip(TIERS, (1.0, *generator.uniform(1, 10, size=2)), strict=True))
    return Problem(
        layer_s={tier: seconds / speed[tier] for tier in TIERS},
        update_s={tier: generator.random(layers) / speed[tier] for tier in TIERS},
        param_bytes=generator.lognormal(sigma=2, size=layers),
        output_bytes=generator.lognormal(sigma=2, size=layers),
        sample_bytes=generator.uniform(0, 3),
        links={pair: Link(8 * generator.lognormal(sigma=1.5), overhead_s) for pair in PAIRS},
        batch=batch,
    )


@pytest.mark.parametrize("overhead_s", [0.0, 0.1, 10.0])
@pytest.mark.parametrize("seed", range(4))
def test_every_choice_is_bounded_and_its_best_split_is_tried(seed: int, overhead_s: float) -> None:
    problem = usual_problem(seed, layers=4, batch=40, overhead_s=overhead_s)
    tasks, batch = all_tasks(problem), problem.batch
    b_s, b_l = np.indices((batch + 1, batch + 1), dtype=float).reshape(2, -1)
    all_s = duration_s(tasks, batch, b_s[None], b_l[None])
    all_s[:, b_s + b_l > batch] = np.inf
    all_s[np.ix_(tasks.m_s == 0, b_s > 0)] = np.inf
    all_s[np.ix_(tasks.m_l == 0, b_l > 0)] = np.inf
    place, *_, tried_s = try_splits(tasks, batch, np.inf)
    least_s = np.full(len(all_s), np.inf)
    np.minimum.at(least_s, place, tried_s)
    assert least_s == pytest.approx(all_s.min(axis=1), rel=RELATIVE)
    bounds_s = bound_by_l_s(tasks, batch, np.arange(batch + 1.0))
    by_l_s = all_s.reshape(-1, batch + 1, batch + 1).min(axis=1)
    assert (bounds_s <= by_l_s * (1 + 1e-9)).all()
    assert (phase_bound_s(tasks, batch) <= by_l_s.min(axis=1) * (1 + 1e-9)).all()


@pytest.mark.parametrize("seed", range(8))
def test_the_papers_algorithm_is_the_oracles_and_never_faster_than_ours(seed: int) -> None:
    problem = usual_problem(seed, layers=3, batch=25)
    policy = linear_programme(problem)
    choice, least_s = oracle.algorithm_1(given_of(problem))
    assert choice_of(policy) == choice
    assert total_s(problem, policy) == pytest.approx(least_s, rel=RELATIVE)
    assert total_s(problem, hiertrain(problem)) <= least_s * (1 + RELATIVE)


def test_the_relaxed_split_is_the_linear_programmes() -> None:
    problem = usual_problem(1, layers=3, batch=100)
    plain = given_of(problem)
    for order in ORDERS:
        for m_s, m_l in ((0, 2), (1, 1), (1, 3)):
            split = oracle.linear_programme(plain, order, m_s, m_l)
            # The solver meets its constraints up to 1e-7.
            assert relaxed(problem, order, m_s, m_l) == pytest.approx(split, abs=1e-5)


@pytest.mark.parametrize(
    ("samples", "whole"),
    [
        ((3.5, 2.2, 4.3), [4, 2, 4]),
        ((3.6, 2.2, 4.2), [4, 2, 4]),
        ((3.4, 2.9, 3.7), [3, 3, 4]),
        ((5.0, 3.0, 2.0), [5, 3, 2]),
        ((4.9999999, 3.0, 2.0000001), [5, 3, 2]),
    ],
)
def test_the_papers_rounding(samples: tuple[float, ...], whole: list[int]) -> None:
    assert rounded(np.array(samples), 10) == whole


def test_rounding_misses_the_optimum_where_few_samples_are_shared_out() -> None:
    """What the exact search is for: here another whole split is better."""
    problem = usual_problem(11, layers=3, batch=5)
    assert total_s(problem, linear_programme(problem)) > 1.01 * total_s(problem, hiertrain(problem))


@settings(deadline=None)
@given(problem=problems(max_layers=6, max_batch=12))
def test_shortest_paths_are_as_fast_as_every_assignment(problem: Problem) -> None:
    """JointDNN's graph has forward and backward, and no updates."""
    weightless = replace(problem, update_s=dict.fromkeys(TIERS, np.zeros(problem.layers)))
    plain = given_of(weightless)
    for allowed in (("device", "cloud"), TIERS):
        chain = shortest_path(problem, allowed)
        assert set(chain.tiers) <= set(allowed)
        best_s = oracle.best_assignment_s(plain, allowed)
        assert total_s(weightless, chain) == pytest.approx(best_s, rel=RELATIVE)
    plus_s, joint_s = (
        total_s(problem, PLANNERS[name](problem)) for name in ("jointdnn_plus", "jointdnn")
    )
    assert plus_s <= joint_s


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("mbps", EDGE_CLOUD_MBPS)
def test_with_updates_no_assignment_is_faster_on_the_papers_testbed(
    model: str, mbps: float
) -> None:
    problem = variant(edge_cloud_mbps=mbps).problem(MODELS[model])
    for name, allowed in (("jointdnn", ("device", "cloud")), ("jointdnn_plus", TIERS)):
        best_s = oracle.best_assignment_s(given_of(problem), allowed)
        assert total_s(problem, PLANNERS[name](problem)) == pytest.approx(best_s, rel=RELATIVE)


@given(
    problem=problems(max_layers=9, max_batch=12),
    bits=st.sampled_from([1, 4, 8, 16, 32]),
)
def test_jalad_is_as_fast_as_every_cut(problem: Problem, bits: int) -> None:
    best_s = oracle.best_cut_s(given_of(problem), bits, bits)
    chain = jalad(problem, bits)
    assert total_s(problem, chain) == pytest.approx(best_s, rel=RELATIVE)


@pytest.mark.parametrize("planner", PLANNERS.values(), ids=PLANNERS)
def test_anything_but_a_problem_is_refused(planner: Any) -> None:
    with pytest.raises(TypeError, match="problem is None; give a Problem"):
        planner(None)


@given(problem=problems(max_layers=5, max_batch=12))
def test_one_tier_holds_all_in_all_edge_and_all_cloud(problem: Problem) -> None:
    for name in ("edge", "cloud"):
        policy = PLANNERS[f"all_{name}"](problem)
        assert policy.table(problem.layers).rows() == [(name, 1, problem.layers, problem.batch)]
        same = Chain((name,) * problem.layers, problem.batch)
        assert total_s(problem, policy) == pytest.approx(total_s(problem, same), rel=RELATIVE)
