"""Statistics of batch normalisation: kept apart, copied, averaged."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from workbench.training import (
    average_buffers,
    evaluate,
    flatten,
    get_buffers,
    gradient_step,
    set_buffers,
)


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))


def test_are_no_part_of_the_vector_but_follow_training() -> None:
    flat = flatten(normalised(), (3,))
    assert flat.layout.size == 3 * 4 + 4 + 4 + 4
    before = get_buffers(flat.module)
    gradient_step(flat, torch.arange(12.0).reshape(4, 3), torch.arange(4))
    after = get_buffers(flat.module)
    assert not torch.equal(before["1.running_mean"], after["1.running_mean"])
    assert int(after["1.num_batches_tracked"]) == 1
    x, y = torch.arange(12.0).reshape(4, 3), torch.arange(4)
    trained = evaluate(flat.module, x, y)
    set_buffers(flat.module, before)
    assert evaluate(flat.module, x, y) != trained
    set_buffers(flat.module, after)
    assert evaluate(flat.module, x, y) == trained


def test_are_averaged_over_workers() -> None:
    sets = [
        {"mean": torch.tensor([1.0, 3.0]), "count": torch.tensor(4)},
        {"mean": torch.tensor([2.0, 5.0]), "count": torch.tensor(7)},
    ]
    averaged = average_buffers(sets)
    assert averaged["mean"].tolist() == [1.5, 4.0]
    assert int(averaged["count"]) == 7


def test_of_other_modules_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one replica"):
        average_buffers([])
    with pytest.raises(ValueError, match="same module"):
        average_buffers([{"a": torch.zeros(1)}, {}])
    with pytest.raises(ValueError, match=r"1\.running_mean"):
        set_buffers(normalised(), {})
