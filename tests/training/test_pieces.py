"""A module in pieces is the module: the same layers, the same bits, the same gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from tests.long import usually
from tests.profiles.attention import MODULES as ATTENTION
from tests.profiles.attention import SHAPE as ATTENTION_SHAPE
from tests.profiles.modules import (
    Autoencoder,
    DataDependent,
    Functional,
    Language,
    RandomGraph,
    Siamese,
    TwoInputs,
)
from tests.refusals import refusals
from tests.training.modules import Awkward, Dropping
from workbench import zoo
from workbench.profiles import ModelProfile, UntraceableError, profile_model
from workbench.training import cut, fixed_threads, flatten, seeded

# Small images, where the model takes them.
SHAPES = {
    "alexnet": (3, 63, 63),
    "vgg16": (3, 32, 32),
    "vgg19": (3, 32, 32),
    "googlenet": (3, 32, 32),
    "inception_v4": (3, 75, 75),
    "resnet18": (3, 32, 32),
    "resnet34": (3, 32, 32),
    "resnet50": (3, 32, 32),
    "resnet152": (3, 32, 32),
}
MANY_LAYERS = 60  # of deeper models every layer runs alone, and some cuts are finished


class InPlace(nn.Module):
    """Writes into what crosses its cuts; a shortcut passes all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(4, 4) for _ in range(3))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.first(x))
        y = self.second(x)
        y += x
        y.tanh_()
        z: Tensor = self.third(y).add_(y)
        return z


class Heads(nn.Module):
    """Reads sizes off one layer and uses them in later ones; drops in functional form."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.out = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.scale = nn.Parameter(torch.ones(6))

    def forward(self, x: Tensor) -> Tensor:
        samples, length, width = x.shape
        query = self.query(x).view(samples, length, 2, width // 2)
        key = self.key(query.reshape(samples, length, -1) * self.scale)
        ones = x.new_ones(samples, length, 1, dtype=x.dtype, device=x.device)
        key = F.dropout(key * ones, 0.5, self.training)
        out: Tensor = self.out(key.view(x.size(0), length, width)).mean(1)
        return out


class Normed(nn.Module):
    """What is made of parameters alone is needed by two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.tensor([0.5, 2.0, 1.0, 3.0]))
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        gain = torch.softmax(self.gain, 0) + torch.tensor(0.5)
        out: Tensor = self.second(self.first(x) * gain) * gain
        return out


class Two(nn.Module):
    """Two layers and what a test makes of them."""

    calls: Any  # a buffer or a norm, where a test wants one

    def __init__(self, forward: Callable[[Two, Tensor], Any]) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.own = forward

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.own(self, x)
        return out


def filled(two: Two, x: Tensor) -> Any:
    """Writes into parts of a tensor that no sample has made."""
    made = torch.zeros(len(x), 4, dtype=x.dtype, device=x.device)
    made[:, :2] = two.first(x)[:, :2]
    made[:, 2:] = 1
    return two.second(made) * made


def masked(two: Two, x: Tensor) -> Any:
    """Makes in steps, from no sample, what both layers need."""
    mask = torch.zeros(4, dtype=x.dtype, device=x.device)
    part = mask[1:]
    part += 2
    return two.second(two.first(x) * mask) * mask


def chunked(two: Two, x: Tensor) -> Any:
    left, right = two.first(x).chunk(2, 1)
    return two.second(torch.cat([right, left], 1)) + torch.cat([left, left], 1)


def by_columns(two: Two, x: Tensor) -> Any:
    """Iterates over a tensor and branches on its shape."""
    columns = [torch.tanh(column) for column in two.first(x).t()]
    return two.second(torch.stack(columns, 1)) if len(columns) == x.shape[1] else x


def without_gradient(two: Two, x: Tensor) -> Any:
    with torch.no_grad():
        gate = torch.sigmoid(two.first(x))
    return two.second(two.first(x) * gate) * gate


