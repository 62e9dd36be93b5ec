"""Profiles from the graph: the paper's chains, and sums that equal the whole module's."""

from __future__ import annotations

import copy
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from tests.long import usually
from tests.memory.tracing.modules import Calling
from tests.oracles.profiles_chain import chain_rows
from tests.profiles.modules import (
    Autoencoder,
    DataDependent,
    Functional,
    Language,
    RandomGraph,
    Siamese,
    TwoInputs,
)
from workbench.profiles import (
    By,
    ModelProfile,
    Tied,
    UntraceableError,
    measure_layer_times,
    profile_model,
)
from workbench.training.pieces import cut
from workbench.zoo import MODELS, build

BY_LAYERS = {
    5: ("lenet5", "lenet5_cifar", "cipher", "cipher_grey", "cipher_small"),
    6: ("cifarnet",),
    9: ("gpt_tiny",),
    11: ("bert_tiny",),
    8: ("alexnet", "alexnet_cifar", "alexnet_small", "alexnet_tiny"),
    16: ("vgg16",),
    18: ("resnet18", "squeezenet", "squeezenet_cifar", "vit_tiny_cifar"),
    19: ("vgg19",),
    20: ("resnet20_cifar",),
    22: ("googlenet",),
    28: ("mobilenet_v1", "mobilenet_v1_cifar"),
    34: ("resnet34",),
    48: ("inception_v3",),
    49: ("gpt2",),  # four in each block, and the embedding, whose weights the head has
    50: ("resnet50", "vit_b_16", "vit_tiny"),
    53: ("mobilenet_v2", "mobilenet_v2_cifar"),
    59: ("mask_rcnn",),
    76: ("inception_v4",),
    152: ("resnet152",),
}
LAYERS = {name: layers for layers, names in BY_LAYERS.items() for name in names}


def whole_flops(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[int, int]:
    """FLOPs of the whole module for a batch, forward and backward, as PyTorch counts them."""
    with FlopCounterMode(display=False) as forward:
        outputs = module(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    with FlopCounterMode(display=False) as backward:
        torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])
    return forward.get_total_flops(), backward.get_total_flops()


def assert_sums_to_whole(
    profile: ModelProfile, module: nn.Module, inputs: tuple[Tensor, ...]
) -> None:
    batch = len(inputs[0])
    assert profile.param_bytes == sum(p.numel() * p.element_size() for p in module.parameters())
    assert profile.param_tensors == len(list(module.parameters()))
    forward, backward = whole_flops(module, inputs)
    assert profile.forward_flops * batch == forward
    if any(getattr(part, "groups", 1) > 1 for part in module.modules()):
        assert profile.backward_flops * batch < backward  # PyTorch counts some `groups` times over
    else:
        assert profile.backward_flops * batch == backward


def test_layers_are_as_many_as_the_paper_counts() -> None:
    for name in MODELS:
        profile = profile_model(name)
        assert len(profile) == LAYERS[name]
        assert (profile.name, profile.input_shape) == (name, MODELS[name].input_shape)
        assert profile.param_bytes == 4 * MODELS[name].parameters


FEW = ("lenet5", "resnet20_cifar", "squeezenet_cifar", "mobilenet_v2_cifar")
FOLLOWED = [name for name in MODELS if not name.startswith(("mask_rcnn", "vit", "gpt", "bert"))]
"""Those whose code asks for no shapes, which the oracle's tracer does not follow."""


@pytest.mark.parametrize("name", usually(FEW, FOLLOWED))
def test_layers_of_the_zoo_are_those_of_the_oracle(name: str) -> None:
    """Each layer is equal to the oracle's; all are equal to the whole."""
    profile = profile_model(name)
    module = build(name, device="meta")
    assert profile.table.drop("layer").rows() == chain_rows(module, MODELS[name].input_shape)
    images = torch.zeros(2, *MODELS[name].input_shape, device="meta")
    assert_sums_to_whole(profile, module, (images,))


def test_layers_of_mask_rcnn_sum_to_the_whole() -> None:
    """The oracle's tracer does not follow a code that asks for shapes."""
    profile = profile_model("mask_rcnn")
    images = torch.zeros(2, 3, 768, 768, device="meta")
    assert_sums_to_whole(profile, build("mask_rcnn", device="meta"), (images,))


def test_profiles_of_the_zoo_are_made_once() -> None:
    assert profile_model("vgg19") is profile_model("vgg19", (3, 224, 224))
    small = profile_model("vgg19", (3, 64, 64))
    assert small is profile_model("vgg19", (3, 64, 64))
    assert small.param_bytes == profile_model("vgg19").param_bytes
    assert small.forward_flops < profile_model("vgg19").forward_flops


