"""The functional graph, run again, gives what the module gives, bit for bit; its tables say why."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import cross_entropy as entropy

from tests.long import usually
from tests.memory.tracing.modules import COMPLEX, NAMES, Calling, complex_module, made
from workbench.memory import fit, trace
from workbench.memory.executor import run
from workbench.profiles import UntraceableError
from workbench.profiles.graph import OperatorGraph
from workbench.utils.checks import UserError
from workbench.zoo import MODELS, build

SMALL = ("lenet5", "resnet20_cifar", "squeezenet_cifar", "mobilenet_v2_cifar", "cifarnet")
FEW = SMALL[:2]


def of_zoo(name: str, batch: int = 2) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    module = build(name, "cpu")
    for buffer in module.buffers():
        if buffer.is_floating_point():
            buffer.uniform_(0.5, 1.5)
    x = torch.randn(batch, *MODELS[name].input_shape)
    return module, x, torch.randint(0, MODELS[name].classes, (batch,))


def stepped(module: nn.Module, loss: Tensor) -> list[Tensor]:
    """The loss, and parameters after a step of SGD."""
    loss.backward()  # type: ignore[no-untyped-call]
    torch.optim.SGD(module.parameters(), 0.1).step()
    return [loss.detach(), *(one.detach() for one in module.parameters() if one.requires_grad)]


def same(found: Sequence[Tensor], wanted: Sequence[Tensor], *, bits: bool = True) -> None:
    tolerance = 0.0 if bits else None
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def check_step(
    graph: OperatorGraph,
    given: tuple[Tensor, ...],
    module: nn.Module,
    loss: Callable[[], Tensor],
    *,
    bits: bool = True,
) -> None:
    """A step of the graph is the module's own with the same random numbers."""
    torch.manual_seed(1)
    found = run(graph, given)
    torch.manual_seed(1)
    same(found, stepped(module, loss()), bits=bits)


@pytest.mark.parametrize("name", usually(FEW, SMALL))
def test_inference_is_the_modules_own(name: str) -> None:
    module, x, _ = of_zoo(name)
    graph = trace(module, MODELS[name].input_shape, 2)
    with torch.no_grad():
        same(run(graph, x), [module.eval()(x)])


@pytest.mark.parametrize("name", usually(FEW, SMALL))
def test_a_step_is_sgds_own_and_the_module_stays(name: str) -> None:
    module, x, y = of_zoo(name)
    graph = trace(module, MODELS[name].input_shape, 2, training=True)
    before = copy.deepcopy(module.state_dict())
    run(graph, (x, y))
    same([*module.state_dict().values()], [*before.values()])
    check_step(graph, (x, y), module, lambda: entropy(module.train()(x), y))


def awkwardly(m: Any, x: Tensor, gain: Tensor) -> tuple[Tensor, Tensor]:
    x = torch.relu_(m.first(x) + m.offset) * 1.5
    m.seen += x.detach().mean(0)
    half = x[:, 1:3]
    half *= 2
    x = m.second(x.t().contiguous().t()) * m.frozen * gain
    return x, half.sum(1)


def awkward() -> tuple[Any, tuple[Tensor, Tensor]]:
    """Writes in place and into a buffer, shares a weight, freezes one, slices, returns two."""
    torch.manual_seed(0)
    first, second = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
    second.weight = first.weight
    frozen, offset = nn.Parameter(torch.ones(4), requires_grad=False), torch.full((4,), 0.25)
    module = Calling(awkwardly, first=first, second=second, frozen=frozen, offset=offset)
    module.register_buffer("seen", torch.zeros(4))
    return module, (torch.randn(3, 4), torch.randn(3, 1))


