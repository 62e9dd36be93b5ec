"""Transposed Jacobians of operators, sparse and in closed form, by the names PyTorch gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from scipy.sparse import csr_array

from workbench.olpb.algorithms.jacobians.convolution import convolution
from workbench.olpb.algorithms.jacobians.elementwise import elementwise
from workbench.olpb.algorithms.jacobians.generic import generic
from workbench.olpb.algorithms.jacobians.linear import addmm, bmm, mm
from workbench.olpb.algorithms.jacobians.losses import log_softmax, mse_loss, nll_loss, softmax
from workbench.olpb.algorithms.jacobians.movement import movement
from workbench.olpb.algorithms.jacobians.normalisation import batch_norm, group_norm, layer_norm
from workbench.olpb.algorithms.jacobians.pooling import (
    adaptive_pooling,
    average_pooling,
    max_pooling,
)
from workbench.olpb.algorithms.jacobians.reductions import reduction
from workbench.olpb.algorithms.tape import Call

Form = Callable[[Call, int], csr_array | None]
"""Of a call's first result by one of the tensors that it reads; None where it knows no form."""

MOVEMENTS = (
    "as_strided_scatter",
    "cat",
    "clone",
    "constant_pad_nd",
    "copy",
    "flip",
    "gather",
    "index_select",
    "repeat",
    "roll",
    "select_scatter",
    "slice_scatter",
    "stack",
    "zero",
)

POINTWISE = ("_prelu_kernel", "leaky_relu", "rrelu_with_noise")
"""Operators that PyTorch does not call so, though they are."""

FORMS: Mapping[str, Form] = {
    **dict.fromkeys(MOVEMENTS, movement),
    "_adaptive_avg_pool2d": adaptive_pooling,
    "_adaptive_avg_pool3d": adaptive_pooling,
    "_log_softmax": log_softmax,
    "_softmax": softmax,
    "adaptive_max_pool2d": max_pooling,
    "adaptive_max_pool3d": max_pooling,
    "addmm": addmm,
    "avg_pool2d": average_pooling,
    "avg_pool3d": average_pooling,
    "bmm": bmm,
    "convolution": convolution,
    "max_pool2d_with_indices": max_pooling,
    "max_pool3d_with_indices": max_pooling,
    "mean": reduction,
    "mm": mm,
    "mse_loss": mse_loss,
    "native_batch_norm": batch_norm,
    "native_group_norm": group_norm,
    "native_layer_norm": layer_norm,
    "nll_loss2d_forward": nll_loss,
    "nll_loss_forward": nll_loss,
    "sum": reduction,
}


def transposed_jacobian(call: Call, read: int, result: int = 0) -> csr_array:
    """dL/dx = J^T dL/dy of one of a call's results by one of the tensors that it reads.

    Shape: numbers of the read tensor by numbers of the result, both row by row, the batch with
    them. An operator that writes in place has the form of the one that does not.
    """
    form = FORMS.get(call.name.removesuffix("_"))
    tags = call.operator.function.tags
    if form is None and (torch.Tag.pointwise in tags or call.name in POINTWISE):
        form = elementwise
    found = form(call, read) if form is not None and result == 0 else None
    return generic(call, read, result) if found is None else found
