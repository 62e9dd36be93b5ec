"""DynaComm's rule for chains, plainly: torch.fx, the longest path, formulas by hand.

For modules of convolutions, linear layers, normalisations and what has no parameters; no shared
weights, no functional use of parameters. Shares nothing with `workbench.profiles`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn
from torch.fx.passes.shape_prop import ShapeProp

WEIGHTED = (nn.Conv2d, nn.Linear)


def chain_rows(
    module: nn.Module, input_shape: tuple[int, ...]
) -> list[tuple[int, int, int, int, int]]:
    """Per layer: parameter bytes and tensors; output bytes, forward and backward FLOPs a sample.

    Deviation from a plain reading: the batch is of two, for batch normalisation's sake.
    """
    traced = fx.symbolic_trace(module)
    for node in traced.graph.nodes:
        if node.op == "call_module" and isinstance(
            traced.get_submodule(str(node.target)), nn.Identity
        ):
            node.replace_all_uses_with(node.all_input_nodes[0])
            traced.graph.erase_node(node)
    traced.recompile()
    ShapeProp(traced).propagate(torch.zeros(2, *input_shape, device="meta"))
    modules = dict(traced.named_modules())
    depth: dict[fx.Node, int] = {}
    rows: dict[int, list[int]] = {}
    for node in traced.graph.nodes:
        called = modules[str(node.target)] if node.op == "call_module" else None
        deepest = max((depth[before] for before in node.all_input_nodes), default=0)
        depth[node] = deepest + isinstance(called, WEIGHTED)
        row = rows.setdefault(max(depth[node], 1), [0, 0, 0, 0, 0])
        if called is not None:
            row[0] += sum(4 * p.numel() for p in called.parameters())
            row[1] += len(list(called.parameters()))
        if isinstance(called, WEIGHTED):
            flops = 2 * _multiplications(called, node)
            row[3] += flops
            of_input = node.all_input_nodes[0].op == "placeholder"
            row[4] += flops if of_input else 2 * flops

    for cut, row in rows.items():
        for node in traced.graph.nodes:
            made = 0 if node.op == "placeholder" else max(depth[node], 1)
            beyond = [u for u in node.users if u.op == "output" or max(depth[u], 1) > cut]
            if made <= cut and beyond:
                row[2] += _sample_bytes(node)
    return [tuple(rows[layer]) for layer in sorted(rows)]  # type: ignore[misc]


def _sample_bytes(node: fx.Node) -> int:
    shape: Any = node.meta["tensor_meta"].shape
    return 4 * int(torch.Size(shape[1:]).numel())


def _multiplications(called: nn.Module, node: fx.Node) -> int:
    outputs = _sample_bytes(node) // 4
    if isinstance(called, nn.Conv2d):
        height, width = called.kernel_size
        return outputs * called.in_channels // called.groups * height * width
    assert isinstance(called, nn.Linear)
    return outputs * called.in_features
