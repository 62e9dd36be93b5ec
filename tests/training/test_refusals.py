"""What cannot be is refused at the call that it was given to, in the caller's terms."""

# mypy: disable-error-code="arg-type, call-arg, list-item"

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.refusals import refusals
from workbench import zoo
from workbench.training import (
    FlatModel,
    Objective,
    Sgd,
    average_buffers,
    batches,
    evaluate,
    flatten,
    generator,
    gradient_step,
    initialise,
    model_layout,
    quantise,
    set_buffers,
)
from workbench.utils.checks import UnknownNameError

LINEAR = nn.Linear(5, 4)
X, Y = torch.zeros(8, 5), torch.arange(8) % 4

test_sgd = refusals(
    Sgd,
    {"learning_rate": 0.1, "momentum": 0.9},
    {
        "learning_rate": {
            "learning_rate is .*; it must be above 0": [0.0, math.nan],
            "learning_rate is .*; give a number": ["0.1", None, True, [0.1]],
        },
        "momentum": {"momentum is .*; it must be at least 0 and below 1": [1.0, -0.1]},
        "weight_decay": {"weight_decay is -1.0; it must be at least 0": [-1.0]},
        "nesterov": {"nesterov is .*; give True or False": ["no", 1, None]},
    },
)
test_nesterov = refusals(Sgd, {"learning_rate": 0.1}, {"nesterov": {"nesterov needs": [True]}})
test_step = refusals(
    Sgd(0.1).step,
    {"parameters": torch.zeros(3), "gradients": torch.zeros(3), "velocity": torch.zeros(3)},
    {"gradients": {r"\(3,\), \(2,\), \(3,\)": [torch.zeros(2)]}},
)
test_batches = refusals(
    batches,
    {"samples": 10, "batch_size": 2, "seed": 0, "epoch": 0, "worker": 1, "workers": 2},
    {
        "samples": {
            "samples, a Dataset or their number, is .*; it must be a whole": ["digits", 10.5],
            "2 workers cannot share 1 samples": [1],
        },
        "batch_size": {"batch_size is .*; it must be a whole number of at": [2.5, "2", True, 0]},
        "seed": {"seed is .*; it must be a whole number of at least 0": [-1]},
        "epoch": {"epoch is": [-1]},
        "worker": {"worker 2 is not one of 0 to 1": [2]},
        "workers": {"workers is .*; it must be a whole number of at least 1": [0]},
    },
)
test_initialise = refusals(
    initialise,
    {"model": nn.Identity, "seed": 1},
    {
        "seed": {"seed is .*; it must be a whole number of at least 0": [None, -1]},
        "model": {
            "model is .*; give the name of one in the zoo, a torch.nn.Mod": [5, None],
            "Linear has its weights already; give the function": [LINEAR],
            r"makes no torch\.nn\.Module but dict": [dict],
            "Did you mean 'lenet5'": ["lenet"],
        },
    },
)
test_evaluate = refusals(
    evaluate,
    {"model": LINEAR, "x": X, "y": Y},
    {
        "model": {"model is of type str; give a torch.nn.Module, such as": ["lenet5"]},
        "x": {
            "x is .*; give an array or tensor, a row": [None, [[1.0]]],
            "0 samples and 8 labels; one label each, at least one": [X[:0]],
        },
        "y": {"y is 5; give an array or tensor, a row": [5], "8 samples and 1 labels": [Y[:1]]},
        "batch_size": {"batch_size is .*; it must be a whole": ["x", 2.5, 0]},
    },
)


class Pair(nn.Linear):
    def forward(self, input: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return super().forward(input), input


def flat(module: nn.Module = LINEAR) -> FlatModel:
    return flatten(module, (5,))


def mixed() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double())


test_gradient_step = refusals(
    gradient_step,
    {"flat": flat(), "x": X, "y": Y},
    {
        "flat": {
            r"flat is of type NoneType; give training.flatten\(": [None],
            "flat is of type Linear; give training.fl": [LINEAR],
            "labels go from 0 to 3, but the model has 3 outputs": [flat(nn.Linear(5, 3))],
            r"returns tuple \(0: Tensor, 1: Tensor\); say which.*outputs=": [flat(Pair(5, 4))],
            r"outputs of shape \(32,\)": [flat(nn.Sequential(nn.Linear(5, 4), nn.Flatten(0)))],
        },
        "x": {"x is None; give an arr": [None]},
        "y": {"labels go from -1": [Y - 1], "8 samples and 5 labels": [Y[:5]]},
        "seed": {"seed is 'x'; it": ["x"]},
        "objective": {"the loss has no gradient": [Objective(lambda x, y: x.detach().mean())]},
    },
)
test_flatten = refusals(
    flatten,
    {"module": nn.Linear(2, 2), "input_shape": (2,)},
    {
        "module": {
            r"torch\.float32, torch\.float64.*module\.float\(\)": [mixed()],
            "no parameters": [nn.ReLU()],
        },
        "input_shape": {"does not fit": [(7,)]},
    },
)
test_layers = refusals(
    model_layout(zoo.build("lenet5", "meta"), (1, 28, 28)).layers_slice,
    {"first": 2, "last": 2},
    {"first": {"not within 1 to 5": [0, 3]}, "last": {"layers 2 to 6 are not within": [6]}},
)
test_buffers = refusals(
    set_buffers,
    {"module": LINEAR, "values": {}},
    {"module": {r"1\.running_mean": [nn.Sequential(LINEAR, nn.BatchNorm1d(4))]}},
)
test_averages = refusals(
    average_buffers,
    {"sets": [{}]},
    {"sets": {"at least one replica": [[]], "same module": [[{"a": torch.zeros(1)}, {}]]}},
)
test_quantise = refusals(
    quantise,
    {"tensor": torch.zeros(2), "bits": 8},
    {
        "tensor": {
            r"cannot be quantised.*must be finite": [
                torch.tensor([0.0, value]) for value in (math.nan, math.inf, -math.inf)
            ],
            "in floating point": [torch.zeros(0), torch.zeros(3, dtype=torch.int64)],
        },
        "bits": {"1 to 16 bits": [0, 17, 32, 2.5, True]},
    },
)
test_generator = refusals(generator, {"seed": 0}, {"seed": {"at least 0": [-1]}})


def test_an_unknown_model_has_an_error_of_its_own() -> None:
    with pytest.raises(UnknownNameError):
        initialise("lenet", 1)


def test_numpys_counts_are_counts() -> None:
    ours = batches(np.int64(10), np.int32(3), np.uint8(1), np.int64(0))
    assert [one.tolist() for one in ours] == [one.tolist() for one in batches(10, 3, 1, 0)]
