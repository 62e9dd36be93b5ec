"""Nodes that multiply Jacobians find autograd's gradients, whoever leaves."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.olpb.algorithms.networks import Inception, Residual, Tied
from tests.oracles import olpb_programs as oracle
from tests.oracles.olpb_scan import autograd_gradients
from workbench.olpb.algorithms.gradients import (
    Elements,
    combine,
    combine_flops,
    element_bytes,
    elements_of,
    scan_gradients,
)
from workbench.olpb.algorithms.levels import groups
from workbench.olpb.algorithms.schedules import schedule
from workbench.olpb.costs.subtasks import Node, Pool
from workbench.olpb.programs.cluster import cluster_of
from workbench.olpb.programs.jacobians import AsArithmeticCosts, JacobianLearner, subtasks_of
from workbench.olpb.programs.server import programs_of
from workbench.profiles import profile_model
from workbench.runtime import Crash, simulate
from workbench.zoo import build

POOL = Pool(tuple(Node(1e4, bandwidth_bps=1e6) for _ in range(3)), 1e-3, 1e-2)


def network(kind: Any) -> tuple[torch.nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    x = torch.randn(3, 4) if kind is Tied else torch.randn(3, 1, 6, 6)
    return kind(), x, torch.tensor([0, 2, 1])


@pytest.mark.parametrize("kind", [Residual, Inception, Tied])
@pytest.mark.parametrize(("unit", "level"), [("operator", 2), ("layer", 1)])
@pytest.mark.parametrize("scan", ["hillis_steele", "blelloch"])
@pytest.mark.parametrize("leaves", [False, True])
def test_gradients_are_autograds(kind: Any, unit: str, level: int, scan: str, leaves: bool) -> None:
    module, x, y = network(kind)
    found: list[dict[str, Tensor]] = []
    made = elements_of(module, x, y, unit, level=level)
    subtasks = subtasks_of(made.tape, made.groups)
    assert len(subtasks) == len(made.elements)
    learner = JacobianLearner(
        lambda iteration: elements_of(module, x, y, unit, level=level),
        lambda made, gradients, at_s: found.append(gradients),
    )
    counting = AsArithmeticCosts(subtasks)
    programs = programs_of(subtasks, POOL, 2, scan=scan, counting=counting, learner=learner)
    faults = [Crash("node1", 0.015)] if leaves else []
    first, second = simulate(cluster_of(POOL), programs, faults=faults).results[3]
    assert (first.attempts, second.attempts) == (1 + leaves, 1)
    wanted, _ = autograd_gradients(module, x, y)
    for gradients in found:
        assert set(gradients) >= set(wanted)
        for name, gradient in wanted.items():
            torch.testing.assert_close(gradients[name], gradient, rtol=1e-10, atol=1e-10)
    alone = scan_gradients(module, x, y, unit, level=level, scan=scan, nodes=3 - leaves)
    assert second.work == alone.work
    for name, gradient in alone.gradients.items():
        assert torch.equal(found[1][name], gradient)


def test_costs_of_the_arithmetic_are_as_predicted() -> None:
    module, x, y = network(Inception)
    made: Elements = elements_of(module, x, y)
    subtasks = subtasks_of(made.tape, made.groups)
    learner = JacobianLearner(lambda iteration: made, lambda *_: None)
    counting = AsArithmeticCosts(subtasks)
    programs = programs_of(subtasks, POOL, counting=counting, learner=learner)
    (found,) = simulate(cluster_of(POOL), programs).results[3]

    def product(span: tuple[int, int]) -> Any:
        value = made.elements[span[0]]
        for later in made.elements[span[0] + 1 : span[1] + 1]:
            value = combine(value, later)
        return value

    plan = schedule("hillis_steele", len(subtasks), found.runs, exclusive=True)
    expected_s = oracle.backward_s(
        plan,
        POOL,
        lambda left, right: combine_flops(product(left), product(right)),
        lambda span: element_bytes(product(span)),
        lambda element: subtasks[element].backward_flops,
    )
    assert found.backward_s == pytest.approx(expected_s, rel=1e-9)


@pytest.mark.parametrize(("unit", "level"), [("operator", 1), ("operator", 3), ("layer", 1)])
def test_subtasks_cost_what_the_profile_says(unit: str, level: int) -> None:
    x, y = torch.randn(2, 1, 28, 28), torch.tensor([3, 4])
    tape = elements_of(build("lenet5"), x, y, unit, level=level).tape
    subtasks = subtasks_of(tape, groups(tape.flow, unit, level))
    profile = profile_model("lenet5")
    assert sum(one.backward_flops for one in subtasks) == 2 * profile.backward_flops
    if unit == "layer":
        costs = [one.backward_flops for one in subtasks[:0:-1]]
        assert costs == [2 * one for one in profile.table["backward_flops"]]
        boundaries = [one.boundary_bytes for one in subtasks[:1:-1]]
        assert boundaries == [2 * one for one in profile.table["output_bytes"][:-1]]