@settings(deadline=None)
@given(st.data())
def test_layers_of_random_modules_sum_to_the_whole(data: st.DataObject) -> None:
    """Random graphs of tied and own weights: sums hold, and so does the order of pulls."""
    module = RandomGraph.draw(data)
    profile = profile_model(module, (4,))
    with torch.device("meta"):
        meta = copy.deepcopy(module).to("meta")
        assert_sums_to_whole(profile, meta, (torch.zeros(2, 4),))
    assert len(profile) == module.depth()
    assert all(count > 0 for count in profile.table["param_tensors"])


def test_tied_weights_count_once_at_their_first_use() -> None:
    profile = profile_model(Autoencoder(), (6,))
    # Encoder 6x3 and its bias; the decoder's product with the same matrix starts no layer, so
    # its own bias joins the layer before.
    assert profile.layers == ("encoder",)
    assert profile.table.row(0)[1:] == ((18 + 3 + 6) * 4, 3, 6 * 4, 2 * 18 * 2, 3 * 2 * 18)
    assert_sums_to_whole(profile, Autoencoder(), (torch.zeros(2, 6),))


def test_layers_that_use_a_tied_weight() -> None:
    """One weight is used by three layers, one twice within its layer, which does not count."""

    class Thrice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(10, 4)
            self.shared, self.twice, self.last = (nn.Linear(4, 4, bias=False) for _ in range(3))

        def forward(self, tokens: Tensor) -> Tensor:
            x = self.shared(self.embedding(tokens))
            x = self.shared(self.twice(self.twice(x)))
            x = self.last(x) * self.shared.weight.sum()
            return F.linear(x, self.embedding.weight)

    module = Thrice()
    profile = profile_model(module, (7,), input_dtype="int64")
    assert profile.layers == ("embedding", "shared", "twice", "last")
    assert profile.tied == (Tied(160, (1, 4)), Tied(64, (2, 3, 4)))
    parts = cut(module, (7,), input_dtype="int64").parameters
    for name, layers in (("embedding.weight", (1, 4)), ("shared.weight", (2, 3, 4))):
        assert tuple(layer for layer, used in enumerate(parts, 1) if name in used) == layers
    module.shared.weight.requires_grad_(False)
    assert profile_model(module, (7,), input_dtype="int64").tied == (Tied(160, (1, 4)),)


def test_a_branch_on_shared_weights_waits_for_their_layer() -> None:
    profile = profile_model(Siamese(), ((4,), (4,)))
    assert profile.layers == ("first", "second", "head")
    assert profile.input_shape == ((4,), (4,))
    both_branches = [2 * 2 * 16, 2 * 2 * 16, 2 * 8]
    assert profile.table["forward_flops"].to_list() == both_branches
    # Across the cut after `first`: its output for either branch.
    assert profile.table["output_bytes"].to_list() == [32, 32, 4]
    assert_sums_to_whole(profile, Siamese(), (torch.zeros(2, 4), torch.zeros(2, 4)))


def test_functional_use_of_parameters() -> None:
    profile = profile_model(Functional(), (5, 4))
    # Class token, position and the weight they go into are one layer; `unused` is never used
    # and belongs to the layer of the parameter registered before it.
    assert profile.layers == ("weight", "head")
    assert profile.table["param_tensors"].to_list() == [5, 2]
    assert_sums_to_whole(profile, Functional(), (torch.zeros(2, 5, 4),))


def test_language_model_with_tokens_recurrence_and_tied_embedding() -> None:
    profile = profile_model(Language(), (7,), input_dtype="int64")
    assert profile.layers == ("embedding", "lstm.weight_ih_l0", "lstm.weight_ih_l1")
    assert profile.tied == (Tied(160, (1, 3)),)
    # On a CPU the recurrence is one fused operation that PyTorch's counter does not know.
    tokens = torch.zeros(2, 7, dtype=torch.long, device="meta")
    with torch.device("meta"):
        assert_sums_to_whole(profile, Language(), (tokens,))


def test_attention() -> None:
    encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    profile = profile_model(encoder, (5, 8))
    assert profile.layers == (
        "self_attn.in_proj_weight",
        "self_attn.out_proj",
        "linear1",
        "linear2",
    )
    assert_sums_to_whole(profile, encoder.to("meta"), (torch.zeros(2, 5, 8, device="meta"),))


def test_weight_normalisation_belongs_to_the_layer_it_serves() -> None:
    norm = nn.utils.parametrizations.weight_norm
    module = nn.Sequential(norm(nn.Linear(3, 4)), nn.ReLU(), norm(nn.Linear(4, 2)))
    profile = profile_model(module, (3,))
    assert profile.layers == ("0", "2")
    assert profile.table["param_bytes"].to_list() == [(4 + 12 + 4) * 4, (2 + 8 + 2) * 4]


