"""What the parts of PyTorch without a public name do, in the version that they were seen in."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules import transformer
from torch.profiler import ProfilerActivity, profile, record_function

from workbench.profiles import private


def test_pytorch_is_the_version_that_its_private_parts_were_seen_in() -> None:
    assert torch.__version__.startswith(private.SEEN_IN), (
        "look at each part of workbench/profiles/private.py again, then name this version there"
    )


def test_compilation_and_causal_masks_are_said_within_alone() -> None:
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    for _ in range(2):
        assert not torch.compiler.is_compiling()
        assert transformer._detect_is_causal_mask(mask, None, 4)
        with private.said_to_be_compiled():
            assert torch.compiler.is_compiling()
            assert not transformer._detect_is_causal_mask(mask, None, 4)
            assert transformer._detect_is_causal_mask(mask, True, 4)


def test_events_of_memory_are_bytes_within_their_marks() -> None:
    kept: list[Tensor] = []
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        for count in (1000, 3000):
            with record_function("a mark"):
                kept.append(torch.empty(count))
    marks, changes = private.memory_events(profiled, "a mark")
    assert marks == sorted(marks)
    inside = [sum(size for at, size in changes if a <= at <= b) for a, b in marks]
    assert inside == [one.nbytes for one in kept]


def test_masks_of_attention_are_added_numbers() -> None:
    mask = private.canonical_mask(
        mask=torch.tensor([True, False]),
        mask_name="",
        other_type=private.none_or_dtype(None),
        other_name="",
        target_type=torch.float32,
    )
    assert mask.tolist() == [-torch.inf, 0]


def test_packed_weights_project_a_query_that_is_its_own_key() -> None:
    x, weight, bias = torch.randn(3, 2, 4), torch.randn(12, 4), torch.randn(12)
    parts = private.project_packed(x, x, x, weight, bias)
    torch.testing.assert_close(torch.cat(parts, -1), functional.linear(x, weight, bias))


def test_views_share_the_key_of_their_storage() -> None:
    x = torch.randn(4)
    assert private.storage_key(x) == private.storage_key(x[1:].conj())
    assert private.storage_key(x) != private.storage_key(x.clone())


def test_nodes_of_autograd_are_numbered_as_they_are_made() -> None:
    x = torch.ones(1, requires_grad=True)
    following = private.next_sequence_number()
    made = [x * 2, x * 3]
    nodes = [one.grad_fn for one in made]
    assert [private.sequence_number(node) for node in nodes if node] == [following, following + 1]
    seen: list[object] = []
    made[0].register_hook(lambda _: seen.append(private.current_node()))  # type: ignore[no-untyped-call]
    made[0].backward()  # type: ignore[no-untyped-call]
    assert seen == [nodes[0]]
    assert private.current_node() is None


@pytest.mark.parametrize(
    ("function", "has_one"),
    [(torch.ops.aten.add.out, True), (torch.ops.aten.relu.out, False)],
)
def test_operators_that_write_themselves_have_a_kernel(
    function: private.OpOverload, has_one: bool
) -> None:
    assert private.has_kernel(function) == has_one


def test_parts_are_shared_now_and_later() -> None:
    plain, other = nn.Linear(2, 2), nn.Module()
    private.share_parts(other, plain)
    other.register_buffer("scale", torch.ones(1), persistent=False)
    plain.weight = nn.Parameter(torch.zeros(2, 2))
    assert dict(other.named_parameters()) == dict(plain.named_parameters())
    assert plain.state_dict().keys() == other.state_dict().keys() == {"weight", "bias"}


def test_hooks_are_held_by_these_names() -> None:
    module = nn.Linear(2, 2)
    module.register_forward_hook(lambda *_: None)
    module.register_forward_pre_hook(lambda *_: None)
    module.register_full_backward_hook(lambda *_: None)
    module.register_full_backward_pre_hook(lambda *_: None)
    assert all(vars(module)[name] for name in private.HOOKS)


def test_functions_of_transforms_are_seen() -> None:
    def inside(x: Tensor) -> Tensor:
        assert private.transforms_are_active()
        return x.sum()

    assert not private.transforms_are_active()
    torch.func.grad(inside)(torch.ones(2))
