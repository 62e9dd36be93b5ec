"""Stored costs of backward passes: what computing gives."""

from __future__ import annotations

import itertools
import zipfile

import pytest

from workbench.olpb.algorithms.scans import SCANS
from workbench.olpb.costs import stored_passes as stored
from workbench.olpb.costs.arithmetic import as_arithmetic_costs, network_elements
from workbench.olpb.costs.backward import plan, subtasks
from workbench.olpb.costs.stored_passes import LEVELS, NODES, stored_groups, stored_work
from workbench.utils.checks import UnknownNameError
from workbench.zoo import MODELS

FEW = ("lenet5", "squeezenet_cifar", "resnet20_cifar")
LAYERS = [("operator", levels) for levels in (1, 2, LEVELS)] + [("matrix_layer", 1)]


def test_every_model_is_stored() -> None:
    with zipfile.ZipFile(stored.STORED) as file:
        models = [name.partition(",")[0] for name in file.namelist()]
    assert list(dict.fromkeys(models)) == list(MODELS)
    assert len(models) == 2 * (LEVELS + 1) * len(MODELS)


@pytest.mark.parametrize("model", FEW)
def test_stored_groups_are_what_counting_gives(model: str) -> None:
    operators = [("operator", levels) for levels in (1, LEVELS)]
    for unit, levels in [*operators, ("layer", 1)]:
        counted = subtasks(model, 7, unit, levels, operator_flops=3.5)
        assert stored_groups(model, 7, unit, levels, operator_flops=3.5) == counted


@pytest.mark.parametrize("model", FEW)
def test_stored_work_is_what_arithmetic_gives(model: str) -> None:
    for unit, levels in LAYERS:
        kept = stored._stored_elements(model, unit, levels)
        elements = network_elements(model, 1, unit, levels)
        assert kept is not None
        assert kept.sequential_flops == elements.sequential_flops
        for nodes, scan in itertools.product((1, 2, 3, 13, 32, NODES), SCANS):
            planned = plan(len(elements), nodes, scan)
            wanted = as_arithmetic_costs(planned, elements)
            assert stored_work(model, unit, levels, nodes, scan) == wanted


def test_the_largest_are_near_what_arithmetic_gives() -> None:
    # Beyond 2 ** 53, products are kept to the precision of a double.
    elements = network_elements("mask_rcnn", 1, "operator", 6)
    wanted = as_arithmetic_costs(plan(len(elements), 20, "blelloch"), elements)
    assert max(wanted.move_flops) > 2**63
    found = stored_work("mask_rcnn", "operator", 6, 20, "blelloch")
    assert found.move_flops == pytest.approx(wanted.move_flops, rel=1e-15)
    assert found.value_bytes == pytest.approx(wanted.value_bytes, rel=1e-15)


def test_beyond_what_is_stored_all_is_computed() -> None:
    for levels, nodes in ((LEVELS + 1, 4), (2, NODES + 1)):
        elements = network_elements("lenet5", 1, "operator", levels)
        planned = plan(len(elements), nodes, "hillis_steele")
        found = stored_work("lenet5", "operator", levels, nodes, "hillis_steele")
        assert found == as_arithmetic_costs(planned, elements)
    levels = LEVELS + 1
    assert stored_groups("lenet5", levels=levels) == subtasks("lenet5", levels=levels)


def test_storing_again_gives_the_same_bytes() -> None:
    for name, content in stored.costs("lenet5"):
        assert stored._archive().read(name) == content


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'resnet50'"):
        stored_groups("resnet51")