def test_checkpointed_layers_count_their_recomputation() -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = checkpoint(self.body, x, use_reentrant=False)
            return out

    assert_sums_to_whole(profile_model(Checkpointed(), (4,)), Checkpointed(), (torch.zeros(2, 4),))


def reentrant(function: Any, x: Tensor) -> Any:
    return checkpoint(function, x, use_reentrant=True)


@pytest.mark.parametrize(
    ("forward", "again"),
    [
        (lambda m, x: m[2](reentrant(lambda y: m[1](m[0](y)), x)), (1, 1, 0)),
        (lambda m, x: reentrant(lambda y: m[2](reentrant(m[1], m[0](y))), x), (1, 2, 1)),
        (lambda m, x: reentrant(m[2], reentrant(m[1], m[0](x))), (0, 1, 1)),
    ],
)
def test_reentrant_checkpoints_cost_their_layers(forward: Any, again: tuple[int, ...]) -> None:
    def whole(m: Any, x: Tensor) -> Tensor:
        x = m.start(x)
        out: Tensor = forward(m.parts, x)
        return out

    parts = nn.ModuleList([nn.Linear(4, 8), nn.Linear(8, 16), nn.Linear(16, 2)])
    module = Calling(whole, start=nn.Linear(4, 4), parts=parts)
    table = profile_model(module, (4,)).table
    forwards = [2 * 4 * 8, 2 * 8 * 16, 2 * 16 * 2]
    assert table["forward_flops"].to_list()[1:] == forwards
    wanted = [(2 + times) * flops for times, flops in zip(again, forwards, strict=True)]
    assert table["backward_flops"].to_list() == [2 * 4 * 4, *wanted]


def test_normalisation_first_belongs_to_the_first_layer() -> None:
    module = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2), nn.BatchNorm1d(2))
    profile = profile_model(module, (3,))
    assert profile.layers == ("1",)
    assert profile.param_tensors == 6


def test_of_a_frozen_network_only_the_head_is_learnt_and_sent() -> None:
    module, whole = build("resnet18", "meta"), profile_model("resnet18")
    module.requires_grad_(False).get_submodule("fc").requires_grad_(True)
    profile = profile_model(module, (3, 224, 224))
    *below, head = profile.table.iter_rows(named=True)
    *_, unfrozen = whole.table.iter_rows(named=True)
    assert [(one["param_bytes"], one["backward_flops"]) for one in below] == [(0, 0)] * 17
    assert head == unfrozen | {"backward_flops": 2 * 512 * 1000}  # by the weights alone
    assert profile.tensor_bytes[-1] == (4 * 512 * 1000, 4 * 1000)
    alike = ["layer", "output_bytes", "forward_flops"]
    assert profile.table[alike].equals(whole.table[alike])
    held = (*whole.table["param_bytes"][:-1], 0)
    assert profile.frozen_bytes == held
    assert profile.unfrozen_backward_flops == tuple(whole.table["backward_flops"])


@pytest.mark.parametrize("by", ["graph", "modules"])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_frozen_parameters_cost_what_autograd_does_for_them(by: By, data: st.DataObject) -> None:
    module = RandomGraph.draw(data)
    parameters = list(module.parameters())
    drawn = data.draw(st.lists(st.booleans(), min_size=len(parameters), max_size=len(parameters)))
    for parameter, trained in zip(parameters, drawn, strict=True):
        parameter.requires_grad_(trained)
    if not any(drawn):
        with pytest.raises(ValueError, match="every parameter of RandomGraph is frozen"):
            profile_model(module, (4,), by=by)
        return
    profile = profile_model(module, (4,), by=by)
    learnt = [one.numel() * 4 for one in parameters if one.requires_grad]
    assert (profile.param_bytes, profile.param_tensors) == (sum(learnt), len(learnt))
    assert sum(profile.frozen_bytes) == 4 * sum(map(torch.numel, parameters)) - sum(learnt)
    outputs = module(torch.zeros(2, 4))
    with FlopCounterMode(display=False) as counter:
        if outputs.requires_grad:
            outputs.sum().backward()
    assert 2 * profile.backward_flops == counter.get_total_flops()


