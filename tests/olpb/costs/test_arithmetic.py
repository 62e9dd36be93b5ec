"""Arithmetic without Jacobians is what a scan with Jacobians counts, or bounds it."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from tests.long import usually
from tests.memory.tracing.modules import Calling
from tests.olpb.algorithms import networks
from workbench.olpb.algorithms.gradients import ScanGradients, scan_gradients
from workbench.olpb.algorithms.scans import SCANS
from workbench.olpb.algorithms.schedules import schedule
from workbench.olpb.costs.arithmetic import as_arithmetic_costs, elements_of, network_elements
from workbench.profiles.recording import record

CUTS = [("operator", 1), ("operator", 2), ("operator", 3), ("matrix_layer", 1)]


def smooth_chain() -> nn.Module:
    first = (nn.Conv2d(2, 3, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2))
    second = (nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.Sigmoid(), nn.Flatten())
    return nn.Sequential(*first, *second, nn.Linear(16, 5), nn.Tanh(), nn.Linear(5, 3))


def with_relus() -> nn.Module:
    first = (nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    second = (nn.Conv2d(3, 4, 3, padding=2, dilation=2), nn.BatchNorm2d(4), nn.ReLU())
    third = (nn.Conv2d(4, 4, 3, groups=4), nn.Flatten(), nn.LazyLinear(3))
    return nn.Sequential(*first, *second, *third)


def both(
    module: nn.Module,
    x: Tensor,
    y: Tensor,
    cut: tuple[str, int],
    *,
    scan: str = "hillis_steele",
    nodes: int | None = None,
) -> tuple[ScanGradients, float, float, list[int]]:
    """What the scan counted, and by arithmetic FLOPs, bytes, and nonzeros from input to loss."""
    unit, levels = cut
    counted = scan_gradients(module, x, y, unit, levels=levels, scan=scan, nodes=nodes)
    loss = functional.mse_loss if y.is_floating_point() else functional.cross_entropy
    graph = record("", Calling(lambda m, x, y: loss(m.f(x), y), f=module), (x, y), names=["", ""])
    elements = elements_of(graph, unit, levels)
    planned = schedule(scan, len(elements), nodes, exclusive=True)
    work = as_arithmetic_costs(planned, elements)
    assert work.value_bytes is not None
    sent = sum(work.value_bytes[one.value] for one in planned.messages)
    nonzeros = [elements.nonzeros[at, at] for at in range(1, len(elements))]
    return counted, sum(work.move_flops), sent, nonzeros[::-1]


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("nodes", [None, 3])
@pytest.mark.parametrize(("unit", "levels"), CUTS)
def test_exact_for_smooth_chains(scan: str, nodes: int | None, unit: str, levels: int) -> None:
    torch.manual_seed(0)
    counted, flops, sent, nonzeros = both(
        smooth_chain(),
        torch.randn(2, 2, 8, 8),
        torch.randn(2, 3),
        (unit, levels),
        scan=scan,
        nodes=nodes,
    )
    assert flops == counted.flops
    assert nonzeros == [one.nonzeros for one in counted.groups]
    # SciPy's indices have eight bytes where it has not narrowed them to four.
    assert sent <= counted.bytes_sent <= 4 / 3 * sent + 4 * 1000


@settings(max_examples=15)
@given(
    size=st.integers(5, 9),
    convolutions=st.lists(
        st.tuples(
            st.integers(1, 3), st.sampled_from((1, 2, 3)), st.integers(1, 2), st.integers(0, 1)
        ),
        min_size=1,
        max_size=3,
    ),
    levels=st.integers(1, 3),
    nodes=st.integers(1, 9),
)
def test_exact_for_drawn_convolutions(
    size: int, convolutions: list[tuple[int, int, int, int]], levels: int, nodes: int
) -> None:
    torch.manual_seed(0)
    parts: list[nn.Module] = []
    channels, pixels = 2, size
    for made, kernel, step, edge in convolutions:
        # Windows that leave gaps, or see padding alone, are only bounded.
        stride, padding = min(step, kernel), min(edge, kernel - 1)
        if pixels + 2 * padding < kernel:
            break
        parts += [nn.Conv2d(channels, made, kernel, stride, padding), nn.Tanh()]
        channels, pixels = made, (pixels + 2 * padding - kernel) // stride + 1
    parts += [nn.Flatten(), nn.Linear(channels * pixels**2, 2)]
    counted, flops, _, nonzeros = both(
        nn.Sequential(*parts),
        torch.randn(2, 2, size, size),
        torch.randn(2, 2),
        ("operator", levels),
        nodes=nodes,
    )
    assert flops == counted.flops
    assert nonzeros == [one.nonzeros for one in counted.groups]


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (with_relus, (2, 2, 8, 8)),
        (networks.made_inception, (2, 1, 6, 6)),
        (lambda: networks.made_residual().eval(), (2, 1, 6, 6)),
        (networks.made_residual, (2, 1, 4, 4)),
    ],
    ids=["relus", "branches", "skips", "training"],
)
@pytest.mark.parametrize("cut", usually([("operator", 2), ("matrix_layer", 1)], CUTS), ids=str)
def test_a_bound_for_any_network(
    make: Callable[[], nn.Module], shape: tuple[int, ...], cut: tuple[str, int]
) -> None:
    torch.manual_seed(0)
    module, x = make(), torch.randn(shape)
    module(x)  # lazy layers
    for scan in SCANS:
        counted, flops, _, nonzeros = both(module, x, torch.tensor([0, 2]), cut, scan=scan)
        assert flops >= counted.flops
        pairs = zip(nonzeros, counted.groups, strict=True)
        assert all(bound >= one.nonzeros for bound, one in pairs)


def test_plain_back_propagation_costs_a_product_with_a_gradient_for_every_entry() -> None:
    found = network_elements(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)), 5, input_shape=(4,))
    # Of the second layer's input 3 x 2 a sample, of both weights 4 x 3 and 3 x 2.
    assert found.sequential_flops == 5 * 2 * (3 * 2 + 4 * 3 + 3 * 2)
    assert found.gradient_numbers == 5 * 2


def test_batches_multiply_apart() -> None:
    one, more = (network_elements("lenet5", batch, levels=2).nonzeros for batch in (1, 4))
    assert all(more[at, at] == 4 * one[at, at] for at in range(1, 7))
