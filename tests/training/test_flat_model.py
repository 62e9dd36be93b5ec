"""One vector for all parameters, in the profile's order, without gaps or copies; its gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise
from math import prod

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tests.long import usually
from tests.profiles.modules import DataDependent, RandomGraph
from tests.training.modules import Awkward, Dropping
from workbench import zoo
from workbench.datasets import IGNORED
from workbench.profiles import ModelProfile, inputs_of, profile_model
from workbench.training import (
    Layout,
    accumulate,
    average_buffers,
    evaluate,
    flatten,
    get_buffers,
    gradient_step,
    model_layout,
    seeded,
    set_buffers,
)
from workbench.utils.checks import UserError

X, Y = torch.randn(8, 5, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 4


def check_covers(layout: Layout, profile: ModelProfile) -> None:
    """Layers and tensors are the profile's, one after the other, and fill the vector."""
    assert layout.layers == profile.layers
    assert list(layout.param_bytes) == profile.table["param_bytes"].to_list()
    sizes = tuple(
        tuple(prod(shape) * layout.item_bytes for _, shape in layer) for layer in layout.tensors
    )
    assert sizes == profile.tensor_bytes
    slices = [layout.layers_slice(layer, layer) for layer in range(1, len(layout) + 1)]
    assert slices[0].start == 0
    assert slices[-1].stop == layout.size == profile.param_bytes // layout.item_bytes
    assert all(a.stop == b.start for a, b in pairwise(slices))
    for layer, where in zip(layout.tensors, slices, strict=True):
        within = [layout.tensor_slices[name] for name, _ in layer]
        assert [one.stop - one.start for one in within] == [prod(shape) for _, shape in layer]
        bounds = [where.start, *(one.stop for one in within)]
        assert [one.start for one in within] == bounds[:-1]
        assert bounds[-1] == where.stop


@pytest.mark.parametrize("name", usually(("lenet5", "resnet20_cifar"), zoo.MODELS))
def test_every_model_of_the_zoo_lies_as_its_profile_says(name: str) -> None:
    flat = flatten(zoo.build(name, "meta"), inputs_of(name, None))
    check_covers(flat.layout, profile_model(name))
    assert flat.parameters.shape == (zoo.MODELS[name].parameters,)
    assert flat.parameters.is_contiguous()


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_random_modules_lie_as_their_profile_says(data: st.DataObject) -> None:
    module = RandomGraph.draw(data)
    check_covers(model_layout(module, (4,)), profile_model(module, (4,)))


def test_modules_in_their_order_too() -> None:
    module = DataDependent()
    with pytest.raises(ValueError, match='by="modules"'):
        flatten(module, (4,))
    layout = model_layout(module, (4,), by="modules")
    check_covers(layout, profile_model(module, (4,), by="modules"))


def test_an_awkward_module_lies_as_its_profile_says() -> None:
    module = Awkward()
    flat = flatten(module, (5,))
    check_covers(flat.layout, profile_model(module, (5,)))
    assert [sorted(name for name, _ in layer) for layer in flat.layout.tensors[:2]] == [
        ["first.weight", "norm.bias", "norm.weight", "scale"],
        ["again.bias", "left.bias", "left.weight", "right.weight"],
    ]