def test_in_place_operations_and_outputs_of_several_tensors() -> None:
    class Tuple(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> dict[str, object]:
            y = self.a(x)
            z = F.relu(y, inplace=True)[:, :2]
            z = z + self.b(y)
            return {"early": y, "late": [z, "no tensor"]}

    profile = profile_model(Tuple(), (4,))
    # `y` is needed whole beyond the first layer, its half with it; both outputs leave the last.
    assert profile.table["output_bytes"].to_list() == [16, 16 + 8]


def test_half_precision_halves_bytes() -> None:
    profile = profile_model(nn.Linear(4, 2, dtype=torch.bfloat16), (4,), input_dtype="bfloat16")
    assert profile.table.row(0)[1:4] == (20, 2, 4)


def test_user_module_is_not_touched() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout()).eval()
    before = copy.deepcopy(module.state_dict())
    with torch.no_grad():
        profile_model(module, (3, 8, 8))
        profile_model(module, (3, 8, 8), by="modules")
    assert not any(part.training for part in module.modules())
    assert all(parameter.grad is None for parameter in module.parameters())
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
    for key, tensor in module.state_dict().items():
        assert tensor.device.type == "cpu"
        assert torch.equal(tensor, before[key])


def test_inputs_of_several_shapes() -> None:
    profile = profile_model(TwoInputs(), ((3,), (4,)))
    assert profile.layers == ("left +1", "out")
    with pytest.raises(ValueError, match=r"does not fit TwoInputs: in its forward, TypeError"):
        profile_model(TwoInputs(), (3,))


@pytest.mark.parametrize("by", ["graph", "modules"])
def test_compiled_parts_are_refused(by: By) -> None:
    module = nn.Sequential(nn.Linear(4, 4), torch.jit.script(nn.Linear(4, 2)))
    for profile in (profile_model, partial(measure_layer_times, batch_size=2)):
        with pytest.raises(ValueError, match=r"its part '1' is compiled by torch[.]jit"):
            profile(module, input_shape=(4,), by=by)


def test_control_flow_on_data_is_refused_with_a_way_out() -> None:
    with pytest.raises(UntraceableError, match=r"DataDependent cannot be traced.*by=\"modules\""):
        profile_model(DataDependent(), (4,))
    profile = profile_model(DataDependent(), (4,), by="modules")
    assert profile.layers == ("stem", "left", "head")
    assert profile.param_bytes == sum(4 * p.numel() for p in DataDependent().parameters())
    assert profile.forward_flops == 3 * 2 * 16


@pytest.mark.parametrize("name", ["lenet5", "resnet20_cifar"])
def test_by_modules_agrees_where_modules_are_a_chain(name: str) -> None:
    by_graph, by_modules = profile_model(name), profile_model(name, by="modules")
    # A shortcut's own work is done where the module calls it, not where its input is ready; so
    # cuts inside a residual network may carry other bytes.
    alike = [c for c in by_graph.table.columns if name == "lenet5" or c != "output_bytes"]
    assert by_modules.table.select(alike).equals(by_graph.table.select(alike))


def test_shapes_that_do_not_fit_name_the_layer() -> None:
    with pytest.raises(ValueError, match=r"does not fit lenet5: at layer '7' \(Linear"):
        profile_model("lenet5", (1, 32, 32))
    with pytest.raises(ValueError, match=r"at layer 'embedding'.*input_dtype"):
        profile_model(Language(), (7,))


@pytest.mark.parametrize(
    ("module", "options", "message"),
    [
        (nn.Linear(3, 3), {}, r"input_shape is missing: Linear .*\(3, 224, 224\)"),
        (nn.Linear(3, 3), {"input_shape": (0,)}, "not made of positive whole numbers"),
        (nn.Linear(3, 3), {"input_shape": (3.0,)}, "not made of positive whole numbers"),
        (nn.Linear(3, 3), {"input_shape": (3,), "by": "module"}, "Did you mean 'modules'"),
        (nn.Linear(3, 3), {"input_shape": (3,), "input_dtype": "float99"}, "unknown input_dtype"),
        (nn.ReLU(), {"input_shape": (3,)}, "ReLU has no parameters"),
        (nn.LazyLinear(3), {"input_shape": (3,)}, "lazy layers"),
        ("vgg-19", {}, "Did you mean 'vgg19'"),
    ],
)
def test_refusals(module: str | nn.Module, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        profile_model(module, **options)  # type: ignore[arg-type]


def test_cut_sizes_of_a_residual_block() -> None:
    """Inside a block the shortcut crosses too: twice the bytes, in ResNet's first stage."""
    sizes = profile_model("resnet18").table["output_bytes"].to_list()
    assert sizes[0] == 64 * 56 * 56 * 4
    assert sizes[1] == 2 * sizes[0]
    assert sizes[2] == sizes[0]
    assert all(size > 0 for size in sizes)
    assert [a >= b for a, b in pairwise(sizes[2::4])] == [True] * 3
