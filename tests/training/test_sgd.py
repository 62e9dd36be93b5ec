"""The optimiser's step is PyTorch's, on the whole vector or on any pieces of it."""

from __future__ import annotations

import copy
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F  # noqa: N812

from tests.training.modules import Awkward
from workbench.training import Sgd, flatten, gradient_step

STEPS = [
    Sgd(0.1),
    Sgd(0.05, momentum=0.9),
    Sgd(0.05, momentum=0.9, nesterov=True),
    Sgd(0.1, weight_decay=0.01),
    Sgd(0.03, momentum=0.5, weight_decay=0.1, nesterov=True),
]


@pytest.mark.parametrize("sgd", STEPS, ids=repr)
def test_trains_like_pytorchs_own_bit_for_bit(sgd: Sgd) -> None:
    plain = Awkward().requires_grad_(True)
    flat = flatten(copy.deepcopy(plain), (5,))
    # PyTorch passes over parameters without a gradient; the flat vector has zeros for them.
    used = [p for name, p in plain.named_parameters() if not name.startswith("idle")]
    theirs = torch.optim.SGD(
        used,
        lr=sgd.learning_rate,
        momentum=sgd.momentum,
        weight_decay=sgd.weight_decay,
        nesterov=sgd.nesterov,
        foreach=False,
    )
    velocity = sgd.start(flat.parameters)
    draw = torch.Generator().manual_seed(1)
    for _ in range(20):
        x = torch.randn(8, 5, generator=draw)
        y = torch.randint(4, (8,), generator=draw)
        theirs.zero_grad()
        F.cross_entropy(plain(x), y).backward()  # type: ignore[no-untyped-call]
        theirs.step()
        gradient_step(flat, x, y)
        sgd.step(flat.parameters, flat.gradients, velocity)
    for name, parameter in plain.named_parameters():
        if not name.startswith("idle"):
            where = flat.layout.tensor_slices[name]
            assert torch.equal(flat.parameters[where], parameter.detach().reshape(-1)), name


@settings(max_examples=50, deadline=None)
@given(
    sgd=st.sampled_from(STEPS),
    size=st.integers(1, 3000),
    cuts=st.sets(st.integers(1, 2999), max_size=12),
    offset=st.integers(0, 7),
    seed=st.integers(0, 1000),
)
def test_pieces_give_the_bits_of_the_whole(
    sgd: Sgd, size: int, cuts: set[int], offset: int, seed: int
) -> None:
    draw = torch.Generator().manual_seed(seed)
    whole = [torch.randn(size, generator=draw) for _ in range(3)]
    # in memory that begins elsewhere, since vector instructions care about alignment
    moved = [torch.cat([torch.zeros(offset), one])[offset:] for one in whole]
    gradients = whole[1].clone()
    sgd.step(whole[0], whole[1], whole[2])
    assert torch.equal(whole[1], gradients)
    bounds = [0, *sorted(cut for cut in cuts if cut < size), size]
    for a, b in pairwise(bounds):
        sgd.step(moved[0][a:b], moved[1][a:b], moved[2][a:b])
    assert torch.equal(moved[0], whole[0])
    assert torch.equal(moved[2], whole[2])