class TestVectors:
    def test_hold_the_modules_numbers_and_leave_its_outputs_alone(self) -> None:
        module = Awkward()
        before = {name: p.detach().clone() for name, p in module.named_parameters()}
        module.eval()
        expected = module(X)
        flat = flatten(module, (5,))
        assert not module.training
        assert torch.equal(module(X), expected)
        for name, where in flat.layout.tensor_slices.items():
            assert torch.equal(flat.parameters[where], before[name].reshape(-1))

    def test_are_the_modules_memory(self) -> None:
        flat = flatten(Awkward(), (5,))
        span = flat.layout.size * 4
        trained = [p for p in flat.module.parameters() if p.requires_grad]
        for vector, tensors in (
            (flat.parameters, trained),
            (flat.gradients, [p.grad for p in trained]),
        ):
            assert vector.is_contiguous()
            assert vector.dim() == 1
            for tensor in tensors:
                assert tensor is not None
                assert 0 <= tensor.data_ptr() - vector.data_ptr() < span
        flat.parameters.fill_(0.25)
        assert all(bool((p == 0.25).all()) for p in trained)
        frozen = flat.module.get_parameter("first.bias")
        assert frozen.grad is None
        assert not bool((frozen == 0.25).all())
        with torch.no_grad():
            flat.module.get_parameter("head.weight").fill_(7)
        assert bool((flat.parameters[flat.layout.tensor_slices["head.weight"]] == 7).all())

    def test_take_a_saved_state(self) -> None:
        flat, other = flatten(Awkward(), (5,)), Awkward()
        flat.module.load_state_dict(other.state_dict())
        flat.check_attached()
        where = flat.layout.tensor_slices["right.weight"]
        assert torch.equal(flat.parameters[where], other.right.weight.detach().reshape(-1))

    def test_a_replica_has_its_own(self) -> None:
        flat = flatten(Awkward(), (5,))
        other = flat.replica()
        assert torch.equal(other.parameters, flat.parameters)
        before = flat.parameters.clone()
        other.parameters.fill_(0.5)
        gradient_step(other, X, Y)
        assert torch.equal(flat.parameters, before)
        assert not bool(flat.gradients.any())
        mine, its = (one.module.get_buffer("norm.running_mean") for one in (flat, other))
        assert not bool(mine.any())
        assert bool(its.any())

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda module: module.double(), "flatten it again"),
            (lambda module: module.requires_grad_(True), "never be updated; flatten it again"),
            (lambda module: setattr(module.head, "weight", nn.Parameter(X)), "another 'weight'"),
        ],
        ids=["converted", "no longer frozen", "replaced"],
    )
    def test_are_left_by_no_change_unseen(
        self, change: Callable[[nn.Module], object], message: str
    ) -> None:
        flat = flatten(Awkward(), (5,))
        change(flat.module)
        with pytest.raises(ValueError, match=message):
            gradient_step(flat, X, Y)


def test_runs_of_layers_are_slices() -> None:
    layout = model_layout(zoo.build("lenet5", "meta"), (1, 28, 28))
    bounds = [0, 156, 2572, 50692, 60856, 61706]  # 6(25+1), 16(150+1), 120·401, 84·121, 10·85
    assert layout.starts == tuple(bounds)
    assert layout.layers_slice(2, 4) == slice(156, 60856)


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))


def test_buffers_are_no_part_of_the_vector_but_follow_training() -> None:
    flat = flatten(normalised(), (3,))
    assert flat.layout.size == 3 * 4 + 4 + 4 + 4
    before = get_buffers(flat.module)
    x, y = torch.arange(12.0).reshape(4, 3), torch.arange(4)
    gradient_step(flat, x, y)
    after = get_buffers(flat.module)
    assert not torch.equal(before["1.running_mean"], after["1.running_mean"])
    assert int(after["1.num_batches_tracked"]) == 1
    trained = evaluate(flat.module, x, y)
    set_buffers(flat.module, before)
    assert evaluate(flat.module, x, y) != trained
    set_buffers(flat.module, after)
    assert evaluate(flat.module, x, y) == trained


def test_buffers_are_averaged_over_workers() -> None:
    sets = [
        {"mean": torch.tensor([1.0, 3.0]), "count": torch.tensor(4), "turn": torch.tensor([1j])},
        {
            "mean": torch.tensor([2.0, 5.0]),
            "count": torch.tensor(7),
            "turn": torch.tensor([1 + 0j]),
        },
    ]
    averaged = average_buffers(sets)
    assert averaged["mean"].tolist() == [1.5, 4.0]
    assert int(averaged["count"]) == 7
    assert averaged["turn"].tolist() == [0.5 + 0.5j]


def small(*, normalises: bool) -> nn.Sequential:
    norm = nn.BatchNorm1d(6) if normalises else nn.Identity()
    return nn.Sequential(nn.Linear(5, 6), norm, nn.Tanh(), nn.Linear(6, 4)).double()


