"""What a module takes is said in one way for all, and refused in the user's terms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.refusals import refusals
from workbench.memory import trace
from workbench.memory.executor import run
from workbench.profiles import Input, inputs_of, measure_layer_times, profile_model
from workbench.training.pieces import cut

TWO = (Input((128,), "int64", "input_ids"), Input((128,), "bool", "mask"))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ((3, 8, 8), (Input((3, 8, 8)),)),
        ("3,8,8", (Input((3, 8, 8)),)),
        ("3x8×8", (Input((3, 8, 8)),)),
        ("int64[128]", (Input((128,), "int64"),)),
        (" int64 [ 128 ] ", (Input((128,), "int64"),)),
        ("[4]", (Input((4,)),)),
        ("int64[]", (Input((), "int64"),)),
        ([(3, 8), (5,)], (Input((3, 8)), Input((5,)))),
        ("float32[3,8],int64[5]", (Input((3, 8)), Input((5,), "int64"))),
        ([(3, 8), "int64[5]"], (Input((3, 8)), Input((5,), "int64"))),
        ("input_ids=int64[128], mask=bool[128]", TWO),
        ({"input_ids": "int64[128]", "mask": "bool[128]"}, TWO),
        (TWO, TWO),
    ],
)
def test_inputs_are_read(given: Any, wanted: tuple[Input, ...]) -> None:
    assert inputs_of(nn.Identity(), given) == wanted
    text = ",".join(map(str, wanted))
    assert inputs_of(nn.Identity(), text) == wanted


def test_a_type_stands_for_shapes_without_one_and_the_zoo_knows_its_own() -> None:
    assert inputs_of(nn.Identity(), "4", "float64") == (Input((4,), "float64"),)
    assert inputs_of(nn.Identity(), "int64[4]", "float64") == (Input((4,), "int64"),)
    assert inputs_of("gpt_tiny", None) == (Input((32,), "int64"),)
    assert inputs_of("gpt_tiny", (8,)) == (Input((8,), "int64"),)


test_other_inputs = refusals(
    inputs_of,
    {"model": nn.Identity(), "input_shape": "4"},
    {
        "input_shape": {
            "input_shape is missing: Identity does not tell": [None],
            "not made of positive whole numbers": [(3, 0), (True, 4)],
            "give a type and a shape, as in": [
                *("3,x", "", "float32", "float32[0]", "int64[3", "int64[-3]")
            ],
            "give every input a name of its own, or none": [
                *("a=int64[3],a=int64[3]", "a=int64[3],int64[3]"),
                *(["a=int64[3]", "a=int64[4]"], ["a=int64[3]", "int64[4]"]),
                ["a=int64[3]", Input((3,), "int64", "a")],
            ],
            "give one shape for each name": [{"a": "int64[3],int64[4]"}, {"a": "b=int64[3]"}],
            r"input_shape is (\[\]|{}|7); give": [[], {}, 7],
        }
    },
)
test_an_input = refusals(
    Input,
    {"shape": (np.int64(3),)},
    {
        "shape": {"not made of positive whole numbers": [3, (-3,), (0,), (1.5,), ("3",), None]},
        "dtype": {"unknown input_dtype": ["float 32", "", torch.float32]},
        "name": {"give the name that forward has": ["1 x", 5]},
    },
)


class Named(nn.Module):
    """Takes its inputs by name alone."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.layer = nn.Embedding(5, 4), nn.Linear(4, 3)

    def forward(self, *, gain: Tensor, tokens: Tensor) -> Tensor:
        return self.layer(self.tokens(tokens).sum(1)) * gain  # type: ignore[no-any-return]


def test_inputs_by_name_are_traced_profiled_measured_and_cut() -> None:
    torch.manual_seed(0)
    module, inputs = Named(), "tokens=int64[6],gain=float32[3]"
    tokens, gain = torch.randint(5, (2, 6)), torch.randn(2, 3)
    wanted = module(tokens=tokens, gain=gain)
    graph = trace(module, inputs, 2)
    assert torch.equal(run(graph, (tokens, gain))[0], wanted)
    assert {"tokens", "gain"} <= set(graph.nodes.filter(kind="input")["name"])
    profile = profile_model(module, inputs)
    assert profile.sample_bytes == 6 * 8 + 3 * 4
    assert measure_layer_times(module, 2, inputs, warmup=0, repeats=1).layers == profile.layers
    pieces = cut(module, inputs)
    assert torch.equal(pieces.run(2, 2, pieces.run(1, 1, (tokens, gain)))[0], wanted)
