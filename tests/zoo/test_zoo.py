"""The zoo holds the published architectures and costs nothing until a model is built."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.long import usually
from workbench.profiles import profile_model
from workbench.utils.checks import UnknownNameError
from workbench.zoo import MODELS, build, mask_rcnn


@pytest.fixture
def _one_thread() -> Iterator[None]:
    """On small tensors and a busy machine, PyTorch's threads mostly wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def inputs(name: str, batch_size: int, device: str = "cpu") -> Tensor:
    """Noise, or tokens below sixteen."""
    model = MODELS[name]
    form = (batch_size, *model.input_shape)
    if model.input_dtype == "float32":
        return torch.randn(form, device=device)
    return torch.randint(16, form, dtype=getattr(torch, model.input_dtype), device=device)


def test_models_are_registered_by_their_names() -> None:
    assert all(name == model.name for name, model in MODELS.items())


@pytest.mark.parametrize("name", MODELS)
def test_parameters_and_output_shape(name: str) -> None:
    model = MODELS[name]
    module = build(name, device="meta")
    parameters = sum(p.numel() for p in module.parameters() if p.requires_grad)
    assert parameters == model.parameters
    assert all(tensor.is_meta for tensor in (*module.parameters(), *module.buffers()))
    found = module(inputs(name, 2, "meta"))
    if name == "mask_rcnn":
        regions = 2 * mask_rcnn.REGIONS
        shapes = [(regions, 91), (regions, 4 * 91), (regions, 91, 28, 28)]
        assert [tuple(one.shape) for one in found] == shapes
    else:
        positions = model.input_shape if name.startswith("gpt") else ()
        assert found.shape == (2, *positions, model.classes)
    assert not any(getattr(part, "inplace", False) for part in module.modules())


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("cipher", [27 * 10 + 10, 90 * 20 + 20, 180 * 100 + 100, 6400 * 200 + 200, 2010]),
        ("cipher_grey", [9 * 10 + 10, 90 * 20 + 20, 180 * 100 + 100, 4900 * 200 + 200, 2010]),
        ("cipher_small", [9 * 8 + 8, 72 * 16 + 16, 144 * 32 + 32, 128 * 32 + 32, 330]),
    ],
)
def test_cipher_has_the_published_layers(name: str, layers: list[int]) -> None:
    """Inputs x outputs + biases; the first linear layer sees 8x8 or 7x7 pixels of each map."""
    parts = build(name, device="meta").children()
    assert [n for part in parts if (n := sum(p.numel() for p in part.parameters()))] == layers
    assert sum(layers) == MODELS[name].parameters


@pytest.mark.parametrize(("name", "pixels"), [("mobilenet_v1", 7), ("mobilenet_v1_cifar", 4)])
def test_mobilenet_v1_has_the_published_layers(name: str, pixels: int) -> None:
    """3x3 on each channel, 1x1 to the next width, each with scale and shift; a linear layer."""
    widths = [32, 64, 128, 128, 256, 256, *[512] * 6, 1024, 1024]
    layers = [27 * 32 + 2 * 32]
    for before, after in pairwise(widths):
        layers += [9 * before + 2 * before, before * after + 2 * after]
    classes = MODELS[name].classes
    layers.append(1024 * classes + classes)
    module = build(name, device="meta")
    parts = [p for p in module.modules() if hasattr(p, "conv") or isinstance(p, nn.Linear)]
    assert [sum(p.numel() for p in part.parameters()) for part in parts] == layers
    assert len(layers) == 28
    assert sum(layers) == MODELS[name].parameters
    features = module[:-3]  # type: ignore[index]
    maps = features(torch.zeros(2, *MODELS[name].input_shape, device="meta"))
    assert maps.shape == (2, 1024, pixels, pixels)


@pytest.mark.parametrize(
    "name",
    [
        "cipher",
        "alexnet",
        "vgg16",
        "googlenet",
        "resnet18",
        "squeezenet",
        "mobilenet_v1",
        "mobilenet_v2",
    ],
)
def test_other_classes_and_image_sizes(name: str) -> None:
    height = 32 if name == "cipher" else 96
    with torch.device("meta"):
        module = MODELS[name].factory(classes=7)
        assert module(torch.zeros(2, 3, height, height)).shape == (2, 7)


LEARNING = (("lenet5", 60), ("resnet20_cifar", 8), ("gpt_tiny", 60))
"""Models, and steps that halve their loss."""
MORE = (*LEARNING, ("cipher_small", 60), ("mobilenet_v1_cifar", 8), ("mobilenet_v2_cifar", 8))


