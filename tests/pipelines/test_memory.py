"""Memory of stages: what PyTorch's profiler counts while they run."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor, nn

from tests.long import usually
from workbench import zoo
from workbench.memory.measured import allocations
from workbench.pipelines.memory import StageMemory, recorded, stage_memory
from workbench.pipelines.partitions import RECOMPUTE
from workbench.pipelines.recording import members, stored_recordings
from workbench.pipelines.schedules import Recompute
from workbench.profiles import profile_model
from workbench.training.flat_model import FlatModel, flatten
from workbench.training.layerwise import LayerwiseModel
from workbench.training.passes import Features, Gradient
from workbench.training.pieces import Pieces, cut
from workbench.utils.checks import UserError

SHAPES = {"lenet5": (1, 28, 28), "resnet18": (3, 32, 32), "gpt_tiny": (32,), "bert_tiny": (128,)}
SAMPLES = {"lenet5": 16, "resnet18": 3, "gpt_tiny": 5, "bert_tiny": 2}
CUTS = {"lenet5": (2, 4), "resnet18": (5, 12), "gpt_tiny": (1, 5), "bert_tiny": (3, 6)}


class Model:
    """A model whose stages run, with a batch."""

    def __init__(self, module: nn.Module, shape: tuple[int, ...], samples: int) -> None:
        self.module = module.train()
        self.dtype = "int64" if len(shape) == 1 else "float32"
        self.shape = shape
        self.flat: FlatModel = flatten(module, shape, input_dtype=self.dtype)
        self.pieces: Pieces = cut(module, shape, input_dtype=self.dtype)
        self.inputs = torch.zeros((samples, *shape), dtype=getattr(torch, self.dtype))
        with torch.no_grad():
            self.labels = torch.zeros(self.before(len(self.pieces) + 1)[0].shape[:-1]).long()

    def memory(self) -> StageMemory:
        memory = stage_memory(self.module, self.shape, self.dtype)
        assert memory is not None
        return memory

    def before(self, layer: int) -> tuple[Tensor, ...]:
        """Tensors that enter a layer; before the layer after the last, the outputs."""
        with torch.no_grad():
            run = self.pieces.run(1, layer - 1, [self.inputs]) if layer > 1 else (self.inputs,)
        return tuple(tensor.detach().clone() for tensor in run)

    def stage(
        self, first: int, last: int, in_flight: int, recompute: Recompute
    ) -> Callable[[], None]:
        """1F1B of as many micro-batches as are in flight and two more."""
        received, behind = self.before(first), [tensor.shape for tensor in self.before(last + 1)]
        is_last = last == len(self.pieces)

        def run() -> None:
            kept: dict[int, tuple[list[Features], LayerwiseModel, Features | None]] = {}

            def forward(number: int) -> None:
                features = Features(tuple(tensor.clone() for tensor in received), self.labels)
                model, inputs = LayerwiseModel(self.flat, self.pieces), [features]
                if recompute == "layers":
                    for layer in range(first, last):
                        inputs.append(model.forward(layer, layer, inputs[-1]))
                        model = LayerwiseModel(self.flat, self.pieces)
                    outputs = model.forward(last, last, inputs[-1])
                else:
                    outputs = model.forward(first, last, features)
                if recompute:
                    model, outputs = LayerwiseModel(self.flat, self.pieces), features
                kept[number] = inputs, model, outputs if is_last else None

            def backward(number: int) -> None:
                inputs, model, outputs = kept.pop(number)
                gradient: Gradient = () if is_last else tuple(map(torch.ones, behind))
                if recompute == "layers":
                    for layer in range(last, first - 1, -1):
                        outputs = model.forward(layer, layer, inputs.pop())
                        if layer == len(self.pieces):
                            _, gradient = model.loss(outputs, "here")
                        del outputs
                        gradient = model.backward(layer, layer, gradient)
                    return
                if recompute:
                    outputs = model.forward(first, last, inputs[0])
                if is_last:
                    assert outputs is not None
                    _, gradient = model.loss(outputs, "here")
                model.backward(first, last, gradient)

            for number in range(in_flight):
                forward(number)
            for number in range(in_flight, in_flight + 2):
                backward(number - in_flight)
                forward(number)
            for number in range(2, in_flight + 2):
                backward(number)

        return run


def compared(model: Model, memory: StageMemory, spans: list[tuple[int, int]]) -> None:
    """Peaks of stages are as predicted: weights, which are there before, and allocations."""
    samples = len(model.inputs)
    plans = [(*span, *how) for span, how in product(spans, product((1, 2, 4), RECOMPUTE))]
    runs = [model.stage(*plan) for plan in plans]
    for run in runs:  # so that no kernel is prepared while it is measured
        run()
    for (first, last, in_flight, recompute), peak in zip(plans, allocations(runs), strict=True):
        needed = memory(first, last, samples, in_flight, recompute)
        weights = memory.span(first, last).weights
        assert needed - weights == pytest.approx(peak, rel=0.03)


@pytest.mark.parametrize("name", usually(("lenet5", "gpt_tiny"), SHAPES))
def test_peaks_are_those_that_the_profiler_counts(name: str) -> None:
    torch.manual_seed(0)
    model = Model(zoo.build(name), SHAPES[name], SAMPLES[name])
    layers = len(model.pieces)
    spans = [span for last in CUTS[name] for span in ((1, last), (last + 1, layers))]
    compared(model, model.memory(), [*spans, (1, layers)])


def test_stored_recordings_are_what_is_recorded() -> None:
    """Of a model without convolutions, whose kernels allocate what the processor makes them."""
    name = "gpt_tiny"
    stored, fresh = stored_recordings(name), recorded(name)
    assert stored is not None
    assert fresh is not None
    assert list(members({name: stored})) == list(members({name: fresh}))


def test_tied_weight_counts_once_in_each_stage() -> None:
    memory = stage_memory("gpt_tiny")
    profile = profile_model("gpt_tiny")
    assert memory is not None
    (tied,) = profile.tied
    sizes = profile.table["param_bytes"].to_numpy()
    own, last = sizes[:5].sum(), len(profile)
    assert memory.span(1, 5).weights == pytest.approx(2 * own, rel=0.02)  # and buffers
    rest = memory.span(6, last).weights
    assert rest == 2 * (sizes[5:].sum() + tied.size_bytes)
    assert memory.span(1, last).weights == memory.span(1, 5).weights + rest - 2 * tied.size_bytes


def frozen_below(layers: int) -> Model:
    module = zoo.build("lenet5")
    names = frozenset().union(*cut(module, SHAPES["lenet5"]).parameters[:layers])
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name not in names)
    return Model(module, SHAPES["lenet5"], 16)


def test_layers_below_the_first_trained_one_keep_nothing() -> None:
    model = frozen_below(2)
    memory = model.memory()
    compared(model, memory, [(1, 3), (1, 5), (3, 5)])
    parameters = sum(p.nbytes for p in model.module.parameters() if not p.requires_grad)
    assert memory.span(1, 2).weights == parameters
    assert memory(1, 2, 16, 1, False) == memory(1, 2, 16, 4, True)
    all_trained = stage_memory("lenet5")
    assert all_trained is not None
    received_and_sent = model.inputs.nbytes + sum(tensor.nbytes for tensor in model.before(3))
    kept = memory.span(1, 3).kept.peak(16)
    assert received_and_sent <= kept < all_trained.span(1, 3).kept.peak(16)


def test_unknown_without_operators_or_layers() -> None:
    assert stage_memory(profile_model("lenet5")) is None
    assert stage_memory(nn.LSTM(4, 4, 2, batch_first=True), (3, 4)) is None


@pytest.mark.parametrize(("first", "last"), [(0, 2), (3, 2), (1, 6)])
def test_layers_that_do_not_exist_are_refused(first: int, last: int) -> None:
    memory = stage_memory("lenet5")
    assert memory is not None
    with pytest.raises(UserError, match=r"not within 1 to 5|at least 1"):
        memory(first, last, 1, 1, False)
