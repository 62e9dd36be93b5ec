"""Every planner through the same suite; HierTrain against brute force and the paper's loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hiertrain.strategies import choice_of, exact_problems, given_of, problems
from tests.long import usually
from tests.oracles import hiertrain as oracle
from workbench.hiertrain import PLANNERS, TIERS, Chain, Hybrid, Policy, Problem, iteration
from workbench.hiertrain.algorithms.bounds import phase_bound_s, relaxed
from workbench.hiertrain.algorithms.hiertrain import candidate_splits, hiertrain
from workbench.hiertrain.algorithms.jalad import jalad
from workbench.hiertrain.algorithms.tasks import ORDERS, all_tasks
from workbench.hiertrain.costs.problem import PAIRS

every_planner = pytest.mark.parametrize("name", usually(["hiertrain", "jalad"], PLANNERS))

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


@settings(deadline=None)
@given(problem=problems(max_layers=3, max_batch=6))
def test_bounds_are_below_every_split(problem: Problem) -> None:
    tasks, plain = all_tasks(problem), given_of(problem)
    best_s: dict[tuple[int, int, int], float] = {}
    for choice in oracle.all_hybrids(problem.layers, problem.batch):
        key = (ORDERS.index(choice[0]), choice[1], choice[2])
        best_s[key] = min(best_s.get(key, np.inf), oracle.hybrid_s(plain, choice))
    exact_s = np.array(
        [
            best_s[int(order), int(m_s), int(m_l)]
            for order, m_s, m_l in zip(tasks.order, tasks.m_s, tasks.m_l, strict=True)
        ]
    )
    relaxed_s, b_s, b_l = relaxed(tasks)
    assert (phase_bound_s(tasks) <= relaxed_s * (1 + 1e-9)).all()
    assert (relaxed_s <= exact_s * (1 + 1e-9)).all()
    assert ((b_s >= 0) & (b_l >= 0) & (b_s + b_l <= problem.batch)).all()


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
        bandwidth_bps={pair: 8 * generator.lognormal(sigma=1.5) for pair in PAIRS},
        batch=batch,
        overhead_s=overhead_s,
    )


@pytest.mark.parametrize("seed", range(8))
def test_relaxation_is_the_papers_linear_programme(seed: int) -> None:
    problem = usual_problem(seed, layers=3, batch=100)
    tasks, plain = all_tasks(problem), given_of(problem)
    ours_s = relaxed(tasks)[0]
    for k, order in enumerate(tasks.order):
        m_s, m_l = int(tasks.m_s[k]), int(tasks.m_l[k])
        split = oracle.linear_programme(plain, ORDERS[order], m_s, m_l)
        theirs_s = oracle.hybrid_s(plain, (ORDERS[order], m_s, m_l, *split))  # type: ignore[arg-type]
        # The linear programme's solver meets its constraints up to 1e-7.
        assert ours_s[k] == pytest.approx(theirs_s, rel=1e-6)


@pytest.mark.parametrize("overhead_s", [0.0, 0.1, 10.0])
@pytest.mark.parametrize("seed", range(4))
def test_candidates_hold_a_best_split_of_all_tasks(seed: int, overhead_s: float) -> None:
    problem = usual_problem(seed, layers=4, batch=40, overhead_s=overhead_s)
    tasks = all_tasks(problem)
    ours_s = tasks.duration_s(*candidate_splits(tasks)).min(axis=1)
    b_s, b_os = np.triu_indices(problem.batch + 1)
    b_l = problem.batch - b_os
    all_s = tasks.duration_s(b_s[None, :].astype(float), b_l[None, :].astype(float))
    idle_s, idle_l = (tasks.m_s == 0)[:, None], (tasks.m_l == 0)[:, None]
    all_s[(idle_s & (b_s > 0)) | (idle_l & (b_l > 0))] = np.inf
    assert ours_s == pytest.approx(all_s.min(axis=1), rel=RELATIVE)


@settings(deadline=None)
@given(problem=problems(max_layers=6, max_batch=12))
def test_shortest_paths_are_as_fast_as_every_assignment(problem: Problem) -> None:
    plain = given_of(problem)
    for name, allowed in (("jointdnn", ("device", "cloud")), ("jointdnn_plus", TIERS)):
        chain = PLANNERS[name](problem)
        assert isinstance(chain, Chain)
        assert set(chain.tiers) <= set(allowed)
        best_s = oracle.best_assignment_s(plain, allowed)
        assert total_s(problem, chain) == pytest.approx(best_s, rel=RELATIVE)


@given(
    problem=problems(max_layers=9, max_batch=12),
    bits=st.sampled_from([1, 4, 8, 16, 32]),
    gradient_bits=st.sampled_from([None, 8, 32]),
)
def test_jalad_is_as_fast_as_every_cut(
    problem: Problem, bits: int, gradient_bits: int | None
) -> None:
    best_s = oracle.best_cut_s(given_of(problem), bits, gradient_bits or bits)
    chain = jalad(problem, bits, gradient_bits)
    assert total_s(problem, chain) == pytest.approx(best_s, rel=RELATIVE)


@given(problem=problems(max_layers=5, max_batch=12))
def test_one_tier_holds_all_in_all_edge_and_all_cloud(problem: Problem) -> None:
    for name in ("edge", "cloud"):
        policy = PLANNERS[f"all_{name}"](problem)
        assert policy.table(problem.layers).rows() == [(name, 1, problem.layers, problem.batch)]
        same = Chain((name,) * problem.layers, problem.batch)
        assert total_s(problem, policy) == pytest.approx(total_s(problem, same), rel=RELATIVE)