@pytest.mark.parametrize("model", usually(LEARNING, (*MORE, ("vit_tiny_cifar", 60))))
@pytest.mark.usefixtures("_one_thread")
def test_a_few_steps_halve_the_loss(model: tuple[str, int]) -> None:
    """A few steps on one batch bring the loss of a freshly built model down by half."""
    name, steps = model
    torch.manual_seed(0)
    module = build(name, device="cpu")
    given = inputs(name, 4)
    labels = given.roll(-1, 1).flatten() if name == "gpt_tiny" else torch.arange(4)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(given).flatten(0, -2), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] / 2


def test_no_position_of_a_text_sees_a_later_token() -> None:
    torch.manual_seed(0)
    module, tokens = build("gpt_tiny").eval(), inputs("gpt_tiny", 2)
    changed = tokens.clone()
    changed[:, 20] = (changed[:, 20] + 1) % 16
    with torch.no_grad():
        before, after = module(tokens), module(changed)
    assert torch.equal(before[:, :20], after[:, :20])
    assert not torch.isclose(before[:, 20:], after[:, 20:]).all(-1).any()


@pytest.mark.parametrize(
    ("name", "positions", "width", "depth", "others"),
    [
        ("vit_b_16", 197, 768, 12, 196 * 768 * 768 + 768 * 1000),  # patches, and the head
        ("vit_tiny", 197, 192, 12, 196 * 768 * 192 + 192 * 1000),
        ("gpt2", 1024, 768, 12, 1024 * 768 * 50257),
        ("bert_tiny", 128, 128, 2, 128 * 128 + 128 * 2),
    ],
)
def test_multiply_adds_of_transformers(
    name: str, positions: int, width: int, depth: int, others: int
) -> None:
    """Per block, 12 d^2 for each position, and d for each pair of positions, twice."""
    block = 12 * positions * width**2 + 2 * positions**2 * width
    assert profile_model(name).forward_flops == 2 * (depth * block + others)


def test_vit_has_the_published_multiply_adds() -> None:
    """17.56 billion, as torchvision's documentation has it for ViT-B/16."""
    assert round(profile_model("vit_b_16").forward_flops / 2e9, 2) == 17.56


def test_signal_survives_nineteen_layers() -> None:
    """Started as PyTorch starts convolutions, VGG's last map would have a spread of about 1e-3."""
    torch.manual_seed(0)
    features = build("vgg19", device="cpu")[0]  # type: ignore[index]
    with torch.no_grad():
        spread = float(features(torch.randn(2, 3, 64, 64)).std())
    assert 0.03 < spread < 30


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown model 'resnet51'.*'resnet50'.*lenet5"):
        build("resnet51")


def test_the_small_alexnet_draws_its_weights_for_relu() -> None:
    """Variance 2 / inputs (He et al. 2015, Eq. 10), biases 0: its signal keeps its size."""
    torch.manual_seed(0)
    module = MODELS["alexnet_small"].factory()
    layers = [part for part in module.modules() if isinstance(part, nn.Conv2d | nn.Linear)]
    assert len(layers) == 8
    for layer in layers:
        inputs = layer.weight[0].numel()
        assert layer.weight.var().item() == pytest.approx(2 / inputs, rel=0.15)
        assert layer.bias is not None
        assert not layer.bias.any()
    outputs = module.eval()(torch.randn(64, 3, 32, 32))
    default = torch.nn.Sequential(*module.children())
    for layer in layers:
        layer.reset_parameters()
    assert outputs.std(0).mean() > 20 * default(torch.randn(64, 3, 32, 32)).std(0).mean()


def test_regions_of_the_highest_scores_are_pooled_where_they_are() -> None:
    """Of a map that is its own place, a region's bins are the places of its bins."""
    places = torch.arange(32.0).expand(1, 256, 32, 32)
    levels = [functional.interpolate(places, size=size) for size in (32, 16, 8, 4)]
    boxes = torch.tensor([[[16.0, 0.0, 48.0, 128.0]]])
    (found,) = mask_rcnn._align(levels, boxes, 4)
    # On the finest level, four pixels to a place: bins of eight around 20, 28, 36 and 44.
    wanted = torch.tensor([20.0, 28.0, 36.0, 44.0]) / 4 - 0.5
    assert torch.equal(found[0], wanted.expand(4, 4))
