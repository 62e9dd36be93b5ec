"""Every planner through the same suite; DynaComm against brute force and the paper's programme."""

import numpy as np
import pytest
from hypothesis import given, settings

from tests.dynacomm.strategies import costs_of, layer_costs
from tests.oracles import dynacomm as oracle
from workbench.dynacomm import PLANNERS, LayerCosts, Plan, iteration, timeline
from workbench.dynacomm.costs import VECTORS
from workbench.dynacomm.planners import (
    Planner,
    bellman,
    from_first_layer,
    from_last_layer,
    ibatch_backward_cuts,
    merged_cuts,
)

every_planner = pytest.mark.parametrize("planner", PLANNERS.values(), ids=PLANNERS)

# Sums of n doubles in different orders differ by at most about n units in the last place.
RELATIVE = 1e-12


def vectors(costs: LayerCosts) -> list[list[float]]:
    """Pull, forward, backward, push."""
    return [getattr(costs, name).tolist() for name in VECTORS]


@every_planner
@given(costs=layer_costs(max_layers=30))
def test_iteration_is_what_the_oracle_plays_and_not_below_the_lower_bound(
    planner: Planner, costs: LayerCosts
) -> None:
    plan = planner(costs)
    assert planner(costs) == plan
    pull_s, forward_s, backward_s, push_s = vectors(costs)
    ours = iteration(costs, plan)  # which refuses illegal plans
    assert ours.forward_s == pytest.approx(
        oracle.forward_s(pull_s, forward_s, costs.overhead_s, plan.forward_cuts), rel=RELATIVE
    )
    assert ours.backward_s == pytest.approx(
        oracle.backward_s(push_s, backward_s, costs.overhead_s, plan.backward_cuts), rel=RELATIVE
    )
    for total_s, transfer_s, compute_s in (
        (ours.forward_s, costs.pull_s, costs.forward_s),
        (ours.backward_s, costs.push_s, costs.backward_s),
    ):
        bound_s = costs.overhead_s + max(transfer_s.sum(), compute_s.sum())
        assert total_s >= bound_s * (1 - RELATIVE)
    for phase in (ours.forward, ours.backward):  # whose parts add up
        parts = (phase.computation_alone_s, phase.overlap_s, phase.communication_alone_s)
        assert min(parts) >= 0
        assert sum(parts) == pytest.approx(phase.total_s, rel=RELATIVE)
        assert parts[0] + parts[1] == pytest.approx(
            phase.computation_s, rel=1e-9, abs=1e-12 * phase.total_s
        )
        assert parts[1] + parts[2] == pytest.approx(
            phase.communication_s, rel=1e-9, abs=1e-12 * phase.total_s
        )


@every_planner
@given(costs=layer_costs(max_layers=20))
def test_timeline_respects_every_dependency(planner: Planner, costs: LayerCosts) -> None:
    plan = planner(costs)
    frame = timeline(costs, plan).frame
    start_s: dict[tuple[str, int], float] = {}
    end_s: dict[tuple[str, int], float] = {}
    for row in frame.iter_rows(named=True):
        first, _, last = row["label"].partition("-")
        for layer in range(int(first), int(last or first) + 1):
            start_s[row["lane"], layer] = row["start_s"]
            end_s[row["lane"], layer] = row["end_s"]
    layers = range(1, costs.layers + 1)
    lanes = ("pull", "forward", "backward", "push")
    assert set(start_s) == {(lane, layer) for lane in lanes for layer in layers}
    for layer in layers:
        assert end_s["pull", layer] <= start_s["forward", layer]  # Eq. 1
        assert end_s["backward", layer] <= start_s["push", layer]  # Eq. 2
        assert end_s["forward", costs.layers] <= start_s["backward", layer]  # Eq. 3
    for layer in layers[:-1]:
        assert end_s["forward", layer] <= start_s["forward", layer + 1]  # Eq. 5
        assert end_s["backward", layer + 1] <= start_s["backward", layer]  # Eq. 6
    for lane in lanes:  # Eqs. 4-7: one thing at a time on every lane
        rows = frame.filter(frame["lane"] == lane)
        assert (rows["end_s"][:-1] <= rows["start_s"][1:]).all()
    assert timeline(costs, plan).end_s == pytest.approx(
        iteration(costs, plan).total_s, rel=RELATIVE
    )