class TestAccumulatedGradients:
    @pytest.mark.parametrize("sizes", [[2, 2, 2, 2], [3, 2, 3]])
    def test_equal_the_mean_by_sample_with_statistics_of_each_batch(self, sizes: list[int]) -> None:
        with seeded(0):
            plain = small(normalises=True)
        flat, x = flatten(copy.deepcopy(plain), (5,)), X.double()
        parts = list(zip(torch.split(x, sizes), torch.split(Y, sizes), strict=True))
        loss = accumulate(flat, parts)
        expected = 0.0
        for part_x, part_y in parts:
            part = F.cross_entropy(plain(part_x), part_y, reduction="sum") / len(X)
            part.backward()  # type: ignore[no-untyped-call]
            expected += part.item()
        assert loss == pytest.approx(expected, rel=1e-12)
        for name, parameter in plain.named_parameters():
            own, gradient = flat.gradients[flat.layout.tensor_slices[name]], parameter.grad
            assert gradient is not None
            torch.testing.assert_close(own, gradient.reshape(-1), rtol=1e-12, atol=1e-14)
        for own, other in zip(flat.module.buffers(), plain.buffers(), strict=True):
            assert torch.equal(own, other)

    def test_equal_those_of_one_batch_where_nothing_normalises_and_labels_are_ignored(self) -> None:
        tokens = nn.Sequential(nn.Unflatten(1, (5, 1)), nn.Linear(1, 4)).double()
        flat, x = flatten(tokens, (5,)), X.double()
        labels = Y[:, None].repeat(1, 5)
        labels[0, 1:], labels[3:6] = IGNORED, IGNORED
        loss = gradient_step(flat, x, labels)
        whole = flat.gradients.clone()
        batches = [(x[at : at + 1], labels[at : at + 1]) for at in range(len(x))]
        assert accumulate(flat, batches) == pytest.approx(loss, rel=1e-12)
        torch.testing.assert_close(flat.gradients, whole, rtol=1e-12, atol=1e-14)

    def test_draw_by_a_seed_for_each_batch(self) -> None:
        flat = flatten(Dropping(), (5,))
        losses = [gradient_step(flat, X, Y, seed=seed) for seed in (3, 4)]
        both = accumulate(flat, [(X, Y), (X, Y)], seeds=(3, 4))
        assert both == pytest.approx(sum(losses) / 2, rel=1e-6)

    def test_are_refused_without_batches_or_with_other_seeds(self) -> None:
        flat = flatten(nn.Linear(5, 4), (5,))
        with pytest.raises(UserError, match="no batches to accumulate"):
            accumulate(flat, [])
        with pytest.raises(UserError, match="1 seeds for 2 batches"):
            accumulate(flat, [(X, Y), (X, Y)], seeds=[1])


class TestGradients:
    """They are PyTorch's own, written where they belong."""

    def test_are_those_of_autograd_bit_for_bit(self) -> None:
        plain = Awkward()
        flat = flatten(copy.deepcopy(plain), (5,))
        loss = F.cross_entropy(plain(X), Y)
        loss.backward()  # type: ignore[no-untyped-call]
        before = flat.parameters.clone()
        assert gradient_step(flat, X, Y) == loss.item()
        trained = {name: one for name, one in plain.named_parameters() if one.requires_grad}
        assert flat.layout.tensor_slices.keys() == trained.keys()
        for name, where in flat.layout.tensor_slices.items():
            gradient = trained[name].grad
            expected = torch.zeros_like(trained[name]) if gradient is None else gradient
            assert torch.equal(flat.gradients[where], expected.reshape(-1)), name
        assert torch.equal(flat.parameters, before)
        assert not bool(flat.gradients[flat.layout.tensor_slices["idle.weight"]].any())

    def test_overwrite_what_was_there_and_survive_zero_grad(self) -> None:
        flat = flatten(nn.Linear(5, 4), (5,))
        gradient_step(flat, X, Y)
        first = flat.gradients.clone()
        flat.gradients.fill_(9)
        flat.module.zero_grad(set_to_none=True)
        gradient_step(flat, X, Y)
        assert torch.equal(flat.gradients, first)

    def test_read_only_arrays_and_tensors_are_alike(self, recwarn: pytest.WarningsRecorder) -> None:
        flat = flatten(nn.Linear(5, 4), (5,))
        x, y = X.numpy().copy(), Y.numpy().copy()
        x.flags.writeable = y.flags.writeable = False
        assert gradient_step(flat, x, y) == gradient_step(flat, X, Y)
        assert not recwarn.list

    def test_a_module_that_is_frozen_has_none(self) -> None:
        module = nn.Linear(5, 4)
        flat = flatten(module, (5,))
        module.requires_grad_(False)
        assert gradient_step(flat, X, Y) > 0
        assert not bool(flat.gradients.any())
        module.requires_grad_(True)
        gradient_step(flat, X, Y)
        assert bool(flat.gradients.any())

    def test_inside_no_grad_too(self) -> None:
        flat = flatten(nn.Linear(5, 4), (5,))
        with torch.no_grad():
            gradient_step(flat, X, Y)
        assert bool(flat.gradients.any())

    def test_is_drawn_by_seed(self) -> None:
        flat = flatten(Dropping(), (5,))
        losses = [gradient_step(flat, X, Y, seed=seed) for seed in (3, 4, 3)]
        assert losses[0] == losses[2] != losses[1]

    def test_leaves_the_global_generator_where_it_was(self) -> None:
        flat = flatten(Dropping(), (5,))
        with seeded(1):
            before = torch.get_rng_state()
            gradient_step(flat, X, Y, seed=3)
            assert torch.equal(torch.get_rng_state(), before)
            gradient_step(flat, X, Y)
            assert not torch.equal(torch.get_rng_state(), before)