def test_writes_in_place_views_and_several_inputs() -> None:
    module, given = awkward()
    graph = trace(module, [(4,), (1,)], 3)
    found = run(graph, given)
    assert module.seen.sum() == 0
    with torch.no_grad():
        same(found, list(module.eval()(*given)))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_what_order_views_and_writes_matter_to(name: str, training: bool) -> None:
    module, x, y = made(name), torch.randn(4, 4), torch.tensor([0, 1, 2, 3])
    graph = trace(module, (4,), 4, training)
    writes = [one.name for one in graph.operators if one.function._schema.is_mutable]
    assert set(writes) <= {"copy_"}  # into what the module holds
    if training:
        check_step(graph, (x, y), module, lambda: entropy(module(x), y), bits=False)
    else:
        with torch.no_grad():
            same(run(graph, x), [module.eval()(x)], bits=False)


@pytest.mark.parametrize("name", COMPLEX)
def test_a_step_on_complex_numbers_is_sgds_own(name: str) -> None:
    module, x = complex_module(name)
    y = torch.tensor([0, 1, 2, 0])
    graph = trace(module, (8,), 4, training=True)
    check_step(graph, (x, y), module, lambda: entropy(module(x), y), bits=False)


@pytest.mark.parametrize("view", [Tensor.conj, Tensor.adjoint, torch._neg_view])
def test_inputs_that_are_lazy_views_are_read_as_they_are(view: Callable[..., Tensor]) -> None:
    module, _ = complex_module("products")
    x = view(torch.randn(8, 8, dtype=torch.cfloat))
    graph = trace(module, "complex64[8]", 8)
    with torch.no_grad():
        same(run(graph, x), [module(x)], bits=False)


def mean_square(outputs: tuple[Tensor, Tensor]) -> Tensor:
    return outputs[0].square().mean()