@settings(deadline=None)
@given(costs=layer_costs(max_layers=9))
def test_dynacomm_is_as_fast_as_brute_force_and_no_planner_is_faster(costs: LayerCosts) -> None:
    pull_s, forward_s, backward_s, push_s = vectors(costs)
    best_forward_s = oracle.brute_force_forward_s(pull_s, forward_s, costs.overhead_s)
    best_backward_s = oracle.brute_force_backward_s(push_s, backward_s, costs.overhead_s)
    for name, planner in PLANNERS.items():
        ours = iteration(costs, planner(costs))
        assert ours.forward_s >= best_forward_s * (1 - RELATIVE)
        assert ours.backward_s >= best_backward_s * (1 - RELATIVE)
        if name == "dynacomm":
            assert ours.forward_s == pytest.approx(best_forward_s, rel=RELATIVE)
            assert ours.backward_s == pytest.approx(best_backward_s, rel=RELATIVE)


@settings(deadline=None)
@given(costs=layer_costs(max_layers=24))
def test_dynacomm_is_as_fast_as_the_papers_programme(costs: LayerCosts) -> None:
    pull_s, forward_s, backward_s, push_s = vectors(costs)
    printed = Plan(
        tuple(oracle.algorithm_3(pull_s, forward_s, costs.overhead_s)),
        tuple(oracle.algorithm_4(push_s, backward_s, costs.overhead_s)),
    )
    ours = iteration(costs, PLANNERS["dynacomm"](costs))
    for other in (iteration(costs, printed), iteration(costs, bellman(costs))):
        assert ours.forward_s == pytest.approx(other.forward_s, rel=RELATIVE)
        assert ours.backward_s == pytest.approx(other.backward_s, rel=RELATIVE)


@pytest.mark.parametrize("layers", [152, 600])
@pytest.mark.parametrize("overhead_s", [0.0, 0.01, 1.0])
def test_dynacomm_stays_optimal_at_full_size(layers: int, overhead_s: float) -> None:
    generator = np.random.default_rng(layers)
    costs = costs_of(generator.lognormal(sigma=2, size=(4, layers)), overhead_s)
    ours, printed = iteration(costs, PLANNERS["dynacomm"](costs)), iteration(costs, bellman(costs))
    assert ours.forward_s == pytest.approx(printed.forward_s, rel=RELATIVE)
    assert ours.backward_s == pytest.approx(printed.backward_s, rel=RELATIVE)


def test_rounding_adds_no_transmission() -> None:
    """Sums of tenths: with one cut as fast as with two, but for their last bits."""
    tenths = ([0.2, 0.1, 0.2], [0.1, 0.1, 0.1], [0.3, 0.3, 0.3], [0.1, 0.1, 0.1])
    costs = LayerCosts(*tenths, overhead_s=0.0)
    assert PLANNERS["dynacomm"](costs).forward_cuts == (2,)


@given(costs=layer_costs(max_layers=9))
def test_dynacomm_sends_no_more_often_than_any_plan_as_fast(costs: LayerCosts) -> None:
    cuts = PLANNERS["dynacomm"](costs).forward_cuts
    best_s = costs.forward.duration_s(cuts)
    for other in oracle.all_cuts(costs.layers):
        if costs.forward.duration_s(other) <= best_s:
            assert len(cuts) <= len(other)


# Sums that are equal on paper may round to either side of a comparison; whole numbers do not.
exact_costs = layer_costs(max_layers=10).map(
    lambda costs: costs_of(
        (np.rint(np.minimum(vector, 1e6)) for vector in vectors(costs)),
        float(round(costs.overhead_s)),
    )
)


@given(costs=exact_costs)
def test_ibatch_follows_algorithm_1(costs: LayerCosts) -> None:
    pull_s, forward_s, _, _ = vectors(costs)
    assert list(from_first_layer(costs.forward)) == oracle.ibatch_from_first(
        pull_s, forward_s, costs.overhead_s
    )


@given(costs=exact_costs)
def test_ibatch_from_the_last_layer_follows_the_mirrored_rule(costs: LayerCosts) -> None:
    pull_s, forward_s, _, _ = vectors(costs)
    assert list(from_last_layer(costs.forward)) == oracle.ibatch_from_last(
        pull_s, forward_s, costs.overhead_s
    )


@given(costs=exact_costs)
def test_ibatch_follows_algorithm_2(costs: LayerCosts) -> None:
    _, _, backward_s, push_s = vectors(costs)
    expected = oracle.ibatch_backward(push_s, backward_s, costs.overhead_s)
    ours = ibatch_backward_cuts(costs.backward)
    assert oracle.backward_s(push_s, backward_s, costs.overhead_s, ours) == oracle.backward_s(
        push_s, backward_s, costs.overhead_s, expected
    )


@given(costs=exact_costs)
def test_mg_wfbp_merges_by_its_conditions(costs: LayerCosts) -> None:
    _, _, backward_s, push_s = vectors(costs)
    assert list(merged_cuts(costs.backward)) == oracle.mg_wfbp_backward(
        push_s, backward_s, costs.overhead_s
    )
