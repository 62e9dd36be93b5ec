"""Memory that a step takes, and whether nodes have it."""

from __future__ import annotations

import pickle
from functools import cache

import pytest
from torch import nn

from workbench.clusters import Cluster, Link, Node, full_mesh
from workbench.comparison import METHODS, Problem, compare
from workbench.comparison.compare import compared
from workbench.comparison.memory import StepMemory, memory_of
from workbench.memory import dataflow, trace
from workbench.profiles import profile_model
from workbench.zoo.convolutional import lenet5

BATCH = 16


@cache
def of(model: str = "resnet18") -> StepMemory:
    memory = memory_of(model, None, "float32")
    assert memory is not None
    return memory


def laptop(share: float | None, model: str = "resnet18") -> Problem:
    """A node with a share of the memory that a step takes."""
    room = None if share is None else share * of(model)(BATCH)
    cluster = Cluster([Node("laptop", flops_per_s=1e10, memory_bytes=room)])
    return Problem(profile_model(model), cluster, BATCH, memory=of(model))


def row_of(problem: Problem, method: str) -> dict[str, object]:
    (row,) = compared(problem, [METHODS[method]]).frame.iter_rows(named=True)
    return row


@pytest.mark.parametrize(("share", "fits"), [(None, None), (1.01, True), (0.99, False)])
def test_step_fits_a_node_that_has_its_memory(share: float | None, fits: bool | None) -> None:
    row = row_of(laptop(share), "one node")
    assert row["fits"] is fits
    assert row["memory_bytes"] == of()(BATCH)


def test_less_memory_costs_no_rate_and_points_to_what_recomputes() -> None:
    found = compare("resnet18", laptop(0.99).cluster, BATCH)
    assert found.method is None
    assert "memory.fit" in str(found)
    assert "which has less" in found.explain("one node")
    plenty = compare("resnet18", laptop(1.01).cluster, BATCH)
    assert plenty.method == "one node"
    rates = [one.frame.filter(method="one node")["samples_per_s"][0] for one in (found, plenty)]
    assert rates[0] == rates[1]


@pytest.mark.parametrize(
    ("rooms", "fits"),
    [((1e10, 1e10), True), ((None, 1e10), None), ((None, 1e6), False), ((None, None), None)],
)
def test_it_is_unknown_whether_a_method_fits_where_a_node_states_no_memory(
    rooms: tuple[float | None, float | None], fits: bool | None
) -> None:
    nodes = [
        Node(f"n{at}", flops_per_s=1e9, samples=10, memory_bytes=room)
        for at, room in enumerate(rooms)
    ]
    cluster = full_mesh(nodes, Link(1e8))
    problem = Problem(profile_model("resnet18"), cluster, BATCH, memory=of())
    assert row_of(problem, "all-reduce")["fits"] is fits


@pytest.mark.parametrize("model", ["lenet5", lenet5()], ids=["zoo", "module"])
def test_memory_is_a_value_that_processes_can_be_sent(model: str | nn.Module) -> None:
    memory = memory_of(model, None if isinstance(model, str) else (1, 28, 28), None)
    assert memory is not None
    assert pickle.loads(pickle.dumps(memory))(20) == memory(20)


def test_server_that_learns_keeps_the_model_for_others_as_well() -> None:
    problem = laptop(1.01)
    assert problem.node_memory(0, BATCH) == (of()(BATCH), True)
    serving = problem.node_memory(0, BATCH, serves=True)
    assert serving == (of()(BATCH) + 2 * problem.model_bytes, False)


def test_layers_below_the_first_trained_one_keep_nothing_for_a_backward_pass() -> None:
    lower = [nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 32), nn.Tanh()]
    upper = nn.Sequential(nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 8))

    def kept_bytes(module: nn.Module, width: int) -> int:
        flow = dataflow(trace(module, (width,), 4, training=True), alignment=1)
        behind = {
            buffer for step in flow.steps if step.phase == "backward" for buffer in step.reads
        }
        return sum(
            int(flow.sizes[buffer])
            for step in flow.steps
            if step.phase == "forward"
            for buffer in behind.intersection(step.makes)
        )

    whole = nn.Sequential(*lower, *upper)
    features = 4 * 32 * 4
    assert kept_bytes(whole, 64) > kept_bytes(upper, 32) + features
    for part in lower:
        part.requires_grad_(False)
    assert kept_bytes(whole, 64) == kept_bytes(upper, 32) + features
    assert profile_model(whole, (64,)).table["backward_flops"][:2].to_list() == [0, 0]