def mean_square_from(outputs: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    return (outputs[0].sum() - target).square().mean()


def summed(outputs: tuple[Tensor, Tensor], classes: Tensor) -> Tensor:
    del classes
    return torch.stack([output.sum() for output in outputs]).sum()


@pytest.mark.parametrize(
    ("loss", "targets", "options"),
    [
        (summed, (torch.zeros(3, dtype=torch.int64),), {}),  # the default of what is no score
        (mean_square, (), {"loss": mean_square}),
        (mean_square_from, (torch.ones(3, 2),), {"loss": mean_square_from, "target_shape": (2,)}),
    ],
)
def test_gradients_are_of_the_loss_that_is_given(
    loss: Callable[..., Tensor], targets: tuple[Tensor, ...], options: dict[str, Any]
) -> None:
    module, given = awkward()
    graph = trace(module, [(4,), (1,)], 3, training=True, **options)
    check_step(graph, (*given, *targets), module, lambda: loss(module(*given), *targets))


@pytest.mark.parametrize("axes", [(0, 2, 1), (1, 0, 2), (2, 0, 1)])
@pytest.mark.parametrize("dropout", [nn.Dropout, nn.AlphaDropout])
def test_dropout_of_a_transposed_tensor_draws_what_pytorch_draws(
    axes: tuple[int, ...], dropout: type[nn.Module]
) -> None:
    parts = {"linear": nn.Linear(6, 6), "dropout": dropout()}
    module = Calling(lambda m, x: m.dropout(m.linear(x).permute(axes)), **parts)
    x = torch.randn(3, 5, 6)
    graph = trace(module, (5, 6), 3, training=True)
    check_step(graph, (x, torch.zeros(3, dtype=torch.int64)), module, lambda: module(x).sum())


def test_other_weights_than_those_traced() -> None:
    module, x, _ = of_zoo("lenet5")
    graph = trace("lenet5", batch_size=2)
    with torch.no_grad():
        same(run(graph, x, module), [module(x)])


def graph_of_three() -> OperatorGraph:
    linear = nn.Linear(4, 4, bias=False)
    return trace(Calling(lambda m, x: (y := m.linear(x)).relu() + y, linear=linear), (4,), 3)


def test_nodes_and_edges_are_those_found_by_hand() -> None:
    graph = graph_of_three()
    nodes = graph.nodes
    assert nodes["name"].to_list() == ["input 0", "linear.weight", "t", "mm", "relu", "add"]
    assert nodes["kind"].to_list() == ["input", "parameter", *["operator"] * 4]
    assert nodes["bytes"].to_list() == [48, 64, 0, 48, 48, 48]
    assert nodes["flops"].to_list() == [0, 0, 0, 2 * 3 * 4 * 4, 0, 0]
    assert nodes["shows"].to_list() == [None, None, 1, None, None, None]
    assert [sorted(one) for one in nodes["may_overwrite"]] == [[], [], [], [], [3], [3, 4]]
    assert sorted(graph.edges.rows()) == [(0, 3), (1, 2), (2, 3), (3, 4), (3, 5), (4, 5)]


def test_what_is_read_in_two_ways_is_not_overwritten() -> None:
    module = Calling(lambda m, x: (y := m.linear(x)) + y.t(), linear=nn.Linear(4, 4))
    (add,) = (one for one in trace(module, (4,), 4).operators if one.name == "add")
    assert add.may_overwrite == frozenset()


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_layers(kind: type[nn.LSTM | nn.GRU]) -> None:
    layer = kind(4, 3, num_layers=2, bidirectional=True, batch_first=True)
    module, x = Calling(lambda m, x: m.layer(x)[0], layer=layer), torch.randn(2, 5, 4)
    with torch.no_grad():
        same(run(trace(module, (5, 4), 2), x), [module.eval()(x)], bits=False)
    graph, given = trace(module, (5, 4), 2, training=True), (x, torch.zeros(2, dtype=torch.int64))
    check_step(graph, given, module, lambda: module.train()(x).sum(), bits=False)


def picks(m: Any, x: Tensor) -> Tensor:
    """Columns by number, and complex numbers as pairs of real ones."""
    return torch.view_as_real(torch.fft.fft(m.linear(x)[:, [2, 0, 0, 3]])).flatten(1)


NUMBERS = torch.linspace(-2, 1, 12)


@pytest.mark.parametrize(
    "x", [NUMBERS.reshape(3, 4), NUMBERS.reshape(4, 3).t()], ids=["rows", "columns"]
)
def test_numbers_pick_and_numbers_are_pairs_of_inputs_of_any_strides(x: Tensor) -> None:
    module, y = Calling(picks, linear=nn.Linear(4, 4)), torch.tensor([0, 1, 2])
    graph = trace(module, (4,), 3, training=True)
    check_step(graph, (x, y), module, lambda: entropy(module(x), y), bits=False)


@pytest.mark.parametrize(
    "function",
    [
        lambda m, x: x + torch.tensor(x.detach().tolist()),
        lambda m, x: x + torch.tensor(x.detach().numpy()),
        lambda m, x: x if float(x.sum()) > 0 else -x,
    ],
)
def test_leaving_pytorch_and_control_flow_on_data_are_refused(function: Any) -> None:
    with pytest.raises(UntraceableError, match=r"Calling cannot be traced: .*test_functional"):
        trace(Calling(function), (4,))


SILENT = Calling(lambda m, x: m.linear(x).shape, linear=nn.Linear(4, 2))
COMPILED = (
    torch.jit.script(nn.Linear(4, 2)),
    torch.jit.trace(nn.Linear(4, 2), torch.ones(1, 4)),  # type: ignore[no-untyped-call]
)
MASKED = {
    "index": lambda m, x: (y := m.linear(x).clone()).__setitem__(x[:, 0] > 0, m.number) or y,
    "among others": lambda m, x: (
        (y := m.linear(x) * 2).__setitem__((0, x[0, :2] > 0), y[1, 0]) or y
    ),
    "scattered": lambda m, x: m.linear(x).masked_scatter(x[:, :2] > 0, m.linear(x)),
}
"""Write what is learnt through a mask."""


def masking(name: str) -> nn.Module:
    return Calling(MASKED[name], linear=nn.Linear(4, 2), number=nn.Parameter(torch.zeros(2)))


@pytest.mark.parametrize(
    ("module", "options", "message"),
    [
        (nn.Linear(4, 2), {"batch_size": 0}, "batch_size is 0"),
        (nn.Linear(3, 2), {}, "does not fit"),
        (nn.ReLU(), {"training": True}, "no parameters"),
        (nn.Linear(4, 2), {"training": True, "target_shape": (2,)}, "a loss of one's own"),
        (SILENT, {}, "Calling returns no tensor"),
        (SILENT, {"training": True}, "returns no tensor to learn from"),
    ],
)
def test_refusals(module: nn.Module, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trace(module, (4,), **options)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("module", COMPILED)
def test_compiled_modules_are_refused(module: nn.Module, training: bool) -> None:
    with pytest.raises(UserError, match=r"it is compiled by torch[.]jit;\ngive the module that"):
        trace(module, (4,), training=training)
    with pytest.raises(UserError, match=r"its part 'inner' is compiled by torch[.]jit"):
        trace(Calling(lambda m, x: m.inner(x), inner=module), (4,), training=training)


@pytest.mark.parametrize("name", MASKED)
def test_learnt_writes_through_a_mask_are_refused_with_their_line(name: str) -> None:
    where = r"test_functional.py, line \d+.* through a mask.*torch.where"
    with pytest.raises(UserError, match=where):
        trace(masking(name), (4,), 4, training=True)
    with pytest.raises(UserError, match=where):
        fit(masking(name), torch.ones(4, 4), "1GB")


def test_numbers_written_through_a_mask() -> None:
    def zeroed(m: Any, x: Tensor) -> Tensor:
        y: Tensor = m.linear(x).sin()
        y[x[:, 0] > 0] = 0.5
        return y

    module, x = Calling(zeroed, linear=nn.Linear(4, 2)), torch.randn(4, 4)
    graph = trace(module, (4,), 4, training=True)
    y = torch.tensor([0, 1, 1, 0])
    check_step(graph, (x, y), module, lambda: entropy(module(x), y))


def test_another_batch_is_refused() -> None:
    with pytest.raises(ValueError, match=r"traced for inputs float32 of shape \(3, 4\)"):
        run(graph_of_three(), torch.zeros(2, 4))


def test_numbers_in_the_code_are_kept() -> None:
    function = lambda m, x: m.linear(x) * torch.tensor([1.0, 2.0, 3.0])  # noqa: E731
    module, x = Calling(function, linear=nn.Linear(3, 3)).eval(), torch.rand(2, 3)
    (found,) = run(trace(module, (3,), batch_size=2), x)
    assert torch.equal(found, module(x))
    trained = trace(module, (3,), batch_size=2, training=True)
    assert trained.backward_flops == {}
    (loss, *_) = run(trained, (x, torch.tensor([0, 2])))
    assert torch.equal(loss, entropy(module(x), torch.tensor([0, 2])))


def test_a_refusal_comes_without_pytorchs_own_traceback(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("torch._subclasses.fake_tensor")
    log.addHandler(caplog.handler)
    with pytest.raises(ValueError, match="does not fit"):
        trace(nn.Linear(4, 2), (5,))
    assert not caplog.records
    with pytest.raises(RuntimeError), FakeTensorMode():  # which PyTorch logs
        nn.Linear(4, 2)(torch.zeros(1, 5))
    assert caplog.records
    log.removeHandler(caplog.handler)


def grouped(m: Any, x: Tensor) -> Tensor:
    ends = torch.tensor([1, 4], dtype=torch.int32)
    product: Tensor = torch.nn.functional.grouped_mm(x, m.experts, offs=ends)
    return product.sin()


def test_products_by_group_in_another_type_than_pytorch_traces_are_refused() -> None:
    module = Calling(grouped, experts=nn.Parameter(torch.ones(2, 8, 8)))
    with pytest.raises(UserError, match=r"test_functional.py, line \d+.*\.bfloat16\(\)"):
        trace(module, (8,), 4, training=True)
    assert trace(module.bfloat16(), (8,), 4, training=True, input_dtype="bfloat16")
