"""Bytes that layers move: counted by hand, and what must be so for any model."""

import numpy as np
import pytest
from torch import nn

from workbench.profiles import moved_bytes, profile_model

FLOAT, INDEX = 4, 8


def test_lenet5_moves_what_is_counted_by_hand() -> None:
    """Read and written by each operation; pooling writes where its values came from, too."""
    image, first, pooled = 3 * 32 * 32, 6 * 28 * 28, 6 * 14 * 14
    patches = 3 * 5 * 5 * 28 * 28
    convolution = FLOAT * (image + 2 * patches + first)
    relu = FLOAT * 2 * first
    pooling = FLOAT * (first + pooled) + INDEX * pooled
    second, last = 16 * 10 * 10, 16 * 5 * 5
    patches = 6 * 5 * 5 * 10 * 10
    expected = [
        convolution + relu + pooling,
        FLOAT * (pooled + 2 * patches + second + 2 * second + second + last) + INDEX * last,
        FLOAT * (400 + 120 + 2 * 120),
        FLOAT * (120 + 84 + 2 * 84),
        FLOAT * (84 + 10),
    ]
    assert moved_bytes("lenet5_cifar").tolist() == expected


@pytest.mark.parametrize(
    ("layer", "patches"),
    [
        (nn.Conv2d(4, 6, 1), 0),
        (nn.Conv2d(4, 6, 3, stride=2), 3 * 3 * 4 * 3 * 3),
        (nn.Conv2d(4, 6, 3, groups=2), 6 * 6 * 4 * 3 * 3),
        (nn.ConvTranspose2d(4, 6, 3), 8 * 8 * 6 * 3 * 3),
    ],
    ids=["1x1", "stride", "groups", "transposed"],
)
def test_unfolded_patches(layer: nn.Module, patches: int) -> None:
    profile = profile_model(layer, (4, 8, 8))
    read_and_written = FLOAT * 4 * 8 * 8 + profile.output_bytes
    assert moved_bytes(layer, (4, 8, 8)).tolist() == [read_and_written + FLOAT * 2 * patches]


def test_views_move_nothing() -> None:
    plain = nn.Sequential(nn.Linear(12, 8), nn.Linear(8, 2))
    views = nn.Sequential(nn.Unflatten(1, (2, 4)), nn.Flatten())
    viewed = nn.Sequential(plain[0], *views, plain[1])
    assert moved_bytes(viewed, (12,)).tolist() == moved_bytes(plain, (12,)).tolist()


def test_in_place_is_read_and_written() -> None:
    one, other = (
        nn.Sequential(nn.Linear(12, 8), nn.ReLU(inplace=inplace)) for inplace in (False, True)
    )
    assert moved_bytes(one, (12,)).tolist() == moved_bytes(other, (12,)).tolist()


@pytest.mark.parametrize("model", ["alexnet_tiny", "resnet20_cifar", "googlenet"])
def test_a_number_for_every_layer_and_no_less_than_its_output(model: str) -> None:
    moved, profile = moved_bytes(model), profile_model(model)
    assert moved.shape == (len(profile),)
    assert np.issubdtype(moved.dtype, np.integer)
    assert not moved.flags.writeable
    made = profile.table["output_bytes"].to_numpy()[-1]
    assert moved[-1] >= made
