"""Stored dataflows: what tracing gives, at any batch size."""

from __future__ import annotations

import subprocess
import sys
import zipfile

import pytest

from tests.long import usually
from workbench.memory import stored_dataflows as stored
from workbench.memory.dataflow import Dataflow, dataflow
from workbench.memory.optimiser import optimise
from workbench.memory.planning import plan_memory
from workbench.memory.stored_dataflows import stored_dataflow
from workbench.memory.tracing import trace
from workbench.utils.checks import UnknownNameError
from workbench.zoo import MODELS

FEW = ("lenet5", "alexnet_tiny", "squeezenet_cifar", "resnet20_cifar")


def same(one: Dataflow, other: Dataflow) -> bool:
    numbers = one.sizes.tolist() == other.sizes.tolist()
    return numbers and (one.steps, one.kept, one.held) == (other.steps, other.kept, other.held)


def test_every_model_is_stored() -> None:
    with zipfile.ZipFile(stored.STORED) as file:
        names = [name for name in file.namelist() if name.endswith("from 1")]
    assert names == [
        f"{model}, {phase}, {graph}, from 1"
        for model in MODELS
        for phase in ("inference", "training")
        for graph in ("as traced", "optimised")
    ]


@pytest.mark.parametrize("optimised", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", usually(("lenet5", "squeezenet_cifar"), FEW))
def test_what_is_stored_is_what_tracing_gives(name: str, training: bool, optimised: bool) -> None:
    for batch_size in (1, 7):
        kept = stored_dataflow(name, batch_size, training, optimised)
        assert kept.graph is None
        graph = trace(name, batch_size=batch_size, training=training)
        assert same(kept, dataflow(optimise(graph).graph if optimised else graph))


def test_a_model_of_other_operators_for_one_sample() -> None:
    one, several = (stored_dataflow("mask_rcnn", size) for size in (1, 2))
    assert len(one.steps) != len(several.steps)
    assert one.held_bytes("weight") == several.held_bytes("weight")


def test_plans_of_stored_dataflows_are_near_the_bound() -> None:
    flow = stored_dataflow("inception_v3", 16, training=True)
    plan = plan_memory(flow, order="best_first", rounds=0)
    assert plan.total_bytes <= 1.02 * plan.bound_bytes
    assert set(plan.table["kind"]) == {"activation", "gradient", "output"}
    assert flow.held_bytes("weight") == 4 * MODELS["inception_v3"].parameters


def test_storing_again_gives_the_same_bytes() -> None:
    for training in (False, True):
        for name, content in stored.forms("lenet5", training):
            assert stored._archive().read(name) == content


def test_unknown_models_and_batches_of_nothing_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'resnet50'"):
        stored_dataflow("resnet51")
    with pytest.raises(ValueError, match="batch_size is 0"):
        stored_dataflow("lenet5", 0)


def test_plans_need_no_pytorch() -> None:
    code = (
        "import sys; from workbench.memory import plan_memory;"
        "from workbench.memory.stored_dataflows import stored_dataflow;"
        "plan_memory(stored_dataflow('resnet18', 8, True), 'pebble');"
        "print('torch' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"
