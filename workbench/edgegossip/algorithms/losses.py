"""The loss of each point under a model: the effects that points are ranked by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from workbench.edgegossip.aggregation.aggregation import FloatArray, Indices

if TYPE_CHECKING:
    import torch


def point_losses(
    model: torch.nn.Module, x: FloatArray, y: Indices, batch_size: int = 256
) -> NDArray[np.float64]:
    """Return the cross-entropy of each point, (N,), in evaluation mode, `batch_size` at once."""
    import torch
    from torch.nn import functional

    from workbench.training.evaluation import evaluating
    from workbench.training.tensors import as_tensor

    device = next((tensor.device for tensor in model.parameters()), torch.device("cpu"))
    losses = []
    with evaluating(model), torch.no_grad():
        for first in range(0, len(x), batch_size):
            part = slice(first, first + batch_size)
            inputs = as_tensor(np.asarray(x[part], dtype=np.float32), device)
            labels = as_tensor(y[part], device)
            losses.append(functional.cross_entropy(model(inputs), labels, reduction="none"))
    return torch.cat(losses).double().cpu().numpy()
