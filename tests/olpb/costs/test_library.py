"""Networks are counted as the paper's library does: its own examples have Table I's numbers."""

import pytest
import torch
from torch import Tensor, nn

from tests.memory.tracing.modules import Calling
from workbench import zoo
from workbench.olpb.costs.arithmetic import network_elements
from workbench.olpb.costs.backward import UNITS, subtasks
from workbench.olpb.costs.library import library_graph
from workbench.reproduction.claims import load_claims

STATED = dict(load_claims().filter(system="olpb").select("id", "value").iter_rows())


class Reshaped(nn.Linear):
    """Linear layer that reshapes what it reads, as the library's fully connected one."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.view(len(x), -1))


def library_cifarnet() -> nn.Module:
    whole = list(zoo.build("cifarnet", "meta").children())
    return nn.Sequential(nn.BatchNorm2d(3, device="meta"), *whole)


def library_vgg16() -> nn.Module:
    model = zoo.build("vgg16", "meta")
    kept: list[nn.Module] = []
    for part in model.modules():
        if isinstance(part, nn.Linear):
            kept.append(Reshaped(part.in_features, part.out_features, device="meta"))
        elif not list(part.children()) and not isinstance(part, nn.Dropout | nn.AdaptiveAvgPool2d):
            kept.append(part)
    return nn.Sequential(*kept)


def library_squeezenet() -> nn.Module:
    model = zoo.build("squeezenet", "meta")
    model.relu1 = nn.Identity()
    return model


def library_inception() -> nn.Module:
    model = zoo.build("inception_v3", "meta")
    model.dropout = nn.Identity()
    return model


@pytest.mark.parametrize(
    ("name", "model", "shape", "reshapes"),
    [
        # Reshapes of fully connected layers are nodes, but no layers.
        ("cifarnet", library_cifarnet, (3, 32, 32), 1),
        ("squeezenet", library_squeezenet, (3, 224, 224), 0),
        ("vgg16", library_vgg16, (3, 224, 224), 3),
        ("inception_v3", library_inception, (3, 299, 299), 0),
    ],
)
def test_the_librarys_own_networks_have_the_numbers_of_table_1(
    name: str, model: object, shape: tuple[int, ...], reshapes: int
) -> None:
    found = library_graph(model(), shape)  # type: ignore[operator]
    assert len(found.nodes) == int(STATED[f"olpb.table1.{name}.nodes"])
    assert found.layers - reshapes == int(STATED[f"olpb.table1.{name}.layers"])


def test_nodes_of_a_small_network() -> None:
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 3),
    )
    found = library_graph(model, (2, 6, 6))
    names = found.nodes.filter(kind="operator")["name"].to_list()
    made = "convolution add sub div mul add relu dropout mul mean reshape dot add"
    loss = "sub exp sum div log mul sum neg"
    assert names == f"{made} {loss}".split()
    assert found.nodes.filter(kind="parameter")["numbers"].to_list() == [72, 4, 4, 4, 12, 3]
    assert found.layers == 7  # the pooling makes vectors; softmax is a layer
    convolution = found.nodes.filter(name="convolution").row(0, named=True)
    assert convolution["backward_flops"] == 0  # the input needs no gradient
    dot = found.nodes.filter(name="dot").row(0, named=True)
    assert dot["backward_flops"] == 2 * 4 * 3
    inference = library_graph(model, (2, 6, 6), training=False)
    assert {"dropout", "exp", "log"}.isdisjoint(inference.nodes["name"])


def test_joining_is_two_at_a_time() -> None:
    parts = nn.ModuleList(nn.Conv2d(1, 2, 1) for _ in range(4))
    joined = Calling(lambda m, x: torch.cat([part(x) for part in m.parts], 1), parts=parts)
    found = library_graph(joined, (1, 3, 3), training=False).nodes.filter(name="concat")
    assert found["numbers"].to_list() == [4 * 9, 6 * 9, 8 * 9]
    assert found["layer"].n_unique() == 1


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("levels", [1, 2, 3])
def test_subtasks_hold_every_node_once(unit: str, levels: int) -> None:
    whole = library_graph("lenet5").nodes.filter(kind="operator")
    found = subtasks("lenet5", 3, unit, levels)
    parameters = library_graph("lenet5").nodes.filter(kind="parameter")
    inside = whole.filter(whole["layer"].is_not_null())
    flops = sum(one["backward_flops"].cast(float).sum() for one in (inside, parameters))
    assert sum(one.backward_flops for one in found) == 3 * flops
    assert found[-1].boundary_bytes == 0  # the input needs no gradient
    assert all(one.boundary_bytes > 0 for one in found[:-1])
    fewer = subtasks("lenet5", 3, unit, levels + 1)
    assert len(fewer) <= len(found)


def test_an_operators_own_time_counts_once_each() -> None:
    plain, dearer = subtasks("lenet5"), subtasks("lenet5", operator_flops=7.0)
    more = sum(b.backward_flops - a.backward_flops for a, b in zip(plain, dearer, strict=True))
    assert more == 7 * library_graph("lenet5").nodes.filter(kind="operator")["layer"].count()


def test_layers_that_were_replaced_are_counted_as_they_are() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    narrow = subtasks(module, input_shape=(4,))
    assert network_elements(module, input_shape=(4,)).sequential_flops == 48
    module[0], module[1] = nn.Linear(4, 300), nn.Linear(300, 2)
    wide = nn.Sequential(nn.Linear(4, 300), nn.Linear(300, 2))
    assert narrow != subtasks(module, input_shape=(4,)) == subtasks(wide, input_shape=(4,))
    assert network_elements(module, input_shape=(4,)).sequential_flops == 4800


def test_wrong_arguments_are_refused() -> None:
    for priced in (library_graph, network_elements):
        with pytest.raises(ValueError, match="no parameters"):
            priced(nn.Dropout(0.5), input_shape=(3,))
    with pytest.raises(ValueError, match="input_shape"):
        library_graph(nn.Linear(2, 2))
