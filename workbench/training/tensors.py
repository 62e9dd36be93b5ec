"""Samples as tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workbench.errors import UserError

if TYPE_CHECKING:
    import torch


def as_tensor(samples: NDArray[Any] | torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return an array or tensor as a tensor on a device, copied only where it must be."""
    import torch

    if isinstance(samples, torch.Tensor):
        return samples.to(device)
    # PyTorch has no tensors that cannot be written to, which those of a data set cannot.
    own = samples if samples.flags.writeable else np.array(samples)
    return torch.from_numpy(own).to(device)


def check_pairs(x: NDArray[Any] | torch.Tensor, y: NDArray[Any] | torch.Tensor) -> int:
    """Return the number of samples, if each has one label."""
    import torch

    for name, value in (("x", x), ("y", y)):
        if not (isinstance(value, np.ndarray | torch.Tensor) and value.ndim):
            raise UserError(f"{name} is {value!r}; give an array or tensor, a row for each sample")
    if len(x) != len(y) or not len(x):
        raise UserError(f"{len(x)} samples and {len(y)} labels; one label each, at least one")
    return len(x)


def number_type(module: torch.nn.Module) -> torch.dtype:
    """Type in which a module is given samples: that of its trained parameters."""
    return next(one.dtype for one in module.parameters() if one.requires_grad)


def dtype_of(module: torch.nn.Module) -> str:
    """`number_type` by name, as profiles take it."""
    return str(number_type(module)).removeprefix("torch.")
