"""What a step needs of memory, and recomputation where a node has less."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.table import Table
from torch import nn

from tests.memory.flows import training_chains
from tests.oracles.recomputation import least_work, work
from workbench.clusters import Cluster, Link, Node, full_mesh
from workbench.comparison import Question, compare
from workbench.comparison.memory import StepMemory, memory_of
from workbench.comparison.text import shown
from workbench.memory import Dataflow, plan_memory, stored_dataflow
from workbench.memory.process import beside_bytes
from workbench.memory.recomputation import cost
from workbench.profiles import profile_model
from workbench.utils.numbers import bytes_as_text
from workbench.zoo.lenet import lenet5

BATCH = 16


@cache
def of(model: str = "resnet18") -> StepMemory:
    memory = memory_of(model, None, "float32")
    assert memory is not None
    return memory


def laptop(share: float | None, model: str = "resnet18") -> Question:
    """A node with a share of the memory that a step takes without recomputation."""
    room = None if share is None else share * of(model)(BATCH)
    cluster = Cluster([Node("laptop", flops_per_s=1e10, memory_bytes=room)])
    return Question(profile_model(model), cluster, BATCH, memory=of(model))


def row_of(cluster: Cluster, way: str, model: str = "resnet18") -> dict[str, object]:
    frame = compare(model, cluster, BATCH).frame
    return frame.row(by_predicate=pl.col("way") == way, named=True)


@given(
    model=st.sampled_from(["resnet18", "lenet5", "squeezenet", "resnet20_cifar", "mobilenet_v1"]),
    samples=st.sampled_from([1, 3, 16]),
    share=st.floats(0.05, 1.1),
)
@settings(max_examples=40, deadline=None)
def test_what_runs_again_fits_and_takes_its_share_of_a_pass(
    model: str, samples: int, share: float
) -> None:
    memory, room = of(model), share * of(model)(samples)
    found = memory.within(samples, room)
    if found is None:
        assert room < memory(samples)
        return
    assert found.needed_bytes <= room
    assert found.forward >= 0
    assert found.backward >= 0
    assert share >= 1 or found.forward + found.backward > 0


@pytest.mark.parametrize("share", [0.95, 0.8, 0.6])
def test_short_search_finds_about_what_the_long_one_does(share: float) -> None:
    flow = stored_dataflow("resnet50", BATCH, True)
    room = share * of("resnet50")(BATCH)
    found = of("resnet50").within(BATCH, room)
    assert found is not None
    plan = plan_memory(flow, "greedy_by_size", int(room - beside_bytes(flow)), rounds=4)
    forward, once = np.array([step.phase == "forward" for step in flow.steps]), cost(flow)
    short = found.forward * once[forward].sum() + found.backward * once[~forward].sum()
    assert short <= 1.5 * (cost(plan.flow).sum() - once.sum())


@given(flow=training_chains(), share=st.floats(0.3, 1.0))
@settings(max_examples=60, deadline=None)
def test_no_recomputation_is_less_than_the_least_of_all_ways(flow: Dataflow, share: float) -> None:
    memory = StepMemory(lambda samples: flow)
    room = int(share * memory(1))
    found = memory.within(1, room)
    least = least_work(flow, room - beside_bytes(flow))
    if found is None:
        assert room < memory(1)
        return
    assert least is not None
    once = np.array([work(flow, number) for number in range(len(flow.steps))])
    forward = np.array([step.phase == "forward" for step in flow.steps])
    more = found.forward * once[forward].sum() + found.backward * once[~forward].sum()
    assert more >= least - once.sum() - 1e-6


def test_node_with_less_memory_computes_again_and_fits() -> None:
    plenty, short = laptop(None), laptop(0.85)
    again = short.recomputation(0, BATCH)
    assert again is not None
    times = plenty.layer_times(0)
    expected_s = again.forward * times.forward_s + again.backward * times.backward_s
    assert short.batch_s(0) - plenty.batch_s(0) == pytest.approx(expected_s)
    row = row_of(short.cluster, "one node")
    assert row["fits"] is True
    assert row["recomputation_s"] == pytest.approx(expected_s)
    assert row["samples_per_s"] == pytest.approx(BATCH / (plenty.batch_s(0) + expected_s))
    room = short.cluster.nodes[0].memory_bytes
    assert room is not None
    assert row["memory_bytes"] == again.needed_bytes <= room
    found = compare("resnet18", short.cluster, BATCH)
    assert f"recomputes: {expected_s:.3g} s a step, so that it fits" in found.explain("one node")
    table = next(iter(shown(found, "ResNet-18")))
    assert isinstance(table, Table)
    memory = next(column for column in table.columns if column.header == "memory")
    assert list(memory.cells) == [f"{bytes_as_text(again.needed_bytes)} *"]


def test_what_not_even_recomputation_makes_fit_does_not_fit() -> None:
    asked = laptop(0.3)
    row = row_of(asked.cluster, "one node")
    assert row["fits"] is False
    assert row["recomputation_s"] == 0
    assert row["memory_bytes"] == of()(BATCH)
    assert asked.batch_s(0) == laptop(None).batch_s(0)


def test_every_way_takes_the_same_seconds_for_recomputation() -> None:
    room = laptop(0.85).cluster.nodes[0].memory_bytes
    boards = [Node(f"b{at}", flops_per_s=1e9, memory_bytes=room, samples=100) for at in range(2)]
    short = full_mesh([*boards, Node("edge", flops_per_s=1e11)], Link(1e9))
    question = Question(profile_model("resnet18"), short, BATCH, memory=of())
    more_s = question.batch_s(0) - replace(question, memory=None).batch_s(0)
    frame = compare("resnet18", short, BATCH).frame
    fullest = frame.filter(pl.col("memory_node") == "b0", pl.col("system") != "HierTrain")
    assert len(fullest) > 8
    assert fullest["recomputation_s"].to_list() == pytest.approx([more_s] * len(fullest))


@pytest.mark.parametrize(
    ("rooms", "fits"),
    [((1e10, 1e10), True), ((None, 1e10), None), ((None, 1e6), False), ((None, None), None)],
)
def test_it_is_unknown_whether_a_way_fits_where_a_node_states_no_memory(
    rooms: tuple[float | None, float | None], fits: bool | None
) -> None:
    nodes = [
        Node(f"n{at}", flops_per_s=1e9, samples=10, memory_bytes=room)
        for at, room in enumerate(rooms)
    ]
    assert row_of(full_mesh(nodes, Link(1e8)), "all-reduce")["fits"] is fits


def test_module_is_traced_with_the_samples_that_do_not_fit() -> None:
    chain = torch.nn.Sequential(*(torch.nn.Conv2d(4, 4, 3, padding=1) for _ in range(6)))
    module = torch.nn.Sequential(chain, torch.nn.Flatten(), torch.nn.Linear(4 * 64, 2))
    memory = memory_of(module, (4, 8, 8), "float32")
    assert memory is not None
    assert memory.within(57, 1.05 * memory(57)) is not None
    assert memory.within(57, 1.0) is None


def test_dataflow_of_some_samples_is_planned_once() -> None:
    asked: list[int] = []

    def flow(samples: int) -> Dataflow:
        asked.append(samples)
        return stored_dataflow("lenet5", samples, True)

    memory = StepMemory(flow)
    for share in (0.99, 0.99, 0.98):
        memory.within(8, share * memory(8))
    assert asked == [8]


@pytest.mark.parametrize("model", ["lenet5", lenet5()], ids=["zoo", "module"])
def test_memory_is_a_value_that_processes_can_be_sent(model: str | nn.Module) -> None:
    memory = memory_of(model, None if isinstance(model, str) else (1, 28, 28), None)
    assert memory is not None
    assert pickle.loads(pickle.dumps(memory))(20) == memory(20)


def test_server_that_learns_has_less_memory_for_its_step() -> None:
    asked = laptop(1.01)
    assert asked.node_memory(0, BATCH) == (of()(BATCH), of()(BATCH), True, 0.0)
    serving = asked.node_memory(0, BATCH, serves=True)
    assert serving is not None
    assert serving.fits
    assert serving.recomputation_s > 0
    assert serving.once_bytes == of()(BATCH) + 2 * asked.model_bytes
    room = asked.cluster.nodes[0].memory_bytes
    assert room is not None
    assert serving.needed_bytes <= room
    more_s = asked.layer_times(0, serves=True).backward_s - asked.layer_times(0).backward_s
    assert serving.recomputation_s == pytest.approx(more_s)