MODULES: dict[str, tuple[Callable[[], nn.Module], Any]] = {
    "in place": (InPlace, (4,)),
    "sizes": (Heads, (5, 6)),
    "of parameters": (Normed, (4,)),
    "awkward": (Awkward, (5,)),
    "tied": (Autoencoder, (6,)),
    "twice": (Siamese, ((4,), (4,))),
    "two inputs": (TwoInputs, ((3,), (4,))),
    "dropping": (Dropping, (5,)),
    "functional": (Functional, (5, 4)),
    **{name: (make, ATTENTION_SHAPE) for name, make in ATTENTION.items()},
    **{
        one.__name__: (partial(Two, one), (4,))
        for one in (filled, masked, chunked, by_columns, without_gradient)
    },
}


def small(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    """A model of the zoo with weights that are quickly drawn, so small that nothing overflows."""
    model = zoo.build(name, "meta").to_empty(device="cpu").eval()
    draws = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        bound = 0.5 if parameter.dim() == 1 else parameter[0].numel() ** -0.5
        nn.init.uniform_(parameter, -bound, bound, generator=draws)
    for key, buffer in model.named_buffers():
        buffer.fill_(1 if key.endswith("var") else 0)
    return model, SHAPES.get(name, zoo.MODELS[name].input_shape)


def inputs_of(shape: Sequence[Any], samples: int, dtype: torch.dtype) -> list[Tensor]:
    shapes = shape if isinstance(shape[0], tuple) else [shape]
    draws = torch.Generator().manual_seed(2)
    return [torch.randn(samples, *one, generator=draws, dtype=dtype) for one in shapes]


CUT = usually(
    ("lenet5", "resnet20_cifar", "squeezenet_cifar"),
    [name for name in zoo.MODELS if name not in ("mask_rcnn", "gpt2", "gpt_tiny", "bert_tiny")],
)


def test_regions_are_no_samples() -> None:
    with pytest.raises(ValueError, match="has no dimension of its samples alone"):
        cut(zoo.build("mask_rcnn", "meta"), zoo.MODELS["mask_rcnn"].input_shape)


@pytest.mark.parametrize("name", CUT)
def test_layers_and_what_crosses_are_the_profiles(name: str) -> None:
    check_layers(zoo.build(name, "meta"), zoo.MODELS[name].input_shape, profile_model(name))


@pytest.mark.parametrize("name", CUT)
def test_every_cut_of_the_zoo_gives_the_models_bits(name: str) -> None:
    model, shape = small(name)
    pieces = cut(model, shape)
    state: Sequence[Tensor] = inputs_of(shape, 1, torch.float32)
    with torch.no_grad():
        expected = model(*state)
        assert bool(expected.isfinite().all())
        assert expected.std() > 0
        every = 1 if len(pieces) <= MANY_LAYERS else len(pieces) // MANY_LAYERS + 5
        for layer, size in enumerate(pieces.crossing_bytes, start=1):
            state = pieces.run(layer, layer, state)
            assert sum(tensor.numel() * 4 for tensor in state) == size
            if layer % every == 1 or every == 1 or layer == len(pieces) - 1:
                (found,) = pieces.run(layer + 1, len(pieces), state)
                assert torch.equal(found, expected), layer


@pytest.mark.parametrize(("make", "shape"), MODULES.values(), ids=MODULES)
@pytest.mark.parametrize("samples", usually([1, 5], [1, 2, 5]))
def test_every_cut_of_awkward_modules(make: Any, shape: Any, samples: int) -> None:
    module = make().double().eval()
    check_layers(module, shape, profile_model(module, shape, input_dtype="float64"), "float64")
    check_cuts(module, shape, samples)


def test_samples_come_first_wherever_they_are() -> None:
    pieces = cut(ATTENTION["encoder, positions first"](), ATTENTION_SHAPE)
    (sent,) = pieces.run(1, len(pieces) - 1, [torch.randn(7, *ATTENTION_SHAPE)])
    assert len(sent) == 7


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_every_cut_of_random_modules(data: st.DataObject) -> None:
    module = RandomGraph.draw(data)
    with fixed_threads():
        check_layers(module, (4,), profile_model(module, (4,)))
        check_cuts(module.double().eval(), (4,), 3)


def check_layers(
    module: nn.Module, shape: Any, profile: ModelProfile, dtype: str | None = None
) -> None:
    pieces = cut(module, shape, input_dtype=dtype)
    assert pieces.layers == profile.layers
    assert list(pieces.crossing_bytes) == profile.table["output_bytes"].to_list()[:-1]


def check_cuts(module: nn.Module, shape: Any, samples: int) -> None:
    """Outputs are the module's, bit for bit; gradients its own but for the order of sums."""
    pieces = cut(module, shape, input_dtype="float64")
    inputs = inputs_of(shape, samples, torch.float64)
    module.zero_grad()
    expected = module(*inputs)
    torch.autograd.backward([expected.square().sum()])
    gradients = gradients_of(module)
    for last in range(1, len(pieces)):
        module.zero_grad()
        sent = pieces.run(1, last, inputs)
        before = [tensor.detach().clone() for tensor in sent]
        taken = [tensor.detach().requires_grad_() for tensor in sent]
        (found,) = pieces.run(last + 1, len(pieces), taken)
        assert torch.equal(found, expected)
        assert all(torch.equal(*pair) for pair in zip(sent, before, strict=True))
        torch.autograd.backward([found.square().sum()])
        back = [
            (tensor, leaf.grad)
            for tensor, leaf in zip(sent, taken, strict=True)
            if tensor.requires_grad and leaf.grad is not None
        ]
        torch.autograd.backward([one for one, _ in back], [grad for _, grad in back])
        for name, gradient in gradients_of(module).items():
            torch.testing.assert_close(gradient, gradients[name], rtol=1e-11, atol=1e-12)


def gradients_of(module: nn.Module) -> dict[str, Tensor]:
    return {
        name: torch.zeros_like(p) if p.grad is None else p.grad.clone()
        for name, p in module.named_parameters()
    }


def test_modes_are_those_of_the_moment() -> None:
    """Also where the module's own `forward` asks for its mode."""
    module = Heads()
    pieces = cut(module, (5, 6))
    inputs = inputs_of((5, 6), 3, torch.float32)
    for training in (False, True):
        module.train(training)
        with seeded(3):
            expected = module(*inputs)
        with seeded(3):
            found = pieces.run(2, 3, pieces.run(1, 1, inputs))
        assert torch.equal(found[0], expected), training
    assert bool((module(*inputs) != module(*inputs)).any())


def test_running_statistics_are_gathered() -> None:
    whole, other = (zoo.build("resnet20_cifar") for _ in range(2))
    other.load_state_dict(whole.state_dict())
    inputs = inputs_of((3, 32, 32), 4, torch.float32)
    pieces = cut(other, (3, 32, 32))
    whole(*inputs)
    pieces.run(8, 20, pieces.run(1, 7, inputs))
    for name, buffer in other.named_buffers():
        assert torch.equal(buffer, whole.get_buffer(name)), name
    assert pieces.buffers[0] == {
        f"conv1.norm.{of}" for of in ("running_mean", "running_var", "num_batches_tracked")
    }


def test_a_norms_counter_is_in_its_layer() -> None:
    """Its input crosses the cut, so it is in the layer that uses its result."""

    def late(two: Two, x: Tensor) -> Any:
        x = two.first(x)
        y = two.second(x)
        return two.calls(x) + y

    module = Two(late)
    module.calls = nn.BatchNorm1d(4)
    statistics = {f"calls.{of}" for of in ("running_mean", "running_var", "num_batches_tracked")}
    assert list(map(set, cut(module, (4,)).buffers)) == [set(), statistics]


def test_what_the_module_counts_is_counted_once() -> None:
    def counting(two: Two, x: Tensor) -> Any:
        x = two.second(two.first(x))
        two.calls.add_(1)
        return x * two.calls

    module = Two(counting)
    module.register_buffer("calls", torch.zeros(1))
    pieces = cut(module, (4,))
    assert list(map(set, pieces.buffers)) == [set(), {"calls"}]
    inputs = inputs_of((4,), 3, torch.float32)
    for count in (1, 2):
        (found,) = pieces.run(2, 2, pieces.run(1, 1, inputs))
        assert torch.equal(found, module.second(module.first(*inputs)) * count)


def test_it_is_the_modules_own_parameters_that_learn() -> None:
    flat = flatten(zoo.build("lenet5"), (1, 28, 28))
    replica = flat.replica()
    pieces = cut(flat.module, (1, 28, 28)).on(replica.module)
    inputs = inputs_of((1, 28, 28), 2, torch.float32)
    (out,) = pieces.run(1, 5, inputs)
    torch.autograd.backward([out.sum()])
    assert bool(replica.gradients.any())
    assert not bool(flat.gradients.any())
    replica.parameters.zero_()
    assert not bool(pieces.run(1, 5, inputs)[0].any())


def test_layers_know_their_parameters() -> None:
    pieces = cut(Siamese(), ((4,), (4,)))
    assert pieces.parameters == tuple(
        frozenset({f"{part}.weight", f"{part}.bias"}) for part in ("first", "second", "head")
    )
    assert all("gain" in used for used in cut(Normed(), (4,)).parameters)


def test_the_module_is_left_as_it_was() -> None:
    module = Normed()
    before = set(vars(module))
    cut(module, (4,))
    assert set(vars(module)) == before
    assert module.training


def early(two: Two, x: Tensor) -> Any:
    """Changes in the first layer, in place, what the second has read."""
    x = torch.tanh(two.first(x))
    y = two.second(x.clone() * 1) + x
    x.mul_(2)
    return torch.relu(y + x)


class Doubled(torch.autograd.Function):
    """Twice its input, with a gradient of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0] * 3


def doubled(two: Two, x: Tensor) -> Any:
    return two.second(Doubled.apply(two.first(x)))  # type: ignore[no-untyped-call]


def halves(two: Two, x: Tensor) -> Any:
    """Adds the second half of the samples to the first."""
    x = two.second(two.first(x))
    half = len(x) // 2
    return torch.cat([x[:half] + x[half : 2 * half], x[half:]])


def one_by_one(two: Two, x: Tensor) -> Any:
    return two.second(torch.stack([two.first(sample) for sample in x]))


def two_by_two(two: Two, x: Tensor) -> Any:
    """As many calls and tensors for any samples, but not as many arguments."""
    x = two.first(x)
    return two.second(torch.cat([x[:1]] * len(x)))


def overlapping(two: Two, x: Tensor) -> Any:
    """Two views cross, and the second layer writes into one of them."""
    x = two.first(x)
    left, right = x[:, :3], x[:, 1:]
    left += two.second(x)[:, 1:]
    return left * right


def summing(two: Two, x: Tensor) -> Any:
    x = two.first(x)
    return two.second(x) + x.sum(0)


GROW = "arguments that neither stay the same nor grow"
test_refused = refusals(
    cut,
    {"module": nn.Linear(4, 4), "input_shape": (4,)},
    {
        "module": {
            "DataDependent cannot be traced": [DataDependent()],
            f"Two cannot be cut.*calls '__getitem__' with {GROW}": [Two(halves)],
            "makes more or fewer calls, or tensors, as the number of samples": [Two(one_by_one)],
            f"calls 'cat' with {GROW}": [Two(two_by_two)],
            "Two cannot be cut.*DoubledBackward": [Two(doubled)],
            "behind layer 1: '__getitem__' .* is one of several views": [Two(overlapping)],
            "'mul_' of layer 1 changes in place what layer 2": [Two(early)],
            r"behind layer 1: 'sum' of shape \(4,\)": [Two(summing)],
        },
        "input_shape": {"does not fit": [(7,)]},
    },
)
test_layers_refused = refusals(
    cut(InPlace(), (4,)).run,
    {"first": 1, "last": 3, "tensors": [torch.zeros(2, 4)]},
    {
        "last": {"layers 1 to 4 are not within 1 to 3": [4]},
        "tensors": {"layer 1 of InPlace takes 1 tensors, not 2": [[torch.zeros(2, 4)] * 2]},
    },
)


def test_control_flow_by_data_has_an_error_of_its_own() -> None:
    with pytest.raises(UntraceableError):
        cut(DataDependent(), (4,))


def test_several_layers_in_one_part_are_refused() -> None:
    with pytest.raises(ValueError, match="'lstm' alone makes layers 2 to 3"):
        cut(Language(), (7,), input_dtype="int64")
